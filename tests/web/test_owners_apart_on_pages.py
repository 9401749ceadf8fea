"""Owners see nothing of each other and of operators on the pages, and change nothing of others by their forms."""

import re
from collections import Counter
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import quote, urlencode

import httpx
import pytest
from site_server import Site, hidden_fields, serve
from twins import Side, Twins, to_missing

from mulligan.records.key import ADMIN_ONLY, Scope
from mulligan.web.pages import PAGES
from mulligan.web.pages.page import Page

OWNED = [page for page in PAGES if not page.is_admin]
# What the forms carry besides their hidden fields, up to the ids.
FIELDS: dict[str, dict[str, str]] = {
    "/jobs/{job_id}/download": {"part": "arguments"},
}
# Forms that carry ids, each with the field and the name of the id.
CARRIED = [
    ("/retry/begin", {}, "ids", "job_id"),
    ("/retry/begin", {}, "group", "group"),
    ("/retry/begin", {}, "batch", "batch_id"),
    ("/jobs/bulk/cancel/begin", {"of": "selection", "reason": "x"}, "job", "job_id"),
    ("/jobs/bulk/cancel/begin", {"reason": "x"}, "batch", "batch_id"),
    ("/jobs/bulk/run-now/begin", {"of": "selection", "reason": "x"}, "job", "job_id"),
    ("/jobs/bulk/snooze/begin", {"of": "selection", "reason": "x"}, "job", "job_id"),
    ("/notifications/hooks/create", {"name": "some"}, "batch", "batch_id"),
]


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with Twins(f"sqlite:///{tmp_path_factory.mktemp('twins')}/jobs.db").filled() as found:
        found.finish()
        yield found


@pytest.fixture(scope="module")
def site(twins: Twins) -> Iterator[Site]:
    with serve(twins.app) as found:
        yield found


@pytest.fixture(scope="module")
def mine(twins: Twins, site: Site) -> httpx.Client:
    return site.client(site.key(twins.mine.owner, *(scope for scope in Scope if scope not in ADMIN_ONLY)))


def fill(path: str, ids: dict[str, str]) -> str:
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: quote(ids[match[1]], safe=""), path)


def links(answer: httpx.Response) -> list[str]:
    found = re.findall(r'(?:href|hx-get)="(/[^"]*)"', answer.text)
    return [unescape(each).partition("#")[0] for each in found if not each.startswith("/static/")]


def hidden(twins: Twins) -> list[str]:
    return [twins.theirs.marker, twins.operator, twins.reason, twins.command, *twins.workers]


def crawl(client: httpx.Client, side: Side) -> dict[str, str]:
    """Each page with the ids of a side, and what their links lead to. Of addresses that differ in their queries alone,
    the first two."""
    pages = [page.path for page in OWNED if not page.is_change]
    known = side.ids | {"name": "gateway", "kind": "works", "check": "x"}
    asked = ["/", *(fill(path, known) for path in pages), "/jobs?view=held", "/?state=all", f"/find?q={side.marker}"]
    answers: dict[str, str] = {}
    visits = Counter[str]()
    for path in asked:
        place = path.partition("?")[0]
        if path not in answers and visits[place] < 2:
            visits[place] += 1
            answer = client.get(path)
            answers[path] = answer.text
            asked += links(answer)
    return answers


def test_no_page_shows_anything_of_another_owner_or_of_operators(twins: Twins, mine: httpx.Client) -> None:
    answers = crawl(mine, twins.mine)
    assert len(answers) > 50 and "".join(answers.values()).count(twins.mine.marker) > 100
    assert [(path, secret) for path, text in answers.items() for secret in hidden(twins) if secret in text] == []


def test_an_administrator_sees_what_owners_do_not(twins: Twins, site: Site) -> None:
    """The crawl could find it."""
    client, theirs = site.client(), twins.theirs.ids
    paths = [f"/jobs/{theirs['job_id']}/events", f"/failures/{theirs['group']}", f"/redrives/{theirs['redrive_id']}"]
    seen = "".join(client.get(path).text for path in [*paths, "/jobs", "/audit"])
    assert [secret for secret in hidden(twins)[:4] if secret not in seen] == []


def shown(client: httpx.Client, page: Page, value: str, path: str, fields: dict[str, Any]) -> list[str]:
    """Where the answer leads, its title and what it says of the action, without the id that was asked for."""
    answer = client.post(path, data=fields) if page.is_change else client.get(path)
    said = re.findall(r'<h1>.*?</h1>|<div class="answer.*?</div>|<header class="says">.*?</header>', answer.text, re.S)
    found = [str(answer.status_code), str(answer.url), *said]
    for repeated in (quote(value, safe=""), value, value[-6:]):
        found = [text.replace(repeated, "…") for text in found]
    return found


@pytest.mark.parametrize(
    "page", [page for page in OWNED if "{" in page.path], ids=lambda page: f"{page.method} {page.path}"
)
def test_an_id_of_another_owner_is_answered_as_one_that_is_missing(
    twins: Twins, mine: httpx.Client, page: Page
) -> None:
    before = twins.app.last_position()
    (name,) = re.findall(r"{(\w+)", page.path)
    fields = {**FIELDS.get(page.path, {}), "csrf": hidden_fields(mine.get("/help").text)["csrf"]}
    foreign, missing = (
        shown(mine, page, value, fill(page.path, {name: value}), fields)
        for value in (twins.theirs.ids[name], to_missing(twins.theirs.ids[name]))
    )
    assert foreign == missing and foreign[0] in ("404", "409")
    assert twins.app.last_position() == before


@pytest.mark.parametrize(("path", "fields", "field", "name"), CARRIED)
def test_a_form_with_ids_of_another_owner_changes_nothing(
    twins: Twins, mine: httpx.Client, path: str, fields: dict[str, str], field: str, name: str
) -> None:
    before = twins.app.last_position()
    (page,) = (each for each in PAGES if each.path == path and each.is_change)
    given = fields | {"csrf": hidden_fields(mine.get("/help").text)["csrf"]}
    foreign, missing = (
        shown(mine, page, value, path, {**given, field: value})
        for value in (twins.theirs.ids[name], to_missing(twins.theirs.ids[name]))
    )
    assert foreign == missing and len(foreign) > 2
    assert twins.app.last_position() == before


def test_a_search_for_what_belongs_to_another_owner_finds_nothing(twins: Twins, mine: httpx.Client) -> None:
    for value in twins.theirs.ids.values():
        for part in (value, value[-8:]):
            found = mine.get(f"/find?{urlencode({'q': part})}")
            assert "Nothing is called that." in found.text, part
