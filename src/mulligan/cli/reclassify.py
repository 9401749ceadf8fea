"""`mulligan policies reclassify`: which failed jobs the current rules would retry; with --apply, retry them."""

from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import open_existing_with_tasks
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import login, text, when
from mulligan.console.documents import document_of
from mulligan.explain.words import counted
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.console.reclassify import Reclassification, Reclassified

NAMED = 20
_THEN = {"retry": "retry", "snooze": "retry after the requested wait", "fail": "stays failed"}


@click.command("reclassify", cls=CliCommand)
@click.option("--kind", type=text, help="The task's name.")
@click.option("--code", type=text, help="The error code of the failed jobs.")
@click.option("--owner", type=text)
@click.option("--since", type=when, help="Enqueued since: a time, or a duration such as 2h.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=1_000, show_default=True)
@click.option("--apply", "is_applied", is_flag=True, help="Retry them. Without it, nothing is changed.")
@click.option("--reason", type=text, help="Why; stored in the history of each job.")
@click.option("--actor", type=text, default=login, help="Who; stored too.  [default: your login name]")
@pass_shared
def reclassify(
    shared: SharedOptions,
    *,
    kind: str | None,
    code: str | None,
    owner: str | None,
    since: datetime | None,
    limit: int,
    is_applied: bool,
    reason: str | None,
    actor: str,
) -> None:
    """Classify failed jobs again. Shows which of them the current rules and policies would retry.

    With --apply, those jobs are retried manually.
    """
    from mulligan.records.job import JobFilter

    wanted = JobFilter(kind=kind, code=code, owner=owner, since=since)
    with open_existing_with_tasks(shared) as app:
        found = app.reclassify(wanted, dry_run=not is_applied, actor=actor, reason=reason, limit=limit)
    if shared.as_json:
        print_json(_document(found, is_applied=is_applied))
        return
    _print_found(found, is_applied=is_applied)
    if is_applied:
        _print_retried(found)
    elif found.would_retry:
        echo("\nNothing was changed. Retry them with: --apply")


def _print_found(found: "Reclassification", *, is_applied: bool) -> None:
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


def _change(job: "Reclassified") -> tuple[str, ...]:
    was, is_now = f"{job.old_code} ({job.old_class})", f"{job.new_code} ({job.new_class})"
    then = _THEN[job.decision] + (f": {job.because}" if job.because else "")
    return job.kind, was, is_now, job.rule, then


def _print_ids(ids: tuple[str, ...]) -> None:
    for job_id in ids[:NAMED]:
        echo(f"  {safe(job_id)}")
    if len(ids) > NAMED:
        echo(f"  … and {len(ids) - NAMED:,} more; --json prints all")


def _print_retried(found: "Reclassification") -> None:
    echo(f"\n{counted(len(found.retried), 'job')} retried, {len(found.skipped):,} skipped.")
    for job_id, why in list(found.skipped.items())[:NAMED]:
        echo(safe(f"  {job_id}: {why}"))


def _document(found: "Reclassification", *, is_applied: bool) -> dict[str, Any]:
    counts = Counter((job.kind, job.old_code, job.new_code, job.new_class, job.decision) for job in found.jobs)
    names = ("kind", "old_code", "new_code", "new_class", "decision")
    return {
        "is_applied": is_applied,
        "policies": found.policies,
        "is_complete": found.is_complete,
        "counts": [dict(zip(names, key, strict=True)) | {"jobs": count} for key, count in counts.most_common()],
        "jobs": [document_of(job) for job in found.jobs],
        "would_retry": list(found.would_retry),
        "unjudged": list(found.unjudged),
        "retried": list(found.retried),
        "skipped": dict(found.skipped),
    }
