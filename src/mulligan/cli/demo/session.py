"""One run of the demo: start the processes, show them, stop them, and print the summary."""

import signal
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from mulligan import App
from mulligan.cli.demo.display import open_display
from mulligan.cli.demo.processes import DemoProcesses
from mulligan.cli.demo.summary import DemoSummary, next_lines, sum_up, summary_document, summary_lines
from mulligan.cli.demo.tasks import app
from mulligan.cli.demo.view import DemoPicture, line
from mulligan.cli.output import echo, print_json
from mulligan.errors import BadUrl

TICK = 0.1


def run_demo(*, seconds: float | None, database: str | None, as_json: bool) -> int:
    """Run for `seconds`, or until Ctrl-C. Returns 0 if no accepted job was lost."""
    url, folder = place(app, database)
    with app, stop_signals() as stopped:
        with DemoProcesses(app, url, log=folder / "workers.log", seconds=seconds) as processes:
            _watch(processes, stopped, as_json=as_json)
        summary = sum_up(processes)
    if as_json:
        print_json(summary_document(summary) | {"database": url, "folder": str(folder)})
    else:
        print_summary(summary, url, folder)
    return 0 if summary.is_clean else 1


def place(app: App, database: str | None) -> tuple[str, Path]:
    """Give the app its database. Returns its URL, and a new folder for what the demo leaves."""
    if database is not None and ":memory:" in database:
        raise BadUrl(database, "the demo needs a file, because its workers are separate processes")
    folder = Path(tempfile.mkdtemp(prefix="mulligan-"))
    url = database or f"sqlite:///{quote(str(folder / 'demo.db'))}"
    app.settings = replace(app.settings, database_url=url)
    return url, folder


def print_summary(summary: DemoSummary, url: str, folder: Path) -> None:
    echo("\n".join(["", *summary_lines(summary), "", *next_lines(summary, url, folder)]))


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Signals set the event instead of raising an exception."""
    stopped = threading.Event()
    wanted = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: stopped.set()) for number in wanted}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def begin(processes: DemoProcesses, stopped: threading.Event) -> bool:
    """Wait for the workers, and start the clock. Returns False if it was stopped before."""
    while not processes.is_ready:
        if stopped.wait(TICK):
            return False
    processes.begin()
    return True


def _watch(processes: DemoProcesses, stopped: threading.Event, *, as_json: bool) -> None:
    if not begin(processes, stopped):
        return
    with open_display(DemoPicture().draw, line, as_json=as_json) as display:
        while not (stopped.wait(TICK) or processes.is_over):
            processes.step()
            display.update(processes.elapsed, processes.snapshot)
