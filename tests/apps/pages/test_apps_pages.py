"""What all applications share, on an application of ten lines."""

import itertools
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from apps.pages.accounts import Accounts, require_account
from apps.pages.admin import require_admin
from apps.pages.database import Database
from apps.pages.flash import flash
from apps.pages.forms import TooLarge, plain_name, read_form, read_upload
from apps.pages.live import stream
from apps.pages.problems import Problem
from apps.pages.render import page
from apps.pages.session import SessionKey, session_id
from apps.pages.site import Site
from site_server import serve
from sqlalchemy import Column, Table, Text, func, select
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from live import eventually
from mulligan import App

PASSWORD = "correct horse battery"
LIMIT = 100_000


@dataclass
class Hands:
    """A clock that is set forward by tests."""

    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@dataclass
class Tried:
    app: App
    database: Database
    notes: Table
    base: str
    clock: Hands

    def client(self, *, follow_redirects: bool = True) -> httpx.Client:
        return httpx.Client(base_url=self.base, follow_redirects=follow_redirects, headers={"accept": "text/html"})

    def count(self) -> int:
        with self.database.read() as connection:
            return connection.scalar(select(func.count()).select_from(self.notes)) or 0


def build(url: str, folder: Path, clock: Hands) -> tuple[Site, Table, Any]:
    app, database = App(url), Database(url)
    accounts = Accounts(database, now=clock.now)
    notes = Table("notes", database.metadata, Column("text", Text, primary_key=True))

    @app.task
    def keep(text: str) -> str:
        return text

    def first(request: Request) -> Response:
        session_id(request)
        return page(request, "first.html")

    async def add(request: Request) -> Response:
        form = await read_form(request)
        flash(request, f"Added {form['text']}.")
        with database.transaction() as connection:
            connection.execute(notes.insert().values(text=form["text"]))
            keep.options(owner=session_id(request), connection=connection).enqueue(form["text"])
            if form["text"] == "refused":
                raise Problem(409, "REFUSED", "Not this one.")
        return RedirectResponse("/", 303)

    async def upload(request: Request) -> Response:
        try:
            got = await read_upload(request, folder, limit=LIMIT, needs_token=False)
        except TooLarge as error:
            raise Problem(413, "TOO_LARGE", f"At most {error.limit} bytes.") from None
        return JSONResponse({"name": got.name, "size": got.size, "sha256": got.sha256, "fields": got.fields})

    def events(request: Request) -> Response:
        return stream(request, lambda event: (event.type, {"job": event.job}), owner=session_id(request), after=0)

    def mine(request: Request) -> Response:
        return PlainTextResponse(require_account(request).name)

    def admin(request: Request) -> Response:
        return PlainTextResponse(require_admin(request))

    def broken(request: Request) -> Response:
        raise RuntimeError("a secret")

    (folder / "templates").mkdir(exist_ok=True)
    (folder / "templates" / "first.html").write_text(
        '{% extends "base.html" %}'
        '{% block content %}<form method="post" action="/add">{{ csrf() }}</form>{% endblock %}'
    )
    routes = [
        Route("/", first),
        Route("/add", add, methods=["POST"]),
        Route("/api/upload", upload, methods=["POST"]),
        Route("/api/events", events),
        Route("/mine", mine),
        Route("/admin", admin),
        Route("/broken", broken),
    ]
    site = Site(
        app,
        name="Notes",
        folder=folder,
        routes=routes,
        database=database,
        menu=[("Notes", "/")],
        accounts=accounts,
        owner=session_id,
        now=clock.now,
    )
    return site, notes, keep


@pytest.fixture
def tried(store_url: str, tmp_path: Path) -> Iterator[Tried]:
    clock = Hands()
    site, notes, _ = build(store_url, tmp_path, clock)
    with serve(site.app, site.asgi()) as served:
        yield Tried(site.app, site.database, notes, served.base, clock)
    site.app.close()


def token(client: httpx.Client, path: str = "/") -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', client.get(path).text)
    assert found is not None
    return found[1]


def test_a_row_and_its_job_are_stored_together_or_not_at_all(tried: Tried) -> None:
    with tried.client() as client:
        answer = client.post("/add", data={"csrf": token(client), "text": "one"})
        assert "Added one." in answer.text and "Added one." not in client.get("/").text
        refused = client.post("/add", data={"csrf": token(client), "text": "refused"})
    assert refused.status_code == 409 and "Not this one." in refused.text
    assert tried.count() == 1 and [job.kind for job in tried.app.jobs().jobs] == ["keep"]


def test_a_form_of_another_site_changes_nothing(tried: Tried) -> None:
    with tried.client() as client:
        good = token(client)
        sent = {"csrf": good, "text": "x"}
        answers = [
            client.post("/add", data={"text": "x"}),
            client.post("/add", data={**sent, "csrf": "wrong"}),
            client.post("/add", data=sent, headers={"Origin": "https://evil.example"}),
            client.post("/add", data=sent, headers={"Sec-Fetch-Site": "cross-site"}),
        ]
    assert [answer.status_code for answer in answers] == [403] * 4 and tried.count() == 0


def test_a_file_is_stored_as_it_comes_and_never_beyond_its_limit(tried: Tried, tmp_path: Path) -> None:
    with tried.client() as client:
        name = "../../etc/pass\r\nwd.pdf"
        good = client.post("/api/upload", files={"file": (name, b"x" * LIMIT)}, data={"mapping": "invoice"})
        large = client.post("/api/upload", files={"file": ("a.pdf", b"x" * (LIMIT + 1))})
        missing = client.post("/api/upload", files={"other": ("a.pdf", b"x")})
        plain = client.post("/api/upload", content=b"x", headers={"Content-Type": "multipart/form-data"})
        cut = client.post(
            "/api/upload", content=b"--b\r\nx", headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
        long = client.post(
            "/api/upload", content=b"x", headers={"Content-Type": f"multipart/form-data; boundary={'b' * 300}"}
        )
        field = b'--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"x" * 50_000 + b"\r\n"
        endless = client.post(
            "/api/upload", content=field * 30, headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
    assert (long.status_code, endless.status_code, endless.json()["code"]) == (400, 413, "TOO_LARGE")
    assert good.json()["size"] == LIMIT and good.json()["fields"] == {"mapping": "invoice"}
    assert "/" not in good.json()["name"] and good.json()["name"].isprintable()
    assert (large.status_code, large.json()["code"]) == (413, "TOO_LARGE")
    assert [missing.status_code, plain.status_code, cut.status_code] == [400, 400, 400]
    assert len(list(tmp_path.glob("upload-*"))) == 1, "what was refused is deleted"


@pytest.mark.parametrize(
    ("given", "kept"),
    [("a.pdf", "a.pdf"), ("C:\\a\\b.pdf", "b.pdf"), ("../..", ".."), ("", "file"), ("a\x00b", "a_b"), ("/", "file")],
)
def test_a_name_is_for_people_only(given: str, kept: str) -> None:
    assert plain_name(given) == kept


def test_people_sign_up_in_and_out(tried: Tried) -> None:
    with tried.client() as client:
        assert client.get("/mine").url.path == "/sign-in"
        form = {"csrf": token(client, "/sign-up"), "name": "Ann", "email": "Ann@Example.org", "password": PASSWORD}
        assert "ten characters" in client.get("/sign-up").text
        short = client.post("/sign-up", data={**form, "password": "short"})
        assert short.status_code == 400 and "10 to 200 characters" in short.text
        assert "Signed in as Ann." in client.post("/sign-up", data={**form, "next": "//evil.example"}).text
        assert client.get("/mine").text == "Ann"
        assert client.post("/sign-out", data={"csrf": token(client)}).url.path == "/sign-in"
        assert client.get("/mine").url.path == "/sign-in"
        again = {"csrf": token(client, "/sign-in"), "email": "ann@example.org", "password": "wrong wrong"}
        assert client.post("/sign-in", data=again).status_code == 401
        assert client.post("/sign-in", data={**again, "password": PASSWORD, "next": "/mine"}).text == "Ann"
        twice = client.post("/sign-up", data={**form, "csrf": token(client, "/sign-up")})
        assert "already" in twice.text
    with tried.database.read() as connection:
        (stored,) = connection.execute(select(tried.database.metadata.tables["accounts"])).all()
    assert PASSWORD not in stored.password and stored.created_at.tzinfo is not None


def refused_after(client: httpx.Client, path: str, **sent: str) -> int:
    """How many tries were let in before one was refused."""
    sent["csrf"] = token(client, path)
    for number in range(100):
        answer = client.post(path, data=sent)
        if answer.status_code == 429:
            assert int(answer.headers["retry-after"]) >= 1 and "Come back in" in answer.text
            return number
    raise AssertionError("all were let in")


def test_tries_to_sign_in_are_limited(tried: Tried) -> None:
    with tried.client() as client:
        # More than ten if a token came back meanwhile.
        assert refused_after(client, "/sign-in", email="a@b.c", password="x" * 10) >= 10
        # Others are not locked out, from this address as from any.
        sent = {"csrf": token(client, "/sign-in"), "email": "b@b.c", "password": "x" * 10}
        assert client.post("/sign-in", data=sent).status_code == 401


def test_tries_of_many_accounts_from_one_address_are_limited(tried: Tried) -> None:
    emails = (f"{number}@b.c" for number in itertools.count())
    with tried.client() as client:
        sent = {"csrf": token(client, "/sign-in"), "password": "x" * 10}
        statuses = [client.post("/sign-in", data={**sent, "email": next(emails)}).status_code for _ in range(30)]
        assert statuses == [401] * 30
        while client.post("/sign-in", data={**sent, "email": next(emails)}).status_code == 401:
            pass


def test_new_accounts_from_one_address_are_limited(tried: Tried) -> None:
    with tried.client() as client:
        assert refused_after(client, "/sign-up", email="no address", name="Ann", password=PASSWORD) == 20
    # A new browser is no new address, and neither is another process on the same database.
    with tried.client() as client:
        sent = {"csrf": token(client, "/sign-up"), "email": "ann@example.org", "name": "Ann", "password": PASSWORD}
        assert client.post("/sign-up", data=sent).status_code == 429


def test_an_administrator_signs_in_with_a_key_until_it_is_revoked(tried: Tried) -> None:
    key, owner = tried.app.create_key(owner=None, name="ops"), tried.app.create_key(owner="acme", name="acme")
    with tried.client() as client:
        assert client.get("/admin").url.path == "/admin/sign-in"
        sent = {"csrf": token(client, "/admin/sign-in"), "next": "/admin"}
        assert client.post("/admin/sign-in", data={**sent, "key": owner.token}).status_code == 401
        assert client.post("/admin/sign-in", data={**sent, "key": key.token}).text == f"key {key.key.id}"
        tried.app.revoke_key(key.key.id)
        while client.get("/admin").url.path == "/admin":
            pass
        assert client.get("/admin").url.path == "/admin/sign-in"


def test_who_signed_in_is_known_for_twelve_hours(tried: Tried) -> None:
    key = tried.app.create_key(owner=None, name="ops")
    with tried.client() as client:
        form = {"csrf": token(client, "/sign-up"), "name": "Ann", "email": "ann@example.org", "password": PASSWORD}
        client.post("/sign-up", data=form)
        client.post("/admin/sign-in", data={"csrf": token(client, "/admin/sign-in"), "key": key.token})
        tried.clock.ahead = timedelta(hours=11, minutes=59)
        assert (client.get("/mine").text, client.get("/admin").text) == ("Ann", f"key {key.key.id}")
        tried.clock.ahead = timedelta(hours=12, minutes=1)
        assert (client.get("/mine").url.path, client.get("/admin").url.path) == ("/sign-in", "/admin/sign-in")


def test_a_stream_tells_a_session_of_its_own_jobs(tried: Tried) -> None:
    with tried.client() as client, tried.client() as other:
        for each, text in ((other, "theirs"), (client, "mine")):
            each.post("/add", data={"csrf": token(each), "text": text})
        (mine, _) = tried.app.jobs().jobs
        with client.stream("GET", "/api/events", timeout=30) as events:
            lines = (line for line in events.iter_lines() if line.startswith(("event:", "data:", "id:")))
            assert next(lines) == "event: job.enqueued" and mine.id in next(lines)
            position = next(lines).removeprefix("id: ")
        client.post("/add", data={"csrf": token(client), "text": "more"})
        with client.stream("GET", "/api/events", headers={"Last-Event-ID": position}, timeout=30) as events:
            lines = (line for line in events.iter_lines() if line.startswith("data:"))
            assert tried.app.jobs().jobs[0].id in next(lines)


def test_streams_are_bounded_whatever_they_tell(tried: Tried, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.pages.live.MOST_STREAMS", 1)
    with tried.client() as client:
        client.get("/")
        with client.stream("GET", "/api/events") as events:
            lines = events.iter_lines()
            assert next(lines).startswith("retry:")
            assert [client.get(path).status_code for path in ("/api/events", "/live")] == [429, 429]
            lines.close()

        def is_let_in() -> bool:
            with client.stream("GET", "/live") as answer:
                return answer.status_code == 200

        # The server notices soon that the first one has left.
        eventually(is_let_in)


def test_the_session_over_https_is_kept_to_it_and_to_this_host(tried: Tried) -> None:
    with tried.client() as client:
        plain = client.get("/").headers["set-cookie"]
        safe = client.get("/", headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]
    assert plain.startswith("notes-session=") and "secure" not in plain.lower()
    assert safe.startswith("__Host-notes-session=") and "domain" not in safe.lower()
    assert {"path=/", "secure", "httponly", "samesite=lax"} <= set(safe.lower().split("; "))


def test_a_copy_of_a_cookie_is_worth_nothing_after_signing_out(tried: Tried) -> None:
    key = tried.app.create_key(owner=None, name="ops")
    with tried.client() as client, tried.client() as thief:
        form = {"csrf": token(client, "/sign-up"), "name": "Ann", "email": "ann@example.org", "password": PASSWORD}
        client.post("/sign-up", data=form)
        client.post("/admin/sign-in", data={"csrf": token(client, "/admin/sign-in"), "key": key.token, "next": "/"})
        copy = dict(client.cookies)
        thief.cookies.update(copy)
        assert (thief.get("/mine").text, thief.get("/admin").text) == ("Ann", f"key {key.key.id}")
        client.post("/sign-out", data={"csrf": token(client)})
    with tried.client() as thief:
        thief.cookies.update(copy)
        assert (thief.get("/mine").url.path, thief.get("/admin").url.path) == ("/sign-in", "/admin/sign-in")


def test_processes_that_start_at_once_sign_with_one_key(store_url: str) -> None:
    database, other = Database(store_url), Database(store_url)
    first, second = SessionKey(database), SessionKey(other)
    database.create()
    read: list[str] = []
    waiting = threading.Thread(target=lambda: read.append(second.read()))
    with database.transaction() as connection:
        connection.execute(first.table.insert().values(number=1, value="the key"))
        waiting.start()
        # Long enough for a process that does not wait for the other.
        waiting.join(1)
    waiting.join()
    assert [*read, first.read()] == ["the key"] * 2
    for each in (database, other):
        each.close()


def test_a_browser_that_comes_back_keeps_its_session(tried: Tried) -> None:
    """Its cookie would end a while after the last change, however often the browser came."""
    with tried.client() as client:
        assert "set-cookie" in client.get("/").headers
        client.get("/")
        tried.clock.ahead = timedelta(hours=1)
        assert ["set-cookie" in client.get("/").headers for _ in range(3)].count(True) in (1, 2)


def test_forms_from_before_an_administrator_signed_in_are_refused(tried: Tried) -> None:
    key = tried.app.create_key(owner=None, name="ops")
    with tried.client() as client:
        before = token(client, "/admin/sign-in")
        assert client.post("/admin/sign-in", data={"csrf": before, "key": key.token, "next": "/"}).status_code == 200
        assert client.post("/add", data={"csrf": before, "text": "x"}).status_code == 403
        assert client.post("/add", data={"csrf": token(client), "text": "x"}).status_code == 200


def test_every_answer_has_security_headers_and_no_details(tried: Tried) -> None:
    with tried.client() as client:
        for path, status in (("/", 200), ("/nothing", 404), ("/broken", 500), ("/add", 405), ("/ops/sign-in", 200)):
            answer = client.get(path)
            assert answer.status_code == status, path
            assert "default-src 'none'" in answer.headers["content-security-policy"], path
            assert "secret" not in answer.text and "Traceback" not in answer.text
            # The server closes a connection on which it failed, and says so: the next request takes another one.
            assert (answer.headers.get("connection") == "close") is (status == 500), path
        assert client.get("/api/nothing").json()["code"] == "NOT_FOUND"
