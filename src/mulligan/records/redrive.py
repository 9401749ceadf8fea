"""A redrive is a durable operation on many jobs, at a rate. It retries failed jobs, canaries first; as a bulk operation
it cancels, snoozes or runs jobs. Records and pure decisions."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from mulligan.errors import BatchExpired, Conflict, InsufficientCredits, MulliganError, NotAllowed, StoreDamaged
from mulligan.lifecycle import Move
from mulligan.records.document import Shape
from mulligan.records.job import TIMES, JobFilter
from mulligan.records.rate import Rate, TokenBucket
from mulligan.values.duration import describe

# If the next attempt of a retried job has not ended after this time, it counts against the operation.
PATIENCE = timedelta(minutes=15)
# The newest LOOK_BACK answers are judged, once there are LEAST_JUDGED.
LOOK_BACK, LEAST_JUDGED = 50, 10
# A sample is enough: waiting for the answers of a million jobs would take too long.
MOST_WATCHED = 100
MOST_CANARIES = MOST_WATCHED
# The unused rate of this long can be made up by a worker that comes late.
BURST = timedelta(seconds=1)
# How long a worker reserves an operation. This only spares other workers the effort; the version decides.
HOLD = timedelta(seconds=15)
# How many redrives run at once; the others wait.
MOST_ACTIVE = 20

# What an operation does to each job, and the states in which it can.
RETRY, CANCEL, SNOOZE, RUN_NOW, FORGET = "retry", "cancel", "snooze", "run_now", "forget"
MOVES = {
    RETRY: Move.MANUAL_RETRY,
    CANCEL: Move.MANUAL_CANCEL,
    SNOOZE: Move.MANUAL_SNOOZE,
    RUN_NOW: Move.RUN_NOW,
    # The live jobs of the owner; then all of them are deleted.
    FORGET: Move.MANUAL_CANCEL,
}
BULK_VERBS = (CANCEL, SNOOZE, RUN_NOW)
# What is deleted first when an owner is forgotten.
JOBS = "jobs"

GOOD, BAD, SILENT = "+", "-", "?"
MOVED_ON = "moved on"
NOTHING_MATCHES = "nothing matches"


class RedriveState(StrEnum):
    CANARY = "canary"
    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self not in ACTIVE


ACTIVE = (RedriveState.CANARY, RedriveState.RUNNING)


@dataclass(frozen=True, slots=True)
class Match:
    """How many of the matched jobs have this kind and code."""

    kind: str
    code: str | None
    number: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A retried job whose next attempt counts as an answer."""

    job: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """The progress of a redrive, for the workers that carry it out.

    `cursors` holds the kinds that are left, each with the last job examined; if an owner is forgotten, what is being
    deleted, and how far. `recent` holds the newest answers. The rate counts from `paced_at`. `version` grows with each
    change.
    """

    cursors: Mapping[str, str]
    paced_at: datetime
    watched: tuple[Watched, ...] = ()
    recent: str = ""
    held_by: str | None = None
    held_until: datetime | None = None
    version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Redrive:
    """A snapshot of one durable operation. A dry run shows what would begin now, and has no id.

    `verb` is what it does to each job: `retry` for a redrive; `cancel`, `snooze` or `run_now` for a bulk operation;
    `forget` for all jobs of an owner. `retried` counts the jobs that were moved, whatever the verb. `matched` =
    `retried` + all `skipped` once it is done. `succeeded`, `failed_again` and `silent` count the answers of a sample:
    how the next attempt of a retried job ended, or that it did not end within 15 minutes.
    """

    _shape: ClassVar = Shape(
        adds=("kinds_left", "looked_at"), omits=("course",), restore=lambda known: {"course": _course_of(known)}
    )

    id: str
    request_id: str
    verb: str = RETRY
    delay: timedelta = timedelta(0)
    """How long a bulk snooze postpones each job."""
    filter: JobFilter
    owner: str | None
    rate: Rate
    canary: int
    abort_above: float
    actor: str | None
    reason: str | None
    state: RedriveState
    matched: int
    matches: tuple[Match, ...]
    sample: tuple[str, ...]
    began_at: datetime
    ended_at: datetime | None = None
    because: str | None = None
    """Why it stopped itself, or who cancelled it and why."""
    retried: int = 0
    skipped: Mapping[str, int] = field(default_factory=dict)
    succeeded: int = 0
    failed_again: int = 0
    silent: int = 0
    purged: int = 0
    """Jobs that were deleted, when an owner is forgotten."""
    is_dry: bool = False
    is_repeated: bool = field(default=False, compare=False)
    """The request was carried out before; repeating it changed nothing."""
    course: Course

    @property
    def kinds_left(self) -> tuple[str, ...]:
        """The kinds whose jobs were not all examined. None if an owner is forgotten, whatever the kinds of its jobs."""
        return () if self.verb == FORGET else tuple(self.course.cursors)

    @property
    def bad(self) -> int:
        return self.failed_again + self.silent

    @property
    def asks_permission(self) -> bool:
        """Whether it runs jobs again, so that the task's `can_retry` is called first."""
        return self.verb in (RETRY, RUN_NOW)

    @property
    def looked_at(self) -> int:
        """Matched jobs that were retried or skipped."""
        return self.retried + sum(self.skipped.values())

    def held_by(self, worker: str, now: datetime) -> "Redrive":
        return replace(self, course=replace(self.course, held_by=worker, held_until=now + HOLD))

    def is_held_by_another(self, worker: str, now: datetime) -> bool:
        """A hold that ends later than any hold can was taken before the clock was set back."""
        until = self.course.held_until
        return until is not None and self.course.held_by != worker and now < until <= now + HOLD

    def needs_hold(self, worker: str, now: datetime) -> bool:
        until = self.course.held_until
        return until is None or self.course.held_by != worker or until - now < HOLD / 2


def _course_of(document: Mapping[str, Any]) -> Course:
    """What a document tells of it: the kinds that are left."""
    return Course(cursors=dict.fromkeys(document["kinds_left"], ""), paced_at=document["began_at"])


def is_same_request(redrive: Redrive, other: Redrive) -> bool:
    """Whether both are about the same jobs. Times are not compared: a relative time differs at each request."""
    return (redrive.verb, _about(redrive.filter)) == (other.verb, _about(other.filter))


def has_same_terms(redrive: Redrive, other: Redrive) -> bool:
    """Whether both have the same rate, delay, number of canaries and abort threshold."""
    return _terms(redrive) == _terms(other)


def _terms(redrive: Redrive) -> tuple[str, timedelta, int, float]:
    return redrive.rate.text, redrive.delay, redrive.canary, redrive.abort_above


def _about(wanted: JobFilter) -> tuple[JobFilter, list[str]]:
    without_times = replace(wanted, since=None, until=None, finished_since=None)
    return without_times, [name for name in TIMES if getattr(wanted, name) is not None]


# The answers


def take_answers(redrive: Redrive, answers: Mapping[str, bool], now: datetime) -> Redrive:
    """Count the answers: True if the next attempt of this job succeeded, False if it ended otherwise."""
    marks, pending = "", []
    for watched in redrive.course.watched:
        if (answer := answers.get(watched.job)) is not None:
            marks += GOOD if answer else BAD
        elif now - watched.since >= PATIENCE:
            marks += SILENT
        else:
            pending.append(watched)
    course = replace(
        redrive.course, watched=tuple(pending), recent=(redrive.course.recent + marks)[-max(LOOK_BACK, MOST_CANARIES) :]
    )
    return replace(
        redrive,
        succeeded=redrive.succeeded + marks.count(GOOD),
        failed_again=redrive.failed_again + marks.count(BAD),
        silent=redrive.silent + marks.count(SILENT),
        course=course,
    )


def reason_to_stop(redrive: Redrive) -> str | None:
    """Why the redrive stops: too many canaries or recent jobs did not succeed. None: it goes on, or waits."""
    if redrive.state is RedriveState.CANARY:
        is_bad = redrive.bad > redrive.abort_above * redrive.canary
        return _stop_message(redrive, redrive.course.recent, f"of {redrive.canary} canaries") if is_bad else None
    newest = redrive.course.recent[-LOOK_BACK:]
    if len(newest) < LEAST_JUDGED or len(newest) - newest.count(GOOD) <= redrive.abort_above * len(newest):
        return None
    return _stop_message(redrive, newest, f"of the last {len(newest)}")


def _stop_message(redrive: Redrive, marks: str, which: str) -> str:
    counts = {
        "failed again": marks.count(BAD),
        f"did not end within {describe(PATIENCE)}": marks.count(SILENT),
    }
    how = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    return f"{sum(counts.values())} {which} did not succeed ({how}); allowed are {redrive.abort_above:.0%}"


def has_passed(redrive: Redrive) -> bool:
    """Whether enough canaries succeeded, whatever the answers still missing."""
    return redrive.canary - redrive.succeeded <= redrive.abort_above * redrive.canary


# The rate


def jobs_allowed(redrive: Redrive, now: datetime, limit: int) -> int:
    """How many jobs the rate allows to examine now. In the canary phase, no more than there are canaries left."""
    number = min(limit, _bucket(redrive, now).whole)
    if redrive.state is RedriveState.CANARY:
        number = min(number, redrive.canary - redrive.retried)
    return max(0, number)


def spend(redrive: Redrive, number: int, now: datetime) -> Redrive:
    """Use this much of the rate."""
    left = _bucket(redrive, now).without(number)
    return replace(redrive, course=replace(redrive.course, paced_at=now - left.tokens * redrive.rate.interval))


def burst(rate: Rate) -> timedelta:
    """The time whose rate may be used at once. At least one interval: otherwise a slow rate would never allow a job."""
    return max(BURST, rate.interval)


def _bucket(redrive: Redrive, now: datetime) -> TokenBucket:
    # Neither an idle hour nor a clock that was set back may change the rate.
    rate, longest = redrive.rate, burst(redrive.rate)
    tokens = max(-longest, min(now - redrive.course.paced_at, longest)) / rate.interval
    return TokenBucket(rate.per_second, longest / rate.interval, tokens)


def next_look(redrive: Redrive, now: datetime) -> datetime:
    """When there may be something to do, unless an attempt ends earlier."""
    moment = redrive.course.paced_at + redrive.rate.interval
    if redrive.state is RedriveState.CANARY and redrive.retried >= redrive.canary:
        moment = min((watched.since + PATIENCE for watched in redrive.course.watched), default=now)
    return max(moment, now + BURST)


# The retries


def record_retries(redrive: Redrive, done: Sequence[tuple[str, str | None]], now: datetime) -> Redrive:
    """Count the jobs that were moved or skipped, and watch some of the retried ones. Once the redrive is done, the jobs
    left over have moved on."""
    retried = [job for job, skipped in done if skipped is None]
    room = MOST_WATCHED - len(redrive.course.watched) if redrive.verb == RETRY else 0
    watched = tuple(Watched(job, now) for job in retried[:room])
    redrive = replace(
        redrive,
        retried=redrive.retried + len(retried),
        skipped=_add_counts(redrive.skipped, (why for _, why in done if why is not None)),
        course=replace(redrive.course, watched=redrive.course.watched + watched),
    )
    if redrive.state is not RedriveState.DONE:
        return redrive
    left = max(0, redrive.matched - redrive.looked_at)
    return replace(redrive, skipped=_add_counts(redrive.skipped, [MOVED_ON] * left))


def _add_counts(counts: Mapping[str, int], more: Iterable[str]) -> dict[str, int]:
    return dict(Counter(counts) + Counter(more))


def end(redrive: Redrive, state: RedriveState, now: datetime, *, because: str | None = None) -> Redrive:
    return replace(redrive, state=state, ended_at=now, because=because)


def cancel_reason(actor: str | None, reason: str | None) -> str | None:
    """The value of `because` for a cancelled redrive."""
    return ": ".join(filter(None, [actor and f"by {actor}", reason])) or None


def skip_reason(error: MulliganError) -> str:
    """Why a job was not retried, in few words, because reasons are counted."""
    match error:
        case InsufficientCredits():
            return "insufficient credits"
        case NotAllowed():
            return "not allowed"
        case Conflict():
            return "conflict"
        case BatchExpired():
            return "its batch has expired"
        case StoreDamaged():
            return "damaged"
        case _:
            return MOVED_ON


def forget_request_id(owner: str, number: int) -> str:
    """The request id of an owner's operations, one after the other: of two that begin at once, one is stored."""
    return f"forget:{number}:{owner}"


def retry_request_id(redrive: str, job: str) -> str:
    """The id of the request that retries this job: the same for every worker that makes it."""
    return f"redrive:{redrive}:{job}"
