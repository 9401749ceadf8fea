"""Redrive: failed jobs retried as one durable operation, at a rate, canaries first. Records and decisions, all pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mulligan.errors import BatchExpired, Conflict, InsufficientCredits, MulliganError, NotAllowed, StoreDamaged
from mulligan.records.job import JobFilter
from mulligan.records.rate import Rate
from mulligan.values.duration import describe

# How long the next attempt of a retried job may take to end; then its silence counts against the operation.
PATIENCE = timedelta(minutes=15)
# Of the newest answers so many are looked at, and fewer than the least say nothing yet.
LOOK_BACK, LEAST_JUDGED = 50, 10
# A sample: nobody has to wait for the answers of a million jobs.
MOST_WATCHED = 100
MOST_CANARIES = MOST_WATCHED
# What was not used of the rate is kept for so long: a worker that comes late makes up for no more.
BURST = timedelta(seconds=1)
# Who works on an operation has it for so long. Only to spare the others the work: the version is what decides.
HOLD = timedelta(seconds=15)
# Redrives that run at once; the others wait for their turn.
MOST_ACTIVE = 20

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
    """How many of the matched jobs are alike."""

    kind: str
    code: str | None
    number: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A job whose next attempt tells how it goes."""

    job: str
    since: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How far it has come; for the workers that carry it out.

    `cursors` are the kinds that are left, each with the last job that was looked at; `recent` are the newest answers.
    The rate counts from `paced_at`. `version` grows with each change.
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
    """One durable operation; a snapshot. Dry, it is what would begin now, and has no id.

    `matched` = `retried` + all `skipped` once it is done. `succeeded`, `failed_again` and `silent` are the answers of a
    sample: how the next attempt of a retried job ended, or that it did not within 15 minutes.
    """

    id: str
    request_id: str
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
    is_dry: bool = False
    is_repeated: bool = field(default=False, compare=False)
    """What was asked for was done before, and nothing was changed by asking again."""
    course: Course

    @property
    def bad(self) -> int:
        return self.failed_again + self.silent

    @property
    def looked_at(self) -> int:
        """Matched jobs that were retried or skipped."""
        return self.retried + sum(self.skipped.values())

    def held_by(self, worker: str, now: datetime) -> "Redrive":
        return replace(self, course=replace(self.course, held_by=worker, held_until=now + HOLD))

    def is_held_by_another(self, worker: str, now: datetime) -> bool:
        """A hold that lies further ahead than any can was taken by a clock that has been put right since."""
        until = self.course.held_until
        return until is not None and self.course.held_by != worker and now < until <= now + HOLD

    def needs_hold(self, worker: str, now: datetime) -> bool:
        until = self.course.held_until
        return until is None or self.course.held_by != worker or until - now < HOLD / 2


def is_same_request(redrive: Redrive, other: Redrive) -> bool:
    """Whether both are about the same jobs. A time that was given as so long ago is another one each time."""
    return _about(redrive.filter) == _about(other.filter)


def has_same_terms(redrive: Redrive, other: Redrive) -> bool:
    """Whether both go as fast, with as many canaries, and stop as soon."""
    return _terms(redrive) == _terms(other)


def _terms(redrive: Redrive) -> tuple[str, int, float]:
    return redrive.rate.text, redrive.canary, redrive.abort_above


def _about(wanted: JobFilter) -> tuple[JobFilter, bool, bool]:
    return replace(wanted, since=None, until=None), wanted.since is None, wanted.until is None


# What the answers say


def judged(redrive: Redrive, answers: Mapping[str, bool], now: datetime) -> Redrive:
    """The answers taken in: True, the next attempt of this job succeeded; False, it ended otherwise."""
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
    """Too many did not succeed: of the canaries, or of the newest answers. None: go on, or wait."""
    if redrive.state is RedriveState.CANARY:
        is_bad = redrive.bad > redrive.abort_above * redrive.canary
        return _told(redrive, redrive.course.recent, f"of {redrive.canary} canaries") if is_bad else None
    newest = redrive.course.recent[-LOOK_BACK:]
    if len(newest) < LEAST_JUDGED or len(newest) - newest.count(GOOD) <= redrive.abort_above * len(newest):
        return None
    return _told(redrive, newest, f"of the last {len(newest)}")


def _told(redrive: Redrive, marks: str, whom: str) -> str:
    counts = {
        "failed again": marks.count(BAD),
        f"did not end within {describe(PATIENCE)}": marks.count(SILENT),
    }
    how = ", ".join(f"{number} {what}" for what, number in counts.items() if number)
    return f"{sum(counts.values())} {whom} did not succeed ({how}); allowed are {redrive.abort_above:.0%}"


def has_passed(redrive: Redrive) -> bool:
    """Whether the canaries are well enough, whatever those say that have not answered yet."""
    return redrive.canary - redrive.succeeded <= redrive.abort_above * redrive.canary


# How many now


def allowance(redrive: Redrive, now: datetime, limit: int) -> int:
    """How many jobs may be looked at now by the rate; while the canaries are out, not more than they are."""
    passed = (now - _paced_at(redrive, now)).total_seconds()
    number = min(limit, math.floor(passed * redrive.rate.per_second + 1e-6))
    if redrive.state is RedriveState.CANARY:
        number = min(number, redrive.canary - redrive.retried)
    return max(0, number)


def spent(redrive: Redrive, number: int, now: datetime) -> Redrive:
    """So much of the rate is used."""
    paced_at = _paced_at(redrive, now) + number * redrive.rate.interval
    return replace(redrive, course=replace(redrive.course, paced_at=paced_at))


def burst(rate: Rate) -> timedelta:
    """At least one job's time: a slow rate would never get to one."""
    return max(BURST, rate.interval)


def _paced_at(redrive: Redrive, now: datetime) -> datetime:
    # Neither an idle hour nor a clock that was put back may change the rate.
    longest = burst(redrive.rate)
    return max(now - longest, min(redrive.course.paced_at, now + longest))


def next_look(redrive: Redrive, now: datetime) -> datetime:
    """When there may be something to do, unless an attempt ends before."""
    moment = redrive.course.paced_at + redrive.rate.interval
    if redrive.state is RedriveState.CANARY and redrive.retried >= redrive.canary:
        moment = min((watched.since + PATIENCE for watched in redrive.course.watched), default=now)
    return max(moment, now + BURST)


# What was done


def carried_out(redrive: Redrive, done: Sequence[tuple[str, str | None]], now: datetime) -> Redrive:
    """Jobs that were retried, or why not: counted, and some of them watched. Once done, the rest has moved on."""
    retried = [job for job, skipped in done if skipped is None]
    room = MOST_WATCHED - len(redrive.course.watched)
    watched = tuple(Watched(job, now) for job in retried[:room])
    redrive = replace(
        redrive,
        retried=redrive.retried + len(retried),
        skipped=_counted(redrive.skipped, (why for _, why in done if why is not None)),
        course=replace(redrive.course, watched=redrive.course.watched + watched),
    )
    if redrive.state is not RedriveState.DONE:
        return redrive
    left = max(0, redrive.matched - redrive.looked_at)
    return replace(redrive, skipped=_counted(redrive.skipped, [MOVED_ON] * left))


def _counted(counts: Mapping[str, int], more: Iterable[str]) -> dict[str, int]:
    counted = dict(counts)
    for why in more:
        counted[why] = counted.get(why, 0) + 1
    return counted


def ended(redrive: Redrive, state: RedriveState, now: datetime, *, because: str | None = None) -> Redrive:
    return replace(redrive, state=state, ended_at=now, because=because)


def cancelled_by(actor: str | None, reason: str | None) -> str | None:
    """As `because` keeps it."""
    return ": ".join(filter(None, [actor and f"by {actor}", reason])) or None


def skip_reason(error: MulliganError) -> str:
    """Why a job was not retried, in few words: they are counted."""
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


def request_of(redrive: str, job: str) -> str:
    """The id of the request that retries this job: whoever makes it makes the same."""
    return f"redrive:{redrive}:{job}"
