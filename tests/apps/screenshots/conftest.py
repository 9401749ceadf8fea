"""The screenshot API, new for a test, or one of a module with a worker and a warm browser."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from app_stores import USUAL
from app_stores import usual_url as usual_url
from postgres_server import PostgresServer
from screenshots_sites import Sites, serving_sites
from screenshots_world import World, make_screenshots, serving


@pytest.fixture(scope="session")
def sites() -> Iterator[Sites]:
    with serving_sites() as found:
        yield found


@pytest.fixture
def make_world(store_url: str, tmp_path: Path, sites: Sites) -> Callable[..., Any]:
    """On each store, without a worker: `with make_world(credits=3) as world`."""

    @contextmanager
    def make(**options: Any) -> Iterator[World]:
        with serving(make_screenshots(store_url, tmp_path, sites, **options), sites) as world:
            yield world

    return make


@pytest.fixture
def world(usual_url: str, tmp_path: Path, sites: Sites) -> Iterator[World]:
    """Without a worker, for what no store decides."""
    with serving(make_screenshots(usual_url, tmp_path, sites), sites) as found:
        yield found


@pytest.fixture
def patient_world(usual_url: str, tmp_path: Path, sites: Sites) -> Iterator[World]:
    """Its retries wait for an hour: what waits for one still does when the test looks, however slow the machine is."""
    with serving(make_screenshots(usual_url, tmp_path, sites, delay="1h"), sites) as found:
        yield found


@pytest.fixture(scope="session", params=USUAL)
def warm(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sites: Sites) -> Iterator[World]:
    """With a worker, whose browser stays warm. All tests share it."""
    folder = tmp_path_factory.mktemp("warm")
    url = f"sqlite:///{folder}/app.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("warm")
    with ExitStack() as stack:
        world = stack.enter_context(serving(make_screenshots(url, folder, sites, credits=1_000), sites))
        stack.enter_context(world.working(concurrency=4))
        yield world
