"""`mulligan jobs stuck` and `process-stuck`: list stuck jobs, and settle them as timed out."""

from datetime import datetime
from typing import Any

import click

from mulligan.app import App
from mulligan.cli.opening import open_either
from mulligan.cli.options import OWNER, REQUEST_ID, CliCommand, SharedOptions, limit_option, pass_shared
from mulligan.cli.output import echo, show, show_table
from mulligan.cli.parameters import login, text
from mulligan.cli.summaries import short
from mulligan.explain.words import relative, state_phrase, worker_name
from mulligan.records.document import document_of
from mulligan.records.job import Job
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe

HEADINGS = ("Job", "Kind", "Attempt", "Started", "Worker")


@click.command("stuck", cls=CliCommand)
@OWNER
@limit_option(50)
@pass_shared
def stuck(shared: SharedOptions, *, owner: str | None, limit: int) -> None:
    """List jobs that run too long. Longer than the stuck limit and their own timeout; longest first."""
    with open_either(shared) as app:
        found, workers = app.stuck(owner=owner, limit=limit), app.workers()
        # A server does not tell its settings.
        after = describe(app.settings.stuck_after) if isinstance(app, App) else "the limit of the server"
    now = SystemClock().now()
    document = {"jobs": [document_of(job) for job in found]}
    none = f"No job is stuck: none runs longer than {after} and its own timeout."
    show_table(shared, document, HEADINGS, [_row(job, workers, now) for job in found], empty=none)
    if found and not shared.as_json:
        echo("\nTo settle them as timed out: mulligan jobs process-stuck; to retry one: mulligan jobs retry ID")


def _row(job: Job[Any], workers: Any, now: datetime) -> tuple[str, ...]:
    started = relative(job.last_attempt_at or job.updated_at, now)
    return short(job.id), job.kind, str(job.attempt), started, worker_name(job.leased_by or "", workers)


@click.command("process-stuck", cls=CliCommand)
@OWNER
@limit_option(200)
@click.option("--actor", type=text, default=login, help="Who; stored with each job.  [default: your login name]")
@click.option("--reason", type=text, help="Why; stored with each job.")
@REQUEST_ID
@pass_shared
def process_stuck(shared: SharedOptions, /, **options: Any) -> None:
    """Take stuck jobs from their workers. Each is settled as a TIMEOUT failure, by its policy.

    Name the app with --app. Without it, retries follow the default policy.
    """
    with open_either(shared) as app:
        jobs = app.process_stuck(**options)
    now = SystemClock().now()
    document = {"jobs": [document_of(job) for job in jobs]}
    show(shared, document, *([_settled(job, now) for job in jobs] or ["No job is stuck."]))


def _settled(job: Job[Any], now: datetime) -> str:
    due = f", due {relative(job.due_at, now)}" if job.waiting_for else ""
    return f"{job.id} {state_phrase(job.state)}{due}."
