"""One run of the demo: start the processes, show them, stop them, and print the summary."""

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
from mulligan.cli.demo.processes import DemoProcesses
from mulligan.cli.demo.summary import DemoSummary, next_lines, sum_up, summary_document, summary_lines
from mulligan.cli.demo.tasks import app as demo_app
from mulligan.cli.demo.view import QuietDemo, View, choose_view
from mulligan.cli.output import print_json
from mulligan.errors import BadUrl

TICK = 0.1


def run_session(*, seconds: float | None, database: str | None, as_json: bool) -> int:
    if database is not None and ":memory:" in database:
        raise BadUrl(database, "the demo needs a file, because its workers are separate processes")
    folder = Path(tempfile.mkdtemp(prefix="mulligan-"))
    url = database or f"sqlite:///{quote(str(folder / 'demo.db'))}"
    with _app_on(url) as app, stop_signals() as stopped:
        processes = DemoProcesses(app, url, log=folder / "workers.log", seconds=seconds)
        with processes:
            _watch(processes, QuietDemo() if as_json else choose_view(), stopped)
        summary = sum_up(processes)
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
    """Signals set the event instead of raising an exception."""
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


def _watch(processes: DemoProcesses, view: View, stopped: threading.Event) -> None:
    while not processes.is_ready:
        if stopped.wait(TICK):
            return
    processes.begin()
    shown = -view.interval
    with view:
        while not (stopped.wait(TICK) or processes.is_over):
            processes.step()
            if processes.elapsed >= shown + view.interval:
                shown = processes.elapsed
                view.show(processes.snapshot())


def _print(summary: DemoSummary, url: str, folder: Path) -> None:
    for line in ("", *summary_lines(summary), "", *next_lines(summary, url, folder)):
        print(line)
