"""`mulligan jobs stuck` and `process-stuck`: list stuck jobs, and settle them as timed out."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import login, text
from mulligan.cli.summaries import short
from mulligan.console.documents import job_document
from mulligan.explain.words import relative, state_phrase, worker_name
from mulligan.values.duration import describe
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.records.job import Job


@click.command("stuck", cls=CliCommand)
@click.option("--owner", type=text)
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@pass_shared
def stuck(shared: SharedOptions, *, owner: str | None, limit: int) -> None:
    """List jobs that run too long. Longer than the stuck limit and their own timeout; longest first."""
    with open_existing(shared) as app:
        found, workers, now = app.stuck(owner=owner, limit=limit), app.workers(), app.store.now()
        after = describe(app.settings.stuck_after)
    if shared.as_json:
        print_json({"jobs": [job_document(job) for job in found]})
    elif found:
        print_table(("Job", "Kind", "Attempt", "Started", "Worker"), [_row(job, workers, now) for job in found])
        echo("\nTo settle them as timed out: mulligan jobs process-stuck; to retry one: mulligan jobs retry ID")
    else:
        echo(f"No job is stuck: none runs longer than {after} and its own timeout.")


def _row(job: "Job[Any]", workers: Any, now: datetime) -> tuple[str, ...]:
    started = relative(job.last_attempt_at or job.updated_at, now)
    return short(job.id), job.kind, str(job.attempt), started, worker_name(job.leased_by or "", workers)


@click.command("process-stuck", cls=CliCommand)
@click.option("--owner", type=text)
@click.option("--limit", type=click.IntRange(1, 1_000), default=200, show_default=True)
@click.option("--actor", type=text, default=login, help="Who; stored with each job.  [default: your login name]")
@pass_shared
def process_stuck(shared: SharedOptions, *, owner: str | None, limit: int, actor: str) -> None:
    """Take stuck jobs from their workers. Each is settled as a TIMEOUT failure, by its policy.

    Name the app with --app. Without it, retries follow the default policy.
    """
    with open_existing(shared) as app:
        jobs = app.process_stuck(owner=owner, actor=actor, limit=limit)
        now = app.store.now()
    if shared.as_json:
        print_json({"jobs": [job_document(job) for job in jobs]})
        return
    for job in jobs:
        due = f", due {relative(job.due_at, now)}" if job.waiting_for else ""
        echo(safe(f"{job.id} {state_phrase(job.state)}{due}."))
    if not jobs:
        echo("No job is stuck.")
