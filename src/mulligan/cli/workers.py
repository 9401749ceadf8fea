"""`mulligan workers`: who is there to run jobs."""

from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import opened_existing
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json, say_table
from mulligan.console.documents import document_of
from mulligan.explain.next import is_alive
from mulligan.explain.words import relative
from mulligan.values.clock import SystemClock


@click.command("workers", cls=CliCommand)
@pass_given
def workers(given: Given) -> None:
    """List the workers. Whether they are alive, how many jobs they hold, what they take."""
    with opened_existing(given) as app:
        found = app.workers()
    now = SystemClock().now()
    if given.as_json:
        say_json({"workers": [document_of(worker) | {"is_alive": is_alive(worker, now)} for worker in found]})
    elif found:
        headings = ("Worker", "Host", "Process", "Since", "Seen", "Holds", "Queues", "Kinds")
        say_table(headings, [_row(worker, now) for worker in found])
    else:
        say("No workers. Start one with: mulligan worker MODULE:APP")


def _row(worker: Any, now: datetime) -> tuple[str, ...]:
    silent = "" if is_alive(worker, now) else ", silent"
    return (
        worker.incarnation,
        worker.host,
        str(worker.pid),
        relative(worker.started_at, now),
        relative(worker.seen_at, now) + silent,
        f"{worker.holds} of {worker.concurrency}",
        "all" if worker.queues is None else ", ".join(worker.queues),
        ", ".join(worker.kinds),
    )
