"""`mulligan jobs position` and `last-failures`: where a job is in the queue, and why jobs failed."""

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import CliCommand, SharedOptions, one_argument, pass_shared
from mulligan.cli.output import show, show_table
from mulligan.cli.parameters import text
from mulligan.cli.summaries import about_event, short
from mulligan.explain.words import relative
from mulligan.records.document import document_of
from mulligan.values.clock import SystemClock

# A place in the queue is counted up to this.
MOST_COUNTED = 1_000


@click.command("position", cls=CliCommand)
@one_argument("job_id", "ID")
@pass_shared
def position(shared: SharedOptions, job_id: str) -> None:
    """Show when a queued job is claimed: 1 is next.

    Jobs of all queues count, up to 1,000.
    """
    with open_either(shared) as app:
        whole = app.find_id("job", job_id)
        found = app.queue_position(whole)
    at_least = found is not None and found >= MOST_COUNTED
    where = "is not queued" if found is None else f"is number {found:,}{' or later' if at_least else ''} in the queue"
    show(shared, {"id": whole, "position": found, "at_least": at_least}, f"{whole} {where}.")


@click.command("last-failures", cls=CliCommand)
@click.argument("job_ids", metavar="ID...", type=text, nargs=-1, required=True)
@pass_shared
def last_failures(shared: SharedOptions, *, job_ids: tuple[str, ...]) -> None:
    """Show the last failure of each job."""
    with open_either(shared) as app:
        found = app.last_failures([app.find_id("job", job_id) for job_id in job_ids])
    now = SystemClock().now()
    document = {"failures": {job_id: document_of(event) for job_id, event in found.items()}}
    rows = [
        (short(job_id), relative(event.at, now), str(event.attempt), event.code or "", about_event(event))
        for job_id, event in found.items()
    ]
    show_table(shared, document, ("Job", "Failed", "Attempt", "Code", "About"), rows, empty="None of them has failed.")
