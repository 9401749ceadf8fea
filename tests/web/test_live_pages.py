"""The stream that tells a page that it is out of date."""

import html
import re
from collections.abc import Iterator

import httpx
import pytest
from site_server import Site, serve
from world import World

CHANGED = "event: changed"


@pytest.fixture
def site(world: World) -> Iterator[Site]:
    with serve(world.app) as site:
        yield site


def follow(client: httpx.Client, page: str) -> Iterator[str]:
    """Follow the stream that the page names."""
    (address,) = re.findall(r'sse-connect="([^"]+)"', page)
    with client.stream("GET", html.unescape(address), timeout=30) as stream:
        yield from stream.iter_lines()


def test_what_changed_before_the_stream_began_is_told_at_once(world: World, site: Site) -> None:
    client = site.client()
    page = client.get("/jobs").text
    world.succeeded()
    assert CHANGED in follow(client, page)


def test_a_page_that_is_up_to_date_is_told_of_what_comes(world: World, site: Site) -> None:
    client = site.client()
    world.succeeded()
    lines = follow(client, client.get("/jobs").text)
    assert next(lines).startswith("retry:")
    world.succeeded()
    assert [next(lines), next(lines)] == ["", CHANGED]


def test_an_address_without_a_position_is_told_of_what_comes(world: World, site: Site) -> None:
    client = site.client()
    for after in ("", "?after=", "?after=-1", "?after=x", "?after=" + "9" * 99):
        with client.stream("GET", f"/live{after}", timeout=30) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith("retry:")
            world.succeeded()
            assert [next(lines), next(lines)] == ["", CHANGED]
