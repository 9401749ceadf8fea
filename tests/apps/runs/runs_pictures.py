"""Pictures of the page, for README.md: `python tests/apps/runs/runs_pictures.py [FOLDER]`."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).parents[3]
sys.path[:0] = [str(ROOT / place) for place in ("tests/browser", "tests/apps/runs", "tests", "src", ".")]

from apps.runs.demo import Players  # noqa: E402
from apps.runs.leaderboard.server import Board  # noqa: E402
from apps.runs.leaderboard.serving import serve_leaderboard  # noqa: E402
from apps.runs.site import build_site  # noqa: E402
from playwright.sync_api import Browser  # noqa: E402
from runs_world import World, open_world  # noqa: E402
from site_server import serve  # noqa: E402

from chromium import open_browser  # noqa: E402

FOLDER = ROOT / "docs" / "pictures"


@contextmanager
def a_busy_world() -> Iterator[World]:
    """Runs in every state: some verified, some with errors, some of a category that is no longer allowed."""
    board, categories = Board(), ["cartpole", "frozen-lake", "mountain-car", "taxi", "cliff-walking"]
    with tempfile.TemporaryDirectory() as folder, serve_leaderboard(board) as address:
        place = Path(folder)
        with open_world(f"sqlite:///{place}/runs.db", board, address, place, categories=categories, timeout=1) as world:
            _fill(world)
            yield world


def _fill(world: World) -> None:
    players, now = Players(world.board, seed=4), datetime.now(UTC)
    for age in range(60, 3, -1):
        players.submit(now - timedelta(minutes=3 * age))
    world.verify_all(concurrency=1)
    world.app.pause(kind="verify", actor="ann")
    for age in range(3, 0, -1):
        players.submit(now - timedelta(minutes=3 * age))
    world.verify_all()
    allowed = world.verifier.configuration.current.categories
    world.configure(categories=[each for each in allowed if each != "cliff-walking"])


def take(browser: Browser, base: str, path: str, file: Path, *, scheme: str = "light", width: int = 1280) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
        device_scale_factor=1,
    )
    page = context.new_page()
    page.goto(base + path)
    page.screenshot(path=file, full_page=width < 800)
    context.close()


def main(folder: Path) -> None:
    with (
        a_busy_world() as world,
        open_browser() as browser,
        serve(world.app, build_site(world.verifier).asgi()) as site,
    ):
        take(browser, site.base, "/", folder / "runs.png")
        if folder != FOLDER:
            (run,) = [run for run in world.stored() if run.endswith("1")][:1]
            take(browser, site.base, "/", folder / "runs-dark.png", scheme="dark")
            take(browser, site.base, "/", folder / "runs-phone.png", width=390)
            take(browser, site.base, "/?word=Error", folder / "runs-error.png")
            take(browser, site.base, f"/runs/{run}", folder / "runs-run.png")
            take(browser, site.base, f"/runs/{run}", folder / "runs-run-phone.png", scheme="dark", width=390)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
