"""The play: the stage is set, watched for a while, cleared, and summed up."""

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from urllib.parse import quote

from mulligan import App
from mulligan.cli.demo.stage import Stage
from mulligan.cli.demo.summary import DemoSummary, next_lines, sum_up, summary_document, summary_lines
from mulligan.cli.demo.tasks import app as demo_app
from mulligan.cli.demo.view import QuietDemo, View, fitting_view
from mulligan.cli.output import print_json
from mulligan.errors import BadUrl

TICK = 0.1


def play(*, seconds: float | None, database: str | None, as_json: bool) -> int:
    if database is not None and ":memory:" in database:
        raise BadUrl(database, "the demo's workers are processes of their own, which need a file to share")
    folder = Path(tempfile.mkdtemp(prefix="mulligan-"))
    url = database or f"sqlite:///{quote(str(folder / 'demo.db'))}"
    with _app_on(url) as app, stop_signals() as stopped:
        stage = Stage(app, url, log=folder / "workers.log", seconds=seconds)
        with stage:
            _watch(stage, QuietDemo() if as_json else fitting_view(), stopped)
        summary = sum_up(stage)
    if as_json:
        print_json(summary_document(summary) | {"database": url, "folder": str(folder)})
    else:
        _print(summary, url, folder)
    return 0 if summary.is_clean else 1


@contextmanager
def _app_on(url: str) -> Iterator[App]:
    demo_app.settings = replace(demo_app.settings, database_url=url)
    with demo_app:
        yield demo_app


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Whoever wants an end sets the event; nothing is raised in the middle of anything."""
    stopped = threading.Event()

    def stop(_number: int, _frame: FrameType | None) -> None:
        stopped.set()

    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in wanted}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _watch(stage: Stage, view: View, stopped: threading.Event) -> None:
    while not stage.is_ready:
        if stopped.wait(TICK):
            return
    stage.begin()
    shown = -view.interval
    with view:
        while not (stopped.wait(TICK) or stage.is_over):
            stage.step()
            if stage.elapsed >= shown + view.interval:
                shown = stage.elapsed
                view.show(stage.scene())


def _print(summary: DemoSummary, url: str, folder: Path) -> None:
    for line in ("", *summary_lines(summary), "", *next_lines(summary, url, folder)):
        print(line)
