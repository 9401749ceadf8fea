"""The rows of the jobs page: what is worth saying about a job in its state, in one line."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from mulligan.lifecycle import State
from mulligan.records.job import ANOTHER_VERSION, Job
from mulligan.web.pages import strokes
from mulligan.web.pages.blocks import to_block
from mulligan.web.pages.strokes import Strokes

HELD, STUCK = "held", "stuck"

_WAITS = {
    "delay": "enqueued for later",
    "retry": "waits for its next attempt",
    "snooze": "snoozed",
    "rate limit": "asked to slow down",
    "service": "waits for its service",
    "limit": "waits for a slot",
    "budget": "waits for its retry budget",
    "batch": "its batch is not published",
    ANOTHER_VERSION: "no worker has a fitting version of its task",
}
# The heading of the column about the job, and that of its time.
HEADINGS = {
    None: ("About it", "Enqueued"),
    State.WAITING: ("What it waits for", "Due"),
    State.QUEUED: ("What it waits for", "Queued"),
    State.RUNNING: ("Progress", "Started"),
    State.SUCCEEDED: ("Last failure", "Succeeded"),
    State.FAILED: ("Why it failed", "Failed"),
    State.CANCELLED: ("Last failure", "Cancelled"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """`sign` is its state, or `held` or `stuck`. `code` and `text` say why it is there; `last` is its last failure."""

    job: Job[Any]
    sign: str
    word: str
    code: str
    text: str
    last: str
    strokes: Strokes
    count: str
    ran: timedelta | None
    at: datetime | None


def rows_of(
    jobs: Sequence[Job[Any]],
    *,
    blocked: Mapping[str, str],
    stuck: frozenset[str],
    state: State | None,
    now: datetime,
) -> list[Row]:
    """`state` is the state of the whole list, if all have the same."""
    return [_row(job, blocked.get(job.id), stuck, state, now) for job in jobs]


def _row(job: Job[Any], blocked_by: str | None, stuck: frozenset[str], state: State | None, now: datetime) -> Row:
    sign = STUCK if job.id in stuck else HELD if blocked_by else str(job.state)
    code, text = _about(job, blocked_by, now)
    return Row(
        job=job,
        sign=sign,
        word=str(job.state).capitalize() + ("" if sign == job.state else f", {sign}"),
        code=code,
        text=text,
        last=_last_failure(job),
        strokes=strokes.counted(job),
        count=_count(job),
        ran=_ran(job, now),
        at=_moment(job, state),
    )


def _about(job: Job[Any], blocked_by: str | None, now: datetime) -> tuple[str, str]:
    """A code and a line."""
    match job.state:
        case State.FAILED:
            return job.error_code or "", _line(job.error_message, job.error_detail)
        case State.WAITING:
            waits = _WAITS.get(job.waiting_for or "", "waits")
            return "", _sentence(to_block(blocked_by).words if blocked_by else waits)
        case State.QUEUED:
            return "", _sentence(to_block(blocked_by).words if blocked_by else "ready for the next free worker")
        case State.RUNNING:
            return "", _about_running(job, now)
        case State.SUCCEEDED if job.last_code:
            return "", f"Recovered from {job.last_code}: {_line(job.last_message, job.last_detail)}"
    return job.last_code or "", _line(job.last_message, job.last_detail)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _line(message: str | None, detail: str | None) -> str:
    """The technical line without the type of its exception; owners have only the message for users."""
    if not detail:
        return message or ""
    kind, _, said = detail.partition(": ")
    return said if said and " " not in kind else detail


def _about_running(job: Job[Any], now: datetime) -> str:
    if job.cancel_requested:
        return "Is being stopped"
    if job.lease_until is not None and job.lease_until <= now:
        return "Its worker sends no heartbeat"
    return job.progress_text


def _last_failure(job: Job[Any]) -> str:
    if job.last_code is None or job.state.is_final:
        return ""
    said = _line(job.last_message, job.last_detail)
    return f"{job.last_code}: {said}" if said else job.last_code


def _count(job: Job[Any]) -> str:
    parts = [f"{job.failures} of {job.max_attempts}"] if job.failures else []
    parts += ["retried manually"] if job.manual_retries else []
    return ", ".join(parts)


def _ran(job: Job[Any], now: datetime) -> timedelta | None:
    """How long its last attempt took, or has taken."""
    if job.last_attempt_at is None:
        return None
    match job.state:
        case State.RUNNING:
            return max(now - job.last_attempt_at, timedelta(0))
        # Otherwise the job ended while it waited: its deadline passed, or it was cancelled.
        case State.SUCCEEDED | State.FAILED if job.finished_at and (
            job.state is State.SUCCEEDED or job.error_code == job.last_code
        ):
            return job.finished_at - job.last_attempt_at
    return None


def _moment(job: Job[Any], state: State | None) -> datetime | None:
    match state:
        case None:
            return job.enqueued_at
        case State.WAITING:
            return job.due_at
        case State.QUEUED:
            return job.queued_at
        case State.RUNNING:
            return job.last_attempt_at
    return job.finished_at
