"""The pages in Chromium: live, on a phone, in the dark, without scripts, and with hostile names."""

from collections.abc import Iterator

import pytest
from apps.runs.leaderboard import players
from apps.runs.leaderboard.server import Board
from apps.runs.leaderboard.serving import serve_leaderboard
from apps.runs.site import build_site
from apps.runs.working import run_worker
from playwright.sync_api import Browser, BrowserContext, Page, expect
from runs_world import World, honest, open_world
from site_server import Site, serve
from visit import find_violations

from live import eventually

HOSTILE = "<img src=x onerror=\"document.title='pwned'\">" + "W" * 60


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Runs of every word but Processing, verified by a real worker, with one of a category that was taken away."""
    folder, board = tmp_path_factory.mktemp("runs"), Board()
    with (
        serve_leaderboard(board) as address,
        open_world(f"sqlite:///{folder}/runs.db", board, address, folder) as world,
        run_worker(world.verifier, concurrency=1),
    ):
        world.submit(honest("first"), honest("passed", player=HOSTILE), players.inflate(honest("cheat")))
        world.submit(honest("bad"), honest("down"), honest("asked"))
        world.break_answers("garbage", run="bad")
        world.break_answers("broken", run="down")
        world.break_answers("rate_limited", run="asked", retry_after="3600")
        world.poll()
        eventually(lambda: len(world.board.fetched) == 6)
        world.app.pause(kind="verify", actor="test")
        world.submit(honest("stranded", "taxi"))
        world.poll()
        eventually(lambda: "stranded" in world.stored())
        world.configure(categories=["frozen-lake", "cartpole"])
        eventually(lambda: all("category:taxi" not in (each.queues or ()) for each in world.app.workers()))
        world.app.resume(kind="verify", actor="test")
        yield world


@pytest.fixture(scope="module")
def site(busy: World) -> Iterator[Site]:
    with serve(busy.app, build_site(busy.verifier).asgi()) as found:
        yield found


@pytest.fixture
def errors() -> Iterator[list[str]]:
    found: list[str] = []
    yield found
    assert found == []


def open_page(context: BrowserContext, errors: list[str]) -> Page:
    page = context.new_page()
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    return page


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 360)])
def test_r5_the_pages_are_accessible_and_fit(
    browser: Browser, site: Site, errors: list[str], scheme: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
    page = open_page(context, errors)
    for path in ("/", "/?word=Processing", "/runs/down", "/runs/passed"):
        page.goto(site.base + path)
        assert find_violations(page) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), f"{path} is too wide"
        assert page.title() != "pwned"
    context.close()


def test_r5_the_page_follows_the_runs_without_a_reload(
    browser: Browser, busy: World, site: Site, errors: list[str]
) -> None:
    context = browser.new_context()
    page = open_page(context, errors)
    page.goto(site.base)
    page.evaluate("window.mark = 'same document'")
    busy.submit(honest("later", day=2))
    busy.poll()
    expect(page.locator("#run-later .state")).to_have_text("Passed", timeout=30_000)
    assert page.evaluate("window.mark") == "same document"
    context.close()


def test_r2_an_administrator_retries_a_run_in_the_browser(
    browser: Browser, busy: World, site: Site, errors: list[str]
) -> None:
    context = browser.new_context()
    page = open_page(context, errors)
    page.goto(f"{site.base}/runs/bad")
    expect(page.get_by_role("button", name="Retry now")).to_have_count(0)
    page.get_by_role("link", name="Administration").click()
    page.fill("input[name=key]", site.admin.token)
    page.get_by_role("button", name="Sign in").click()
    page.locator("#run-bad").get_by_role("link").click()
    page.get_by_role("button", name="Retry now").click()
    expect(page.locator(".flash")).to_contain_text("Retry queued for bad.")
    expect(page.locator(".eyebrow .state")).to_have_text("Passed", timeout=30_000)
    assert busy.outcome("bad") == "Passed"
    context.close()


def test_r1_the_category_that_is_no_longer_allowed_is_seen_without_scripts(browser: Browser, site: Site) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(site.base)
    expect(page.locator(".banner")).to_contain_text("1 stored run of taxi is not claimed")
    expect(page.locator("#run-stranded .mark")).to_have_text("Category no longer allowed")
    page.get_by_role("link", name="Error").click()
    expect(page.locator("#run-down")).to_contain_text("Retryable")
    context.close()


def test_the_dashboard_of_the_jobs_is_there(browser: Browser, site: Site) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(site.base)
    page.get_by_role("link", name="Jobs behind this page").click()
    expect(page).to_have_url(f"{site.base}/ops/sign-in?next=/")
    context.close()
