"""The parameters and results of the store's operations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple, Protocol

from mulligan.failure.decision import Decision
from mulligan.lifecycle import Move
from mulligan.records.batch import BatchRecord
from mulligan.records.document import Shape
from mulligan.records.duty import DutyOverview
from mulligan.records.job import Fence, Job, Lease, ReportedCall
from mulligan.service.records import ServiceChange

# The end of an id is searched among this many of the newest: it has no index.
NEWEST_IDS = 1_000_000
TIMEOUT = timedelta(seconds=15)
"""How long a call waits for others before it raises StoreUnavailable, unless configured (`store_timeout_sec`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's request for jobs. `number` identifies the call: repeating it returns the same leases."""

    incarnation: str
    number: int
    kinds: Sequence[str]
    queues: Sequence[str] | None = None
    limit: int
    lease: timedelta
    version: str | None = None
    """The version of the worker's app, stored with the attempts."""
    whole: bool = False
    """Return the full records of the jobs: more expensive, for workers that need most of them."""
    besides: Sequence[str] = ()
    """Owners whose jobs are not claimed because their limit is new; `"*"` is every owner. Set by the store."""
    fair: Sequence[str] = ()
    """Fair queues: the store records how far these have been claimed."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """`next_due` is how long until a waiting job becomes due, or None if none waits."""

    leases: list[Lease]
    next_due: timedelta | None
    changes: Sequence[ServiceChange] = ()
    """Changes of services made by this claim."""


class Outcome(NamedTuple):
    """A lease with its decision.

    With `reclaimed_by`, another worker settles: only if the lease has expired and was not extended since it was read,
    or with `stuck_after`, only if the attempt runs longer than that and longer than its timeout. `actor` is the
    operator of a manual change.
    """

    lease: Lease
    decision: Decision
    seconds: float | None = None
    reclaimed_by: str | None = None
    stuck_after: timedelta | None = None
    actor: str | None = None
    calls: tuple[ReportedCall, ...] = ()
    """The calls of services that the task reported."""

    @property
    def reported_by(self) -> str:
        """The worker that reports calls of services."""
        return self.reclaimed_by or self.lease.fence.incarnation

    @property
    def settled_by(self) -> str:
        """The worker that settles, as stored."""
        return self.reclaimed_by or signature(self.lease.fence.incarnation, self.lease.fence.claim)


def signature(incarnation: str, claim: int) -> str:
    """Return how a worker signs its settles. The number tells its claims apart."""
    return f"{incarnation}/{claim}"


class Settled(StrEnum):
    """The answer to an outcome."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"  # accepted before; that reply was lost
    REFUSED = "refused"  # another worker holds the lease; recorded in the log
    UNSTORABLE = "unstorable"  # could not be written; the job failed with this reason


class Answers(list[Settled]):
    """One answer per outcome. `not_closed` are the services of these jobs that are not closed, with their epochs: the
    worker releases leases of them that it has not started. `changes` are the changes of services that these outcomes
    caused. `spared` are the outcomes, by number, that were charged to a service instead of the job. `breakers` are the
    states of the services that these outcomes reported about."""

    def __init__(
        self,
        answers: Iterable[Settled] = (),
        not_closed: Mapping[str, int] | None = None,
        changes: Sequence[ServiceChange] = (),
        spared: Mapping[int, Outcome] | None = None,
        breakers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(answers)
        self.not_closed: Mapping[str, int] = not_closed or {}
        self.changes = changes
        self.spared: Mapping[int, Outcome] = spared or {}
        self.breakers: Mapping[str, str] = breakers or {}


@dataclass(frozen=True, slots=True)
class ReportedProgress:
    fence: Fence
    ratio: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A worker as others see it. An incarnation is one start of one process, never a host name."""

    _shape: ClassVar = Shape(given={"is_alive": bool})

    incarnation: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...]
    concurrency: int
    version: str | None = None
    """The version of its app."""
    started_at: datetime | None = None
    seen_at: datetime | None = None
    holds: int = 0
    """How many leases it holds. Only when read."""

    def takes(self, queue: str, kind: str) -> bool:
        """Whether it claims jobs of this kind in this queue."""
        return kind in self.kinds and (self.queues is None or queue in self.queues)


@dataclass(frozen=True, slots=True)
class Lane:
    """Ready jobs of one queue and kind. `since` is when the oldest was queued.

    With `is_misfit` they are not ready, but wait for a worker of another version.
    """

    queue: str
    kind: str
    number: int
    since: datetime
    is_misfit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLoad:
    """The ready and the running jobs of one kind in a queue. `since` is when the oldest ready one was queued. With
    `at_least`, there are more ready jobs than were counted."""

    queue: str
    kind: str
    ready: int = 0
    at_least: bool = False
    since: datetime | None = None
    running: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A heartbeat: leases to extend, progress to store."""

    worker: WorkerRecord
    lease: timedelta
    extend: Sequence[Fence] = ()
    progress: Sequence[ReportedProgress] = ()


@dataclass(frozen=True, slots=True)
class BeatReply:
    """`now` is the store's time; `lost` are held by others; `cancelled` are to be stopped."""

    now: datetime
    lost: list[Fence]
    cancelled: list[Fence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A manual move. `id` is chosen by the caller: repeating the request changes nothing.

    `first` is settled before the move, in the same transaction: that is how a stuck job loses its lease. If it is
    refused, the move is judged by the state found.
    """

    id: str
    move: Move
    job: str
    owner: str | None = None
    actor: str | None = None
    reason: str | None = None
    delay: timedelta = timedelta(0)
    first: Outcome | None = None
    redrive: str | None = None
    """The redrive that this move is part of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """A manual request about one job that is not a move. `id` is chosen by the caller."""

    id: str
    job: str
    owner: str | None = None
    actor: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Permission:
    """The preconditions of tasks for a manual retry, and the kinds whose task has a `can_retry`.

    `ask` gets the job, whose row is locked, and the connection whose transaction makes the move. It raises a
    MulliganError to refuse; what it has written on the connection is then undone.
    """

    kinds: frozenset[str]
    ask: Callable[[Job[Any], Any], None]

    @property
    def is_asked(self) -> bool:
        return bool(self.kinds)

    def concerns(self, kind: str, *, was_rejected: bool) -> bool:
        """Whether to ask about a job. The arguments of a rejected one may be incomplete, whatever its kind."""
        return kind in self.kinds or was_rejected


NO_PRECONDITION = Permission(frozenset(), lambda _job, _connection: None)


class RetriedMembers(NamedTuple):
    """The batch, its members that start again, and why others do not."""

    batch: BatchRecord
    jobs: list[str]
    refused: dict[str, str]


class Outlook(NamedTuple):
    """What an idle worker and its duties have to do."""

    is_busy: bool
    """Jobs of its kinds are queued, running or due."""
    has_promotable: bool
    """A claim has more to do than to take queued jobs: jobs are due or may no longer be blocked, or a service restricts
    its jobs."""
    duties: DutyOverview
    tick: datetime | None
    """When the next schedule ticks that is not paused."""
    moment: datetime | None
    """When anything else changes by time: a job becomes due or misses its deadline, a batch expires, a pause ends."""

    @property
    def next_moment(self) -> datetime | None:
        return min((moment for moment in (self.tick, self.moment) if moment is not None), default=None)

    def duties_at(self, moment: datetime) -> DutyOverview | None:
        """What the duties have to do then if nothing is written before; None if that is unknown. Until anything else
        changes by time, only ticks of schedules come due."""
        is_tick = moment == self.tick and (self.moment is None or moment < self.moment)
        return replace(self.duties, has_ticks=True) if is_tick else None


class Changes(Protocol):
    """A hint that the store changed. Only a hint: a waiting worker also polls."""

    def wait(self, timeout: float) -> bool:
        """Block until a commit, for at most `timeout` seconds. Return whether there was one."""
        ...

    def close(self) -> None: ...
