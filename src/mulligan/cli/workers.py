"""`mulligan workers`: the workers that the store knows."""

from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import show_table
from mulligan.explain.context import is_alive
from mulligan.explain.words import relative
from mulligan.records.document import document_of
from mulligan.records.subscription import DELIVER_KIND
from mulligan.values.clock import SystemClock

HEADINGS = ("Worker", "Host", "Process", "Since", "Seen", "Holds", "Version", "Queues", "Kinds")


@click.command("workers", cls=CliCommand)
@pass_shared
def workers(shared: SharedOptions) -> None:
    """List the workers. Shows whether they are alive, how many jobs they hold, and what they run."""
    with open_either(shared) as app:
        found = app.workers()
    now = SystemClock().now()
    document = {"workers": [document_of(worker, is_alive=is_alive(worker, now)) for worker in found]}
    rows = [_row(worker, now) for worker in found]
    show_table(shared, document, HEADINGS, rows, empty="No workers. Start one with: mulligan worker MODULE:APP")


def _row(worker: Any, now: datetime) -> tuple[str, ...]:
    silent = "" if is_alive(worker, now) else ", silent"
    return (
        worker.incarnation,
        worker.host,
        str(worker.pid),
        relative(worker.started_at, now),
        relative(worker.seen_at, now) + silent,
        f"{worker.holds} of {worker.concurrency}",
        worker.version or "",
        "all" if worker.queues is None else ", ".join(worker.queues),
        ", ".join(kind for kind in worker.kinds if kind != DELIVER_KIND),
    )
