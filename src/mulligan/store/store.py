"""The store: the operations on jobs, in the order of a job's life. Each is one transaction, and safe to repeat.

A store is synchronous; async callers run it in a thread, except for `enqueue_async`. Times are those of the store's
clock. `owner=None` sees the jobs of all owners. Every operation raises `StoreUnavailable` if the database cannot be
reached; the caller may repeat it.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from mulligan.errors import TooManyJobs
from mulligan.failure.redact import storable
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.records.admission import Admission, AdmissionRequest, EndedRequest, NewAuditEntry
from mulligan.records.alert import AlertBook, AlertTerms, Evaluation, StoredRule
from mulligan.records.audit import AuditEntry
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.counts import Counts
from mulligan.records.delivery import (
    Delivery,
    DigestContents,
    DigestPlan,
    Incident,
    NewDelivery,
    NotifyPlan,
    NotifyState,
    NotifyStep,
    Outgoing,
    SendResult,
    Undelivered,
)
from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.event import Cursor, Event, EventFilter, EventPage
from mulligan.records.failure_group import FailureGroup, GroupDecision, GroupState, NameCount
from mulligan.records.finding import Check, Finding, Limits
from mulligan.records.folded import Folded
from mulligan.records.hook import IncomingHook
from mulligan.records.job import Fence, Job, JobFilter, Lease, NewJob, Page
from mulligan.records.key import Key, NewKey, StoredKey
from mulligan.records.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.records.log_entry import EntryPage
from mulligan.records.metric import TotalKey
from mulligan.records.pause import Pause, PauseRequest
from mulligan.records.progress import Progress
from mulligan.records.redrive import Match, Redrive
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.records.schedule import ScheduleChange, ScheduleNote, ScheduleOverview, ScheduleRecord
from mulligan.records.statistics import FailurePoint, ProjectionStatus, RecentCount, Statistic, Tally
from mulligan.records.subscription import NewSubscription, SubscriptionRecord
from mulligan.records.web_session import WebSession
from mulligan.service.records import Demand, Family, ServiceRecord, ServiceRequest
from mulligan.store.alerts import AlertOperations
from mulligan.store.api_keys import ApiKeyOperations
from mulligan.store.beat import BeatOperations
from mulligan.store.built_in import BuiltInProjection
from mulligan.store.counts import CountOperations
from mulligan.store.dedupe_keys import DedupeKeyOperations
from mulligan.store.deliveries import DeliveryOperations
from mulligan.store.depths import DepthOperations
from mulligan.store.duties import CHORE_VALUES, DutyOperations, to_chores
from mulligan.store.enqueue import SharedOperations
from mulligan.store.events import EventOperations, Subject
from mulligan.store.forget import ForgetOperations
from mulligan.store.groups import GroupOperations
from mulligan.store.hooks import HookOperations
from mulligan.store.messages import (
    NO_PRECONDITION,
    Answers,
    Beat,
    BeatReply,
    Changes,
    Claim,
    Claimed,
    JobRequest,
    Lane,
    Outcome,
    Outlook,
    Permission,
    QueueLoad,
    Request,
    RetriedMembers,
    WorkerRecord,
)
from mulligan.store.moves import MoveOperations, MoveParts
from mulligan.store.pauses import PauseOperations
from mulligan.store.projections import Apply, ApplyFailed, project
from mulligan.store.promote import to_promotable
from mulligan.store.reading import ReadOperations
from mulligan.store.redrives import RedriveOperations
from mulligan.store.request_admission import AdmissionOperations
from mulligan.store.requests import Once, carry_out, find_answer, has_old_requests, prune_requests
from mulligan.store.results import ResultOperations, ResultPass
from mulligan.store.retention import Remove, RetentionOperations
from mulligan.store.rows import Record, fence_values, from_time_or_none, to_duration, to_json
from mulligan.store.schedules import ScheduleOperations
from mulligan.store.session import RoundTrips, Script, Session
from mulligan.store.settle import needs_record
from mulligan.store.statistics import StatisticOperations
from mulligan.store.subscriptions import SubscriptionOperations
from mulligan.store.totals import TotalOperations
from mulligan.store.web_sessions import WebSessionOperations

T = TypeVar("T")
P = ParamSpec("P")
Work = Callable[[Session], T]

# Members promoted by one transaction when a batch is published, and how many such transactions the caller waits for.
PUBLISH_PASS = 1_000
PUBLISH_PASSES = 100


class Backend(Protocol):
    """One database: its transactions, and the operations that each database implements differently."""

    parts: SharedOperations

    @property
    def remove(self) -> Remove: ...

    def read(self, work: Work[T], *, is_large: bool = False) -> T:
        """Run `work` without changing anything. On PostgreSQL each statement sees the latest commits. With `is_large`
        it reads the first rows of very many."""
        ...

    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        """Run a named statement that changes nothing. Return its rows as leases."""
        ...

    def write(self, work: Work[T], *, is_durable: bool = True, is_long: bool = False, asks: bool = False) -> T:
        """Run `work` in one transaction. With `is_durable=False` a crash may lose it. With `asks` it calls code of a
        task, which may take its time."""
        ...

    def write_by_key(self, trips: Callable[[], RoundTrips[T]]) -> T:
        """Run a transaction, which a crash may lose. It finds each row by its key, also in a table that was empty when
        the first such transaction ran."""
        ...

    async def write_by_key_on_loop(self, trips: Callable[[], RoundTrips[T]]) -> T | None:
        """The same on the running event loop. None: only a thread can run it now."""
        ...

    def join(self, connection: Any) -> Session:
        """Return a session on a connection of the caller, in its transaction. Raises BadConnection."""
        ...

    def write_one(self, work: Work[T]) -> T:
        """Run `work`, which is a single writing statement."""
        ...

    def hint(self) -> None:
        """Wake waiting workers of other processes: there may be something to do."""
        ...

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store the jobs, and wake waiting workers of other processes."""
        ...

    async def enqueue_on_loop(self, jobs: Sequence[NewJob]) -> list[Job[Any]] | None:
        """Do the same on the running event loop without blocking it. None: nothing is stored, only a thread can."""
        ...

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]: ...

    def claim(self, claim: Claim) -> Claimed: ...

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]: ...

    def secure(self, fence: Fence) -> bool: ...

    def settle(self, outcomes: Sequence[Outcome]) -> Answers: ...

    def move_parts(self, session: Session) -> MoveParts: ...

    def promote(self, duty: str | None, *, limit: int, is_manual: bool) -> int: ...

    def expire(self, verdict: Verdict, *, limit: int) -> int: ...

    def publish(self, batch_id: str, work: Work[T]) -> T: ...

    def confirm_log(self, session: Session, last: Record) -> None:
        """Wait until a crash cannot undo the log up to this position."""
        ...

    def migrate(self) -> list[str]: ...

    def examine(self, limits: Limits, besides: Collection[Check]) -> list[Finding]: ...

    def permissions(self) -> Finding | None: ...

    def changes(self) -> Changes: ...

    def close(self) -> None: ...


class Store:
    """All operations on one database."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._wakes: list[Callable[[], None]] = []
        parts = backend.parts
        self._services, self._limits, self._batches = parts.services, parts.limits, parts.batches
        self._submissions = parts.submissions
        self._beats = BeatOperations(parts.services, parts.limits, parts.submissions)
        self._moves = MoveOperations(parts.batches, parts.enqueue)
        self._redrives = RedriveOperations(self._moves, parts.batches)
        self._schedules = ScheduleOperations(parts.enqueue)
        self._retention = RetentionOperations(backend.remove)
        self._forgetting = ForgetOperations(self._retention.forget)
        self._results = ResultOperations()
        self._dedupe_keys = DedupeKeyOperations()
        self._api_keys, self._admissions = ApiKeyOperations(), AdmissionOperations()
        self._web_sessions = WebSessionOperations()
        self._pauses, self._duties = PauseOperations(), DutyOperations()
        self._reading, self._counts = ReadOperations(), CountOperations()
        self._events = EventOperations(backend.confirm_log)
        self._groups, self._statistics = GroupOperations(), StatisticOperations()
        self._totals, self._depths = TotalOperations(), DepthOperations(self._counts)
        self._built_in = BuiltInProjection(self._events, self._groups, self._statistics, self._totals)
        self._subscriptions, self._hooks = SubscriptionOperations(), HookOperations()
        self._alerts = AlertOperations()
        self._deliveries = DeliveryOperations(parts.enqueue, self._events)

    def migrate(self) -> list[str]:
        """Bring the schema up to date, under a lock. Return the names of the migrations that were applied."""
        return self._backend.migrate()

    def changes(self) -> Changes:
        return self._backend.changes()

    def on_hint(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake`, from any thread, when this store has something to do for workers: sooner than `changes` tells
        of it. Return a function that ends it."""
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)

    def _hint(self) -> None:
        self._wake()
        self._backend.hint()

    def _wake(self) -> None:
        """Wake waiting workers of this process."""
        for wake in list(self._wakes):
            wake()

    def close(self) -> None:
        self._backend.close()

    def examine(self, limits: Limits, *, besides: Collection[Check] = ()) -> list[Finding]:
        """Return the findings of `mulligan doctor` about this database. `besides` are checks that may be left out."""
        return self._backend.examine(limits, besides)

    def permissions(self) -> Finding | None:
        """Return what other users of this machine can do with the file of the database; None if it has none."""
        return self._backend.permissions()

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """Store all jobs or none, and return their records in order.

        If another job holds the dedupe key, return that job's record with `is_duplicate`. An id that exists already
        means the same job; raises `Conflict` if it is a different call. Raises `SubmitRateExceeded`, `TooManyJobs`,
        `IntakePaused`, `BatchNotFound` or `BatchClosed`; then nothing is stored.
        """
        stored = self._enqueue(jobs)
        if stored:
            self._wake()
        return stored

    async def enqueue_async(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        """As `enqueue`, without blocking the event loop."""
        stored = await self._backend.enqueue_on_loop(jobs)
        if stored is None:
            return await asyncio.to_thread(self.enqueue, jobs)
        self._wake()
        return stored

    def _enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        try:
            return self._backend.enqueue(jobs)
        except TooManyJobs as refused:
            if not self._read(self._submissions.may_have_uncounted, refused.owner, refused.limit):
                raise
            self._write(self._submissions.adopt, refused.owner, refused.limit)
        return self._backend.enqueue(jobs)

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        """Return an enqueue as statements for the caller's connection: jobs and events become part of its
        transaction."""
        return self._backend.enqueue_script(jobs)

    def reject(self, job: NewJob, verdict: Verdict, *, connection: Any = None) -> Job[Any]:
        """Store a job that failed before it could run, and return its record. An id that exists already means the same
        job. Raises what `enqueue` raises."""
        reject = self._backend.parts.expire.reject
        if connection is None:
            return self._write(reject, job, verdict)
        session = self._backend.join(connection)
        # The caller may commit in spite of an error.
        with session.undo(BaseException):
            return reject(session, job, verdict)

    def claim(self, claim: Claim) -> Claimed:
        """Promote due jobs, then lease the first ones by (priority, rank). A repeated call returns the same leases."""
        claimed = self._backend.claim(claim)
        self._limits.confirm_announced()
        return claimed

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        """Return leases of completed claim calls (numbers below `before`) whose reply the worker never received."""
        return self._backend.adopt(incarnation, before=before, held=held)

    def secure(self, fence: Fence) -> bool:
        """Make a claim durable, so that its attempt number is never used again. Return whether the lease is still
        held."""
        return self._backend.secure(fence)

    def begin(self, fence: Fence) -> bool:
        """Record durably that the code of an attempt is about to run. Return False if the lease is lost, or it began
        before."""
        return bool(self._backend.write_one(lambda session: session.rows("begin", fence_values(fence))))

    def beat(self, beat: Beat) -> BeatReply:
        """Extend the leases still held, including expired ones that no worker has taken, and store progress. The reply
        names the lost and the cancelled ones."""
        reply = self._backend.write(lambda session: self._beats.beat(session, beat), is_durable=False)
        self._limits.confirm_announced()
        return reply

    def leave(self, incarnation: str) -> None:
        """Remove the record of a worker that stops."""
        self._backend.write_one(lambda session: session.rows("leave", incarnation=incarnation))

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        """Write the outcomes of attempts in one transaction. Return one answer for each: a fence that no longer matches
        is refused, an outcome that was accepted before is answered as repeated."""
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._backend.settle(outcomes)

    # Duties. One that mostly finds nothing to do reads before it writes.

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        """Return expired leases, except those of the incarnation `besides`."""
        values = {"besides": besides, "limit": limit}
        return self._backend.leases("overdue", values)

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        """Return leases of attempts that run longer than `after` and longer than their timeout, the longest first."""
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit}
        return self._backend.leases("stuck", values)

    def promote(self, duty: str | None = None, *, limit: int, is_manual: bool = False) -> int:
        """Promote due jobs of the duty `retry` or `promote`, or of both. Return how many. A manual run ignores the
        pause of the duty."""
        promoted = self._backend.promote(duty, limit=limit, is_manual=is_manual)
        if promoted:
            self._hint()
        return promoted

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        """Fail jobs whose deadline passed before they could run. Return how many."""
        return self._backend.expire(verdict, limit=limit)

    def pause(self, *requests: PauseRequest, once: Once[Pause] | None = None) -> Pause:
        """Start pauses, or replace those with the same subjects. Return the first."""
        return self._write_once(once, self._pauses.pause, requests)

    def resume(self, *requests: PauseRequest, once: Once[Pause | None] | None = None) -> Pause | None:
        """End pauses. Return the first of them, or None if there was none."""
        ended = self._write_once(once, self._pauses.resume, requests)
        self._hint()
        return ended

    def pauses(self) -> list[Pause]:
        """Return the pauses in force now."""
        return self._read(self._pauses.list_all)

    def duty_overview(self) -> DutyOverview:
        """Return which duties are paused and which have nothing to do, in one query."""
        return self._read(self._duties.find_chores)

    def record_runs(self, rounds: Sequence[DutyRun]) -> None:
        """Record runs of duties, one row per duty and worker. A manual run also writes an event."""
        is_durable = any(done.request for done in rounds)
        self._backend.write(lambda session: self._duties.record(session, rounds), is_durable=is_durable)

    def duty_runs(self) -> list[DutyRun]:
        """Return the last run of each duty by each worker, the newest first."""
        return self._read(self._duties.list_all)

    # Batches

    def create_batch(self, batch: NewBatch, *, once: Once[BatchRecord] | None = None) -> BatchRecord:
        """Store a draft and return it. An id that exists already means the same batch."""
        if once is not None:
            return self._write_once(once, self._batches.create, batch)
        return self._backend.write_one(lambda session: self._batches.create(session, batch))

    def publish(
        self,
        batch_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        once: Once[BatchRecord] | None = None,
    ) -> BatchRecord:
        """Count the members and promote them. A batch that is published already does not change. Raises
        `BatchNotFound`, or `BatchBusy` while another transaction adds members."""
        wanted = storable(batch_id)
        batch = self._backend.publish(
            batch_id,
            lambda session: carry_out(session, once, lambda: self._batches.publish(session, wanted, owner, actor)),
        )
        # So that members are ready at once. Workers promote the rest, and what a crash leaves.
        for _ in range(PUBLISH_PASSES):
            if self.promote("promote", limit=PUBLISH_PASS) < PUBLISH_PASS:
                # Until the batch is marked, each claim looks for more of its members.
                self._backend.write(self._batches.finish_admission, is_durable=False)
                break
        return batch

    def retry_members(
        self,
        request: BatchRetry,
        *,
        permission: Permission = NO_PRECONDITION,
        once: Once[RetriedMembers] | None = None,
    ) -> RetriedMembers:
        """Retry these failed or cancelled members, in one transaction. Raises `BatchNotFound` or `BatchExpired`."""
        retried = self._backend.write(
            lambda session: carry_out(session, once, lambda: self._batches.retry(session, request, permission)),
            is_long=True,
            asks=permission.is_asked,
        )
        self._hint()
        return retried

    def batch(self, batch_id: str, *, owner: str | None = None) -> BatchRecord:
        return self._read(self._batches.get, storable(batch_id), owner)

    def batches(
        self,
        *,
        state: BatchState | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[BatchRecord]:
        """Return batches, the newest first. `cursor` is the id of the last one seen."""
        return self._read(self._batches.list_all, state, owner, limit, cursor)

    def tend_batches(self, *, limit: int) -> int:
        """Expire batches whose date has passed and cancel the remaining members of aborted ones. Return how many
        batches and jobs."""
        if not self._read(self._batches.needs_upkeep):
            return 0
        did = self._write(self._batches.expire, limit)
        for batch in self._read(self._batches.list_aborted, limit):
            # One by one: members are locked before their batch, and never two batches at once.
            did += self._cancel_members(batch, max(0, limit - did))
        self._backend.write_one(self._batches.finish_admission)
        return did

    def _cancel_members(self, batch: BatchRecord, limit: int) -> int:
        return self._write(self._batches.cancel_members, batch, limit)

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        """Delete batches that were settled before this time and have no members left. Return how many."""
        return self._backend.write_one(lambda session: self._batches.prune(session, before, limit))

    # Services and limits

    def services(self, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        """Return the services with a stored state, by name; with `names`, only these."""
        return self._read(self._services.list_all, names)

    def service_names(self) -> list[Family]:
        """Return how many computed names of services each family has."""
        return self._read(self._services.names.count_names)

    def force(self, request: ServiceRequest) -> ServiceRecord:
        """Force a service open or closed, or back to automatic, whatever its calls report."""
        record = self._write(self._services.force, request)
        self._hint()
        return record

    def demands(self, *, limit: int) -> list[Demand]:
        """Return the services that ready jobs depend on or blocked retries wait for, by name. Counts at most `limit`
        jobs per lane and gate."""
        return self._read(self._services.list_demands, limit)

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        """Use the limits of this book from now on, and announce them to the other processes."""
        self._limits.book = book

    def limits(self, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        """Return the limits of these subjects (`kind/NAME`, `queue/NAME`, `owner/NAME`) that have one, or all stored
        limits, each with its taken slots."""
        return self._read(self._limits.list_records, subjects)

    def spending(self, owner: str) -> SpendingRecord | None:
        """Return how much of its budget the retries of an owner have used, or None without a budget."""
        return self._read(self._limits.find_spending, owner)

    def budgets(self) -> list[SpendingRecord]:
        """Return the owners that have a retry budget of their own, by name, with how much of it they have used."""
        return self._read(self._limits.list_spending)

    # Schedules

    def schedules(self) -> list[ScheduleRecord]:
        """Return all schedules, by name."""
        return self._read(self._schedules.list_all)

    def schedule_overview(self) -> ScheduleOverview:
        """Return the time, all schedules and the names of those that are paused, in one read."""
        return self._read(self._schedules.find_overview)

    def change_schedule(self, change: ScheduleChange) -> bool:
        """Write the record, its jobs and its notes, if the record has not changed since it was read. Return whether
        they were written.

        A job whose id exists already is the same job. A manual change that was made before is not repeated.
        """
        is_changed = self._write(self._schedules.change, change)
        if change.jobs:
            self._hint()
        return is_changed

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        """Delete a schedule and its pause. Return whether there was one. Its jobs stay."""
        return self._write(self._schedules.remove, name, note)

    # Jobs that have ended

    def newest(self, state: State, count: int) -> datetime | None:
        """Return when the oldest of the newest `count` jobs in this state ended, or None if there are fewer."""
        return self._read(self._retention.newest, state, count)

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
        """Delete jobs that ended before this time, the oldest first. Return how many."""
        if not self._read(self._retention.old, state, before, limit):
            return 0
        return self._write(self._retention.prune, state, before, limit)

    def expire_results(self, *, before: datetime, limit: int) -> ResultPass:
        """Delete the results of succeeded jobs that ended before this time, the oldest first; the jobs stay.

        A job that holds its dedupe key keeps its result.
        """
        if not self._read(self._results.has_old, before):
            return ResultPass()
        return self._write(lambda session: self._results.expire_old(session, before, limit))

    def expire_result(
        self, request: JobRequest, *, connection: Any = None, once: Once[Job[Any]] | None = None
    ) -> Job[Any]:
        """Delete the result of one succeeded job and return the job; one whose result has expired does not change.

        Raises `JobNotFound` or `NoResult`. With `connection` it is part of the caller's transaction.
        """
        return self._write_in(connection, once, self._results.expire, request)

    def list_ended(
        self,
        wanted: JobFilter,
        *,
        before: datetime,
        owner: str | None = None,
        limit: int = 500,
        cursor: str | None = None,
    ) -> list[str]:
        """Return the ids of jobs that ended before this time and may be purged, the newest first, below `cursor`."""
        return self._read(self._retention.over, wanted, before, owner, limit, cursor)

    def count_ended(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[EndedCount]:
        """Count the jobs that ended before this time. Those that hold a dedupe key are counted separately."""
        return self._read(self._retention.count_over, wanted, before, owner)

    def purge(self, request: PurgeRequest) -> int:
        """Delete those of these jobs that are still ended, and record it in the log. Return how many."""
        return self._write(self._retention.purge, request)

    # Redrives

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        """Count the matching jobs by kind and code. They ended, or are live and were enqueued, before this time."""
        return self._read(self._redrives.count_candidates, wanted, before, owner)

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        """Return those jobs by id, above `after`."""
        return self._read(self._redrives.candidates, wanted, before, owner, after, limit)

    def begin_redrive(self, redrive: Redrive, *, once: Once[Redrive] | None = None) -> Redrive:
        """Store a new redrive. Return the existing one if this owner used the request id before."""
        return self._write_once(once, self._redrives.begin, redrive)

    def find_redrive(self, request_id: str, *, owner: str | None = None) -> Redrive | None:
        """Return the redrive that this owner began with this request id, or None."""
        return self._read(self._redrives.find_by_request, request_id, owner)

    def advance_redrive(
        self, redrive: Redrive, moves: Sequence[Request] = (), *, permission: Permission = NO_PRECONDITION
    ) -> Redrive | None:
        """Write the progress and make the moves in one transaction, if the redrive has not changed since it was read.

        Moves each job that was there when the redrive began, in a state that its filter selects, and has not ended
        since. The other jobs, and jobs whose move is refused, are counted as skipped. Return the redrive with the new
        counts, or None if another worker advanced it first.
        """
        after = self._backend.write(
            lambda session: self._redrives.advance(session, redrive, moves, self._parts(session, permission)),
            asks=permission.is_asked,
        )
        if moves:
            self._hint()
        return after

    def forget(self, redrive: Redrive, *, limit: int, damaged: int = 0) -> Redrive | None:
        """Delete ended jobs of the owner that the operation is about; when none is left, all other rows about the
        owner, a page at a time. `damaged` live jobs cannot be read: they stay. Return the operation, or None
        if nothing could be deleted: jobs are running, events wait for a reader, or another worker was faster."""
        return self._write(self._forgetting.forget, redrive, limit, damaged)

    def cancel_redrive(
        self,
        redrive_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        once: Once[Redrive] | None = None,
    ) -> Redrive:
        """End a redrive unless it has ended. Raises `RedriveNotFound`."""
        return self._write_once(once, self._redrives.cancel, storable(redrive_id), owner, actor, reason)

    def redrive_results(self, redrive: Redrive) -> dict[str, bool]:
        """Return whether the next attempt of each watched job succeeded. Jobs without an ended attempt are missing."""
        return self._read(self._redrives.answers, redrive)

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        """Return redrives, the newest first; active ones the oldest first."""
        if is_active:
            return self._read(self._redrives.active, limit)
        wanted = redrive_id and storable(redrive_id)
        return self._read(self._redrives.list_all, wanted, owner, limit)

    # Manual moves

    def move(
        self,
        request: Request,
        *,
        permission: Permission = NO_PRECONDITION,
        connection: Any = None,
        once: Once[Job[Any]] | None = None,
    ) -> Job[Any]:
        """Make a manual move and return the job. Raises `JobNotFound`, `IllegalMove`, `Conflict`, or what `permission`
        raises. Safe against concurrent workers and operators.

        With `connection` the move is part of the caller's transaction. The next claim after its commit promotes the
        job: until then, other jobs must not be locked.
        """

        def move(session: Session, parts: MoveParts) -> Job[Any]:
            return carry_out(session, once, lambda: self._moves.move(session, request, parts))

        if connection is None:
            job = self._backend.write(
                lambda session: move(session, self._parts(session, permission)), asks=permission.is_asked
            )
            self._hint()
            return job
        session = self._backend.join(connection)
        # The caller may commit in spite of an error.
        with session.undo(BaseException):
            return move(session, replace(self._parts(session, permission), promote=lambda _: None))

    def _parts(self, session: Session, permission: Permission) -> MoveParts:
        return replace(self._backend.move_parts(session), permission=permission)

    def release_key(
        self, request: JobRequest, *, connection: Any = None, once: Once[Job[Any]] | None = None
    ) -> Job[Any]:
        """Take the dedupe key from a finished job and return the job. Raises `JobNotFound` or `KeyInUse`. With
        `connection` it is part of the caller's transaction."""
        return self._write_in(connection, once, self._dedupe_keys.release, request)

    def _write_in(
        self,
        connection: Any,
        once: Once[Job[Any]] | None,
        operation: Callable[[Session, JobRequest], Job[Any]],
        request: JobRequest,
    ) -> Job[Any]:
        """In the caller's transaction, if there is a connection."""
        if connection is None:
            return self._write_once(once, operation, request)
        session = self._backend.join(connection)
        # The caller may commit in spite of an error.
        with session.undo(BaseException):
            return carry_out(session, once, lambda: operation(session, request))

    # Reading

    def now(self) -> datetime:
        return self._read(self._reading.now)

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self._read(self._reading.job, storable(job_id), owner)

    def load(self, leases: Sequence[Lease]) -> None:
        """Load the full records of these leases' jobs, in one query."""
        self._read(self._reading.load, leases)

    def jobs(
        self, wanted: JobFilter, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Any]:
        """Return a page of jobs, the newest first. It ends early if its arguments and results are large."""
        return self._read(self._reading.jobs, wanted, owner, limit, cursor)

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        """Count all jobs of each kind by state. Reads the whole table."""
        return self._read(self._reading.counts, owner)

    def count(self, wanted: JobFilter, *, by: str = "state", owner: str | None = None) -> Counts:
        """Count the matching jobs by a field. Reads at most 10,000 jobs of each state."""
        return self._read(self._counts.count, wanted, by, owner)

    def is_busy(self, kinds: Sequence[str], *, waiting_for: Sequence[str] = ()) -> bool:
        """Whether jobs of these kinds are queued, running or due, or wait for one of these reasons. Jobs blocked by a
        pause or an open service do not count."""
        return self._read(self._reading.is_busy, kinds, waiting_for)

    def outlook(self, kinds: Sequence[str]) -> Outlook:
        """Return what an idle worker with these kinds and its duties have to do, in one read."""
        return self._read(self._find_outlook, kinds)

    def _find_outlook(self, session: Session, kinds: Sequence[str]) -> Outlook:
        values = {"kinds": to_json(list(kinds)), "waiting_for": "[]", **CHORE_VALUES}
        (row,) = session.rows("outlook", values)
        found = to_promotable(row)
        return Outlook(
            is_busy=bool(row["is_busy"]),
            has_promotable=self._limits.has_news or found.has_work or found.has_restricted,
            duties=to_chores(row),
            tick=from_time_or_none(row["tick"]),
            moment=from_time_or_none(row["moment"]),
        )

    def next_due(self) -> datetime | None:
        """Return when the next waiting job becomes due."""
        return self._read(self._reading.next_due)

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        """Count the queued jobs of its lane that are claimed before this one, up to `limit`."""
        return self._read(self._reading.ahead_of, job, limit)

    def position(self, job_id: str, *, owner: str | None = None, limit: int) -> int | None:
        """Return the place of a queued job in claim order, counted from 1 up to `limit`; None if it is not queued.

        Jobs of paused lanes, and of services that hold their jobs, are not counted.
        """
        return self._read(lambda session: self._reading.position(session, storable(job_id), owner, limit))

    def lanes(self) -> list[Lane]:
        """Count all ready jobs by lane, and those that wait for a worker of another version."""
        return self._read(self._reading.lanes)

    def queue_loads(self, *, most: int) -> list[QueueLoad]:
        """Count ready and running jobs by queue and kind. About `most` ready jobs are read, evenly from all
        lanes; where there are more, the number is a lower bound."""
        return self._read(self._reading.queue_loads, most)

    def find_ids(self, what: str, part: str, *, owner: str | None = None, limit: int) -> list[str]:
        """Return ids of a `"job"`, a `"batch"` and so on: the one equal to `part` first, then the newest that begin
        with it, or end with it and are among the newest `NEWEST_IDS`."""
        return self._read(self._reading.find_ids, what, storable(part), owner, limit)

    def workers(self) -> list[WorkerRecord]:
        return self._read(self._reading.workers)

    # The event log

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        if job is not None:
            return self._read(self._events.of_job, job, owner, after, limit)
        wanted = EventFilter(owner=owner)
        page = self.stream(wanted, after=after, limit=limit)
        while not page.events and not page.is_end:
            page = self.stream(wanted, after=page.position, limit=limit)
        return list(page.events)

    def history(
        self, *, service: str | None = None, batch: str | None = None, owner: str | None = None, limit: int
    ) -> list[Event]:
        """Return the newest events about a service or a batch itself, the newest first. Looks at a bounded number of
        events that belong to no job."""
        wanted = Subject.service(service) if service is not None else Subject.batch(batch or "")
        return self._read(self._events.about, wanted, owner, limit)

    def stream(self, wanted: EventFilter, *, after: int = 0, limit: int = 500) -> EventPage:
        """Return the next events that are wanted, and how far the log was read. No event is skipped or repeated,
        whichever transactions are open. A call reads a bounded number of events that are not wanted."""
        return self._read(self._events.stream, wanted, after, limit)

    def progress(
        self,
        *,
        job: str | None = None,
        batch: str | None = None,
        owner: str | None = None,
        since: datetime | None = None,
        limit: int = 500,
    ) -> list[Progress]:
        """Return the progress of running jobs that changed after `since`, the oldest change first."""
        return self._read(self._events.progress, job, batch, owner, since, limit)

    def histories(self, jobs: Sequence[str]) -> dict[str, list[Event]]:
        """Return all events of these jobs in one read. The caller chooses so few jobs that their events fit in
        memory."""
        return self._read(self._events.of_many, jobs)

    def last_failures(self, jobs: Sequence[str], *, owner: str | None = None) -> dict[str, Event]:
        """Return the event of the last failure of each of these jobs, in one query. Jobs without one are missing."""
        return self._read(lambda session: self._events.last_failures(session, jobs, owner))

    def last_position(self, *, back: int = 0) -> int:
        """Return the position of the last event; with `back`, a position that at least this many events follow, if
        there are."""
        return self._read(self._events.last_position, back)

    def cursors(self) -> list[Cursor]:
        """Return the cursors of readers, the lowest first. Events above the lowest are never deleted."""
        return self._read(self._events.cursors)

    def set_cursor(self, name: str, position: int) -> None:
        """Store durably how far a reader has come."""
        self._write(self._events.set_cursor, name, position)

    def project(self, name: str, apply: Apply, *, limit: int = 1_000) -> int:
        """Apply the next events to a projection, in the transaction that moves its cursor. Return how many; 0 if there
        were none, or another process applied them."""
        before = self._start_of(name)
        page = self.stream(EventFilter(), after=before, limit=limit)
        if page.position == before:
            return 0
        try:
            return self._backend.write(
                lambda session: project(session, self._events, name, before, page, apply), is_long=True, asks=True
            )
        except ApplyFailed as failed:
            raise failed.error from None

    def _start_of(self, name: str) -> int:
        """The stored position of a projection. A new one is stored at once: from then on no event is deleted."""
        for _ in range(2):
            found = [cursor.position for cursor in self.cursors() if cursor.name == name]
            if found:
                return found[0]
            self._write(self._events.add_cursor, name)
        return 0

    def drop_cursor(self, name: str) -> bool:
        """Delete the cursor of a reader: no events are kept for it any longer. Return whether there was one."""
        return self._backend.write_one(lambda session: self._events.drop_cursor(session, name))

    # Failure groups and statistics, which the duty `project` derives from the log

    def next_entries(self, *, limit: int) -> EntryPage:
        """Return the next events that were not folded into groups and statistics."""
        return self._backend.read(lambda session: self._built_in.page(session, limit), is_large=True)

    def apply_folded(self, page: EntryPage, folded: Folded) -> bool:
        """Add what a page says, in the transaction that moves the position. Return False if another process did."""
        return self._backend.write(
            lambda session: self._built_in.apply(session, page, folded), is_durable=False, is_long=True
        )

    def projection_status(self) -> ProjectionStatus:
        return self._read(self._built_in.status)

    def rebuild_projection(self) -> None:
        """Fold the log again, as far as it is complete. The duty `project` does it."""
        self._backend.write(self._built_in.rebuild, is_long=True)

    def groups(
        self,
        *,
        owner: str | None = None,
        states: Sequence[GroupState] = (),
        kind: str | None = None,
        code: str | None = None,
        order: str = "impact",
        skip: int = 0,
        limit: int = 50,
    ) -> tuple[list[FailureGroup], int | None]:
        """Return a page of failure groups, and how many to skip for the next page. `states` are all if empty."""
        return self._read(
            lambda session: self._groups.search(
                session, owner=owner, states=states, kind=kind, code=code, order=order, skip=skip, limit=limit
            )
        )

    def count_groups(
        self, *, owner: str | None = None, kind: str | None = None, code: str | None = None
    ) -> dict[str, int]:
        """Return how many groups are in each state. Counting stops at 10,000."""
        return self._read(self._groups.count, owner, kind, code)

    def group(self, group_id: str, *, owner: str | None = None) -> FailureGroup | None:
        """Return a group with the counts of all owners, or of one; None if that has no failures in it."""
        found = self._read(self._groups.find, [storable(group_id)], owner)
        return found[0] if found else None

    def group_owners(self, group_id: str) -> list[NameCount]:
        """Return the owners with most failures in a group."""
        return self._read(self._groups.owners, storable(group_id))

    def decide_group(self, decision: GroupDecision, *, once: Once[FailureGroup] | None = None) -> FailureGroup:
        """Ignore, resolve or reopen a group. Raises `GroupNotFound`."""
        return self._write_once(once, self._groups.decide, decision)

    def statistics(
        self, span: int, *, since: datetime, until: datetime, limit: int, **wanted: str | None
    ) -> list[Statistic]:
        """Return the statistics of minutes, hours or days, the newest first."""
        return self._read(self._statistics.read, span, since, until, wanted, limit)

    def totals(self) -> dict[TotalKey, Tally]:
        """Return the totals of metrics, as far as the log was folded."""
        return self._read(self._totals.read)

    def open_breakers(self, *, limit: int) -> list[str]:
        """Return the services whose breaker is open, as far as the log was folded."""
        return self._read(self._totals.open_breakers, limit)

    def prune_totals(self, *, before: datetime) -> int:
        """Merge series of metrics that have not changed since. Return how many."""
        if not self._read(self._totals.has_old, before):
            return 0
        return self._write(self._totals.prune, before)

    def depths(self) -> dict[State, int]:
        """Return how many jobs are queued, waiting and running. Above 10,000, the number is about a minute old."""
        return self._read(self._depths.read)

    def count_depths(self) -> None:
        """Count the queued and the waiting jobs, if no process has done so for a while."""
        for due in self._read(self._depths.list_due):
            if self._write(self._depths.claim, due):
                self._count_depth(due.state)

    def _count_depth(self, state: State) -> None:
        number, took = self._backend.read(lambda session: self._depths.count(session, state), is_large=True)
        self._write(self._depths.record, state, number, took)

    def recent_counts(self, recent: datetime, *, since: datetime) -> list[RecentCount]:
        """Count outcomes from `recent` on, and from `since` up to then, by kind and code."""
        return self._read(self._statistics.recent, recent, since)

    def failure_points(
        self, step: timedelta, *, since: datetime, until: datetime, **wanted: str | None
    ) -> list[FailurePoint]:
        """Return what failed and what recovered in each step: a multiple of a minute, an hour or a day."""
        return self._read(self._statistics.failures, step, since, until, wanted)

    def prune_groups(self, *, before: datetime, limit: int) -> int:
        """Delete groups that were not seen since. Return how many."""
        return self._write(self._groups.prune, before, limit)

    def prune_statistics(self, span: int, *, before: datetime, limit: int) -> int:
        """Delete the statistics of at most `limit` minutes, hours or days. Return of how many."""
        return self._write(self._statistics.prune, span, before, limit)

    def _read(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **named: P.kwargs) -> T:
        return self._backend.read(lambda session: work(session, *args, **named))

    # Access to the HTTP API

    def create_api_key(
        self, key: NewKey, *, audit: Sequence[NewAuditEntry] = (), setup: str | None = None
    ) -> Key | None:
        """Store a key. Return None if its id is taken. Raises `KeyExists` if its request created a key already.

        With `setup`, the hash of a setup token, that token is used up. Raises `SetupRefused` for one that is unknown,
        used or expired, and if there is an administrator's key already.
        """
        if setup is None:
            return self._write(self._api_keys.create, key, audit)
        return self._write(self._api_keys.set_up, setup, key, audit)

    def revoke_api_key(
        self,
        key_id: str,
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[Key] | None = None,
    ) -> Key:
        """Revoke a key and return it; one that is revoked already does not change. Raises `KeyNotFound`."""
        return self._write_once(once, self._api_keys.revoke, storable(key_id), owner, audit)

    def api_key(self, key_id: str) -> StoredKey | None:
        """Return a key with the hash of its token, whether it is usable or not."""
        return self._read(self._api_keys.find, key_id)

    def api_keys(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[Key]:
        """Return keys by id, also revoked and expired ones. `cursor` is the last id seen."""
        return self._read(self._api_keys.list_all, owner, limit, cursor)

    def has_api_keys(self, *, is_admin: bool = False) -> bool:
        """Whether there is a usable key; with `is_admin`, an administrator's."""
        return self._read(lambda session: self._api_keys.has_usable(session, is_admin=is_admin))

    def offer_setup(self, digest: str, *, duration: timedelta) -> None:
        """Store the hash of a setup token."""
        self._write(self._api_keys.offer_setup, digest, duration)

    def begin_web_session(self, digest: str, key_id: str, *, audit: Sequence[NewAuditEntry] = ()) -> None:
        """Store a session of the dashboard by the hash of its token."""
        self._write(self._web_sessions.begin, digest, key_id, audit)

    def web_session(self, digest: str) -> WebSession | None:
        """Return a session with its key, whether they are usable or not."""
        return self._read(self._web_sessions.find, digest)

    def note_web_session(self, digest: str) -> None:
        """Store that a session was used now."""
        self._write(self._web_sessions.note_use, digest)

    def end_web_session(self, digest: str, *, audit: Sequence[NewAuditEntry] = ()) -> None:
        """Delete a session. Without it, nothing happens."""
        self._write(self._web_sessions.end, digest, audit)

    def offer_sign_in(
        self, digest: str, key_id: str, *, duration: timedelta, audit: Sequence[NewAuditEntry] = ()
    ) -> None:
        """Store the hash of a one-time link that signs in with a key."""
        self._write(self._web_sessions.offer_link, digest, key_id, duration, audit)

    def take_sign_in(self, digest: str) -> str | None:
        """Use up a one-time link and return the id of its key; None if it is unknown, used or too old."""
        return self._write(self._web_sessions.take_link, digest)

    def admit(self, wanted: Sequence[AdmissionRequest], ended: Sequence[EndedRequest] = ()) -> list[Admission]:
        """Admit requests, each on its own, and record the ends of earlier ones, in one transaction."""
        return self._backend.write_by_key(lambda: self._admissions.admit(wanted, ended))

    async def admit_on_loop(
        self, wanted: Sequence[AdmissionRequest], ended: Sequence[EndedRequest] = ()
    ) -> list[Admission] | None:
        """The same on the running event loop. None: nothing was admitted; a thread has to call `admit`."""
        return await self._backend.write_by_key_on_loop(lambda: self._admissions.admit(wanted, ended))

    def audit(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[AuditEntry]:
        """Return entries of the audit, the newest first. `cursor` is the last id seen."""
        return self._read(self._admissions.audit, owner, limit, cursor)

    def prune_access(self, *, audited_before: datetime | None, limit: int) -> int:
        """Delete expired marks and setup tokens, idle rates, and entries of the audit that are older. Return how
        many."""
        if not self._read(self._admissions.has_old, audited_before):
            return 0
        return self._write(self._admissions.prune, audited_before, limit)

    # Notifications

    def create_subscription(
        self,
        new: NewSubscription,
        *,
        cursor: str,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[SubscriptionRecord] | None = None,
    ) -> SubscriptionRecord:
        """Store a subscription. It is told of events that come later. Raises `SubscriptionExists` or
        `TooManySubscriptions`."""
        position = self.last_position()
        return self._write_once(once, self._subscriptions.create, new, audit, cursor, position)

    def declare_subscription(self, new: NewSubscription, *, cursor: str) -> SubscriptionRecord:
        """Store a subscription of the code, or its new definition. Its secrets, and whether it is disabled, stay."""
        position = self.last_position()
        return self._write(self._subscriptions.declare, new, cursor, position)

    def report_subscriptions(self, ids: Sequence[str]) -> None:
        """Note that the code of a worker has these."""
        self._write(self._subscriptions.report_seen, ids)

    def subscriptions(
        self,
        *,
        owner: str | None = None,
        limit: int = 1_000,
        cursor: str | None = None,
        is_enabled: bool | None = None,
    ) -> list[SubscriptionRecord]:
        """Return subscriptions by id; with `is_enabled`, without the disabled ones. `cursor` is the last id seen."""
        return self._read(
            lambda session: self._subscriptions.list_all(session, owner, limit, cursor, is_enabled=is_enabled)
        )

    def subscription(self, subscription: str, *, owner: str | None = None) -> SubscriptionRecord:
        return self._read(self._subscriptions.get, storable(subscription), owner)

    def rotate_secret(
        self,
        subscription: str,
        secret: str,
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[SubscriptionRecord] | None = None,
    ) -> SubscriptionRecord:
        """Sign by this secret, and for a day by the previous one too. Raises `SubscriptionNotFound`."""
        return self._write_once(once, self._subscriptions.rotate, storable(subscription), owner, secret, audit)

    def disable_subscription(
        self,
        subscription: str,
        because: str | None,
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[SubscriptionRecord] | None = None,
    ) -> SubscriptionRecord:
        return self._write_once(once, self._subscriptions.disable, storable(subscription), owner, because, audit)

    def enable_subscription(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[SubscriptionRecord] | None = None,
    ) -> SubscriptionRecord:
        return self._write_once(once, self._subscriptions.enable, storable(subscription), owner, audit)

    def remove_subscription(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[SubscriptionRecord] | None = None,
    ) -> SubscriptionRecord:
        """Delete it. What was not sent yet is skipped; the log of its deliveries stays."""
        return self._write_once(once, self._subscriptions.remove, storable(subscription), owner, audit)

    def notify(self, step: NotifyStep) -> NotifyPlan | None:
        """Move the cursor and store what is told, with the jobs that send it. None if another process was faster."""
        done = self._backend.write(lambda session: self._deliveries.notify(session, step), is_long=True)
        if done is not None and done.jobs:
            self._hint()
        return done

    def tags_of(self, jobs: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return the tags of these jobs."""
        return self._read(self._deliveries.tags_of, jobs)

    def incidents_over(self, *, quiet: timedelta, pause: timedelta, limit: int) -> list[Incident]:
        """Return incidents that have not gone on for `quiet`; or for `pause`, and no job of their group is failed."""
        return self._read(self._deliveries.list_over, quiet, pause, limit)

    def end_incident(self, incident: Incident, plan: Callable[[NotifyState], NotifyPlan]) -> bool:
        """End an incident and store what is told of it. Return False if it has gone on."""
        return self._write(self._deliveries.end_incident, incident, plan)

    def forget_incidents(self, *, quiet: timedelta) -> None:
        """Forget events that are no failures and have not recurred for so long."""
        self._write(self._deliveries.forget_incidents, quiet)

    def digests_due(self, *, limit: int) -> list[DigestPlan]:
        return self._read(self._deliveries.list_due, limit)

    def close_digest(
        self,
        digest: DigestPlan,
        *,
        most_mails: int,
        make: Callable[[DigestPlan, DigestContents], NotifyPlan],
    ) -> int:
        """Store the delivery that tells of all that waits for this digest, and its job, if it is still due. Return of
        how many events it tells. A recipient who had `most_mails` in the last hour gets it later."""
        told = self._backend.write(
            lambda session: self._deliveries.close_digest(session, digest, most_mails, make), is_long=True
        )
        if told:
            self._hint()
        return told

    def outgoing(self, delivery: str) -> Outgoing:
        """Return a delivery with its subscription. Raises `DeliveryNotFound`."""
        return self._read(self._deliveries.outgoing, delivery)

    def digest_items(self, digest: str) -> list[Delivery]:
        """Return the deliveries that a digest tells of, the oldest first."""
        return self._read(self._deliveries.items, digest)

    def freeze_delivery(self, delivery: str, body: str) -> str:
        """Store what every attempt sends. Return what was stored first."""
        return self._write(self._deliveries.freeze, delivery, body)

    def record_delivery(self, delivery: str, result: SendResult, *, is_attempt: bool = True) -> bool:
        """Record what came of an attempt. One that is over already does not change."""
        return self._write(lambda session: self._deliveries.record(session, delivery, result, is_attempt=is_attempt))

    def deliveries(
        self,
        *,
        owner: str | None = None,
        subscription: str | None = None,
        state: str | None = None,
        about: str | None = None,
        digest: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Delivery]:
        """Return deliveries, the newest first. `cursor` is the last id seen."""
        fields = {"subscription": subscription, "state": state, "about": about, "digest": digest}
        return self._read(lambda session: self._deliveries.list_all(session, owner, limit, cursor, **fields))

    def delivery(self, delivery: str, *, owner: str | None = None) -> Delivery:
        return self._read(self._deliveries.get, storable(delivery), owner)

    def redeliver(
        self,
        delivery: str,
        make: Callable[[Delivery], NewJob],
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[Delivery] | None = None,
    ) -> Delivery:
        """Send the same body under the same id again. One that is pending or in a digest does not change."""
        again = self._write_once(once, self._deliveries.redeliver, storable(delivery), owner, make, audit)
        self._hint()
        return again

    def send_test(
        self,
        new: NewDelivery,
        job: NewJob,
        *,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[Delivery] | None = None,
    ) -> Delivery:
        """Store a delivery that no event caused, with its job."""
        sent = self._write_once(once, self._deliveries.send_test, new, job, audit)
        self._hint()
        return sent

    def prune_deliveries(self, *, before: datetime, limit: int) -> int:
        """Delete deliveries that were over before this time. Return how many."""
        if not self._read(self._deliveries.has_old, before):
            return 0
        return self._write(self._deliveries.prune, before, limit)

    def count_undelivered(self) -> list[Undelivered]:
        """Count the failed and the skipped deliveries of the last day by channel, with one of the reasons."""
        return self._read(self._deliveries.count_undelivered)

    def create_hook(
        self,
        values: dict[str, Any],
        *,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[IncomingHook] | None = None,
    ) -> IncomingHook:
        """Store an incoming hook. Raises `HookExists` or `TooManyHooks`."""
        return self._write_once(once, self._hooks.create, values, audit)

    def hooks(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[IncomingHook]:
        """Return incoming hooks by id. `cursor` is the last id seen."""
        return self._read(self._hooks.list_all, owner, limit, cursor)

    def hook(self, hook: str) -> IncomingHook | None:
        return self._read(self._hooks.find, storable(hook))

    def remove_hook(
        self,
        hook: str,
        *,
        owner: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[IncomingHook] | None = None,
    ) -> IncomingHook:
        return self._write_once(once, self._hooks.remove, storable(hook), owner, audit)

    def note_hook_call(self, hook: str) -> None:
        """Record the time of a call with a valid signature."""
        self._write(self._hooks.note_call, hook)

    # Alerts

    def alert_book(self) -> AlertBook:
        """Return the rules that differ from their defaults, the states of alerts, and who evaluated them when."""
        return self._read(self._alerts.read)

    def alert_rules(self) -> dict[Check, StoredRule]:
        return self._read(self._alerts.rules)

    def write_alerts(
        self,
        book: AlertBook,
        done: Evaluation,
        *,
        worker: str,
        in_code: Mapping[Check, AlertTerms] | None = None,
    ) -> bool:
        """Store an evaluation that began from this book, with its events and the rules of the code. Return False if
        another process has evaluated meanwhile."""
        return self._write(self._alerts.write, book, done, in_code, worker)

    def set_alert_rule(
        self,
        check: Check,
        terms: AlertTerms,
        *,
        actor: str | None = None,
        reason: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[StoredRule] | None = None,
    ) -> StoredRule:
        """Replace the terms of a rule that a person set before."""
        signed = {"actor": actor, "reason": reason}
        return self._write_once(once, self._alerts.set_rule, check, terms, signed, audit)

    def silence_alert(
        self,
        check: Check,
        duration: timedelta | None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        audit: Sequence[NewAuditEntry] = (),
        once: Once[StoredRule] | None = None,
    ) -> StoredRule:
        """Do not notify of this alert for a time; without a duration, until that is ended."""
        signed = {"actor": actor, "reason": reason}
        return self._write_once(once, self._alerts.silence, check, duration, signed, audit)

    def unsilence_alert(
        self, check: Check, *, audit: Sequence[NewAuditEntry] = (), once: Once[StoredRule] | None = None
    ) -> StoredRule:
        """End the silence of an alert."""
        return self._write_once(once, self._alerts.unsilence, check, audit)

    # Requests with an id of the caller

    def in_parts(self, once: Once[T] | None, work: Callable[[], T]) -> T:
        """Do work of several transactions and store its answer, or return the answer of the first time.

        Parts that a crash left undone are done by the next call. Of two calls at once both work, and both get the
        answer that is stored first.
        """
        if once is None:
            return work()
        if answers := self.find_answers(once):
            return answers[0]
        answer = work()
        return self._write_once(once, lambda _: answer)

    def find_answers(self, once: Once[T] | None) -> list[T]:
        """Return the answer of the first time, if there was one."""
        return [] if once is None else self._read(find_answer, once)

    def prune_requests(self, *, before: datetime, limit: int) -> int:
        """Forget requests that were carried out before this time. Return how many."""
        if not self._read(has_old_requests, before):
            return 0
        return self._write(prune_requests, before, limit)

    def _write_once(
        self, once: Once[T] | None, work: Callable[Concatenate[Session, P], T], *args: P.args, **named: P.kwargs
    ) -> T:
        return self._backend.write(lambda session: carry_out(session, once, lambda: work(session, *args, **named)))

    def _write(self, work: Callable[Concatenate[Session, P], T], *args: P.args, **named: P.kwargs) -> T:
        return self._backend.write(lambda session: work(session, *args, **named))
