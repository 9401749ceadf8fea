"""The store: few whole operations in the order of a job's life, each one transaction, each safe to repeat.

A store is synchronous; async callers go through a thread. Instants come from the store's own clock. `owner=None` is
the view of an administrator. An operation that cannot reach the database raises `StoreUnavailable`; the same call may
be made again.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from mulligan.failure.text import storable
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.event import Cursor, Event
from mulligan.records.finding import Finding, Limits
from mulligan.records.job import Fence, Job, JobFilter, Lease, NewJob, Page
from mulligan.records.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.records.pause import Pause, PauseRequest
from mulligan.records.redrive import Match, Redrive
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.records.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.service.records import Demand, Family, ServiceRecord, ServiceRequest
from mulligan.store.batches import PUBLISH_PASS, PUBLISH_PASSES
from mulligan.store.beat import BeatOperations
from mulligan.store.duties import DutyOperations
from mulligan.store.events import EventOperations
from mulligan.store.messages import (
    Answers,
    Beat,
    BeatReply,
    Changes,
    Claim,
    Claimed,
    Lane,
    Outcome,
    Request,
    WorkerRecord,
)
from mulligan.store.moves import MoveOperations, MoveParts
from mulligan.store.parts import Parts
from mulligan.store.pauses import PauseOperations
from mulligan.store.reading import ReadOperations
from mulligan.store.redrives import RedriveOperations
from mulligan.store.retention import Remove, RetentionOperations
from mulligan.store.rows import to_duration
from mulligan.store.schedules import ScheduleOperations
from mulligan.store.script import Script
from mulligan.store.session import Session
from mulligan.store.settle import needs_record
from mulligan.store.values import fence_values

T = TypeVar("T")
Work = Callable[[Session], T]


class Backend(Protocol):
    """One database: its transactions, and what it does in its own way."""

    parts: Parts

    @property
    def violation(self) -> type[Exception]:
        """What the driver raises for a row that the schema does not allow."""
        ...

    @property
    def remove(self) -> Remove: ...

    def read(self, work: Work[T]) -> T:
        """Look. On PostgreSQL each statement is by itself."""
        ...

    def write(self, work: Work[T], *, is_durable: bool = True, is_long: bool = False) -> T:
        """One transaction. `is_durable=False`: a crash may lose it."""
        ...

    def write_one(self, work: Work[T]) -> T:
        """One statement, which is a transaction by itself."""
        ...

    def hint(self) -> None:
        """Tell waiting workers that there is something to do."""
        ...

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]: ...

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]: ...

    def claim(self, claim: Claim) -> Claimed: ...

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]: ...

    def secure(self, fence: Fence) -> bool: ...

    def settle(self, outcomes: Sequence[Outcome]) -> Answers: ...

    def move_parts(self, session: Session) -> MoveParts: ...

    def promote(self, duty: str, *, limit: int, by_hand: bool) -> int: ...

    def expire(self, verdict: Verdict, *, limit: int) -> int: ...

    def publish(self, batch_id: str, work: Work[T]) -> T: ...

    def events(self, owner: str | None, after: int, limit: int) -> list[Event]: ...

    def last_position(self, back: int) -> int: ...

    def migrate(self) -> list[str]: ...

    def examine(self, limits: Limits) -> list[Finding]: ...

    def changes(self) -> Changes: ...

    def close(self) -> None: ...


class Store:
    """One database."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        parts = backend.parts
        self._services, self._limits, self._batches = parts.services, parts.limits, parts.batches
        self._beats = BeatOperations(parts.services, parts.limits, parts.submissions)
        self._moves = MoveOperations(parts.batches, backend.violation)
        self._redrives = RedriveOperations(self._moves, parts.batches)
        self._schedules = ScheduleOperations(parts.enqueue_steps)
        self._retention = RetentionOperations(backend.remove)
        self._pauses, self._duties = PauseOperations(), DutyOperations()
        self._reading, self._events = ReadOperations(), EventOperations()

    def migrate(self) -> list[str]:
        """Bring the schema up to date, under a lock; the names of what was applied."""
        return self._backend.migrate()

    def changes(self) -> Changes:
        return self._backend.changes()

    def close(self) -> None:
        self._backend.close()

    def examine(self, limits: Limits) -> list[Finding]:
        """What a doctor should know about this database."""
        return self._backend.examine(limits)

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store all or none, in order. A job whose dedupe key is held comes back as the holder's
        record with `is_duplicate`; an id that is there already is the same job."""
        return self._backend.enqueue(jobs)

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        """The same as statements for a caller's own connection: jobs and events are part of his transaction."""
        return self._backend.enqueue_script(jobs)

    def claim(self, claim: Claim) -> Claimed:
        """Let due jobs through the door, then lease the first by (priority, rank)."""
        claimed = self._backend.claim(claim)
        self._limits.announced()
        return claimed

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        """Leases of closed claim calls (numbers below `before`) that their worker never learned of."""
        return self._backend.adopt(incarnation, before=before, held=held)

    def secure(self, fence: Fence) -> bool:
        """Make a claim durable, so that its attempt number cannot come again; whether it still holds."""
        return self._backend.secure(fence)

    def begin(self, fence: Fence) -> bool:
        """Record durably that the code of an attempt is about to run. False: its lease is lost, or it began before."""
        return bool(self._backend.write_one(lambda session: session.rows("begin", fence_values(fence))))

    def beat(self, beat: Beat) -> BeatReply:
        """Extend the leases still held, also expired ones that nobody took."""
        reply = self._backend.write(lambda session: self._beats.beat(session, beat, session.now), is_durable=False)
        self._limits.announced()
        return reply

    def leave(self, incarnation: str) -> None:
        """A worker says goodbye."""
        self._backend.write_one(lambda session: session.rows("leave", incarnation=incarnation))

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        """Write what became of attempts: one transaction, fenced, repeatable, one answer for each."""
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._backend.settle(outcomes)

    # Duties: what mostly finds nothing to do looks first

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        """Leases that expired, not those of the incarnation `besides`."""
        values = {"besides": besides, "limit": limit}
        return self._read(lambda session: session.leases("overdue", {**values, "now": session.now}))

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        """Leases of attempts that run longer than `after` and than their own timeout, the longest first."""
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit}
        return self._read(lambda session: session.leases("stuck", {**values, "now": session.now}))

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        """Let due jobs of the duty `retry` or `promote` through the door; by hand also those that a pause holds."""
        promoted = self._backend.promote(duty, limit=limit, by_hand=by_hand)
        if promoted:
            self._backend.hint()
        return promoted

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        """Fail jobs whose deadline passed before they could run; how many."""
        return self._backend.expire(verdict, limit=limit)

    def pause(self, request: PauseRequest) -> Pause:
        """Hold something back from now on; a pause that is there is replaced."""
        return self._write(lambda session: self._pauses.pause(session, request, session.now))

    def resume(self, request: PauseRequest) -> Pause | None:
        """End a pause; the one that was ended, None when there was none."""
        ended = self._write(lambda session: self._pauses.resume(session, request, session.now))
        self._backend.hint()
        return ended

    def pauses(self) -> list[Pause]:
        """Those in force now."""
        return self._read(lambda session: self._pauses.list_all(session, session.now))

    def chores(self) -> DutyOverview:
        """Which duties are paused, and which have nothing to do: one look for all of them."""
        return self._read(lambda session: self._duties.find_chores(session, session.now))

    def note(self, rounds: Sequence[DutyRun]) -> None:
        """Record rounds of duties: one row for each duty and worker. One made by hand is an event too."""
        is_durable = any(done.request for done in rounds)
        self._write(lambda session: self._duties.record(session, rounds, session.now), is_durable=is_durable)

    def rounds(self) -> list[DutyRun]:
        """The last round of each duty by each worker, the newest first."""
        return self._read(self._duties.list_all)

    # Batches

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        """Store a draft; an id that is there already is the same batch."""
        return self._backend.write_one(lambda session: self._batches.create(session, batch, session.now))

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        """Count the members and let them in. One that is published already stays as it is."""
        wanted = storable(batch_id)
        batch = self._backend.publish(
            batch_id, lambda session: self._batches.publish(session, wanted, owner, actor, session.now)
        )
        # Members are ready for workers at once. What is left, and what a crash leaves, workers promote themselves.
        for _ in range(PUBLISH_PASSES):
            if self.promote("promote", limit=PUBLISH_PASS) < PUBLISH_PASS:
                break
        return batch

    def retry_members(self, request: BatchRetry) -> list[str]:
        """Start these failed or cancelled members again, in one transaction; those that were."""
        retried = self._write(lambda session: self._batches.retry(session, request, session.now), is_long=True)
        self._backend.hint()
        return retried

    def batch(self, batch_id: str, *, owner: str | None = None) -> BatchRecord:
        return self._read(lambda session: self._batches.get(session, storable(batch_id), owner))

    def batches(
        self,
        *,
        state: BatchState | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[BatchRecord]:
        """Newest first; `cursor` is the id of the last one seen."""
        return self._read(lambda session: self._batches.list_all(session, state, owner, limit, cursor))

    def tend_batches(self, *, limit: int) -> int:
        """Expire those whose date has passed, cancel what is left of aborted ones; how many batches and jobs."""
        if not self._read(lambda session: self._batches.needs_tending(session, session.now)):
            return 0
        did = self._write(lambda session: self._batches.expire(session, limit, session.now))
        for batch in self._read(lambda session: self._batches.list_aborted(session, limit, session.now)):
            # One by one: members before their batch, and never two batches at once.
            did += self._sweep(batch, max(0, limit - did))
        self._backend.write_one(self._batches.finish_admission)
        return did

    def _sweep(self, batch: BatchRecord, limit: int) -> int:
        return self._write(lambda session: self._batches.sweep(session, batch, limit, session.now))

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        """Delete those that were settled before and whose members are gone; how many."""
        return self._backend.write_one(lambda session: self._batches.prune(session, before, limit))

    # Services and limits

    def services(self, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        """Those of which something is known, by name; with `names` no others than these."""
        return self._read(lambda session: self._services.listed(session, session.now, names))

    def service_names(self) -> list[Family]:
        """How many computed names of services are told apart."""
        return self._read(self._services.names.count_names)

    def force(self, request: ServiceRequest) -> ServiceRecord:
        """Force a service by hand, whatever its calls say."""
        record = self._write(lambda session: self._services.force(session, request, session.now))
        self._backend.hint()
        return record

    def demands(self, *, limit: int) -> list[Demand]:
        """The services that ready jobs depend on or parked retries wait for, by name; of each lane and gate no more
        than `limit` are counted."""
        return self._read(lambda session: self._services.demands(session, limit))

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        """Hold the limits in this book from now on, and tell the others."""
        self._limits.book = book

    def limits(self, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        """How the limits of these subjects (`kind/NAME`, `queue/NAME`, `owner/NAME`) stand, as far as they have one;
        without any, those of all that are named."""
        return self._read(lambda session: self._limits.records(session, subjects))

    def spending(self, owner: str) -> SpendingRecord | None:
        """What the owner's retries took of his budget; None without one."""
        return self._read(lambda session: self._limits.spending(session, owner, session.now))

    # Schedules

    def schedules(self) -> list[ScheduleRecord]:
        """All of them, by name."""
        return self._read(self._schedules.list_all)

    def change_schedule(self, change: ScheduleChange) -> bool:
        """Write the record, its jobs and its notes, if the record is still as it was; whether it was.

        A job whose id is there already is the same job. A change by hand that was made before is not made again.
        """
        is_changed = self._write(lambda session: self._schedules.change(session, change, session.now))
        if change.jobs:
            self._backend.hint()
        return is_changed

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        """Forget a schedule and its pause; whether there was one. Its jobs stay."""
        return self._write(lambda session: self._schedules.remove(session, name, note, session.now))

    # Jobs that are over

    def newest(self, state: State, count: int) -> datetime | None:
        """When the last of the newest `count` was over; None when there are fewer."""
        return self._read(lambda session: self._retention.newest(session, state, count))

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
        """Delete jobs that were over before, the oldest first; how many."""
        if not self._read(lambda session: self._retention.old(session, state, before, limit)):
            return 0
        return self._write(lambda session: self._retention.prune(session, state, before, limit))

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
        return self._read(
            lambda session: self._retention.over(session, wanted, before, owner, limit, cursor, session.now)
        )

    def count_over(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[EndedCount]:
        """How many jobs ended before, those that hold a dedupe key apart."""
        return self._read(lambda session: self._retention.count_over(session, wanted, before, owner, session.now))

    def purge(self, request: PurgeRequest) -> int:
        """Delete those of these jobs that are over still, and say so in the log; how many."""
        return self._write(lambda session: self._retention.purge(session, request, session.now))

    # Redrives

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        """How many jobs of this filter and state ended by then, by kind and code."""
        return self._read(lambda session: self._redrives.count_candidates(session, wanted, before, owner))

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        """Those jobs, by id, from above `after` on."""
        return self._read(lambda session: self._redrives.candidates(session, wanted, before, owner, after, limit))

    def begin_redrive(self, redrive: Redrive) -> Redrive:
        """Store a new operation; the one that is there already when its request id was used before by that owner."""
        return self._write(lambda session: self._redrives.begin(session, redrive, session.now))

    def redrive_asked(self, request_id: str, *, owner: str | None = None) -> Redrive | None:
        """The operation that this owner began with that request id."""
        return self._read(lambda session: self._redrives.find_by_request(session, request_id, owner))

    def advance_redrive(self, redrive: Redrive, moves: Sequence[Request] = ()) -> Redrive | None:
        """Write how far it has come and make the moves, all in one transaction, if it is still as it was read.

        Each job that was over when the operation began, and still is, is moved; the others are skipped, as are those
        whose move is refused. What became of each is counted in the answer. None: another was faster.
        """
        after = self._write(
            lambda session: self._redrives.advance(
                session, redrive, moves, session.now, self._backend.move_parts(session)
            )
        )
        if moves:
            self._backend.hint()
        return after

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        """End it, unless it is over already. Raises RedriveNotFound."""
        wanted = storable(redrive_id)
        return self._write(lambda session: self._redrives.cancel(session, wanted, owner, actor, reason, session.now))

    def answers(self, redrive: Redrive) -> dict[str, bool]:
        """Whether the next attempt of the jobs it watches succeeded; those that have not ended are missing."""
        return self._read(lambda session: self._redrives.answers(session, redrive))

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        """The newest first; those that are active the oldest first."""
        if is_active:
            return self._read(lambda session: self._redrives.active(session, limit))
        wanted = redrive_id and storable(redrive_id)
        return self._read(lambda session: self._redrives.list_all(session, wanted, owner, limit))

    # Manual moves

    def move(self, request: Request) -> Job[Any]:
        """Make a move by hand, race-free against workers and other people."""
        job = self._write(
            lambda session: self._moves.move(session, request, session.now, self._backend.move_parts(session))
        )
        self._backend.hint()
        return job

    # Reading

    def now(self) -> datetime:
        return self._read(lambda session: self._reading.now(session, session.now))

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self._read(lambda session: self._reading.job(session, storable(job_id), owner))

    def load(self, leases: Sequence[Lease]) -> None:
        """Give these leases the whole records of their jobs, all at once."""
        self._read(lambda session: self._reading.load(session, leases))

    def jobs(
        self, wanted: JobFilter, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Any]:
        """Newest first."""
        return self._read(lambda session: self._reading.jobs(session, wanted, owner, limit, cursor))

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        """How many jobs of each kind are in each state."""
        return self._read(lambda session: self._reading.counts(session, owner))

    def busy(self, kinds: Sequence[str], *, waiting_for: Sequence[str] = ()) -> bool:
        """Whether jobs of these kinds are queued, running or due, or wait for one of these reasons. What a pause or an
        open service holds back does not count."""
        return self._read(lambda session: self._reading.is_busy(session, kinds, waiting_for, session.now))

    def next_due(self) -> datetime | None:
        """When the next waiting job comes due."""
        return self._read(lambda session: self._reading.next_due(session, session.now))

    def next_moment(self) -> datetime | None:
        """When, after now, a job comes due or runs out of time, a batch expires, a schedule ticks, or a pause ends."""
        return self._read(lambda session: self._reading.next_moment(session, session.now))

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        """How many queued jobs of its lane are claimed before this one, counted up to `limit`."""
        return self._read(lambda session: self._reading.ahead_of(session, job, limit))

    def lanes(self) -> list[Lane]:
        """All ready jobs, and those that wait for a worker of another version, counted."""
        return self._read(self._reading.lanes)

    def find_ids(self, what: str, part: str, *, owner: str | None = None, limit: int) -> list[str]:
        """Ids of a `"job"`, `"batch"` or `"redrive"` that are `part`, begin with it, or end with it and are among
        the newest `NEWEST_IDS`; that one, then the newest first."""
        return self._read(lambda session: self._reading.find_ids(session, what, storable(part), owner, limit))

    def workers(self) -> list[WorkerRecord]:
        return self._read(self._reading.workers)

    # The event log

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        if job is not None:
            return self._read(lambda session: self._events.of_job(session, job, owner, after, limit))
        return self._backend.events(owner, after, limit)

    def histories(self, jobs: Sequence[str]) -> dict[str, list[Event]]:
        """All events of each of these jobs, in one read: as many jobs as the caller can hold the events of."""
        return self._read(lambda session: self._events.of_many(session, jobs))

    def last_position(self, *, back: int = 0) -> int:
        """Where the log ends; with `back`, the place after which at least so many events stand, if there are."""
        return self._backend.last_position(back)

    def cursors(self) -> list[Cursor]:
        """The lowest first: what is above it is never deleted."""
        return self._read(self._events.cursors)

    def set_cursor(self, name: str, position: int) -> None:
        """Keep how far a reader has come, durably."""
        self._write(lambda session: self._events.set_cursor(session, name, position, session.now))

    def drop_cursor(self, name: str) -> None:
        """This reader comes no more; nothing is kept for it any longer."""
        self._backend.write_one(lambda session: self._events.drop_cursor(session, name))

    def _read(self, work: Work[T]) -> T:
        return self._backend.read(work)

    def _write(self, work: Work[T], *, is_durable: bool = True, is_long: bool = False) -> T:
        return self._backend.write(work, is_durable=is_durable, is_long=is_long)
