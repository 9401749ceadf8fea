"""`mulligan policies reclassify`: which failed jobs the current rules would retry; with --apply, retry them."""

from collections import Counter
from typing import Any

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import KIND, OWNER, SINCE, CliCommand, SharedOptions, limit_option, pass_shared, signed
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import text
from mulligan.console.reclassify import Reclassification, Reclassified
from mulligan.explain.words import counted
from mulligan.records.document import document_of
from mulligan.records.job import JobFilter
from mulligan.values.text import safe

NAMED = 20
_THEN = {"retry": "retry", "snooze": "retry after the requested wait", "fail": "stays failed"}


@click.command("reclassify", cls=CliCommand)
@KIND
@click.option("--code", type=text, help="The error code of the failed jobs.")
@OWNER
@SINCE
@limit_option(1_000, most=100_000)
@click.option("--apply", "is_applied", is_flag=True, help="Retry them. Without it, nothing is changed.")
@signed("the history of each job")
@pass_shared
def reclassify(
    shared: SharedOptions,
    /,
    *,
    limit: int,
    is_applied: bool,
    reason: str | None,
    actor: str,
    request_id: str | None,
    **wanted: Any,
) -> None:
    """Classify failed jobs again. Shows which of them the current rules and policies would retry.

    With --apply, those jobs are retried manually.
    """
    with open_existing(shared, needs_tasks=True) as app:
        sign = {"actor": actor, "reason": reason, "request_id": request_id}
        found = app.reclassify(JobFilter(**wanted), dry_run=not is_applied, limit=limit, **sign)
    if shared.as_json:
        print_json(document_of(found, is_applied=is_applied))
        return
    _print_found(found, is_applied=is_applied)
    if is_applied:
        _print_retried(found)
    elif found.would_retry:
        echo("\nNothing was changed. Retry them with: --apply")


def _print_found(found: Reclassification, *, is_applied: bool) -> None:
    counts = Counter(_change(job) for job in found.jobs)
    if counts:
        headings = ("Jobs", "Kind", "Was", "Is", "Rule", "Then")
        print_table(headings, [(f"{count:,}", *change) for change, count in counts.most_common()])
    else:
        echo("No failed job could be classified again.")
    if found.unjudged:
        echo(f"\n{counted(len(found.unjudged), 'job')} skipped: the log holds no failure that rules could classify.")
    if found.would_retry and not is_applied:
        echo(f"\nWould be retried: {counted(len(found.would_retry), 'job')}")
        _print_ids(found.would_retry)
    if not found.is_complete:
        echo("\nThere are more: only the newest were read. See --limit, --since, --kind, --code")


def _change(job: Reclassified) -> tuple[str, ...]:
    was, is_now = f"{job.old_code} ({job.old_class})", f"{job.new_code} ({job.new_class})"
    then = _THEN[job.decision] + (f": {job.because}" if job.because else "")
    return job.kind, was, is_now, job.rule, then


def _print_ids(ids: tuple[str, ...]) -> None:
    for job_id in ids[:NAMED]:
        echo(f"  {safe(job_id)}")
    if len(ids) > NAMED:
        echo(f"  … and {len(ids) - NAMED:,} more; --json prints all")


def _print_retried(found: Reclassification) -> None:
    echo(f"\n{counted(len(found.retried), 'job')} retried, {len(found.skipped):,} skipped.")
    for job_id, why in list(found.skipped.items())[:NAMED]:
        echo(safe(f"  {job_id}: {why}"))
