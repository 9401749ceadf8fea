import gc
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING

import hypothesis
import pytest

from mulligan import App
from mulligan.failure import redact

if TYPE_CHECKING:
    from playwright.sync_api import Browser

# The collector would visit all tests found so far, again and again: a half of the time that it takes to find them.
gc.disable()

# A shell that starts the tests in the background ignores it for them, and so for every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def helper_modules() -> set[str]:
    """Modules and packages beside the tests, as the tests import them."""
    files = [path for path in Path(__file__).parent.rglob("*.py") if not path.name.startswith(("test_", "conftest"))]
    return {path.parent.name if (path.parent / "__init__.py").exists() else path.stem for path in files}


# Without this a failing assert of a helper shows no values.
pytest.register_assert_rewrite(*helper_modules())

# On a busy machine an example may take any time; how long it takes is not what is tested.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

MEMORY, ROOM = Path("/dev/shm"), 4 * 1024**3
# What each run draws anew: the examples of the model, the worlds of the simulator, the plan of the chaos tests.
FRESH_SEEDS = ("MULLIGAN_MODEL_SEED", "MULLIGAN_WORLD_SEED", "MULLIGAN_SEED")


def pytest_configure(config: pytest.Config) -> None:
    """Where there is room, the files of the tests are in memory: no process that is killed can tell, and thousands of
    commits would each wait for the disk."""
    if config.option.basetemp is None and _is_roomy(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    # Only now: assertions of helpers that were imported before would show no values.
    from conformance.fields import FieldsPlugin
    from new_database import use_copies

    use_copies()
    config.pluginmanager.register(FieldsPlugin())
    # Drawn by the first process; parallel test processes inherit them.
    for name in FRESH_SEEDS:
        os.environ.setdefault(name, str(SystemRandom().randrange(10**6, 10**9)))


def pytest_sessionstart(session: pytest.Session) -> None:
    """A quiet run prints no header, and a run that is cut off no summary."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        seeds = " ".join(f"{name}={os.environ[name]}" for name in FRESH_SEEDS)
        reporter.write_line(f"Some examples are new in each run; to repeat these: {seeds} make test")


def _is_roomy(place: Path) -> bool:
    # Programs are run from there.
    is_usable = place.is_dir() and os.access(place, os.W_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC
    return is_usable and shutil.disk_usage(place).free > ROOM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process waits for them at the end."""
    items.sort(key=lambda item: "chaos" not in item.path.parts[-2:])


def pytest_collection_finish() -> None:
    """Thousands of tests stay until the end: the collector never visits them, which took longer than many tests."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [name for name in os.environ if name.startswith("MULLIGAN_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def _secrets_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an app calls a secret is one for its whole process: not for the tests after it."""
    monkeypatch.setattr(redact, "_known", redact._known)


@pytest.fixture(scope="module")
def browser() -> Iterator["Browser"]:
    """Of one module: while it is there, an event loop runs in this thread, and tests of other modules run theirs."""
    # Late: most tests need no browser.
    from chromium import open_browser

    with open_browser() as found:
        yield found


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        yield app
