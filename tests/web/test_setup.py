"""The first start: no server listens to others without keys, and a one-time link creates the first key."""

import asyncio
import re
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_client import PREFIX, Web, bearer
from starlette.applications import Starlette
from starlette.routing import Mount

from mulligan import App
from mulligan.console.keys import SETUP_FOR
from mulligan.errors import ConfigurationError, NoKeys
from mulligan.records.token import digest_of, read_token
from mulligan.web import reading
from mulligan.web.access.start import first_link, is_loopback, may_listen
from mulligan.web.pages.dashboard import Dashboard
from mulligan.web.pages.render import HEADERS
from mulligan.web.stream.hub import Hub

BASE = "http://127.0.0.1:8000"


class Site(Web):
    """The API and the page, below a root path."""

    def __init__(self, app: App, *, root: str = "", **rates: str) -> None:
        super().__init__(app, **rates)
        page = Starlette(routes=Dashboard(app, self.access, Hub(app)).routes())
        self.page = Starlette(routes=[Mount(root, page)]) if root else page
        self.application, self.api, self.root = self.page, self.application, root

    def get(self, path: str = "/setup") -> httpx.Response:
        return self.run(lambda client: client.get(self.root + path))

    def post(self, **form: str) -> httpx.Response:
        return self.run(lambda client: client.post(self.root + "/setup", data=form))

    def use(self, token: str) -> int:
        self.application = self.api
        try:
            return self.run(lambda client: client.get(f"{PREFIX}/jobs", headers=bearer(token))).status_code
        finally:
            self.application = self.page


@pytest.fixture
def site(app: App) -> Iterator[Site]:
    yield Site(app)


def offered(app: App) -> str:
    link = first_link(app, BASE + "/")
    assert link is not None and link.startswith(f"{BASE}/setup?token=")
    return link.partition("token=")[2]


def shown_key(page: httpx.Response) -> str:
    found = re.search(r">(mk_\w+)</pre>", page.text)
    assert found is not None
    return found[1]


def test_the_link_creates_the_first_key_once(app: App, site: Site) -> None:
    token = offered(app)
    first = site.post(token=token, name="ann")
    assert first.status_code == 201
    key = app.find_key(shown_key(first))
    assert (key.owner, key.name, key.created_by) == (None, "ann", "setup")
    assert site.use(shown_key(first)) == 200
    second = site.post(token=token, name="eve")
    assert second.status_code == 403
    assert "used or expired" in second.text
    assert len(app.keys()) == 1
    assert [(entry.actor, entry.action) for entry in app.audit()] == [
        (f"ann (key {key.id})", "sign in"),
        ("setup", "create key"),
    ]


def test_once_there_is_an_administrator_there_is_no_link(app: App, site: Site) -> None:
    token = offered(app)
    app.create_key(owner=None, name="a")
    assert first_link(app, BASE) is None
    assert site.post(token=token, name="eve").status_code == 403


def test_keys_of_owners_are_no_administrator(app: App) -> None:
    app.create_key(owner="acme", name="a")
    offered(app)


def test_the_link_is_valid_for_ten_minutes(app: App, site: Site) -> None:
    assert timedelta(minutes=10) == SETUP_FOR
    app.store.offer_setup(digest_of("expired"), duration=timedelta(0))
    assert site.post(token="expired", name="a").status_code == 403


def test_the_token_is_stored_hashed(app: App, tmp_path: Path) -> None:
    token = offered(app)
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*"))


def test_looking_at_the_page_uses_nothing_up(app: App, site: Site) -> None:
    token = offered(app)
    for _ in range(3):
        page = site.get(f"/setup?token={token}")
        assert page.status_code == 200
    assert token in page.text
    assert app.keys() == []
    assert site.post(token=token, name="a").status_code == 201


def test_guessing_is_limited(app: App) -> None:
    site = Site(app, failures="3/m")
    assert [site.post(token="guess", name="a").status_code for _ in range(5)] == [403] * 3 + [429] * 2


@pytest.mark.parametrize("form", [{"token": "x"}, {"token": "x", "name": ""}, {"token": "x", "name": "a\nb"}], ids=str)
def test_a_name_that_cannot_be_is_refused(app: App, site: Site, form: dict[str, str]) -> None:
    assert site.post(**form).status_code == 400
    assert app.keys() == []


def test_a_body_of_another_kind_or_size_is_refused(app: App, site: Site) -> None:
    token = offered(app)
    as_json = site.run(lambda client: client.post("/setup", json={"token": token, "name": "a"}))
    as_text = site.run(
        lambda client: client.post("/setup", content=f"token={token}&name=a", headers={"Content-Type": "text/plain"})
    )
    assert (as_json.status_code, as_text.status_code) == (415, 415)
    assert site.post(token="x" * 10_000, name="a").status_code == 413
    assert app.keys() == []


@pytest.mark.parametrize("ending", ["never", "disconnect"])
def test_a_form_that_does_not_come_holds_nothing(
    app: App, site: Site, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    monkeypatch.setattr(reading, "PATIENCE", 0.05)
    headers = [(b"content-type", b"application/x-www-form-urlencoded"), (b"content-length", b"9")]
    scope = {"type": "http", "method": "POST", "path": "/setup", "query_string": b"", "headers": headers}
    sent: list[Any] = []

    async def receive() -> dict[str, str]:
        if ending == "never":
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    async def run() -> None:
        async with asyncio.timeout(20):
            await site.application(scope, receive, send)

    asyncio.run(run())
    assert sent[0]["status"] == (408 if ending == "never" else 400)


class Parts(HTMLParser):
    """What a page could run or load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: dict[str, set[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            self.attributes.setdefault(name, set()).add(value or "")


@pytest.mark.parametrize("outcome", ["form", "refused", "created"])
def test_every_page_is_strict_and_has_nothing_inline(app: App, site: Site, outcome: str) -> None:
    evil = '"><script>alert(1)</script>'
    pages: dict[str, Any] = {
        "form": lambda: site.run(lambda client: client.get("/setup", params={"token": evil})),
        "refused": lambda: site.post(token=evil, name=evil),
        "created": lambda: site.post(token=offered(app), name=evil),
    }
    page = pages[outcome]()
    assert HEADERS.items() <= {name: page.headers.get(name) for name in HEADERS}.items()
    assert "script-src 'self'" in HEADERS["Content-Security-Policy"]
    found = Parts(page.text)
    assert not found.tags & {"style", "iframe", "img"}
    assert not [name for name in found.attributes if name.startswith("on") or name == "style"]
    assert all(source.startswith("/static/") for source in found.attributes["src"])
    assert "alert(1)" not in re.sub(r"&lt;script&gt;alert\(1\)&lt;/script&gt;", "", page.text)


@pytest.mark.parametrize("root", ["", "/ops", "/a/b"])
def test_the_page_works_below_any_path(app: App, root: str) -> None:
    site = Site(app, root=root)
    page = site.get()
    assert f'action="{root}/setup"' in page.text
    (link,) = re.findall(r'rel="stylesheet" href="([^"]+)"', page.text)
    style = site.get(link.removeprefix(root))
    assert (style.status_code, style.headers["content-type"].split(";")[0]) == (200, "text/css")
    assert "color-scheme: light dark" in style.text
    created = site.post(token=offered(app), name="a")
    assert read_token(shown_key(created)) is not None


# Where a server may listen


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost"])
def test_loopback_needs_no_keys(app: App, host: str) -> None:
    assert is_loopback(host)
    may_listen(app, host)


def test_a_database_that_every_user_can_change_is_not_served(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.create_key(owner=None, name="a")
    monkeypatch.setattr(type(tmp_path), "parents", property(lambda _: [Path("/")]))
    (tmp_path / "jobs.db").chmod(0o604)
    may_listen(app, "127.0.0.1")
    (tmp_path / "jobs.db").chmod(0o606)
    with pytest.raises(ConfigurationError, match=r"can change .*chmod o-rwx"):
        may_listen(app, "127.0.0.1")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.0.2.1", "2001:db8::1", "example.org", "127.0.0.1.example"])
def test_another_address_needs_a_usable_key(app: App, host: str) -> None:
    with pytest.raises(NoKeys, match="does not listen on"):
        may_listen(app, host)
    created = app.create_key(owner="acme", name="a")
    may_listen(app, host)
    app.revoke_key(created.key.id)
    with pytest.raises(NoKeys):
        may_listen(app, host)
