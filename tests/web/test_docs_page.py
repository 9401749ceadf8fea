"""The page about the API needs nothing from elsewhere, and shows what the OpenAPI document says."""

import re
from html.parser import HTMLParser

from world import World

from mulligan.web.api import GROUPS
from mulligan.web.docs_page import render
from mulligan.web.route import collect


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.others: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src"):
                self.links.append(value or "")
            else:
                self.others.add(name)


def read(page: str) -> Reader:
    reader = Reader()
    reader.feed(page)
    return reader


def test_it_loads_nothing_but_its_stylesheet(sqlite_world: World) -> None:
    answer = sqlite_world.anonymous.get("/docs")
    assert answer.headers["content-type"].startswith("text/html")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'self'") and "unsafe" not in policy
    found = read(answer.text)
    assert "script" not in found.tags and "style" not in found.tags
    assert not [name for name in found.others if name == "style" or name.startswith("on")]
    assert {link for link in found.links if not link.startswith("#")} == {"docs.css", "openapi.json"}
    assert sqlite_world.anonymous.get("/docs.css").headers["content-type"].startswith("text/css")


def test_every_link_leads_to_a_place_on_the_page(sqlite_world: World) -> None:
    found = read(sqlite_world.anonymous.get("/docs").text)
    assert len(found.ids) == len(set(found.ids))
    assert [each for each in found.ids if not each or any(map(str.isspace, each))] == []
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert {route.name for route in collect(GROUPS)} <= set(found.ids)


def test_it_shows_text_and_not_markup(sqlite_world: World) -> None:
    document = sqlite_world.anonymous.get("/openapi.json").json()
    document["info"]["description"] = "<script>alert(1)</script>"
    document["paths"]["/api/v1/jobs"]["get"]["summary"] = '"><img src=x onerror=alert(1)>'
    page = render(document)
    assert "script" not in read(page).tags and "img" not in read(page).tags
    assert re.search(r"&lt;script&gt;", page)
