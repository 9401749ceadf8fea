"""The SQLite store: each operation one transaction, in the order of a job's life."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from mulligan.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.duty import Round
from mulligan.errors import Conflict, JobNotFound, StoreDamaged, StoreError, illegal_move
from mulligan.event import Cursor, Event
from mulligan.failure.classify import Verdict
from mulligan.failure.service import ServiceBook
from mulligan.finding import Finding, Limits
from mulligan.job import Fence, Job, JobFilter, Lease, NewJob, Page
from mulligan.lifecycle import TABLE, Move, State, pause_events
from mulligan.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.pause import Pause, PauseRequest
from mulligan.redrive import Match, Redrive
from mulligan.retention import Pile, PurgeRequest
from mulligan.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.service import Demand, ServiceRecord, ServiceRequest
from mulligan.store.batches import PUBLISH_PASSES, BatchSteps
from mulligan.store.follow import FailedRow, follow_ups
from mulligan.store.hearsay import hearsay
from mulligan.store.limits import LimitDesk
from mulligan.store.owners import OwnerSteps
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
    Settled,
    WorkerRecord,
)
from mulligan.store.rows import (
    CLAIMED,
    Record,
    complete,
    earliest,
    from_time,
    is_repeat,
    records,
    to_counts,
    to_cursor,
    to_duration,
    to_event,
    to_job,
    to_json,
    to_lane,
    to_leases,
    to_page,
    to_pause,
    to_piles,
    to_round,
    to_schedule,
    to_time,
    to_worker,
)
from mulligan.store.script import Script, Statement, Steps, play
from mulligan.store.services import Heard, ServiceDesk, changes_of
from mulligan.store.settlement import (
    Settlement,
    damaged,
    has_succeeded,
    needs_record,
    settlement,
    succeeded_row,
    unstorable,
)
from mulligan.store.sqlite import health, operations, schema
from mulligan.store.sqlite.changes import FileChanges, MemoryChanges
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.driver import OLDEST_VERSION, sqlite3
from mulligan.store.sqlite.lanes import LaneHead, Open, services_of
from mulligan.store.sqlite.url import parse_url
from mulligan.store.statements import Statements
from mulligan.store.tally import Tally
from mulligan.store.values import (
    FORGOTTEN_AFTER,
    MOVES,
    SETTLE_EVENTS,
    error_values,
    event_values,
    failure_data,
    fence_values,
    filter_conditions,
    lane_values,
    move_values,
    new_values,
    pause_event,
    pause_values,
    purge_event,
    refusal_values,
    round_event,
    round_values,
    schedule_event,
    schedule_values,
    settle_values,
    start_data,
    worker_values,
)

SQL = Statements("mulligan.store.sqlite")
T = TypeVar("T")

PROMOTE_PASS = 1_000
PROMOTE_PASSES = 10
# What the log says of a job that waits for a place from the first.
LIMITED = '{"waiting_for":"limit"}'

# What an outcome can do wrong by itself; anything else is the store's trouble, not the job's.
DATA_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    StoreDamaged,
    msgspec.MsgspecError,
    OverflowError,
    RecursionError,
    ValueError,
    TypeError,
)

FAILED_BEFORE = State.WAITING
FAILED = TABLE[Move.EXPIRE, FAILED_BEFORE]
# Also what cannot be stored has called its service.
NEWLY_SETTLED = (Settled.ACCEPTED, Settled.UNSTORABLE)
HAS_TAG = "EXISTS (SELECT 1 FROM json_each(iif(json_valid(tags), tags, '[]')) WHERE value = :tag)"


class SqliteStore:
    """`now` replaces the machine's clock; `threaded=False` commits in the caller's own thread; `services` are those in
    force."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        threaded: bool = True,
        services: Callable[[], ServiceBook] = ServiceBook,
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_VERSION:
            oldest = ".".join(map(str, OLDEST_VERSION))
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old, {oldest} is needed: install 'mulligan[sqlite]'"
            )
        path, synchronous = parse_url(url)
        self._given_now = now
        self._services = ServiceDesk(SQL, services)
        self._limits = LimitDesk(SQL, self._services)
        self._synchronous = synchronous.lower()
        self._owners = OwnerSteps(SQL)
        self._database = Database(path, synchronous=synchronous, threaded=threaded)
        self._batches = BatchSteps(SQL, self._enqueueing)
        try:
            self.migrate()
        except BaseException:
            self._database.close()
            raise

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
        path, read = self._database.path, self._database.read
        found = [
            health.version(sqlite3.sqlite_version_info),
            read(lambda db: health.journal(db, self._synchronous)),
            read(lambda db: health.log_size(db, limits)),
        ]
        if path is not None:
            found.append(health.file_system(path, health.mount_table()))
            found.append(health.lock(path, limits.lock))
            found.append(health.disk(path, limits))
        return found

    # Enqueue

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        return self._database.write(lambda db: self._enqueue(db, jobs))

    def _enqueue(self, db: "sqlite3.Connection", jobs: Sequence[NewJob]) -> list[Job[Any]]:
        now = self._now(db)
        event = TABLE[Move.ENQUEUE, None].event
        rows = [{**new_values(job, is_limited=self._limits.concerns(job)), "now": now} for job in jobs]
        buckets = _play(db, self._owners.admitting(rows, now))
        closed = _play(db, self._batches.joining(rows))
        starts = _play(db, self._owners.ranking(rows, now))
        stored, news, events = [], {}, []
        for job, values in zip(jobs, rows, strict=True):
            if job.dedupe_key is not None:
                db.execute(SQL["enqueue_clear"], values)
            row = None if job.id in closed else _find(db, SQL["enqueue"], values)
            if row is None:
                stored.append(self._twin(db, values))
                continue
            stored.append(row)
            news[job.id] = row
            data = LIMITED if row["waiting_for"] == "limit" else values["data"]
            events.append(event_values(event, job.id, job.kind, job.owner, 0, now=now, encoded=data))
        _append(db, events)
        _play(db, self._owners.counting(rows, news, buckets=buckets, starts=starts))
        return [to_job(row, is_duplicate=row["id"] != job.id) for row, job in zip(stored, jobs, strict=True)]

    def _twin(self, db: "sqlite3.Connection", values: dict[str, Any]) -> Record:
        row = _find(db, SQL["job"], {"id": values["id"], "owner": None})
        if row is None:
            _play(db, self._batches.refusing(values))
            row = _find(db, SQL["enqueue_twin"], values)
        if row is None:
            raise StoreDamaged(f"job {values['id']!r} was refused as a duplicate, but its twin cannot be found")
        return row

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        if self._database.path is None:
            raise StoreError("jobs kept in memory are out of reach for connection=; use a file: 'sqlite:///jobs.db'")
        return Script("SQLite", self._enqueueing(jobs))

    def _enqueueing(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        """A statement for all jobs, not one for each: on a connection of unknown mode it is all or none by itself."""
        rows = [new_values(job, is_limited=self._limits.concerns(job)) for job in jobs]
        now = None if self._given_now is None else to_time(self._given_now())
        buckets = yield from self._owners.admitting(rows, now)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_on_clear"], {"jobs": to_json(keyed), "now": now})
        starts = yield from self._owners.ranking(rows, now)
        found = yield Statement(SQL["enqueue_on"], {"jobs": to_json(rows), "now": now})
        stored = {row["id"]: row for row in found}
        yield from self._owners.counting(rows, stored, buckets=buckets, starts=starts)
        if news := [row for row in rows if row["id"] in stored]:
            event = TABLE[Move.ENQUEUE, None].event
            yield Statement(SQL["enqueue_on_events"], {"jobs": to_json(news), "event": event})
        answer = []
        for row in rows:
            record = stored.get(row["id"]) or (yield from self._twin_of(row))
            answer.append(to_job(record, is_duplicate=record["id"] != row["id"]))
        return answer

    def _twin_of(self, row: dict[str, Any]) -> Steps[Record]:
        found = yield Statement(SQL["job"], {"id": row["id"], "owner": None})
        if not found:
            yield from self._batches.refusing(row)
            key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
            found = yield Statement(SQL["enqueue_twin"], key)
        if not found:
            raise StoreDamaged(f"job {row['id']!r} was refused as a duplicate, but its twin cannot be found")
        return found[0]

    # Claim

    def claim(self, claim: Claim) -> Claimed:
        claimed = self._database.write(lambda db: self._claim(db, claim))
        self._limits.told()
        return claimed

    def _claim(self, db: "sqlite3.Connection", claim: Claim) -> Claimed:
        now = self._now(db)
        asks, again = self._promote(db, now)
        values = {"incarnation": claim.incarnation, "claim": claim.number}
        if repeated := _leases(db, SQL["claim_repeated"], values):
            _play(db, self._services.recalled(repeated, now))
            return Claimed(repeated, None)
        lanes = self._lanes(db, claim, now)
        asked = services_of(lanes) if asks or self._services.has_rates else []
        grants = _play(db, self._services.grants(claim, asked, now)) if asked else []
        leases = self._take(db, claim, Open(lanes, _restricted(db, asked), grants), now)
        if leases and claim.fair:
            db.execute(SQL["turns_raise"], {**values, "fair": to_json(list(claim.fair))})
        (due,) = db.execute(SQL["next_due"]).fetchone()
        if due is not None and due <= now:
            self._promote_past_damage(db, now)
            (due,) = db.execute(SQL["next_due"]).fetchone()
        if again is not None:
            due = earliest(due, now + again)
        if grants:
            _play(db, self._services.taken(grants, leases, now))
            due = earliest(due, *(now + grant.again_in for grant in grants if grant.again_in))
        return Claimed(leases, None if due is None else timedelta(microseconds=max(0, due - now)), changes_of(grants))

    def _promote(self, db: "sqlite3.Connection", now: int) -> tuple[bool, int | None]:
        """Whether a service has to be asked before its jobs are claimed, and in how many microseconds it is worth to
        look at the limits again."""
        self._say_limits(db, now)
        is_somebody_there, asks, has_budget, has_limit = db.execute(SQL["door"], {"now": now}).fetchone()
        is_any_held = False
        for _ in range(PROMOTE_PASSES if is_somebody_there else 0):
            passed, held = self._promote_pass(db, now)
            is_any_held = is_any_held or held > 0
            if passed + held < PROMOTE_PASS:
                break
        has_limit = has_limit or is_any_held
        if has_budget or is_any_held:
            has_limit = self._admit(db, now) > 0 or has_limit
        return bool(asks), self._let_in(db, now) if has_limit else None

    def _say_limits(self, db: "sqlite3.Connection", now: int) -> None:
        if self._limits.has_news:
            _play(db, self._limits.says(now))

    def _let_in(self, db: "sqlite3.Connection", now: int) -> int | None:
        """In how many microseconds it is worth to look again."""
        admitted = _play(db, self._limits.admit(now))
        if admitted.failed:
            tally = Tally()
            tally.add_all([row["batch"] for row in admitted.failed], State.WAITING, State.FAILED)
            self._follow(db, admitted.failed_rows)
            _play(db, self._batches.counted(tally, now))
        return admitted.again_in

    def _admit(self, db: "sqlite3.Connection", now: int) -> int:
        """Retries that their services' budgets allow."""
        return sum(
            sum(self._promote_pass(db, now, statement="admit", gate=gate, limit=number or PROMOTE_PASS))
            for gate, number in _play(db, self._services.admitted(now))
        )

    def _promote_pass(
        self,
        db: "sqlite3.Connection",
        now: int,
        *,
        statement: str = "promote",
        duty: str | None = None,
        gate: str | None = None,
        limit: int = PROMOTE_PASS,
    ) -> tuple[int, int]:
        """How many passed the door, and how many a pause holds back from now on."""
        step = TABLE[Move.PROMOTE, State.WAITING]
        values = {"now": now, "limit": limit, "queued": step.target, "duty": duty, "gate": gate or f"duty/{duty}"}
        moved = _past_damage(db, SQL[statement], values).fetchall()
        rows = [row for *row, state in moved if state == step.target]
        _append(
            db, [event_values(step.event, id_, kind, owner, attempt, now=now) for id_, kind, owner, attempt in rows]
        )
        return len(rows), len(moved) - len(rows)

    def _promote_past_damage(self, db: "sqlite3.Connection", now: int) -> None:
        """Once more; who is due and still does not move is damaged, and would stand in the door for ever."""
        left = PROMOTE_PASS - sum(self._promote_pass(db, now))
        self._condemn(db, _left(db, SQL["promote_left"], now, left), now, sources=[State.WAITING])

    def _lanes(self, db: "sqlite3.Connection", claim: Claim, now: int) -> list[LaneHead]:
        """The lanes with ready jobs for this claim that nobody has paused."""
        kinds = frozenset(claim.kinds)
        paused = frozenset(db.execute(SQL["claim_paused"], {"now": now}).fetchall())
        return [
            (priority, rank, id_, {"queue": queue, "kind": kind, "service": service, "now": now})
            for queue, kind, service, priority, rank, id_ in db.execute(SQL["claim_lanes"]).fetchall()
            if kind in kinds
            and (claim.queues is None or queue in claim.queues)
            and not (paused and paused & {("queue", queue), ("kind", kind), ("service", service)})
        ]

    def _take(self, db: "sqlite3.Connection", claim: Claim, lanes: Open, now: int) -> list[Lease]:
        leases: list[Lease] = []
        while True:
            wanted = claim.limit - len(leases)
            picked = [seq for *_, seq in islice(self._in_order(db, lanes), wanted)]
            taken = self._lease(db, claim, lanes, picked, now) if picked else []
            leases += taken
            if len(taken) == len(picked):
                return leases
            self._condemn(db, picked, now, sources=[State.QUEUED])

    def _in_order(self, db: "sqlite3.Connection", lanes: Open) -> Iterator[tuple[int, int, str, int]]:
        """Ready jobs of all lanes, merged lazily: a lane is opened when its first job's turn comes, and read no
        further than it is needed."""
        heads: list[tuple[Any, ...]] = [(*head, place, None, None) for *head, place in lanes.heads]
        heapq.heapify(heads)
        while heads:
            *_, place, lane, job = heapq.heappop(heads)
            if not lanes.has_room(place):
                continue
            if job is not None:
                lanes.take(place)
                yield job
            lane = db.execute(SQL["claim_lane"], place) if lane is None else lane
            if (following := lane.fetchone()) is not None:
                priority, rank, id_, _ = following
                heapq.heappush(heads, (priority, rank, id_, place, lane, following))

    def _lease(self, db: "sqlite3.Connection", claim: Claim, lanes: Open, picked: list[int], now: int) -> list[Lease]:
        step = TABLE[Move.CLAIM, State.QUEUED]
        values = {
            "now": now,
            "lease": to_duration(claim.lease),
            "incarnation": claim.incarnation,
            "claim": claim.number,
            "picked": to_json(picked),
            "grants": to_json(lanes.grants),
            "running": step.target,
            "queued": State.QUEUED,
            "version": claim.version,
        }
        cursor = _past_damage(db, SQL["claim"].format(columns="*" if claim.whole else CLAIMED), values)
        at = {column[0]: index for index, column in enumerate(cursor.description)}
        rows = cursor.fetchall()
        data = {trigger: start_data(claim, trigger) for trigger in ("automatic", "manual")}
        events = [
            (step.event, id_, kind, owner, attempt, now, data.get(trigger, data["automatic"]))
            for id_, kind, owner, attempt, trigger in map(
                itemgetter(*[at[name] for name in ("id", "kind", "owner", "attempt", "trigger")]), rows
            )
        ]
        db.executemany(SQL["event_plain"], events)
        return to_leases(cursor, rows, None if claim.whole else self.job)

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        values = {"incarnation": incarnation, "before": before, "held": to_json([fence.id for fence in held])}
        return self._database.read(lambda db: self._adopt(db, values))

    def _adopt(self, db: "sqlite3.Connection", values: dict[str, Any]) -> list[Lease]:
        adopted = _leases(db, SQL["adopt"], values)
        _play(db, self._services.recalled(adopted, self._now(db)))
        return adopted

    def secure(self, fence: Fence) -> bool:
        # A claim is as durable as every commit here: looking is enough.
        return self._database.read(lambda db: db.execute(SQL["secure"], fence_values(fence)).fetchone() is not None)

    # Beat

    def beat(self, beat: Beat) -> BeatReply:
        reply = self._database.write(lambda db: self._beat(db, beat))
        self._limits.told()
        return reply

    def _beat(self, db: "sqlite3.Connection", beat: Beat) -> BeatReply:
        now = self._now(db)
        lost = [
            fence
            for fence in beat.extend
            if not db.execute(
                SQL["extend"], {**fence_values(fence), "now": now, "lease": to_duration(beat.lease)}
            ).rowcount
        ]
        for progress in beat.progress:
            values = {"ratio": progress.ratio, "text": progress.text, "now": now}
            db.execute(SQL["progress"], {**fence_values(progress.fence), **values})
        db.execute(SQL["worker"], {**worker_values(beat.worker), "now": now})
        db.execute(SQL["forget"], {"now": now, "silence": to_duration(FORGOTTEN_AFTER)})
        _play(db, self._services.forget(now))
        _play(db, self._owners.forgetting(now))
        _play(db, self._limits.says(now))
        _play(db, self._limits.budgets.forget(now))
        cancelled = db.execute(SQL["cancelled"], {"incarnation": beat.worker.incarnation}).fetchall()
        return BeatReply(from_time(now), lost, [Fence(*row) for row in cancelled])

    def leave(self, incarnation: str) -> None:
        self._database.write(lambda db: db.execute(SQL["leave"], {"incarnation": incarnation}))

    # Settle

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._database.write(lambda db: self._settle(db, outcomes))

    def _settle(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome]) -> Answers:
        now = self._now(db)
        answers = self._settled(db, outcomes, now)
        _play(db, self._batches.settling(outcomes, answers, now))
        return answers

    def _settled(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> Answers:
        try:
            with _savepoint(db):
                answers = self._settle_together(db, outcomes, now)
        except DATA_ERRORS:
            answers = [self._settle_alone(db, outcome, now) for outcome in outcomes]
        settled = [outcome for outcome, answer in zip(outcomes, answers, strict=True) if answer in NEWLY_SETTLED]
        self._limits.freed(outcome.lease for outcome in settled)
        return Answers(answers, *self._hear(db, settled, now))

    def _hear(self, db: "sqlite3.Connection", settled: Sequence[Outcome], now: int) -> Heard:
        """What these attempts tell of their services."""
        heard = hearsay(settled)
        return _play(db, self._services.heard(heard, settled[0].teller, now)) if heard else Heard({}, [])

    def _settle_together(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> list[Settled]:
        succeeded = [outcome for outcome in outcomes if has_succeeded(outcome)]
        if not self._write_succeeded(db, succeeded, now):
            return [self._settle_as(db, outcome, settlement(outcome), now) for outcome in outcomes]
        return [
            Settled.ACCEPTED if has_succeeded(outcome) else self._settle_as(db, outcome, settlement(outcome), now)
            for outcome in outcomes
        ]

    def _settle_alone(self, db: "sqlite3.Connection", outcome: Outcome, now: int) -> Settled:
        """One by one, so that the culprit is found and loses nobody else's outcome."""
        try:
            with _savepoint(db):
                return self._settle_as(db, outcome, settlement(outcome), now)
        except DATA_ERRORS:
            answer = self._settle_as_unstorable(db, outcome, now)
            return Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer

    def _settle_as_unstorable(self, db: "sqlite3.Connection", outcome: Outcome, now: int) -> Settled:
        try:
            with _savepoint(db):
                return self._settle_as(db, outcome, unstorable(outcome), now)
        except sqlite3.IntegrityError:
            # The fence matched, or nothing would have been written: it is the row that is damaged.
            rows = [_one(db, SQL["job"], {"id": outcome.lease.fence.id, "owner": None})["seq"]]
            self._condemn(db, rows, now, sources=[State.RUNNING], settled_by=outcome.settled_by)
            return Settled.ACCEPTED

    def _condemn(
        self,
        db: "sqlite3.Connection",
        rows: Sequence[int],
        now: int,
        *,
        sources: Sequence[State],
        settled_by: str | None = None,
    ) -> None:
        """Fail what somebody damaged so that nothing else can be done with it."""
        if not rows:
            return
        values = {"rows": to_json(rows), "sources": to_json(sources), "settled_by": settled_by, "now": now}
        verdict = damaged()
        failed = db.execute(SQL["condemn"], {**values, "failed": FAILED.target, **error_values(verdict)}).fetchall()
        self._failed_unrun(db, failed, verdict, now)
        if settled_by is None:
            self._count_failed(db, failed, now)

    def _write_succeeded(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> bool:
        """All of them, or none and False: one was refused or repeated, and nobody knows which."""
        rows = [succeeded_row(outcome) for outcome in outcomes]
        db.execute("SAVEPOINT succeeded")
        written = db.executemany(
            SQL["settle_succeeded"],
            [(row.result, now, row.settled_by, row.id, row.attempt, row.incarnation, row.claim) for row in rows],
        ).rowcount
        is_whole = not rows or written == len(rows)
        if is_whole:
            event = TABLE[Move.SUCCEED, State.RUNNING].event
            leases = [outcome.lease for outcome in outcomes]
            db.executemany(
                SQL["event_plain"],
                [
                    (event, row.id, lease.kind, lease.owner, row.attempt, now, row.data)
                    for row, lease in zip(rows, leases, strict=True)
                ],
            )
        else:
            db.execute("ROLLBACK TO succeeded")
        db.execute("RELEASE succeeded")
        return is_whole

    def _settle_as(self, db: "sqlite3.Connection", outcome: Outcome, change: Settlement, now: int) -> Settled:
        fence, common = outcome.lease.fence, {"now": now, "cancelled": State.CANCELLED.value}
        row = db.execute(SQL["settle"], {**settle_values(outcome, change), **common}).fetchone()
        if row is None:
            return self._not_settled(db, outcome, change, now)
        state, owner, on_failed = row
        # A wish to cancel may have won over going back to the queue.
        type_ = change.event if state == change.target else TABLE[Move.CANCEL, State.RUNNING].event
        about = (fence.id, outcome.lease.kind, owner, fence.attempt)
        code, data = change.code, change.data
        _append(db, [event_values(type_, *about, now=now, actor=outcome.actor, code=code, data=data)])
        if on_failed is not None and state == State.FAILED:
            self._follow(db, [FailedRow(fence.id, owner, fence.attempt, now, on_failed)])
        return Settled.ACCEPTED

    def _failed_unrun(
        self,
        db: "sqlite3.Connection",
        rows: Sequence[tuple[str, str, str, int, str | None, str | None]],
        verdict: Verdict,
        now: int,
    ) -> None:
        """Failures outside an attempt: nobody ran the job."""
        data = failure_data(verdict)
        _append(
            db,
            [
                event_values(FAILED.event, id_, kind, owner, attempt, now=now, code=verdict.code, data=data)
                for id_, kind, owner, attempt, *_ in rows
            ],
        )
        self._follow(
            db, [FailedRow(id_, owner, attempt, now, on_failed) for id_, _, owner, attempt, on_failed, _ in rows]
        )

    def _count_failed(
        self, db: "sqlite3.Connection", rows: Sequence[tuple[str, str, str, int, str | None, str | None]], now: int
    ) -> None:
        tally = Tally()
        tally.add_all([batch for *_, batch in rows], FAILED_BEFORE, FAILED.target)
        _play(db, self._batches.counted(tally, now))

    def _follow(self, db: "sqlite3.Connection", failed: Sequence[FailedRow]) -> None:
        self._enqueue(db, follow_ups(failed))

    def _not_settled(self, db: "sqlite3.Connection", outcome: Outcome, change: Settlement, now: int) -> Settled:
        fence = outcome.lease.fence
        row = _find(db, SQL["settled"], {"id": fence.id})
        if row is None:
            return Settled.REFUSED
        values = {"id": fence.id, "attempt": fence.attempt, "types": to_json(SETTLE_EVENTS)}
        if is_repeat(outcome, row, lambda: [data for (data,) in db.execute(SQL["settled_before"], values)]):
            return Settled.REPEATED
        if outcome.reclaimed_by is None:
            _append(db, [refusal_values(outcome, change, row, now=now)])
        return Settled.REFUSED

    # Upkeep

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        return self._database.read(
            lambda db: _leases(db, SQL["overdue"], {"now": self._now(db), "besides": besides, "limit": limit})
        )

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit}
        return self._database.read(lambda db: _leases(db, SQL["stuck"], {**values, "now": self._now(db)}))

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        return self._database.write(lambda db: self._promote_by_duty(db, duty, limit, by_hand=by_hand))

    def _promote_by_duty(self, db: "sqlite3.Connection", duty: str, limit: int, *, by_hand: bool) -> int:
        now = self._now(db)
        self._say_limits(db, now)
        passed, _ = self._promote_pass(db, now, duty=duty, limit=limit)
        if by_hand and passed < limit:
            passed += sum(self._promote_pass(db, now, statement="admit", duty=duty, limit=limit - passed))
        self._let_in(db, now)
        return passed

    def pause(self, request: PauseRequest) -> Pause:
        return self._database.write(lambda db: self._begin_pause(db, request))

    def _begin_pause(self, db: "sqlite3.Connection", request: PauseRequest) -> Pause:
        now = self._now(db)
        if not _is_done(db, request.id):
            db.execute(SQL["pause"], {**pause_values(request), "now": now})
            _append(db, [pause_event(pause_events(request.what)[0], request, now=now)])
        return to_pause(_one(db, SQL["pause_of"], {"what": request.what, "name": request.name}))

    def resume(self, request: PauseRequest) -> Pause | None:
        return self._database.write(lambda db: self._end_pause(db, request))

    def _end_pause(self, db: "sqlite3.Connection", request: PauseRequest) -> Pause | None:
        now = self._now(db)
        row = _find(db, SQL["resume"], {"what": request.what, "name": request.name})
        if row is None or (row["until"] is not None and row["until"] <= now):
            return None
        _append(db, [pause_event(pause_events(request.what)[1], request, now=now)])
        return to_pause(row)

    def pauses(self) -> list[Pause]:
        rows = self._database.read(lambda db: _all(db, SQL["pauses"], {"now": self._now(db)}))
        return [to_pause(row) for row in rows]

    def note(self, done: Round) -> None:
        self._database.write(lambda db: self._note(db, done))

    def _note(self, db: "sqlite3.Connection", done: Round) -> None:
        now = self._now(db)
        values = {**round_values(done), "now": now}
        db.execute(SQL["note"], values)
        db.execute(SQL["note_forget"], values)
        if done.request is not None:
            _append(db, [round_event(done, now=now)])

    def rounds(self) -> list[Round]:
        return [to_round(row) for row in self._database.read(lambda db: _all(db, SQL["rounds"], {}))]

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        # Nearly always nobody is late, and a look keeps no writer waiting.
        if not self._database.read(lambda db: _left(db, SQL["expire_left"], self._now(db), 1)):
            return 0
        return self._database.write(lambda db: self._expire(db, verdict, limit))

    def _expire(self, db: "sqlite3.Connection", verdict: Verdict, limit: int) -> int:
        now = self._now(db)
        values = {"now": now, "limit": limit, "failed": FAILED.target, **error_values(verdict)}
        rows = _past_damage(db, SQL["expire"], values).fetchall()
        self._failed_unrun(db, rows, verdict, now)
        left = _left(db, SQL["expire_left"], now, limit - len(rows))
        self._condemn(db, left, now, sources=[State.WAITING, State.QUEUED])
        self._count_failed(db, rows, now)
        return len(rows)

    # Services

    def services(self) -> list[ServiceRecord]:
        return self._database.read(lambda db: _play(db, self._services.listed(self._now(db))))

    def force(self, request: ServiceRequest) -> ServiceRecord:
        return self._database.write(lambda db: self._force(db, request))

    def _force(self, db: "sqlite3.Connection", request: ServiceRequest) -> ServiceRecord:
        now = self._now(db)
        if _is_done(db, request.id):
            return _play(db, self._services.of(request.name, now))
        return _play(db, self._services.force(request, now))

    def demands(self, *, limit: int) -> list[Demand]:
        rows = self._database.read(lambda db: db.execute(SQL["demands"], {"limit": limit}).fetchall())
        return [Demand(*row) for row in rows]

    # Batches

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        return self._database.write(lambda db: _play(db, self._batches.creating(batch, self._now(db))))

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        batch = self._database.write(
            lambda db: _play(db, self._batches.publishing(batch_id, owner, actor, self._now(db)))
        )
        for _ in range(PUBLISH_PASSES):
            if self.promote("promote", limit=PROMOTE_PASS) < PROMOTE_PASS:
                break
        return batch

    def retry_members(self, request: BatchRetry) -> list[str]:
        return self._database.write(lambda db: self._retry_members(db, request))

    def _retry_members(self, db: "sqlite3.Connection", request: BatchRetry) -> list[str]:
        if _is_done(db, request.id):
            return []
        return _play(db, self._batches.retrying(request, self._now(db)))

    def batch(self, batch_id: str, *, owner: str | None = None) -> BatchRecord:
        return self._database.read(lambda db: _play(db, self._batches.reading(batch_id, owner)))

    def batches(
        self,
        *,
        state: BatchState | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[BatchRecord]:
        return self._database.read(lambda db: _play(db, self._batches.listing(state, owner, limit, cursor)))

    def tend_batches(self, *, limit: int) -> int:
        # Looked at first without the lock: mostly there is nothing to do.
        if not self._database.read(lambda db: _play(db, self._batches.need_tending(self._now(db)))):
            return 0
        return self._database.write(lambda db: self._tend_batches(db, limit))

    def _tend_batches(self, db: "sqlite3.Connection", limit: int) -> int:
        now = self._now(db)
        did = _play(db, self._batches.expiring(limit, now))
        for batch in _play(db, self._batches.aborted(limit, now)):
            did += _play(db, self._batches.sweeping(batch, max(0, limit - did), now))
        _play(db, self._batches.admitted())
        return did

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        return self._database.write(lambda db: _play(db, self._batches.pruning(before, limit)))

    # Limits

    def limit_by(self, book: Callable[[], LimitBook]) -> None:
        self._limits.book = book

    def limits(self, subjects: Sequence[str] | None = None) -> list[LimitRecord]:
        return self._database.read(lambda db: _play(db, self._limits.records(subjects)))

    def spending(self, owner: str) -> SpendingRecord | None:
        return self._database.read(lambda db: _play(db, self._limits.budgets.record(owner, self._now(db))))

    # Schedules

    def schedules(self) -> list[ScheduleRecord]:
        return [to_schedule(row) for row in self._database.read(lambda db: _all(db, SQL["schedules"], {}))]

    def change_schedule(self, change: ScheduleChange) -> bool:
        return self._database.write(lambda db: self._change_schedule(db, change))

    def _change_schedule(self, db: "sqlite3.Connection", change: ScheduleChange) -> bool:
        now, name = self._now(db), change.record.name
        if any(note.request and _is_done(db, note.request) for note in change.notes):
            return True
        statement = SQL["schedule" if change.record.version else "schedule_new"]
        if not db.execute(statement, {**schedule_values(change.record), "now": now}).rowcount:
            return False
        self._enqueue(db, change.jobs)
        _append(db, [schedule_event(name, note, now=now) for note in change.notes])
        return True

    def remove_schedule(self, name: str, note: ScheduleNote) -> bool:
        return self._database.write(lambda db: self._remove_schedule(db, name, note))

    def _remove_schedule(self, db: "sqlite3.Connection", name: str, note: ScheduleNote) -> bool:
        if not db.execute(SQL["schedule_remove"], {"name": name}).rowcount:
            return False
        db.execute(SQL["resume"], {"what": "schedule", "name": name})
        _append(db, [schedule_event(name, note, now=self._now(db))])
        return True

    # What is over

    def newest(self, state: State, count: int) -> datetime | None:
        values = {"state": state, "count": count}
        row = self._database.read(lambda db: db.execute(SQL["newest"], values).fetchone())
        return None if row is None else from_time(row[0])

    def prune(self, state: State, *, before: datetime, limit: int) -> int:
        values = {"state": state, "before": to_time(before), "limit": limit}
        # Looked at first without the lock: mostly there is nothing to do.
        if not self._database.read(lambda db: db.execute(SQL["prune"], values).fetchone()):
            return 0
        return self._database.write(lambda db: self._remove(db, _ids(db, SQL["prune"], values)))

    def _remove(self, db: "sqlite3.Connection", ids: Sequence[str]) -> int:
        """With their history, as far as all cursors have passed it."""
        gone = {"ids": to_json(_ids(db, SQL["removable"], {"ids": to_json(ids)}))}
        db.execute(SQL["remove_events"], gone)
        return db.execute(SQL["remove"], gone).rowcount

    def over(
        self,
        wanted: JobFilter,
        *,
        before: datetime,
        owner: str | None = None,
        limit: int = 500,
        cursor: str | None = None,
    ) -> list[str]:
        conditions, values = filter_conditions(wanted, owner, cursor, has_tag=HAS_TAG)
        statement = SQL["over"].format(conditions=" AND ".join(conditions))
        values |= {"before": to_time(before), "limit": limit}
        return self._database.read(lambda db: _ids(db, statement, {**values, "now": self._now(db)}))

    def count_over(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Pile]:
        conditions, values = filter_conditions(wanted, owner, None, has_tag=HAS_TAG)
        statement = SQL["count_over"].format(conditions=" AND ".join(conditions))
        values |= {"before": to_time(before)}
        return to_piles(
            self._database.read(lambda db: db.execute(statement, {**values, "now": self._now(db)}).fetchall())
        )

    def purge(self, request: PurgeRequest) -> int:
        return self._database.write(lambda db: self._purge(db, request))

    def _purge(self, db: "sqlite3.Connection", request: PurgeRequest) -> int:
        now = self._now(db)
        values = {"ids": to_json(list(request.jobs)), "before": to_time(request.before), "now": now}
        did = self._remove(db, _ids(db, SQL["purge"], values))
        if did:
            _append(db, [purge_event(request, did, now=now)])
        return did

    # Redrives

    def count_candidates(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Match]:
        return self._database.read(lambda db: operations.count_candidates(db, wanted, owner, HAS_TAG, to_time(before)))

    def candidates(
        self, wanted: JobFilter, *, before: datetime, owner: str | None = None, after: str = "", limit: int = 100
    ) -> Page[Any]:
        where = {"before": to_time(before), "after": after, "limit": limit}
        return self._database.read(lambda db: operations.candidates(db, wanted, owner, HAS_TAG, where))

    def begin_redrive(self, redrive: Redrive) -> Redrive:
        return self._database.write(lambda db: operations.begin(db, redrive, self._now(db)))

    def advance_redrive(self, redrive: Redrive, moves: Sequence[Request] = ()) -> Redrive | None:
        return self._database.write(lambda db: self._advance_redrive(db, redrive, moves))

    def _advance_redrive(self, db: "sqlite3.Connection", redrive: Redrive, moves: Sequence[Request]) -> Redrive | None:
        now = self._now(db)
        tally = Tally()
        after = operations.advance(db, redrive, moves, now, lambda request: self._change(db, request, now, tally))
        if after is not None and after.retried > redrive.retried:
            self._promote(db, now)
        _play(db, self._batches.counted(tally, now, actor=redrive.actor))
        return after

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        return self._database.write(lambda db: operations.cancel(db, redrive_id, owner, actor, reason, self._now(db)))

    def answers(self, redrive: Redrive) -> dict[str, bool]:
        return self._database.read(lambda db: operations.answers(db, redrive))

    def redrives(
        self, *, redrive_id: str | None = None, owner: str | None = None, is_active: bool = False, limit: int = 50
    ) -> list[Redrive]:
        if is_active:
            return self._database.read(lambda db: operations.active(db, limit))
        return self._database.read(lambda db: operations.listed(db, redrive_id, owner, limit))

    # By hand

    def move(self, request: Request) -> Job[Any]:
        return self._database.write(lambda db: self._move(db, request))

    def _move(self, db: "sqlite3.Connection", request: Request) -> Job[Any]:
        now = self._now(db)
        tally = Tally()
        if self._change(db, request, now, tally):
            self._promote(db, now)
        _play(db, self._batches.counted(tally, now, actor=request.actor))
        return to_job(_one(db, SQL["job"], {"id": request.job, "owner": None}))

    def _change(self, db: "sqlite3.Connection", request: Request, now: int, tally: Tally) -> bool:
        """Make the move in the caller's transaction, which counts the tally last; whether it was not made before."""
        row = _find(db, SQL["job"], {"id": request.job, "owner": request.owner})
        if row is None:
            raise JobNotFound(request.job)
        if _is_done(db, request.id):
            return False
        before = to_job(row).state
        if request.first is not None:
            self._settled(db, [request.first], now)
            row = _one(db, SQL["job"], {"id": request.job, "owner": None})
        source = to_job(row).state
        step = TABLE.get((request.move, source))
        if step is None:
            raise illegal_move(request.job, source, request.move)
        values = {"id": row["id"], "source": source, "target": step.target, "now": now}
        try:
            db.execute(SQL[MOVES[request.move]], {**values, "delay": to_duration(request.delay)})
        except sqlite3.IntegrityError as error:
            damage = StoreDamaged(f"the row of job {row['id']!r} is damaged: {error}")
            raise self._conflict(db, row) or damage from error
        _append(db, [move_values(request, row, step.event, now=now)])
        if row["batch"] is not None and step.target is State.WAITING:
            _play(db, self._batches.parking(row, now))
        tally.add(row["batch"], before, step.target)
        return True

    def _conflict(self, db: "sqlite3.Connection", row: Record) -> Conflict | None:
        twin = _find(db, SQL["enqueue_twin"], row)
        return Conflict(row["id"], twin["id"]) if twin and twin["id"] != row["id"] else None

    # Looking

    def now(self) -> datetime:
        return from_time(self._database.read(self._now))

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        row = self._database.read(lambda db: _find(db, SQL["job"], {"id": job_id, "owner": owner}))
        if row is None:
            raise JobNotFound(job_id)
        return to_job(row)

    def load(self, leases: Sequence[Lease]) -> None:
        ids = to_json([lease.fence.id for lease in leases])
        complete(leases, self._database.read(lambda db: _all(db, SQL["load"], {"ids": ids})))

    def jobs(
        self, wanted: JobFilter, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[Any]:
        conditions, values = filter_conditions(wanted, owner, cursor, has_tag=HAS_TAG)
        statement = SQL["jobs"].format(conditions=" AND ".join(conditions))
        return to_page(self._database.read(lambda db: _all(db, statement, {**values, "limit": limit + 1})), limit)

    def counts(self, *, owner: str | None = None) -> dict[str, dict[str, int]]:
        return to_counts(self._database.read(lambda db: db.execute(SQL["counts"], {"owner": owner}).fetchall()))

    def busy(self, kinds: Sequence[str], *, waiting_for: Sequence[str] = ()) -> bool:
        values = {"kinds": to_json(list(kinds)), "waiting_for": to_json(list(waiting_for))}
        return self._database.read(
            lambda db: bool(db.execute(SQL["busy"], {**values, "now": self._now(db)}).fetchone()[0])
        )

    def next_due(self) -> datetime | None:
        (due,) = self._database.read(lambda db: db.execute(SQL["next_due"]).fetchone())
        return None if due is None else from_time(due)

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        values = {**lane_values(job), "limit": limit}
        return int(self._database.read(lambda db: db.execute(SQL["ahead_of"], values).fetchone()[0]))

    def lanes(self) -> list[Lane]:
        return [to_lane(row) for row in self._database.read(lambda db: _all(db, SQL["lanes"], {}))]

    def workers(self) -> list[WorkerRecord]:
        return [to_worker(row) for row in self._database.read(lambda db: _all(db, SQL["workers"], {}))]

    def events(
        self, *, job: str | None = None, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        statement = SQL["events"] if job is None else SQL["events_of_job"]
        values = {"job": job, "owner": owner, "after": after, "limit": limit}
        return [to_event(row) for row in self._database.read(lambda db: _all(db, statement, values))]

    def last_position(self, *, back: int = 0) -> int:
        found = self._database.read(lambda db: db.execute(SQL["last_position"], {"back": back}).fetchone())
        return found[0] if found else 0

    def cursors(self) -> list[Cursor]:
        return [to_cursor(row) for row in self._database.read(lambda db: _all(db, SQL["cursors"], {}))]

    def set_cursor(self, name: str, position: int) -> None:
        values = {"name": name, "position": position}
        self._database.write(lambda db: db.execute(SQL["set_cursor"], {**values, "now": self._now(db)}))

    def drop_cursor(self, name: str) -> None:
        self._database.write(lambda db: db.execute(SQL["drop_cursor"], {"name": name}))

    def _now(self, db: "sqlite3.Connection") -> int:
        if self._given_now is not None:
            return to_time(self._given_now())
        return int(db.execute(SQL["now"]).fetchone()[0])


@contextmanager
def _savepoint(db: "sqlite3.Connection") -> Iterator[None]:
    db.execute("SAVEPOINT settle")
    try:
        yield
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK TO settle")
            db.execute("RELEASE settle")
        raise
    db.execute("RELEASE settle")


def _play(db: "sqlite3.Connection", steps: Steps[T]) -> T:
    return play(steps, lambda statement: _rows(db, statement))


def _rows(db: "sqlite3.Connection", statement: Statement) -> list[Record]:
    cursor = db.execute(statement.sql, statement.values)
    return [] if cursor.description is None else records(cursor, cursor.fetchall())


def _restricted(db: "sqlite3.Connection", names: Sequence[str]) -> frozenset[str]:
    return frozenset(_ids(db, SQL["services_restricted"], {"names": to_json(names)}) if names else ())


def _append(db: "sqlite3.Connection", events: Iterable[dict[str, Any]]) -> None:
    db.executemany(SQL["event"], events)


def _past_damage(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> "sqlite3.Cursor":
    """Run an update of many rows; one that somebody damaged is passed over, and stops nobody else."""
    try:
        return db.execute(statement, values)
    except sqlite3.IntegrityError:
        return db.execute(statement.replace("UPDATE", "UPDATE OR IGNORE", 1), values)


def _is_done(db: "sqlite3.Connection", request: str) -> bool:
    """Whether a request by hand was carried out before."""
    return db.execute("SELECT 1 FROM mulligan_events WHERE request = ?", (request,)).fetchone() is not None


def _find(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> Record | None:
    cursor = db.execute(statement, values)
    row = cursor.fetchone()
    return None if row is None else records(cursor, [row])[0]


def _one(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> Record:
    row = _find(db, statement, values)
    assert row is not None
    return row


def _all(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> list[Record]:
    cursor = db.execute(statement, values)
    return records(cursor, cursor.fetchall())


def _ids(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> list[str]:
    return [id_ for (id_,) in db.execute(statement, values)]


def _left(db: "sqlite3.Connection", statement: str, now: int, limit: int) -> list[int]:
    return [number for (number,) in db.execute(statement, {"now": now, "limit": limit})]


def _leases(db: "sqlite3.Connection", statement: str, values: dict[str, Any]) -> list[Lease]:
    cursor = db.execute(statement, values)
    return to_leases(cursor, cursor.fetchall())
