"""The screenshot API, new for a test, or one of a module with a worker and a warm browser."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer
from screenshots_sites import Sites, serving_sites
from screenshots_world import World, make_screenshots, serving


@pytest.fixture(scope="session")
def sites() -> Iterator[Sites]:
    with serving_sites() as found:
        yield found


@pytest.fixture
def make_world(store_url: str, tmp_path: Path, sites: Sites) -> Callable[..., Any]:
    """Without a worker: `with make_world(credits=3) as world`."""

    @contextmanager
    def make(**options: Any) -> Iterator[World]:
        with serving(make_screenshots(store_url, tmp_path, sites, **options), sites) as world:
            yield world

    return make


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Iterator[World]:
    with make_world() as found:
        yield found


@pytest.fixture
def sqlite_world(tmp_path: Path, sites: Sites) -> Iterator[World]:
    """For what no store decides: access, forms of requests."""
    with serving(make_screenshots(f"sqlite:///{tmp_path}/app.db", tmp_path, sites), sites) as found:
        yield found


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def warm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sites: Sites) -> Iterator[World]:
    """With a worker, whose browser stays warm. Tests of a module share it."""
    folder = tmp_path_factory.mktemp("warm")
    url = f"sqlite:///{folder}/app.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("warm")
    with ExitStack() as stack:
        world = stack.enter_context(serving(make_screenshots(url, folder, sites, credits=1_000), sites))
        stack.enter_context(world.working(concurrency=2))
        yield world
