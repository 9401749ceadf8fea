"""Sessions of people: A6 and A7 of the security model. A cookie signs in to pages only, a key to the API only."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect
from site_server import Site, hidden_fields, serve
from starlette.requests import Request
from starlette.testclient import TestClient
from visit import Visit

from live import SOON
from mulligan import App
from mulligan.records.rate import parse_rate
from mulligan.records.web_session import LINK_LASTS
from mulligan.web.access.sessions import is_by_person
from mulligan.web.pages import PAGES
from mulligan.web.server import asgi


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    app = App(f"sqlite:///{tmp_path_factory.mktemp('sessions')}/jobs.db")

    @app.task
    def count() -> int:
        return 1

    with serve(app) as found:
        yield found
    app.close()


def cookie_of(client: httpx.Client) -> str:
    (found,) = [cookie for cookie in client.cookies.jar if cookie.name.startswith("mulligan-") and cookie.value]
    return f"{found.name}={found.value}"


def test_a_page_without_a_session_leads_to_the_form_and_back(site: Site) -> None:
    client = site.anonymous()
    shown = client.get("/help?x=1")
    assert (shown.url.path, shown.url.params["next"]) == ("/sign-in", "/help?x=1")
    answer = client.post("/sign-in", data={"key": site.admin.token, "next": "/help"})
    assert answer.url.path == "/help"


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "/\\evil.example", "help", "/\nx"])
def test_signing_in_never_leads_to_another_site(site: Site, target: str) -> None:
    client = site.anonymous(follow_redirects=False)
    answer = client.post("/sign-in", data={"key": site.admin.token, "next": target})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")


@pytest.mark.parametrize("key", ["", "mk_unknown", "x" * 3_000, "mk_00000000_" + "0" * 43 + "_000000"])
def test_a_wrong_key_does_not_sign_in(site: Site, key: str) -> None:
    client = site.anonymous(follow_redirects=False)
    answer = client.post("/sign-in", data={"key": key})
    assert answer.status_code == 403 and "set-cookie" not in answer.headers
    assert "unknown, revoked or expired" in answer.text


def test_the_cookie_cannot_be_read_by_scripts_or_sent_by_other_sites(site: Site) -> None:
    answer = httpx.post(f"{site.base}/sign-in", data={"key": site.admin.token}, timeout=SOON)
    flags = answer.headers["set-cookie"].lower()
    assert "httponly" in flags and "samesite=lax" in flags and "path=/" in flags and "secure" not in flags


def test_with_encryption_the_cookie_belongs_to_this_host_alone(site: Site) -> None:
    with TestClient(asgi(site.app), base_url="https://jobs.example", follow_redirects=False) as client:
        answer = client.post("/sign-in", data={"key": site.admin.token})
    flags = answer.headers["set-cookie"].lower()
    assert flags.startswith("__host-mulligan=") and "secure" in flags and "path=/" in flags


def test_with_encryption_every_cookie_belongs_to_this_host_alone(site: Site) -> None:
    job = site.app.tasks["count"].options(delay="1h").enqueue().id
    with TestClient(asgi(site.app), base_url="https://jobs.example", follow_redirects=False) as client:
        answers = [client.post("/sign-in", data={"key": site.admin.token})]
        form = hidden_fields(client.get("/help").text)
        answers += [
            client.post("/choose", data={**form, "scheme": "dark"}),
            client.post(f"/jobs/{job}/cancel", data=form),
            # It takes the answer of the action, and its cookie with it.
            client.get(f"/jobs/{job}"),
            client.post("/sign-out", data=form),
        ]
    cookies = [answer.headers["set-cookie"].lower() for answer in answers]
    names = ("", "-scheme", "-answer", "-answer", "")
    for cookie, name in zip(cookies, names, strict=True):
        assert cookie.startswith(f"__host-mulligan{name}=")
        assert {"httponly", "secure", "samesite=lax", "path=/"} <= set(cookie.split("; "))


def test_each_sign_in_is_a_session_of_its_own(site: Site) -> None:
    """A session that an attacker prepared is not taken over."""
    client = site.client()
    before = cookie_of(client)
    client.post("/sign-in", data={"key": site.admin.token})
    assert cookie_of(client) != before


def test_signing_in_again_ends_the_session_before(site: Site) -> None:
    client = site.client()
    before = cookie_of(client)
    client.post("/sign-in", data={"key": site.admin.token})
    assert client.get("/help").url.path == "/help"
    stolen = httpx.get(f"{site.base}/help", headers={"Cookie": before}, timeout=SOON)
    assert stolen.status_code == 303
    assert [entry.action for entry in site.app.audit(limit=2)] == ["sign out", "sign in"]


def test_signing_out_ends_the_session_in_the_store(site: Site) -> None:
    client = site.client()
    cookie = cookie_of(client)
    assert site.post(client, "/help", "/sign-out").url.path == "/sign-in"
    stolen = httpx.get(f"{site.base}/help", headers={"Cookie": cookie}, timeout=SOON)
    assert stolen.status_code == 303


def test_a_revoked_key_ends_its_sessions(site: Site) -> None:
    key = site.key(None)
    client = site.client(key)
    site.app.revoke_key(key.key.id)
    with pytest.raises(Exception, match="revoked"):
        site.app.wiring.web_sessions.find(cookie_of(client).partition("=")[2])


def test_a_page_that_is_left_open_does_not_keep_its_session(tmp_path: Path) -> None:
    """What a live page reads by itself is no use by a person."""
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        key = app.create_key(owner=None, name="on-call").token
        with TestClient(asgi(app)) as client:
            client.post("/sign-in", data={"key": key, "next": "/help"})
            cookies = client.cookies
        with closing(sqlite3.connect(tmp_path / "jobs.db", isolation_level=None)) as store:
            store.execute("UPDATE mulligan_web_sessions SET used_at = used_at - 300000000")

            def used_at() -> int:
                return int(store.execute("SELECT used_at FROM mulligan_web_sessions").fetchone()[0])

            before = used_at()
            # A server that has noted no use yet.
            with TestClient(asgi(app), cookies=cookies) as client:
                assert client.get("/jobs", headers={"HX-Request": "true"}).status_code == 200
                assert used_at() == before
                assert client.get("/jobs").status_code == 200
                assert used_at() > before
    stream = Request({"type": "http", "headers": [(b"accept", b"text/event-stream")]})
    assert not is_by_person(stream)


def test_an_open_page_leads_to_the_form_when_its_session_ends(site: Site, context: BrowserContext) -> None:
    key = site.key(None)
    page = Visit(context, site, key.token).open("/jobs")
    expect(page.locator("#live-at")).to_be_visible()
    site.app.revoke_key(key.key.id)
    expect(page).to_have_url(f"{site.base}/sign-in?next=/jobs", timeout=SOON * 1000)


def test_a_cookie_is_no_key_and_a_key_no_cookie(site: Site) -> None:
    client = site.client()
    assert client.get("/api/v1/jobs").status_code == 401
    token = {"Authorization": f"Bearer {site.admin.token}"}
    assert httpx.get(f"{site.base}/help", headers=token, timeout=SOON).status_code == 303


def test_a_link_signs_in_once(site: Site) -> None:
    token = site.app.sign_in_link(site.admin.key.id)
    client = site.anonymous()
    # A preview of the link does not use it up.
    for _ in range(2):
        assert "Open the dashboard" in client.get("/sign-in", params={"link": token}).text
    assert client.post("/sign-in", data={"link": token, "next": "/help"}).url.path == "/help"
    again = httpx.post(f"{site.base}/sign-in", data={"link": token}, timeout=SOON)
    assert again.status_code == 403 and "older than ten minutes" in again.text
    assert timedelta(minutes=10) == LINK_LASTS


def test_an_address_with_too_many_invalid_sessions_has_to_wait(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        app.settings = replace(app.settings, failed_request_rate=parse_rate("3/m"))
        key = app.create_key(owner=None, name="on-call").token
        with TestClient(asgi(app), follow_redirects=False) as client:
            signed_in = {"Cookie": client.post("/sign-in", data={"key": key}).headers["set-cookie"].partition(";")[0]}
            client.cookies.clear()
            invalid = {"Cookie": "mulligan-80=0123456789abcdef"}
            answers = [client.get("/help", headers=invalid) for _ in range(4)]
            assert [answer.status_code for answer in answers] == [303, 303, 303, 429]
            assert int(answers[-1].headers["retry-after"]) > 0
            assert client.get("/live", headers=invalid).status_code == 429
            # What is no attempt, or valid, is answered as before.
            assert client.get("/help").status_code == 303
            assert client.get("/help", headers=signed_in).status_code == 200
            assert client.post("/sign-in", data={"key": key}, headers=invalid).status_code == 303


CHANGES = sorted({page.path for page in PAGES if page.is_change} | {"/choose"})


@pytest.mark.parametrize("path", CHANGES)
def test_a_change_needs_the_token_of_its_session_and_our_own_page(site: Site, path: str) -> None:
    """A7: without the token, with another's, of another site, as another media type, by GET."""
    client = site.client()
    target = re.sub(r"{\w+(:\w+)?}", "x", path)
    token = hidden_fields(client.get("/help").text)["csrf"]
    refused = [
        client.post(target, data={"reason": "x"}),
        client.post(target, data={"csrf": "0" * 64}),
        client.post(target, data={"csrf": hidden_fields(site.client().get("/help").text)["csrf"]}),
        client.post(target, data={"csrf": token}, headers={"Origin": "https://evil.example"}),
        client.post(target, data={"csrf": token}, headers={"Sec-Fetch-Site": "cross-site"}),
    ]
    assert {answer.status_code for answer in refused} == {403}
    assert client.post(target, content=f"csrf={token}", headers={"Content-Type": "text/plain"}).status_code == 415
    assert client.get(target).status_code in (404, 405)


def test_colours_and_keys_are_remembered_by_the_browser(site: Site) -> None:
    client = site.client()
    csrf = hidden_fields(client.get("/help").text)["csrf"]
    for given in ({"letters": "off"}, {"scheme": "dark"}, {"letters": "loud"}):
        shown = client.post("/choose", data={"csrf": csrf, "back": "/help?x=1", **given})
        assert shown.url.path == "/help"
    assert '<html lang="en" class="dark" data-letters="off">' in shown.text
    away = client.post("/choose", data={"csrf": csrf, "back": "//evil.example/", "letters": "on"})
    assert str(away.url) == f"{site.base}/" and "data-letters" not in away.text


def test_keys_can_be_turned_off(site: Site, context: BrowserContext) -> None:
    visit = Visit(context, site, site.admin.token)
    page = visit.open("/help")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "find"
    page.keyboard.press("Escape")
    page.click("form[aria-label=Keys] button:has-text('Off')")
    expect(page.locator("form[aria-label=Keys] [aria-pressed=true]")).to_have_text("Off")
    page.wait_for_load_state("load")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == ""
    expect(page.locator(".find kbd")).to_be_hidden()
    visit.check()


def test_signing_in_works_in_a_browser(site: Site, context: BrowserContext) -> None:
    page = context.new_page()
    page.goto(f"{site.base}/help")
    page.fill("input[name=key]", site.admin.token)
    page.click("button")
    expect(page).to_have_url(f"{site.base}/help")
    page.click("text=Dark")
    expect(page.locator("html")).to_have_class("dark")
    page.click("text=Sign out")
    expect(page).to_have_url(f"{site.base}/sign-in")
