"""The SQLite store: each operation one transaction, in the order of a job's life."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mulligan.errors import StoreError
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
from mulligan.store.duties import RoundSteps
from mulligan.store.events import HistorySteps
from mulligan.store.expire import UnrunSteps
from mulligan.store.limits import LimitDesk
from mulligan.store.moves import Hands, MoveSteps
from mulligan.store.pauses import PauseSteps
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
from mulligan.store.rows import to_duration, to_event, to_json, to_time
from mulligan.store.schedules import ScheduleSteps
from mulligan.store.services import ServiceDesk
from mulligan.store.session import Script, Statement, Steps, alone
from mulligan.store.settle import needs_record
from mulligan.store.sqlite import health, schema
from mulligan.store.sqlite.changes import FileChanges, MemoryChanges
from mulligan.store.sqlite.claim import ClaimDesk
from mulligan.store.sqlite.corruption import Damage, left
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.driver import OLDEST_VERSION, sqlite3
from mulligan.store.sqlite.enqueue import Intake
from mulligan.store.sqlite.play import SQL, leases, play
from mulligan.store.sqlite.promote import Door
from mulligan.store.sqlite.retention import removing
from mulligan.store.sqlite.settle import SettleDesk
from mulligan.store.sqlite.url import parse_url
from mulligan.store.submissions import OwnerSteps
from mulligan.store.values import fence_values

T = TypeVar("T")


class SqliteStore:
    """`now` replaces the machine's clock; `threaded=False` commits in the caller's own thread; `services` are those in
    force; a write waits for other processes no longer than `timeout`; `database` is one that is open already."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        threaded: bool = True,
        services: Callable[[], ServiceBook] = ServiceBook,
        timeout: timedelta = TIMEOUT,
        database: Database | None = None,
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_VERSION:
            oldest = ".".join(map(str, OLDEST_VERSION))
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old, {oldest} is needed: install 'mulligan[sqlite]'"
            )
        path, synchronous = parse_url(url)
        self._given_now = now
        self._synchronous = synchronous.lower()
        self._wire(services)
        self._database = database or Database(path, synchronous=synchronous, threaded=threaded, timeout=timeout)
        try:
            self.migrate()
        except BaseException:
            self._database.close()
            raise

    def _wire(self, services: Callable[[], ServiceBook]) -> None:
        self._services = ServiceDesk(SQL, services)
        self._limits = LimitDesk(SQL, self._services)
        owners = OwnerSteps(SQL)
        self._intake = Intake(owners, self._limits, self._services.names, self._given_now)
        self._batches = self._intake.batches
        unrun = UnrunSteps(SQL, self._batches, self._intake.enqueueing)
        self._damage = Damage(unrun)
        self._door = Door(self._services, self._limits, unrun, self._damage)
        self._claims = ClaimDesk(self._services, self._door, self._damage, self.job)
        self._beats = BeatSteps(SQL, self._services, self._limits, owners)
        self._settling = SettleDesk(self._services, self._limits, self._intake, self._damage)
        self._moves = MoveSteps(SQL, self._batches, sqlite3.IntegrityError)
        self._redrives = RedriveSteps(SQL, self._moves, self._batches)
        self._schedules = ScheduleSteps(SQL, self._intake.storing)
        self._pauses, self._rounds = PauseSteps(SQL), RoundSteps(SQL)
        self._clearing = ClearingSteps(SQL, removing)
        self._reading, self._history = ReadingSteps(SQL), HistorySteps(SQL)

    def migrate(self) -> list[str]:
        # Looked at first without writing: a store opened for reading is not to be written to.
        if self._database.read(schema.version)[0] == schema.VERSION:
            return []
        return self._database.write(schema.migrate)

    def changes(self) -> Changes:
        return FileChanges(self._database) if self._database.path else MemoryChanges(self._database)

    def close(self) -> None:
        self._database.close()

    def examine(self, limits: Limits) -> list[Finding]:
        return health.examine(self._database, self._synchronous, limits)

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        return self._database.write(lambda db: self._intake.enqueue(db, jobs, self._now(db)))

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        if self._database.path is None:
            raise StoreError("jobs kept in memory are out of reach for connection=; use a file: 'sqlite:///jobs.db'")
        return Script("SQLite", self._intake.enqueueing(jobs))

    def claim(self, claim: Claim) -> Claimed:
        claimed = self._database.write(lambda db: self._claim(db, claim))
        self._limits.told()
        return claimed

    def _claim(self, db: "sqlite3.Connection", claim: Claim) -> Claimed:
        return self._claims.claim(db, claim, self._now(db))

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        values = {"incarnation": incarnation, "before": before, "held": to_json([fence.id for fence in held])}
        return self._database.read(lambda db: self._claims.recall(db, "adopt", values))

    def secure(self, fence: Fence) -> bool:
        # A claim is as durable as every commit here: looking is enough.
        return bool(self._read(lambda _: alone(Statement(SQL["secure"], fence_values(fence)))))

    def begin(self, fence: Fence) -> bool:
        return self._database.write(lambda db: db.execute(SQL["begin"], fence_values(fence)).rowcount == 1)

    def beat(self, beat: Beat) -> BeatReply:
        reply = self._database.write(lambda db: self._beat(db, beat))
        self._limits.told()
        return reply

    def _beat(self, db: "sqlite3.Connection", beat: Beat) -> BeatReply:
        return play(db, self._beats.beating(beat, self._now(db)))

    def leave(self, incarnation: str) -> None:
        self._write(lambda _: alone(Statement(SQL["leave"], {"incarnation": incarnation})))

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._database.write(lambda db: self._settle(db, outcomes))

    def _settle(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome]) -> Answers:
        return self._settling.settle(db, outcomes, self._now(db))

    # Upkeep: what mostly finds nothing to do looks first, and keeps no writer waiting

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        values = {"besides": besides, "limit": limit}
        return self._database.read(lambda db: leases(db, SQL["overdue"], {**values, "now": self._now(db)}))

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit}
        return self._database.read(lambda db: leases(db, SQL["stuck"], {**values, "now": self._now(db)}))

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        return self._database.write(
            lambda db: self._door.promote_by_duty(db, duty, limit, self._now(db), by_hand=by_hand)
        )

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        if not self._database.read(lambda db: left(db, "expire_left", self._now(db), 1)):
            return 0
        return self._database.write(lambda db: self._damage.expire(db, verdict, limit, self._now(db)))

    def pause(self, request: PauseRequest) -> Pause:
        return self._write(lambda now: self._pauses.pausing(request, now))

    def resume(self, request: PauseRequest) -> Pause | None:
        return self._write(lambda now: self._pauses.resuming(request, now))

    def pauses(self) -> list[Pause]:
        return self._read(self._pauses.listing)

    def chores(self) -> DutyOverview:
        return self._read(self._rounds.looking)

    def note(self, rounds: Sequence[Round]) -> None:
        self._write(lambda now: self._rounds.noting(rounds, now))

    def rounds(self) -> list[Round]:
        return self._read(lambda _: self._rounds.listing())

    # Batches

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        return self._write(lambda now: self._batches.creating(batch, now))

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        batch = self._write(lambda now: self._batches.publishing(batch_id, owner, actor, now))
        let_in(self)
        return batch

    def retry_members(self, request: BatchRetry) -> list[str]:
        return self._write(lambda now: self._batches.retrying(request, now))

    def batch(self, batch_id: str, *, owner: str | None = None) -> BatchRecord:
        return self._read(lambda _: self._batches.reading(batch_id, owner))

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
        if not self._read(self._batches.need_tending):
            return 0
        return self._write(lambda now: self._batches.tending(limit, now))

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        return self._write(lambda _: self._batches.pruning(before, limit))

    # Services and limits

    def services(self, names: Sequence[str] | None = None) -> list[ServiceRecord]:
        return self._read(lambda now: self._services.listed(now, names))

    def service_names(self) -> list[Family]:
        return self._read(lambda _: self._services.names.counted())

    def force(self, request: ServiceRequest) -> ServiceRecord:
        return self._write(lambda now: self._services.force(request, now))

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
        return self._write(lambda now: self._schedules.changing(change, now))

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        return self._write(lambda now: self._schedules.removing(name, note, now))

    # What is over

    def newest(self, state: State, count: int) -> datetime | None:
        return self._read(lambda _: self._clearing.newest(state, count))

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
        if not self._read(lambda _: self._clearing.old(state, before, limit)):
            return 0
        return self._write(lambda _: self._clearing.pruning(state, before, limit))

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
        return self._write(lambda now: self._clearing.purging(request, now))

    # Redrives

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        return self._read(lambda _: self._redrives.counting(wanted, before, owner))

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        return self._read(lambda _: self._redrives.candidates(wanted, before, owner, after, limit))

    def begin_redrive(self, redrive: Redrive) -> Redrive:
        return self._write(lambda now: self._redrives.beginning(redrive, now))

    def redrive_asked(self, request_id: str, *, owner: str | None = None) -> Redrive | None:
        return self._read(lambda _: self._redrives.asked(request_id, owner))

    def advance_redrive(self, redrive: Redrive, moves: Sequence[Request] = ()) -> Redrive | None:
        return self._database.write(lambda db: self._advance_redrive(db, redrive, moves))

    def _advance_redrive(self, db: "sqlite3.Connection", redrive: Redrive, moves: Sequence[Request]) -> Redrive | None:
        now = self._now(db)
        return play(db, self._redrives.advancing(redrive, moves, now, self._hands(db, now)))

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        return self._write(lambda now: self._redrives.cancelling(redrive_id, owner, actor, reason, now))

    def answers(self, redrive: Redrive) -> dict[str, bool]:
        return self._read(lambda _: self._redrives.answers(redrive))

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        if is_active:
            return self._read(lambda _: self._redrives.active(limit))
        return self._read(lambda _: self._redrives.listing(redrive_id, owner, limit))

    # By hand

    def move(self, request: Request) -> Job[Any]:
        return self._database.write(lambda db: self._move(db, request))

    def _move(self, db: "sqlite3.Connection", request: Request) -> Job[Any]:
        now = self._now(db)
        return play(db, self._moves.moving(request, now, self._hands(db, now)))

    def _hands(self, db: "sqlite3.Connection", now: int) -> Hands:
        return Hands(
            settle=lambda first: self._settling.settle_uncounted(db, [first], now),
            promote=lambda tally: self._door.promote(db, now, tally),
        )

    # Looking

    def now(self) -> datetime:
        return self._read(self._reading.now)

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self._read(lambda _: self._reading.job(job_id, owner))

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
        return self._read(lambda _: self._reading.find_ids(what, part, owner, limit))

    def workers(self) -> list[WorkerRecord]:
        return self._read(lambda _: self._reading.workers())

    # The log

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        if job is not None:
            return self._read(lambda _: self._history.of_job(job, owner, after, limit))
        values = {"job": None, "owner": owner, "after": after, "limit": limit}
        return [to_event(row) for row in self._read(lambda _: alone(Statement(SQL["events"], values)))]

    def histories(self, jobs: Sequence[str]) -> dict[str, list[Event]]:
        return self._read(lambda _: self._history.of_many(jobs))

    def last_position(self, *, back: int = 0) -> int:
        rows = self._read(lambda _: alone(Statement(SQL["last_position"], {"back": back})))
        return rows[0]["position"] if rows else 0

    def cursors(self) -> list[Cursor]:
        return self._read(lambda _: self._history.cursors())

    def set_cursor(self, name: str, position: int) -> None:
        self._write(lambda now: self._history.setting(name, position, now))

    def drop_cursor(self, name: str) -> None:
        self._write(lambda _: self._history.dropping(name))

    # Transactions

    def _read(self, steps: Callable[[int], Steps[T]]) -> T:
        return self._database.read(lambda db: play(db, steps(self._now(db))))

    def _write(self, steps: Callable[[int], Steps[T]]) -> T:
        return self._database.write(lambda db: play(db, steps(self._now(db))))

    def _now(self, db: "sqlite3.Connection") -> int:
        if self._given_now is not None:
            return to_time(self._given_now())
        return int(db.execute(SQL["now"]).fetchone()[0])
