"""`mulligan queues`: the queues with their ready jobs."""

from datetime import datetime

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import show_table, time_of
from mulligan.cli.pauses import describe_pause
from mulligan.console.queues import QueueStatus
from mulligan.explain.words import relative
from mulligan.records.document import document_of

HEADINGS = ("Queue", "Ready", "Oldest", "Running", "Workers", "State")


@click.command("queues", cls=CliCommand)
@pass_shared
def queues(shared: SharedOptions) -> None:
    """List the queues, with their ready jobs and workers. Shows since when the oldest ready job waits."""
    with open_existing(shared) as app:
        found, now = app.queues(), time_of(app)
    document = {"queues": [document_of(queue) for queue in found]}
    none = "No queues. Name the app with --app, or enqueue a job."
    show_table(shared, document, HEADINGS, [_row(queue, now) for queue in found], empty=none)


def _row(queue: QueueStatus, now: datetime) -> tuple[str, ...]:
    return (
        queue.name,
        f"{queue.ready:,}{'+' if queue.at_least else ''}",
        "" if queue.since is None else relative(queue.since, now),
        f"{queue.running:,}",
        f"{queue.workers:,}",
        _state(queue, now),
    )


def _state(queue: QueueStatus, now: datetime) -> str:
    if queue.paused is not None:
        return describe_pause(queue.paused, now)
    return f"no worker takes {', '.join(queue.unhandled)}" if queue.unhandled else ""
