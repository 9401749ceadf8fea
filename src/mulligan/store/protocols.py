"""What a store must do: few whole operations, each one transaction, each safe to repeat.

A store is synchronous; async callers go through a thread. Instants come from the store's own clock.
`owner=None` is the admin's view. An operation that cannot reach the database raises
`StoreUnavailable`, and the same call may be made again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from mulligan.failure.decision import Decision
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import Move, State
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.event import Cursor, Event
from mulligan.records.finding import Finding, Limits
from mulligan.records.job import Called, Fence, Job, JobFilter, Lease, NewJob, Page
from mulligan.records.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.records.pause import Pause, PauseRequest
from mulligan.records.redrive import Match, Redrive
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.records.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.service.records import Demand, Family, ServiceChange, ServiceRecord, ServiceRequest
from mulligan.store.script import Script

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
    calls: tuple[Called, ...] = ()
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


class JobStore(Protocol):
    """For clients and workers."""

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store all or none, in order. A job whose dedupe key is held comes back as the holder's
        record with `is_duplicate`; an id that is there already is the same job."""
        ...

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        """The same as statements for a caller's own connection: jobs and events are part of his transaction."""
        ...

    def claim(self, claim: Claim) -> Claimed:
        """Let due jobs through the door, then lease the first by (priority, rank)."""
        ...

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        """Leases of closed claim calls (numbers below `before`) that their worker never learned of."""
        ...

    def secure(self, fence: Fence) -> bool:
        """Make a claim durable, so that its attempt number cannot come again; whether it still holds."""
        ...

    def begin(self, fence: Fence) -> bool:
        """Record durably that the code of an attempt is about to run. False: its lease is lost, or it began before."""
        ...

    def beat(self, beat: Beat) -> BeatReply:
        """Extend the leases still held, also expired ones that nobody took."""
        ...

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        """Write what became of attempts: one transaction, fenced, repeatable, one answer for each."""
        ...

    def move(self, request: Request) -> Job[Any]:
        """Make a move by hand, race-free against workers and other people."""
        ...

    def leave(self, incarnation: str) -> None:
        """A worker says goodbye."""
        ...


class Upkeep(Protocol):
    """For duties, and for whoever pauses them."""

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        """Leases that expired, not those of the incarnation `besides`."""
        ...

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        """Leases of attempts that run longer than `after` and than their own timeout, the longest first."""
        ...

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        """Fail jobs whose deadline passed before they could run; how many."""
        ...

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        """Let due jobs of the duty `retry` or `promote` through the door; by hand also those that a pause holds."""
        ...

    def pause(self, request: PauseRequest) -> Pause:
        """Hold something back from now on; a pause that is there is replaced."""
        ...

    def resume(self, request: PauseRequest) -> Pause | None:
        """End a pause; the one that was ended, None when there was none."""
        ...

    def pauses(self) -> list[Pause]:
        """Those in force now."""
        ...

    def chores(self) -> DutyOverview:
        """Which duties are paused, and which have nothing to do: one look for all of them."""
        ...

    def note(self, rounds: Sequence[DutyRun]) -> None:
        """Record rounds of duties: one row for each duty and worker. One made by hand is an event too."""
        ...

    def rounds(self) -> list[DutyRun]:
        """The last round of each duty by each worker, the newest first."""
        ...


class BatchStore(Protocol):
    """Jobs that succeed or fail together. Counts change in the transaction that changes the members."""

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        """Store a draft; an id that is there already is the same batch."""
        ...

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        """Count the members and let them in. One that is published already stays as it is."""
        ...

    def retry_members(self, request: BatchRetry) -> list[str]:
        """Start these failed or cancelled members again, in one transaction; those that were."""
        ...

    def batch(self, batch_id: str, *, owner: str | None = None) -> BatchRecord: ...

    def batches(
        self,
        *,
        state: BatchState | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[BatchRecord]:
        """Newest first; `cursor` is the id of the last one seen."""
        ...

    def tend_batches(self, *, limit: int) -> int:
        """Expire those whose date has passed, cancel what is left of aborted ones; how many batches and jobs."""
        ...

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        """Delete those that were settled before and whose members are gone; how many."""
        ...


class Schedules(Protocol):
    """For the duty that runs schedules, and for whoever looks at them."""

    def schedules(self) -> list[ScheduleRecord]:
        """All of them, by name."""
        ...

    def change_schedule(self, change: ScheduleChange) -> bool:
        """Write the record, its jobs and its notes, if the record is still as it was; whether it was.

        A job whose id is there already is the same job. A change by hand that was made before is not made again.
        """
        ...

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        """Forget a schedule and its pause; whether there was one. Its jobs stay."""
        ...


class Clearing(Protocol):
    """For what is over. A job goes with its whole history, and not before every cursor has passed that.

    A job that holds a dedupe key stays: until its period is over, or for good when it holds it as succeeded. A member
    of a batch stays until that is settled.
    """

    def newest(self, state: State, count: int) -> datetime | None:
        """When the last of the newest `count` was over; None when there are fewer."""
        ...

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
        """Delete jobs that were over before, the oldest first; how many."""
        ...

    def over(
        self,
        wanted: JobFilter,
        *,
        before: datetime,
        owner: str | None = None,
        limit: int = 500,
        cursor: str | None = None,
    ) -> list[str]:
        """The ids of jobs that ended before and may be purged, the newest first, from below `cursor` on."""
        ...

    def count_over(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[EndedCount]:
        """How many jobs ended before, those that hold a dedupe key apart."""
        ...

    def purge(self, request: PurgeRequest) -> int:
        """Delete those of these jobs that are over still, and say so in the log; how many."""
        ...


class Operations(Protocol):
    """For redrives: what many workers carry out, one step at a time, one of them at a time."""

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        """How many jobs of this filter and state ended by then, by kind and code."""
        ...

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        """Those jobs, by id, from above `after` on."""
        ...

    def begin_redrive(self, redrive: Redrive) -> Redrive:
        """Store a new operation; the one that is there already when its request id was used before by that owner."""
        ...

    def redrive_asked(self, request_id: str, *, owner: str | None = None) -> Redrive | None:
        """The operation that this owner began with that request id."""
        ...

    def advance_redrive(self, redrive: Redrive, moves: Sequence[Request] = ()) -> Redrive | None:
        """Write how far it has come and make the moves, all in one transaction, if it is still as it was read.

        Each job that was over when the operation began, and still is, is moved; the others are skipped, as are those
        whose move is refused. What became of each is counted in the answer. None: another was faster.
        """
        ...

    def answers(self, redrive: Redrive) -> dict[str, bool]:
        """Whether the next attempt of the jobs it watches succeeded; those that have not ended are missing."""
        ...

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        """End it, unless it is over already. Raises RedriveNotFound."""
        ...

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        """The newest first; those that are active the oldest first."""
        ...


class Services(Protocol):
    """For whoever looks at services, forces them, or probes them. Claim and settle do the rest."""

    def services(self, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        """Those of which something is known, by name; with `names` no others than these."""
        ...

    def service_names(self) -> list[Family]:
        """How many computed names of services are told apart."""
        ...

    def force(self, request: ServiceRequest) -> ServiceRecord:
        """Force a service by hand, whatever its calls say."""
        ...

    def demands(self, *, limit: int) -> list[Demand]:
        """The services that ready jobs depend on or parked retries wait for, by name; of each lane and gate no more
        than `limit` are counted."""
        ...


class Places(Protocol):
    """For whoever has limits, and for people who look at them. The door does the rest.

    They hold for all processes: what one says with its claims and beats counts until it says otherwise, or until nobody
    has said it for ten minutes.
    """

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        """Hold the limits in this book from now on, and tell the others."""
        ...

    def limits(self, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        """How the limits of these subjects (`kind/NAME`, `queue/NAME`, `owner/NAME`) stand, as far as they have one;
        without any, those of all that are named."""
        ...

    def spending(self, owner: str) -> SpendingRecord | None:
        """What the owner's retries took of his budget; None without one."""
        ...


class Reader(Protocol):
    """For people who look."""

    def now(self) -> datetime: ...

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]: ...

    def load(self, leases: Sequence[Lease]) -> None:
        """Give these leases the whole records of their jobs, all at once."""
        ...

    def jobs(
        self, wanted: JobFilter, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Any]:
        """Newest first."""
        ...

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        """How many jobs of each kind are in each state."""
        ...

    def busy(self, kinds: Sequence[str], *, waiting_for: Sequence[str] = ()) -> bool:
        """Whether jobs of these kinds are queued, running or due, or wait for one of these reasons. What a pause or an
        open service holds back does not count."""
        ...

    def next_due(self) -> datetime | None:
        """When the next waiting job comes due."""
        ...

    def next_moment(self) -> datetime | None:
        """When, after now, a job comes due or runs out of time, a batch expires, a schedule ticks, or a pause ends."""
        ...

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        """How many queued jobs of its lane are claimed before this one, counted up to `limit`."""
        ...

    def lanes(self) -> list[Lane]:
        """All ready jobs, and those that wait for a worker of another version, counted."""
        ...

    def find_ids(self, what: str, part: str, *, owner: str | None = None, limit: int) -> list[str]:
        """Ids of a `"job"`, `"batch"` or `"redrive"` that are `part`, begin with it, or end with it and are among
        the newest `NEWEST_IDS`; that one, then the newest first."""
        ...

    def workers(self) -> list[WorkerRecord]: ...


class EventLog(Protocol):
    """The history, in order, from any point.

    Positions never fall; events of one transaction may share one, and a page never ends inside it.
    """

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]: ...

    def histories(self, jobs: Sequence[str]) -> dict[str, list[Event]]:
        """All events of each of these jobs, in one read: as many jobs as the caller can hold the events of."""
        ...

    def last_position(self, *, back: int = 0) -> int:
        """Where the log ends; with `back`, the place after which at least so many events stand, if there are."""
        ...

    def cursors(self) -> list[Cursor]:
        """The lowest first: what is above it is never deleted."""
        ...

    def set_cursor(self, name: str, position: int) -> None:
        """Keep how far a reader has come, durably."""
        ...

    def drop_cursor(self, name: str) -> None:
        """This reader comes no more; nothing is kept for it any longer."""
        ...


class Changes(Protocol):
    """A hint that the store changed. A hint only: whoever waits looks again from time to time."""

    def wait(self, timeout: float) -> bool:
        """Block until something was committed, for `timeout` seconds at most; whether something was."""
        ...

    def close(self) -> None: ...


class Store(
    JobStore, Upkeep, BatchStore, Schedules, Clearing, Operations, Services, Places, Reader, EventLog, Protocol
):
    """One database."""

    def migrate(self) -> list[str]:
        """Bring the schema up to date, under a lock; the names of what was applied."""
        ...

    def examine(self, limits: Limits) -> list[Finding]:
        """What a doctor should know about this database."""
        ...

    def changes(self) -> Changes: ...

    def close(self) -> None: ...
