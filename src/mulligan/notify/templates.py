"""The mails: each function makes the content of one mail from a record."""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.failure.redact import first_line
from mulligan.notify.content import Content, Entry, Tone
from mulligan.notify.mail import Attachment
from mulligan.values.duration import describe

# Jobs named in the mail itself; if there are more, a CSV file names all of them.
MOST_LISTED = 100
# Jobs of one digest. The caller sends the others in another mail.
MOST_IN_DIGEST = 10_000
_ERROR_LINE = 200
CSV_NAME = "failed-jobs.csv"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedJob:
    """`recipient` is whom the job worked for, if the task knows: a customer, a token's holder."""

    id: str
    kind: str
    code: str
    error: str
    failed_at: datetime
    attempts: int = 1
    owner: str = ""
    recipient: str = ""
    batch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group of like failures. `seen` counts them."""

    id: str
    kind: str
    code: str
    title: str
    seen: int
    first_seen: datetime
    last_seen: datetime
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledBatch:
    """`state` is ready, partial or failed."""

    id: str
    name: str
    state: str
    succeeded: int
    failed: int
    cancelled: int = 0
    took: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerChange:
    """`since` is when it opened. `held` jobs wait for the service; `reason` says what opened or closed it."""

    service: str
    is_open: bool
    since: datetime
    reason: str = ""
    held: int = 0
    lasted: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChange:
    """`value` and `threshold` are written with their units: `12,000 jobs`."""

    name: str
    is_firing: bool
    summary: str
    value: str
    threshold: str
    since: datetime
    remedy: str = ""
    lasted: timedelta | None = None


def first_failure(job: FailedJob, group: GroupSummary) -> Content:
    """The first failure of a group, sent at once."""
    return Content(
        subject=f"{job.kind} failed: {job.code}",
        headline=f"{job.kind} failed",
        lead="This is the first failure of its kind. More of them will come together in one mail.",
        tone=Tone.BAD,
        facts=_present(
            ("Error", f"{job.code}: {_error(job)}"),
            ("Recipient", job.recipient),
            ("Owner", job.owner),
            ("Batch", job.batch),
            ("Attempts", f"{job.attempts:,}"),
            ("Failed", _moment(job.failed_at)),
            ("Version", group.version),
            ("Job", job.id),
        ),
        quote="" if group.title == _error(job) else group.title,
        action=("Open this failure", f"failures/{group.id}"),
    )


def failure_digest(jobs: Sequence[FailedJob], *, since: datetime, until: datetime) -> Content:
    """All failures since the last mail. Every job is named, in the mail or in the attached file."""
    number = _count(len(jobs), "job")
    listed = jobs[:MOST_LISTED]
    rest = len(jobs) - len(listed)
    return Content(
        subject=f"{number} failed{_of_what(jobs)}",
        headline=f"{number} failed",
        lead=f"From {_moment(since)} to {_moment(until)}.",
        tone=Tone.BAD,
        facts=_by_code(jobs),
        entries=[_entry(job) for job in listed],
        rest=f"And {rest:,} more. The attached file {CSV_NAME} names all {len(jobs):,} jobs." if rest else "",
        action=("Open the failures", "failures"),
        attachments=[Attachment(CSV_NAME, to_csv(jobs))] if rest else (),
    )


def group_resolved(group: GroupSummary, *, by: str = "") -> Content:
    """A group that a person resolved, or that has not been seen for long."""
    return Content(
        subject=f"Resolved: {group.kind}, {group.code}",
        headline=f"{group.kind} no longer fails with {group.code}",
        lead=f"{by} marked this failure as resolved." if by else "This failure has not been seen for a while.",
        tone=Tone.GOOD,
        facts=_present(
            ("Failures", f"{group.seen:,}"),
            ("First seen", _moment(group.first_seen)),
            ("Last seen", _moment(group.last_seen)),
        ),
        quote=group.title,
        action=("Open this failure", f"failures/{group.id}"),
    )


def batch_settled(batch: SettledBatch) -> Content:
    """The end of a batch: all, some or none of its jobs succeeded."""
    total = batch.succeeded + batch.failed + batch.cancelled
    headline = {
        "ready": f"{batch.name} is ready",
        "partial": f"{batch.name} is ready in part",
        "failed": f"{batch.name} failed",
    }[batch.state]
    return Content(
        subject=f"{headline}: {batch.succeeded:,} of {total:,} done",
        headline=headline,
        lead=f"{batch.succeeded:,} of {_count(total, 'job')} succeeded.",
        tone=Tone.GOOD if batch.state == "ready" else Tone.BAD,
        facts=_present(
            ("Succeeded", f"{batch.succeeded:,}"),
            ("Failed", f"{batch.failed:,}"),
            ("Cancelled", f"{batch.cancelled:,}" if batch.cancelled else ""),
            ("Took", describe(batch.took) if batch.took else ""),
        ),
        action=("Open the batch", f"batches/{batch.id}"),
    )


def breaker_changed(change: BreakerChange) -> Content:
    """A service stopped answering, or answers again."""
    waiting = _count(change.held, "job")
    opened = f"Calls to {change.service} are held back, and its jobs wait. They are not lost and use up no attempts."
    closed = f"Jobs for {change.service} run again, slowly at first."
    return Content(
        subject=f"{change.service} is failing: its jobs wait" if change.is_open else f"{change.service} is back",
        headline=f"{change.service} is failing" if change.is_open else f"{change.service} is back",
        lead=opened if change.is_open else closed,
        tone=Tone.BAD if change.is_open else Tone.GOOD,
        facts=_present(
            ("Since", _moment(change.since)),
            ("Lasted", describe(change.lasted) if change.lasted else ""),
            ("Waiting", waiting if change.held else ""),
            ("Reason", change.reason),
        ),
        action=("Open the services", "services"),
    )


def alert_changed(change: AlertChange) -> Content:
    """An alert fired, or is over."""
    if not change.is_firing:
        return _alert_over(change)
    return Content(
        subject=f"Alert: {change.summary}",
        headline=change.summary[:1].upper() + change.summary[1:],
        lead=f"To do: {change.remedy}." if change.remedy else "The value is beyond its threshold.",
        tone=Tone.BAD,
        facts=_present(
            ("Alert", change.name),
            ("Value", change.value),
            ("Threshold", change.threshold),
            ("Since", _moment(change.since)),
        ),
        action=("Open the alerts", "alerts"),
    )


def _alert_over(change: AlertChange) -> Content:
    return Content(
        subject=f"Over: {change.name}",
        headline=f"The alert {change.name} is over",
        lead="The value is normal again.",
        tone=Tone.GOOD,
        facts=_present(
            ("Was", change.summary),
            ("Since", _moment(change.since)),
            ("Lasted", describe(change.lasted) if change.lasted else ""),
            ("Threshold", change.threshold),
        ),
        action=("Open the alerts", "alerts"),
    )


def to_csv(jobs: Iterable[FailedJob]) -> str:
    """Every job as a row. No cell is a formula."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(["job", "task", "recipient", "owner", "batch", "code", "error", "attempts", "failed_at"])
    for job in jobs:
        words = (job.id, job.kind, job.recipient, job.owner, job.batch, job.code, _error(job))
        writer.writerow([*map(_cell, words), job.attempts, job.failed_at.isoformat()])
    return file.getvalue()


def _cell(text: str) -> str:
    """Spreadsheets run a cell that begins like a formula."""
    line = first_line(text)
    return f"'{line}" if line.startswith(("=", "+", "-", "@")) else line


def _entry(job: FailedJob) -> Entry:
    whom = job.recipient or job.owner
    about = [
        job.batch,
        job.owner if job.recipient else "",
        f"{_count(job.attempts, 'attempt')}",
        _moment(job.failed_at),
    ]
    return Entry(
        title=f"{job.kind} for {whom}" if whom else job.kind,
        detail=f"{job.code}: {_error(job)}",
        note=" · ".join(part for part in about if part),
        reference=job.id,
        path=f"jobs/{job.id}",
    )


def _error(job: FailedJob) -> str:
    return first_line(job.error, _ERROR_LINE)


def _by_code(jobs: Sequence[FailedJob]) -> list[tuple[str, str]]:
    """The commonest tasks and codes with their counts, if there are several."""
    counts = Counter((job.kind, job.code) for job in jobs).most_common()
    shown = [(f"{kind}, {code}", f"{count:,}") for (kind, code), count in counts[:5]]
    others = sum(count for _, count in counts[5:])
    return [*shown, *([("others", f"{others:,}")] if others else [])] if len(counts) > 1 else []


def _of_what(jobs: Sequence[FailedJob]) -> str:
    kinds, codes = {job.kind for job in jobs}, {job.code for job in jobs}
    words = [names.pop() for names in (kinds, codes) if len(names) == 1]
    return f": {', '.join(words)}" if words else ""


def _present(*facts: tuple[str, str]) -> list[tuple[str, str]]:
    return [(label, first_line(value)) for label, value in facts if value]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
