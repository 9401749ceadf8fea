"""What a page of the log adds to failure groups, and what it says about the jobs in them."""

from collections.abc import Iterable

from mulligan.failure.fingerprint import template
from mulligan.records.failure_group import (
    DAY,
    FAILED_WEIGHT,
    HOUR,
    LONGEST_TITLE,
    RETRIED_WEIGHT,
    GroupDocument,
    GroupRow,
    Sample,
    Seen,
    merge,
)
from mulligan.records.folded import JobChange, JobEnd
from mulligan.records.log_entry import Entry

# A task that snoozes has not failed.
SNOOZED = "SNOOZED"
RESET = ("job.retry_requested", "job.run_requested")


def fold_groups(entries: Iterable[Entry]) -> dict[tuple[str, str], GroupRow]:
    """What the failures add to their groups: to the row of all owners, and to that of the job's owner."""
    found: dict[tuple[str, str], GroupRow] = {}
    for entry in filter(is_failure, entries):
        for scope in ("", f"/{entry.owner}") if entry.owner else ("",):
            row = _row(entry, scope)
            known = found.get((row.id, scope))
            found[row.id, scope] = row if known is None else merge(known, row)
    return found


def is_failure(entry: Entry) -> bool:
    return bool(entry.facts.group) and entry.code not in (None, SNOOZED)


def _row(entry: Entry, scope: str) -> GroupRow:
    facts, at = entry.facts, entry.at
    is_final = entry.type == "job.failed"
    seen, bucket = Seen(1, at, at), (1, int(is_final))
    return GroupRow(
        id=facts.group or "",
        scope=scope,
        kind=entry.kind,
        code=entry.code or "",
        error_class=facts.error_class or "",
        title=template(facts.error or facts.message or entry.code or "")[:LONGEST_TITLE],
        first_seen_at=at,
        last_seen_at=at,
        failures=1,
        cost=entry.cost if entry.attempt else 0,
        heat=FAILED_WEIGHT if is_final else RETRIED_WEIGHT,
        document=GroupDocument(
            Sample(
                job=entry.job,
                at=at,
                attempt=entry.attempt,
                code=entry.code or "",
                error_class=facts.error_class or "",
                message=facts.message or "",
                error=facts.error or "",
                owner=entry.owner,
            ),
            kinds={entry.kind: seen},
            services={entry.service: seen} if entry.service else {},
            versions={entry.version or "": seen},
            hours={at - at % HOUR: bucket},
            days={at - at % DAY: bucket},
        ),
    )


def fold_jobs(entries: Iterable[Entry]) -> dict[str, JobChange]:
    """What the page says about each job that failed, succeeded or was retried manually."""
    found: dict[str, JobChange] = {}
    for entry in entries:
        if is_failure(entry):
            change = found.setdefault(entry.job, JobChange(entry.owner))
            if entry.type == "job.failed":
                change.ends_with = entry.facts.group
                change.failed.append(_end(entry, change))
            change.add_failure(entry.facts.group or "", entry.code or "", entry.at)
        elif entry.type == "job.succeeded":
            change = found.setdefault(entry.job, JobChange(entry.owner))
            change.success = _end(entry, change)
        elif entry.type in RESET:
            change = found.setdefault(entry.job, JobChange(entry.owner))
            change.ends_with, change.is_reset = None, True
    return found


def _end(entry: Entry, change: JobChange) -> JobEnd:
    return JobEnd(entry.at, entry.attempt, entry.kind, entry.service, dict(change.groups))
