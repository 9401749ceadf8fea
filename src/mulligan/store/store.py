"""The store: each operation one transaction, in the order of a job's life, on the backend of one database."""

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
from mulligan.store.batches import promote_members
from mulligan.store.beat import BeatOperations
from mulligan.store.duties import DutyOperations
from mulligan.store.events import EventOperations
from mulligan.store.moves import MoveOperations, MoveParts
from mulligan.store.parts import Parts
from mulligan.store.pauses import PauseOperations
from mulligan.store.protocols import (
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


class DatabaseStore:
    """The operations of a store (`protocols.Store`) on one backend."""

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
        return self._backend.migrate()

    def changes(self) -> Changes:
        return self._backend.changes()

    def close(self) -> None:
        self._backend.close()

    def examine(self, limits: Limits) -> list[Finding]:
        return self._backend.examine(limits)

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        return self._backend.enqueue(jobs)

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        return self._backend.enqueue_script(jobs)

    def claim(self, claim: Claim) -> Claimed:
        claimed = self._backend.claim(claim)
        self._limits.announced()
        return claimed

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        return self._backend.adopt(incarnation, before=before, held=held)

    def secure(self, fence: Fence) -> bool:
        return self._backend.secure(fence)

    def begin(self, fence: Fence) -> bool:
        return bool(self._backend.write_one(lambda session: session.rows("begin", fence_values(fence))))

    def beat(self, beat: Beat) -> BeatReply:
        reply = self._backend.write(lambda session: self._beats.beat(session, beat, session.now), is_durable=False)
        self._limits.announced()
        return reply

    def leave(self, incarnation: str) -> None:
        self._backend.write_one(lambda session: session.rows("leave", incarnation=incarnation))

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._backend.settle(outcomes)

    # Duties: what mostly finds nothing to do looks first

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        values = {"besides": besides, "limit": limit}
        return self._read(lambda session: session.leases("overdue", {**values, "now": session.now}))

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit}
        return self._read(lambda session: session.leases("stuck", {**values, "now": session.now}))

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        promoted = self._backend.promote(duty, limit=limit, by_hand=by_hand)
        if promoted:
            self._backend.hint()
        return promoted

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        return self._backend.expire(verdict, limit=limit)

    def pause(self, request: PauseRequest) -> Pause:
        return self._write(lambda session: self._pauses.pause(session, request, session.now))

    def resume(self, request: PauseRequest) -> Pause | None:
        ended = self._write(lambda session: self._pauses.resume(session, request, session.now))
        self._backend.hint()
        return ended

    def pauses(self) -> list[Pause]:
        return self._read(lambda session: self._pauses.list_all(session, session.now))

    def chores(self) -> DutyOverview:
        return self._read(lambda session: self._duties.find_chores(session, session.now))

    def note(self, rounds: Sequence[DutyRun]) -> None:
        is_durable = any(done.request for done in rounds)
        self._write(lambda session: self._duties.record(session, rounds, session.now), is_durable=is_durable)

    def rounds(self) -> list[DutyRun]:
        return self._read(self._duties.list_all)

    # Batches

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        return self._backend.write_one(lambda session: self._batches.create(session, batch, session.now))

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        wanted = storable(batch_id)
        batch = self._backend.publish(
            batch_id, lambda session: self._batches.publish(session, wanted, owner, actor, session.now)
        )
        promote_members(self)
        return batch

    def retry_members(self, request: BatchRetry) -> list[str]:
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
        return self._read(lambda session: self._batches.list_all(session, state, owner, limit, cursor))

    def tend_batches(self, *, limit: int) -> int:
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
        return self._backend.write_one(lambda session: self._batches.prune(session, before, limit))

    # Services and limits

    def services(self, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        return self._read(lambda session: self._services.listed(session, session.now, names))

    def service_names(self) -> list[Family]:
        return self._read(self._services.names.count_names)

    def force(self, request: ServiceRequest) -> ServiceRecord:
        record = self._write(lambda session: self._services.force(session, request, session.now))
        self._backend.hint()
        return record

    def demands(self, *, limit: int) -> list[Demand]:
        return self._read(lambda session: self._services.demands(session, limit))

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        self._limits.book = book

    def limits(self, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        return self._read(lambda session: self._limits.records(session, subjects))

    def spending(self, owner: str) -> SpendingRecord | None:
        return self._read(lambda session: self._limits.spending(session, owner, session.now))

    # Schedules

    def schedules(self) -> list[ScheduleRecord]:
        return self._read(self._schedules.list_all)

    def change_schedule(self, change: ScheduleChange) -> bool:
        is_changed = self._write(lambda session: self._schedules.change(session, change, session.now))
        if change.jobs:
            self._backend.hint()
        return is_changed

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        return self._write(lambda session: self._schedules.remove(session, name, note, session.now))

    # Jobs that are over

    def newest(self, state: State, count: int) -> datetime | None:
        return self._read(lambda session: self._retention.newest(session, state, count))

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
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
        return self._read(
            lambda session: self._retention.over(session, wanted, before, owner, limit, cursor, session.now)
        )

    def count_over(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[EndedCount]:
        return self._read(lambda session: self._retention.count_over(session, wanted, before, owner, session.now))

    def purge(self, request: PurgeRequest) -> int:
        return self._write(lambda session: self._retention.purge(session, request, session.now))

    # Redrives

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        return self._read(lambda session: self._redrives.count_candidates(session, wanted, before, owner))

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        return self._read(lambda session: self._redrives.candidates(session, wanted, before, owner, after, limit))

    def begin_redrive(self, redrive: Redrive) -> Redrive:
        return self._write(lambda session: self._redrives.begin(session, redrive, session.now))

    def redrive_asked(self, request_id: str, *, owner: str | None = None) -> Redrive | None:
        return self._read(lambda session: self._redrives.find_by_request(session, request_id, owner))

    def advance_redrive(self, redrive: Redrive, moves: Sequence[Request] = ()) -> Redrive | None:
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
        wanted = storable(redrive_id)
        return self._write(lambda session: self._redrives.cancel(session, wanted, owner, actor, reason, session.now))

    def answers(self, redrive: Redrive) -> dict[str, bool]:
        return self._read(lambda session: self._redrives.answers(session, redrive))

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        if is_active:
            return self._read(lambda session: self._redrives.active(session, limit))
        wanted = redrive_id and storable(redrive_id)
        return self._read(lambda session: self._redrives.list_all(session, wanted, owner, limit))

    # Manual moves

    def move(self, request: Request) -> Job[Any]:
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
        self._read(lambda session: self._reading.load(session, leases))

    def jobs(
        self, wanted: JobFilter, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Any]:
        return self._read(lambda session: self._reading.jobs(session, wanted, owner, limit, cursor))

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        return self._read(lambda session: self._reading.counts(session, owner))

    def busy(self, kinds: Sequence[str], *, waiting_for: Sequence[str] = ()) -> bool:
        return self._read(lambda session: self._reading.is_busy(session, kinds, waiting_for, session.now))

    def next_due(self) -> datetime | None:
        return self._read(lambda session: self._reading.next_due(session, session.now))

    def next_moment(self) -> datetime | None:
        return self._read(lambda session: self._reading.next_moment(session, session.now))

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        return self._read(lambda session: self._reading.ahead_of(session, job, limit))

    def lanes(self) -> list[Lane]:
        return self._read(self._reading.lanes)

    def find_ids(self, what: str, part: str, *, owner: str | None = None, limit: int) -> list[str]:
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
        return self._read(lambda session: self._events.of_many(session, jobs))

    def last_position(self, *, back: int = 0) -> int:
        return self._backend.last_position(back)

    def cursors(self) -> list[Cursor]:
        return self._read(self._events.cursors)

    def set_cursor(self, name: str, position: int) -> None:
        self._write(lambda session: self._events.set_cursor(session, name, position, session.now))

    def drop_cursor(self, name: str) -> None:
        self._backend.write_one(lambda session: self._events.drop_cursor(session, name))

    def _read(self, work: Work[T]) -> T:
        return self._backend.read(work)

    def _write(self, work: Work[T], *, is_durable: bool = True, is_long: bool = False) -> T:
        return self._backend.write(work, is_durable=is_durable, is_long=is_long)
