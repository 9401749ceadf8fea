"""The PostgreSQL store: each operation one transaction, in the order of a job's life."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg

from mulligan.errors import BatchBusy, UndeclaredProxy
from mulligan.failure.text import storable
from mulligan.failure.verdict import Verdict
from mulligan.lifecycle import State
from mulligan.records.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.records.duty import DutyOverview, Round
from mulligan.records.event import Cursor, Event
from mulligan.records.finding import Finding, Limits
from mulligan.records.job import Fence, Job, JobFilter, Lease, NewJob, Page
from mulligan.records.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.records.pause import Pause, PauseRequest
from mulligan.records.redrive import Match, Redrive
from mulligan.records.retention import EndedCount, PurgeRequest
from mulligan.records.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.service import ServiceBook
from mulligan.service.records import Demand, Family, ServiceRecord, ServiceRequest
from mulligan.store.batches import let_in
from mulligan.store.beat import BeatSteps
from mulligan.store.clock import Now
from mulligan.store.duties import RoundSteps
from mulligan.store.events import HistorySteps
from mulligan.store.expire import UnrunSteps
from mulligan.store.limits import LimitDesk
from mulligan.store.moves import Hands, MoveSteps
from mulligan.store.pauses import PauseSteps
from mulligan.store.postgres import health, proxy, schema
from mulligan.store.postgres.changes import Notifications, Notifier, Polling, ServerSilent
from mulligan.store.postgres.claim import ClaimDesk
from mulligan.store.postgres.connections import Connection, Connections
from mulligan.store.postgres.enqueue import Intake
from mulligan.store.postgres.events import LogSteps
from mulligan.store.postgres.play import (
    BEGIN,
    BEGIN_ASYNCHRONOUS,
    BEGIN_PUBLISH,
    SQL,
    execute,
    leases,
    play,
    play_in,
    transaction,
)
from mulligan.store.postgres.promote import Door
from mulligan.store.postgres.retention import removing
from mulligan.store.postgres.settle import SettleDesk
from mulligan.store.postgres.url import parse_url
from mulligan.store.protocols import (
    TIMEOUT,
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
from mulligan.store.reading import ReadingSteps
from mulligan.store.redrives import RedriveSteps
from mulligan.store.retention import ClearingSteps
from mulligan.store.rows import to_duration, to_time
from mulligan.store.schedules import ScheduleSteps
from mulligan.store.services import ServiceDesk
from mulligan.store.session import Script, Statement, Steps, alone
from mulligan.store.settle import needs_record
from mulligan.store.submissions import OwnerSteps
from mulligan.store.values import fence_values

T = TypeVar("T")

# What may take long by itself, beyond the limit of a call: changes of the schema, jobs in bulk, a batch at once.
MIGRATING = timedelta(hours=1)
PER_JOB = timedelta(milliseconds=1)
WHOLE_BATCH = timedelta(minutes=5)


class PostgresStore:
    """`now` replaces the server's clock; `services` are those in force; no call waits longer than `timeout`."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        services: Callable[[], ServiceBook] = ServiceBook,
        timeout: timedelta = TIMEOUT,
    ) -> None:
        self._address = address = parse_url(url)
        self._given_now = now
        self._wire(services)
        self._connections = Connections(address.url, prepares=address.prepares, timeout=timeout)
        self._notifier = Notifier(self._connections) if address.listens else ServerSilent()
        self._is_checked = False

    def _wire(self, services: Callable[[], ServiceBook]) -> None:
        self._services = ServiceDesk(SQL, services)
        self._limits = LimitDesk(SQL, self._services)
        owners = OwnerSteps(SQL)
        self._intake = Intake(owners, self._limits, self._services.names, self._given_now)
        self._batches = self._intake.batches
        self._unrun = UnrunSteps(SQL, self._batches, self._intake.enqueueing)
        self._door = Door(self._services, self._limits, self._unrun)
        self._claims = ClaimDesk(self._services, self._door, self.job)
        self._beats = BeatSteps(SQL, self._services, self._limits, owners)
        self._settling = SettleDesk(self._services, self._limits, self._intake)
        self._moves = MoveSteps(SQL, self._batches, psycopg.IntegrityError)
        self._redrives = RedriveSteps(SQL, self._moves, self._batches)
        self._schedules = ScheduleSteps(SQL, self._intake.enqueueing)
        self._pauses, self._rounds = PauseSteps(SQL), RoundSteps(SQL)
        self._clearing = ClearingSteps(SQL, removing)
        self._reading, self._history, self._log = ReadingSteps(SQL), HistorySteps(SQL), LogSteps(SQL)

    def migrate(self) -> list[str]:
        return self._connections.run(schema.migrate, extra=MIGRATING)

    def changes(self) -> Changes:
        return Notifications(self._connections) if self._address.listens else Polling()

    def close(self) -> None:
        self._notifier.close()
        self._connections.close()

    def examine(self, limits: Limits) -> list[Finding]:
        return health.examine(self._connections, self._address, limits)

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        if not jobs:
            return []
        stored = self._run(lambda db: self._intake.enqueue(db, jobs), len(jobs) * PER_JOB)
        self._notifier.hint()
        return stored

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        # On a connection of ours: a table that is missing would spoil the caller's transaction.
        self._check_once()
        # No NOTIFY: it would make his commit wait for all others'. An idle worker looks every second anyway.
        return Script("PostgreSQL", self._intake.enqueueing(jobs))

    def claim(self, claim: Claim) -> Claimed:
        claimed = self._run(lambda db: self._claim(db, claim))
        self._limits.told()
        return claimed

    def _claim(self, db: Connection, claim: Claim) -> Claimed:
        return self._claims.claim(db, claim, self._now)

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        values = {"incarnation": incarnation, "before": before, "held": [fence.id for fence in held]}
        return self._run(lambda db: self._claims.recall(db, "adopt", values))

    def secure(self, fence: Fence) -> bool:
        # Committed synchronously, and with it all that was written before: the claim too.
        return self._run(lambda db: execute(db, SQL["secure"], fence_values(fence)).rowcount == 1)

    def begin(self, fence: Fence) -> bool:
        return self._run(lambda db: execute(db, SQL["begin"], fence_values(fence)).rowcount == 1)

    def beat(self, beat: Beat) -> BeatReply:
        reply = self._run(lambda db: self._beat(db, beat))
        self._limits.told()
        return reply

    def _beat(self, db: Connection, beat: Beat) -> BeatReply:
        return play_in(db, BEGIN_ASYNCHRONOUS, self._beats.beating(beat, self._now))

    def leave(self, incarnation: str) -> None:
        self._read(lambda _: alone(Statement(SQL["leave"], {"incarnation": incarnation})))

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._run(lambda db: self._settle(db, outcomes))

    def _settle(self, db: Connection, outcomes: Sequence[Outcome]) -> Answers:
        return self._settling.settle(db, outcomes, self._now)

    # Upkeep

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        values = {"now": self._now, "besides": besides, "limit": limit}
        return self._run(lambda db: leases(db, SQL["overdue"], values))

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit, "now": self._now}
        return self._run(lambda db: leases(db, SQL["stuck"], values))

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        passed = self._run(lambda db: self._door.promote_by_duty(db, duty, limit, self._now, by_hand=by_hand))
        if passed:
            self._notifier.hint()
        return passed

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        return self._transact(lambda now: self._unrun.expiring(verdict, limit, now))

    def pause(self, request: PauseRequest) -> Pause:
        return self._transact(lambda now: self._pauses.pausing(request, now))

    def resume(self, request: PauseRequest) -> Pause | None:
        ended = self._transact(lambda now: self._pauses.resuming(request, now))
        self._notifier.hint()
        return ended

    def pauses(self) -> list[Pause]:
        return self._read(self._pauses.listing)

    def chores(self) -> DutyOverview:
        return self._read(self._rounds.looking)

    def note(self, rounds: Sequence[Round]) -> None:
        begin = BEGIN if any(done.request for done in rounds) else BEGIN_ASYNCHRONOUS
        self._transact(lambda now: self._rounds.noting(rounds, now), begin)

    def rounds(self) -> list[Round]:
        return self._read(lambda _: self._rounds.listing())

    # Batches

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        return self._read(lambda now: self._batches.creating(batch, now))

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        batch = self._run(lambda db: self._publish(db, batch_id, owner, actor), WHOLE_BATCH)
        let_in(self)
        return batch

    def _publish(self, db: Connection, batch_id: str, owner: str | None, actor: str | None) -> BatchRecord:
        try:
            return play_in(db, BEGIN_PUBLISH, self._batches.publishing(storable(batch_id), owner, actor, self._now))
        except psycopg.errors.LockNotAvailable as error:
            raise BatchBusy(batch_id) from error

    def retry_members(self, request: BatchRetry) -> list[str]:
        retried = self._transact(lambda now: self._batches.retrying(request, now), extra=WHOLE_BATCH)
        self._notifier.hint()
        return retried

    def batch(self, batch_id: str, *, owner: str | None = None) -> BatchRecord:
        return self._read(lambda _: self._batches.reading(storable(batch_id), owner))

    def batches(
        self,
        *,
        state: BatchState | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[BatchRecord]:
        return self._read(lambda _: self._batches.listing(state, owner, limit, cursor))

    def tend_batches(self, *, limit: int) -> int:
        return self._run(lambda db: self._tend_batches(db, limit))

    def _tend_batches(self, db: Connection, limit: int) -> int:
        if not play(db, self._batches.need_tending(self._now)):
            return 0
        with transaction(db, BEGIN):
            did = play(db, self._batches.expiring(limit, self._now))
        for batch in play(db, self._batches.aborted(limit, self._now)):
            # One by one: members before their batch, and never two batches at once.
            with transaction(db, BEGIN):
                did += play(db, self._batches.sweeping(batch, max(0, limit - did), self._now))
        play(db, self._batches.admitted())
        return did

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        return self._read(lambda _: self._batches.pruning(before, limit))

    # Services and limits

    def services(self, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        return self._read(lambda now: self._services.listed(now, names))

    def service_names(self) -> list[Family]:
        return self._read(lambda _: self._services.names.counted())

    def force(self, request: ServiceRequest) -> ServiceRecord:
        record = self._transact(lambda now: self._services.force(request, now))
        self._notifier.hint()
        return record

    def demands(self, *, limit: int) -> list[Demand]:
        return self._read(lambda _: self._services.demands(limit))

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        self._limits.book = book

    def limits(self, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        return self._read(lambda _: self._limits.records(subjects))

    def spending(self, owner: str) -> SpendingRecord | None:
        return self._read(lambda now: self._limits.spending(owner, now))

    # Schedules

    def schedules(self) -> list[ScheduleRecord]:
        return self._read(lambda _: self._schedules.listing())

    def change_schedule(self, change: ScheduleChange) -> bool:
        is_changed = self._transact(lambda now: self._schedules.changing(change, now))
        if change.jobs:
            self._notifier.hint()
        return is_changed

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        return self._transact(lambda now: self._schedules.removing(name, note, now))

    # What is over

    def newest(self, state: State, count: int) -> datetime | None:
        return self._read(lambda _: self._clearing.newest(state, count))

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
        return self._transact(lambda _: self._clearing.pruning(state, before, limit))

    def over(
        self,
        wanted: JobFilter,
        *,
        before: datetime,
        owner: str | None = None,
        limit: int = 500,
        cursor: str | None = None,
    ) -> list[str]:
        return self._read(lambda now: self._clearing.over(wanted, before, owner, limit, cursor, now))

    def count_over(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[EndedCount]:
        return self._read(lambda now: self._clearing.counting(wanted, before, owner, now))

    def purge(self, request: PurgeRequest) -> int:
        return self._transact(lambda now: self._clearing.purging(request, now))

    # Redrives

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        return self._read(lambda _: self._redrives.counting(wanted, before, owner))

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        return self._read(lambda _: self._redrives.candidates(wanted, before, owner, after, limit))

    def begin_redrive(self, redrive: Redrive) -> Redrive:
        return self._transact(lambda now: self._redrives.beginning(redrive, now))

    def redrive_asked(self, request_id: str, *, owner: str | None = None) -> Redrive | None:
        return self._read(lambda _: self._redrives.asked(request_id, owner))

    def advance_redrive(self, redrive: Redrive, moves: Sequence[Request] = ()) -> Redrive | None:
        after = self._run(lambda db: self._advance_redrive(db, redrive, moves))
        if moves:
            self._notifier.hint()
        return after

    def _advance_redrive(self, db: Connection, redrive: Redrive, moves: Sequence[Request]) -> Redrive | None:
        with transaction(db, BEGIN):
            return play(db, self._redrives.advancing(redrive, moves, self._now, self._hands(db)))

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        wanted = storable(redrive_id)
        return self._transact(lambda now: self._redrives.cancelling(wanted, owner, actor, reason, now))

    def answers(self, redrive: Redrive) -> dict[str, bool]:
        return self._read(lambda _: self._redrives.answers(redrive))

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        if is_active:
            return self._read(lambda _: self._redrives.active(limit))
        return self._read(lambda _: self._redrives.listing(redrive_id and storable(redrive_id), owner, limit))

    # By hand

    def move(self, request: Request) -> Job[Any]:
        job = self._run(lambda db: self._move(db, request))
        self._notifier.hint()
        return job

    def _move(self, db: Connection, request: Request) -> Job[Any]:
        with transaction(db, BEGIN):
            return play(db, self._moves.moving(request, self._now, self._hands(db)))

    def _hands(self, db: Connection) -> Hands:
        return Hands(
            settle=lambda first: self._settling.settle_uncounted(db, first, self._now),
            promote=lambda tally: self._door.promote(db, self._now, tally),
        )

    # Looking

    def now(self) -> datetime:
        return self._read(self._reading.now)

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self._read(lambda _: self._reading.job(storable(job_id), owner))

    def load(self, leases: Sequence[Lease]) -> None:
        self._read(lambda _: self._reading.loading(leases))

    def jobs(
        self, wanted: JobFilter, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Any]:
        return self._read(lambda _: self._reading.jobs(wanted, owner, limit, cursor))

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        return self._read(lambda _: self._reading.counts(owner))

    def busy(self, kinds: Sequence[str], *, waiting_for: Sequence[str] = ()) -> bool:
        return self._read(lambda now: self._reading.is_busy(kinds, waiting_for, now))

    def next_due(self) -> datetime | None:
        return self._read(self._reading.next_due)

    def next_moment(self) -> datetime | None:
        return self._read(self._reading.next_moment)

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        return self._read(lambda _: self._reading.ahead_of(job, limit))

    def lanes(self) -> list[Lane]:
        return self._read(lambda _: self._reading.lanes())

    def find_ids(self, what: str, part: str, *, owner: str | None = None, limit: int) -> list[str]:
        return self._read(lambda _: self._reading.find_ids(what, storable(part), owner, limit))

    def workers(self) -> list[WorkerRecord]:
        return self._read(lambda _: self._reading.workers())

    # The log

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        if job is not None:
            return self._read(lambda _: self._history.of_job(job, owner, after, limit))
        return self._read(lambda _: self._log.events(owner, after, limit))

    def histories(self, jobs: Sequence[str]) -> dict[str, list[Event]]:
        return self._read(lambda _: self._history.of_many(jobs))

    def last_position(self, *, back: int = 0) -> int:
        return self._read(lambda _: self._log.last_position(back))

    def cursors(self) -> list[Cursor]:
        return self._read(lambda _: self._history.cursors())

    def set_cursor(self, name: str, position: int) -> None:
        self._transact(lambda now: self._history.setting(name, position, now))

    def drop_cursor(self, name: str) -> None:
        self._read(lambda _: self._history.dropping(name))

    # Transactions

    def _read(self, steps: Callable[[Now], Steps[T]], extra: timedelta = timedelta(0)) -> T:
        """Each statement by itself: for those who look, and for what is one statement anyway."""
        return self._run(lambda db: play(db, steps(self._now)), extra)

    def _transact(self, steps: Callable[[Now], Steps[T]], begin: str = BEGIN, extra: timedelta = timedelta(0)) -> T:
        return self._run(lambda db: play_in(db, begin, steps(self._now)), extra)

    def _run(self, work: Callable[[Connection], T], extra: timedelta = timedelta(0)) -> T:
        self._check_once()
        return self._connections.run(work, extra=extra)

    def _check_once(self) -> None:
        if self._is_checked:
            return
        # Before anything is prepared: in somebody else's session its name may be another statement's.
        if self._address.prepares and proxy.look(self._connections) is proxy.Between.TRANSACTIONS:
            raise UndeclaredProxy(self._address.url)
        self._connections.run(schema.check)
        self._is_checked = True

    @property
    def _now(self) -> Now:
        return None if self._given_now is None else to_time(self._given_now())
