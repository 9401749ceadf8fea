"""Every page, by its declaration: A8 and A9 of the security model, for an administrator and for an owner."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser
from seed_hostile import OWNER, Hostile
from site_server import Site, serve
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient
from visit import Visit
from xss import MARK, PAYLOADS

from mulligan.records.key import ADMIN_ONLY, Scope
from mulligan.web.pages import PAGES
from mulligan.web.server import asgi

ROOT = "/ops"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# What a page needs in its query to show something.
QUERIES = {"/find": "?q=hostile"}
SHOWN = sorted({page.path for page in PAGES if not page.is_change})
LINKS = {"href", "src", "action", "formaction", "data", "poster", "srcset", "hx-get", "hx-post", "sse-connect"}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    found = Hostile(f"sqlite:///{tmp_path_factory.mktemp('pages')}/jobs.db").seed()
    yield found
    found.app.close()


@pytest.fixture(scope="module")
def site(hostile: Hostile) -> Iterator[Site]:
    """Mounted below a path: what works there works at the root."""
    with serve(hostile.app, Starlette(routes=[Mount(ROOT, asgi(hostile.app))])) as found:
        found.base += ROOT
        yield found


@pytest.fixture(scope="module")
def client(site: Site) -> httpx.Client:
    return site.client()


@pytest.fixture(scope="module")
def owner(site: Site) -> httpx.Client:
    return site.client(site.key(OWNER, *(scope for scope in Scope if scope not in ADMIN_ONLY)))


def address(path: str, ids: dict[str, str]) -> str:
    """The path with its parameters. A new parameter needs a value in `seed_hostile`."""

    def fill(match: re.Match[str]) -> str:
        name = match[1]
        assert name in ids, f"no value is known for the parameter {name} of {path}: add one to Hostile.ids"
        return quote(ids[name], safe="")

    return re.sub(r"{(\w+)(?::\w+)?}", fill, path) + QUERIES.get(path, "")


class Checker(HTMLParser):
    """Collects what must not be on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._script = False
        self._ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("style", "base", "iframe", "object", "embed") or (tag == "script" and not given.get("src")):
            self.found.append(f"<{tag}>")
        self._script = tag == "script"
        for name, value in given.items():
            if name == "style" or name.startswith(("on", "hx-on", "hx-vals", "hx-vars")):
                self.found.append(f"<{tag} {name}={value!r}>")
            # A page that changes tells its parts apart by their ids.
            if name == "id" and value in self._ids:
                self.found.append(f"<{tag} id={value!r}> is there twice")
            if name == "id":
                self._ids.add(value or "")
            if name in LINKS and not is_ours(value or ""):
                self.found.append(f"<{tag} {name}={value!r}> leads elsewhere")

    def handle_data(self, data: str) -> None:
        if self._script and data.strip():
            self.found.append(f"a script: {data[:100]}")

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._script = False


def is_ours(link: str) -> bool:
    return link.startswith(("#", "?", f"{ROOT}/")) or link == ROOT


def check_answer(answer: httpx.Response) -> None:
    """What holds for each answer, whatever its status."""
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    if not answer.headers["Content-Type"].startswith("text/html"):
        assert answer.headers["Content-Disposition"].startswith("attachment")
        return
    assert answer.headers["Content-Security-Policy"] == POLICY
    checker = Checker()
    checker.feed(answer.text)
    assert checker.found == []


@pytest.mark.parametrize("path", SHOWN)
def test_a_page_is_shown_to_an_administrator_without_inline_code_and_foreign_links(
    path: str, client: httpx.Client, hostile: Hostile
) -> None:
    answer = client.get(address(path, hostile.ids))
    assert answer.status_code == 200, answer.text
    check_answer(answer)


@pytest.mark.parametrize("path", SHOWN)
def test_a_page_is_shown_to_an_owner_or_clearly_refused(path: str, owner: httpx.Client, hostile: Hostile) -> None:
    answer = owner.get(address(path, hostile.ids))
    needs_admin = any(page.is_admin for page in PAGES if page.path == path and not page.is_change)
    assert answer.status_code == (403 if needs_admin else 200), answer.text
    assert not needs_admin or "Only an administrator" in answer.text
    check_answer(answer)


def test_every_page_works_at_the_root_too(site: Site, hostile: Hostile) -> None:
    with TestClient(asgi(hostile.app)) as client:
        assert client.post("/sign-in", data={"key": site.admin.token, "next": "/help"}).status_code == 200
        for path in SHOWN:
            answer = client.get(address(path, hostile.ids))
            assert answer.status_code == 200, path
            assert f'"{ROOT}/' not in answer.text, path


def test_the_checker_finds_what_it_looks_for() -> None:
    checker = Checker()
    checker.feed(
        "<script>x</script><style></style><p style='x' onclick='y' hx-on:load='z'>"
        "<a href='javascript:x'></a><a href='//evil.example'></a><form action='/jobs'></form>"
        f"<script src='{ROOT}/static/x.js'></script><a href='{ROOT}/jobs'>fine</a>"
    )
    assert len(checker.found) == 9, checker.found


def test_an_unknown_parameter_is_noticed() -> None:
    with pytest.raises(AssertionError, match="new_id"):
        address("/things/{new_id}", {"job_id": "x"})


def shown_once(hostile: Hostile, name: str) -> dict[str, dict[str, str]]:
    """The forms whose answer is a page, with their fields."""
    (key,) = [each for each in hostile.app.keys(limit=100) if each.name == "on-call"][:1]
    return {
        f"/jobs/{hostile.ids['job_id']}/reveal": {},
        "/keys/create": {"name": name, "owner": name},
        f"/keys/{key.id}/link": {},
        f"/notifications/subscriptions/{hostile.ids['subscription_id']}/rotate": {},
        "/notifications/hooks/create": {"name": name, "group": hostile.ids["group"]},
    }


def test_a_page_that_answers_a_form_has_no_inline_code_and_no_foreign_links(site: Site, hostile: Hostile) -> None:
    client = site.client()
    for path, fields in shown_once(hostile, PAYLOADS[0]).items():
        answer = site.post(client, "/help", path, **fields)
        assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/html"), answer.text
        check_answer(answer)


def test_what_is_searched_for_is_text(client: httpx.Client) -> None:
    for payload in PAYLOADS[::4]:
        check_answer(client.get("/find", params={"q": payload[:200]}))
    for payload in PAYLOADS[::40]:
        for path, name in (("/jobs", "q"), ("/jobs", "kind"), ("/", "code"), ("/audit", "owner"), ("/retries", "kind")):
            check_answer(client.get(path, params={name: payload[:200]}))


# Pages that show nothing of what is stored here.
SILENT = {
    *("/help", "/duties", "/retries", "/alerts/{check}"),
    *("/keys/new", "/notifications/new", "/notifications/hooks/new"),
}


# Send a form from the page that is open, with its token.
SEND = """([path, fields]) => {
  const form = document.createElement("form");
  const all = { csrf: document.querySelector("[name=csrf]").value, ...fields };
  for (const [name, value] of Object.entries(all)) {
    const input = document.createElement("input");
    input.name = name; input.value = value; form.append(input);
  }
  form.method = "post"; form.action = path; document.body.append(form); form.submit();
}"""


def check_inert(visit: Visit, path: str) -> None:
    visit.page.evaluate("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    assert visit.page.evaluate("window.__pwned") is None, path
    assert (visit.errors, visit.foreign) == ([], []), path


def find_wide(visit: Visit, path: str) -> set[tuple[str, int]]:
    """The windows for which the page is too wide: on a phone, and on a desk."""
    found = set()
    for width, height in ((390, 844), (1280, 900)):
        visit.page.set_viewport_size({"width": width, "height": height})
        if visit.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            found.add((path, width))
    return found


def test_no_stored_text_runs_as_a_script(browser: Browser, site: Site, client: httpx.Client, hostile: Hostile) -> None:
    """A8: each page once, with all payloads in the store. A blocked script is an error in the console too."""
    assert len(PAYLOADS) >= 200
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    visit = Visit(context, site, site.admin.token)
    # Signing in leads to the first page, which is visited below.
    visit.open("/help")
    visit.errors.clear()
    pages = {path: address(path, hostile.ids) for path in SHOWN} | {"running": f"/jobs/{hostile.ids['running']}"}
    shown = {path for path, each in pages.items() if client.head(each).headers["Content-Type"].startswith("text/html")}
    assert len(shown) > len(pages) / 2
    silent, wide = set(), set()
    for path in sorted(shown):
        page = visit.open(pages[path])
        wide |= find_wide(visit, path)
        check_inert(visit, path)
        if MARK not in page.inner_text("main"):
            silent.add(path)
    for path, fields in shown_once(hostile, PAYLOADS[1]).items():
        page = visit.open("/help")
        with page.expect_navigation():
            page.evaluate(SEND, [f"{ROOT}{path}", fields])
        check_inert(visit, path)
        assert MARK in page.inner_text("main") or path.endswith("/link"), path
    context.close()
    # What is stored is there, as text.
    assert (silent, wide) == (SILENT, set())
