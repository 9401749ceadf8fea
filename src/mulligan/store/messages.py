"""What goes into a store and comes out of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, Protocol

from mulligan.failure.decision import Decision
from mulligan.lifecycle import Move
from mulligan.records.job import Fence, Lease, ReportedCall
from mulligan.service.records import ServiceChange

# Among so many an id is found by its end: there is no index of that.
NEWEST_IDS = 1_000_000
TIMEOUT = timedelta(seconds=15)
"""How long a call may wait for others before it raises StoreUnavailable, unless it is set (`store_timeout_sec`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker's wish for jobs. `number` names the call: repeating it returns the same leases."""

    incarnation: str
    number: int
    kinds: Sequence[str]
    queues: Sequence[str] | None = None
    limit: int
    lease: timedelta
    version: str | None = None
    """Of the worker's app; kept with the attempts."""
    whole: bool = False
    """With the whole records of the jobs: dearer, for workers that look at most of them."""
    fair: Sequence[str] = ()
    """Queues in which owners take turns: it is written down how far these have come."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """`next_due` is how long until a waiting job comes due, None when none waits."""

    leases: list[Lease]
    next_due: timedelta | None
    changes: Sequence[ServiceChange] = ()
    """Of services, made by this claim."""


class Outcome(NamedTuple):
    """A lease with its decision.

    `reclaimed_by` another than its holder: only if it has expired; with `stuck_after`, only if the attempt runs
    longer than that, and longer than its own timeout. `actor` is who did it by hand.
    """

    lease: Lease
    decision: Decision
    seconds: float | None = None
    reclaimed_by: str | None = None
    stuck_after: timedelta | None = None
    actor: str | None = None
    calls: tuple[ReportedCall, ...] = ()
    """Of services, as the task reported them."""

    @property
    def teller(self) -> str:
        """Who tells what is heard of services."""
        return self.reclaimed_by or self.lease.fence.incarnation

    @property
    def settled_by(self) -> str:
        """Who settles."""
        return self.reclaimed_by or signed(self.lease.fence.incarnation, self.lease.fence.claim)


def signed(incarnation: str, claim: int) -> str:
    """How a worker signs what it settles; the claim tells two of its claims apart."""
    return f"{incarnation}/{claim}"


class Settled(StrEnum):
    """What became of an outcome."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"  # the same was accepted before: its reply had been lost
    REFUSED = "refused"  # the lease was another's by then; recorded in the log
    UNSTORABLE = "unstorable"  # the outcome could not be written; the job failed saying so


class Answers(list[Settled]):
    """One for each outcome. `held` are the services of these jobs that are not closed, with their epochs: whoever has
    claimed jobs of them and not begun should let them go. `changes` are those of services that these outcomes made.
    `spared` are the outcomes, by their number, that were charged to a service instead of the job."""

    def __init__(
        self,
        answers: Iterable[Settled] = (),
        held: Mapping[str, int] | None = None,
        changes: Sequence[ServiceChange] = (),
        spared: Mapping[int, Outcome] | None = None,
    ) -> None:
        super().__init__(answers)
        self.held: Mapping[str, int] = held or {}
        self.changes = changes
        self.spared: Mapping[int, Outcome] = spared or {}


@dataclass(frozen=True, slots=True)
class Progress:
    fence: Fence
    ratio: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRecord:
    """A worker as others see it. An incarnation is one start of one process, never a host name."""

    incarnation: str
    host: str
    pid: int
    queues: tuple[str, ...] | None
    kinds: tuple[str, ...]
    concurrency: int
    started_at: datetime | None = None
    seen_at: datetime | None = None
    holds: int = 0
    """How many jobs it has leases on; for those who look."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Ready jobs of one queue and kind; `since` is when the oldest of them got there.

    `is_misfit`: they are not ready, but wait for a worker of another version.
    """

    queue: str
    kind: str
    number: int
    since: datetime
    is_misfit: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign of life: leases to extend, progress to note."""

    worker: WorkerRecord
    lease: timedelta
    extend: Sequence[Fence] = ()
    progress: Sequence[Progress] = ()


@dataclass(frozen=True, slots=True)
class BeatReply:
    """`now` is the store's clock; `lost` are another's by now; `cancelled` are to be stopped."""

    now: datetime
    lost: list[Fence]
    cancelled: list[Fence]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A move made by hand. `id` is the caller's: repeating the request changes nothing more.

    `first` is settled before the move, in the same transaction: how a stuck job loses its lease. If it is refused,
    the move is judged by the state that is found.
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
    """The operation this is a part of."""


class Changes(Protocol):
    """A hint that the store changed. A hint only: whoever waits looks again from time to time."""

    def wait(self, timeout: float) -> bool:
        """Block until something was committed, for `timeout` seconds at most; whether something was."""
        ...

    def close(self) -> None: ...
