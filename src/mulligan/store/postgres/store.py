"""The PostgreSQL store: each operation one transaction, in the order of a job's life."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec
import psycopg

from mulligan.batch import BatchRecord, BatchRetry, BatchState, NewBatch
from mulligan.duty import Round
from mulligan.errors import BatchBusy, SchemaMismatch, StoreDamaged
from mulligan.event import Cursor, Event
from mulligan.failure.classify import Verdict
from mulligan.failure.service import ServiceBook
from mulligan.failure.text import storable
from mulligan.finding import Finding, Limits
from mulligan.job import Fence, Job, JobFilter, Lease, NewJob, Page
from mulligan.lifecycle import TABLE, Move, State
from mulligan.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.pause import Pause, PauseRequest
from mulligan.redrive import Match, Redrive
from mulligan.retention import Pile, PurgeRequest
from mulligan.schedule import ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.service import Demand, ServiceRecord, ServiceRequest
from mulligan.store.batches import BatchSteps, let_in
from mulligan.store.beats import BeatSteps
from mulligan.store.clearing import ClearingSteps
from mulligan.store.clock import Now
from mulligan.store.follow import FailedRow, follow_ups
from mulligan.store.hearsay import hearsay
from mulligan.store.history import HistorySteps
from mulligan.store.limits import LimitDesk
from mulligan.store.moves import Hands, MoveSteps
from mulligan.store.owners import OwnerSteps
from mulligan.store.pauses import PauseSteps
from mulligan.store.postgres import health, schema
from mulligan.store.postgres.changes import Notifications, Notifier, Polling, Silence
from mulligan.store.postgres.connections import Connection, Connections
from mulligan.store.postgres.log import LogSteps
from mulligan.store.postgres.url import parse_url
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
from mulligan.store.reading import ReadingSteps
from mulligan.store.redrives import RedriveSteps
from mulligan.store.rounds import RoundSteps
from mulligan.store.rows import (
    CLAIMED,
    Record,
    earliest,
    is_repeat,
    records,
    to_duration,
    to_job,
    to_json,
    to_leases,
    to_time,
)
from mulligan.store.schedules import ScheduleSteps
from mulligan.store.schema import check_version
from mulligan.store.script import Script, Statement, Steps, alone, play
from mulligan.store.services import Grant, Heard, ServiceDesk, changes_of
from mulligan.store.settlement import Settlement, has_succeeded, needs_record, settlement, succeeded_row, unstorable
from mulligan.store.statements import Statements, in_pyformat
from mulligan.store.tally import Tally
from mulligan.store.unrun import UnrunSteps
from mulligan.store.values import (
    SETTLE_EVENTS,
    fence_values,
    new_values,
    refusal_values,
    settle_values,
    start_data,
)

T = TypeVar("T")

PROMOTE_PASS = 1_000
PROMOTE_PASSES = 10
# When others were claiming in the same moment and ready jobs are left: microseconds until it is worth another look.
CLAIM_AGAIN = 10_000
# Never part of JSON, nor of an id of ours.
SEPARATOR = "\x1e"
SUCCEEDED_COLUMNS = ("ids", "attempts", "incarnations", "claims", "settled_by", "results", "data")

# No session settings: a proxy may give the next transaction another connection.
# A process that is frozen inside a transaction would keep its rows from everybody for as long: the server ends it.
BEGIN = "BEGIN; SET LOCAL jit = off; SET LOCAL idle_in_transaction_session_timeout = '5s'"
# A claim or a beat that is lost in a crash costs a wait for the lease, nothing more; the fence holds all the same.
# The plans of its statements do not depend on their values: planned once a connection, not at each call.
BEGIN_ASYNCHRONOUS = BEGIN + "; SET LOCAL synchronous_commit = off; SET LOCAL plan_cache_mode = force_generic_plan"

# The same for a pipeline, which takes one command at a time.
ASYNCHRONOUSLY = """
SELECT set_config('jit', 'off', true), set_config('idle_in_transaction_session_timeout', '5s', true),
    set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true)
"""

# Whoever adds members in a transaction of his own may take his time, and may be the one who asks.
BEGIN_PUBLISH = BEGIN + "; SET LOCAL lock_timeout = '2s'"

# What an outcome can do wrong by itself; anything else is the store's trouble, not the job's.
DATA_ERRORS = (
    psycopg.DataError,
    psycopg.IntegrityError,
    StoreDamaged,
    msgspec.MsgspecError,
    OverflowError,
    RecursionError,
    ValueError,
    TypeError,
)


SQL = Statements("mulligan.store.postgres", in_pyformat)


class Door(NamedTuple):
    """What there is to do at the door."""

    is_anyone: bool
    """Somebody may pass, or is to be parked."""
    asks: bool
    """A service has to be asked before its jobs are claimed."""
    has_budget: bool
    """Retries wait for a service's budget."""
    has_limit: bool
    """Jobs wait for a limit or an owner's budget."""

    @property
    def has_work(self) -> bool:
        return self.is_anyone or self.has_budget or self.has_limit


class PostgresStore:
    """`now` replaces the server's clock; `services` are those in force."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        services: Callable[[], ServiceBook] = ServiceBook,
    ) -> None:
        address = parse_url(url)
        self._services = ServiceDesk(SQL, services)
        self._limits = LimitDesk(SQL, self._services)
        self._given_now = now
        self._address = address
        self._listens = address.listens
        self._connections = Connections(address.url, prepares=address.prepares)
        self._notifier = Notifier(self._connections) if address.listens else Silence()
        self._batches = BatchSteps(SQL, self._enqueueing)
        self._owners = OwnerSteps(SQL)
        self._beats = BeatSteps(SQL, self._services, self._limits, self._owners)
        self._unrun = UnrunSteps(SQL, self._batches, self._enqueueing)
        self._pauses = PauseSteps(SQL)
        self._rounds = RoundSteps(SQL)
        self._schedules = ScheduleSteps(SQL, self._enqueueing)
        self._clearing = ClearingSteps(SQL, _removing)
        self._moves = MoveSteps(SQL, self._batches, psycopg.IntegrityError)
        self._redrives = RedriveSteps(SQL, self._moves, self._batches)
        self._reading = ReadingSteps(SQL)
        self._history = HistorySteps(SQL)
        self._log = LogSteps(SQL)
        self._is_checked = False

    def migrate(self) -> list[str]:
        return self._connections.run(schema.migrate)

    def changes(self) -> Changes:
        return Notifications(self._connections) if self._listens else Polling()

    def close(self) -> None:
        self._notifier.close()
        self._connections.close()

    def examine(self, limits: Limits) -> list[Finding]:
        return health.examine(self._connections, self._address, limits)

    # Enqueue

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        if not jobs:
            return []
        stored = self._run(lambda db: self._enqueue(db, jobs))
        self._notifier.hint()
        return stored

    def _enqueue(self, db: Connection, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        is_more = any(
            job.dedupe_key is not None or job.batch is not None or job.weight is not None or job.submit_rate is not None
            for job in jobs
        )
        with _transaction(db, BEGIN) if is_more else contextlib.nullcontext():
            return _play(db, self._enqueueing(jobs))

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        # On a connection of ours: a table that is missing would spoil the caller's transaction.
        self._check_once()
        # No NOTIFY: it would make his commit wait for all others'. An idle worker looks every second anyway.
        return Script("PostgreSQL", self._enqueueing(jobs))

    def _enqueueing(self, jobs: Sequence[NewJob]) -> Steps[list[Job[Any]]]:
        rows = [{**new_values(job, is_limited=self._limits.concerns(job)), "n": n} for n, job in enumerate(jobs)]
        stored = yield from self._storing(rows)
        return [to_job(row, is_duplicate=row["id"] != job.id) for row, job in zip(stored, jobs, strict=True)]

    def _storing(self, rows: list[dict[str, Any]]) -> Steps[list[Record]]:
        if not rows:
            return []
        buckets = yield from self._owners.admitting(rows, self._now)
        closed = yield from self._batches.joining(rows)
        if keyed := [row for row in rows if row["dedupe_key"] is not None]:
            yield Statement(SQL["enqueue_clear"], {"jobs": to_json(keyed), "now": self._now})
        starts = yield from self._owners.ranking(rows, self._now)
        event = TABLE[Move.ENQUEUE, None].event
        news = [row for row in rows if row["id"] not in closed]
        found = yield Statement(SQL["enqueue"], {"jobs": to_json(news), "now": self._now, "event": event})
        stored = {row["id"]: row for row in found}
        yield from self._owners.counting(rows, stored, buckets=buckets, starts=starts)
        for row in rows:
            if row["id"] not in stored:
                stored[row["id"]] = yield from self._twin(row)
        return [stored[row["id"]] for row in rows]

    def _twin(self, row: dict[str, Any]) -> Steps[Record]:
        if found := (yield Statement(SQL["job"], {"id": row["id"], "owner": None})):
            return found[0]
        yield from self._batches.refusing(row)
        key = {name: row[name] for name in ("id", "owner", "kind", "dedupe_key")}
        twins = yield Statement(SQL["enqueue_twin"], key)
        if twins and not (yield from self._has_let_go(twins[0])):
            return twins[0]
        # Whoever held the key let go of it in this very moment: the way is free now.
        (stored,) = yield from self._storing([row])
        return stored

    def _has_let_go(self, twin: Record) -> Steps[bool]:
        """Whether its period is over: the clear passed it over if it was still live then."""
        if twin["dedupe_until"] is None or not State(twin["state"]).is_final:
            return False
        (row,) = yield Statement(SQL["now"], {"now": self._now})
        return bool(twin["dedupe_until"] <= row["now"])

    # Claim

    def claim(self, claim: Claim) -> Claimed:
        claimed = self._run(lambda db: self._claim(db, claim))
        self._limits.told()
        return claimed

    def _claim(self, db: Connection, claim: Claim) -> Claimed:
        door, again = self._pass_door(db)
        where: dict[str, Any] = {
            "now": self._now,
            "kinds": list(claim.kinds),
            "queues": None if claim.queues is None else list(claim.queues),
            "grants": None,
        }
        grants: list[Grant] = []
        if door.asks or self._services.has_rates:
            leases, due, now, grants = self._claim_granted(db, claim, where)
        else:
            leases, due, now = self._claim_at_once(db, claim, where)
        if len(leases) < claim.limit and _row(db, _claiming("claim_left"), where)[0]:
            due = earliest(due, now + CLAIM_AGAIN)
        if again is not None:
            due = earliest(due, now + again)
        due = earliest(due, *(now + grant.again_in for grant in grants if grant.again_in))
        return Claimed(leases, None if due is None else timedelta(microseconds=max(0, due - now)), changes_of(grants))

    def _claim_at_once(
        self, db: Connection, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int]:
        """The leases, when a job comes due, and now."""
        where["grants"] = "[]"
        # All in one round trip: a thread that waits for an answer waits for its turn in a busy process too.
        with db.pipeline():
            db.execute("BEGIN")
            db.execute(ASYNCHRONOUSLY)
            claimed = _execute(db, _claiming("claim", whole=claim.whole, source="picked"), _claim_values(claim, where))
            if claim.fair:
                _execute(db, SQL["turns_raise"], _turn_values(claim))
            next_due = _execute(db, SQL["next_due"], {"now": self._now})
            db.execute("COMMIT")
        leases = to_leases(claimed, claimed.fetchall(), None if claim.whole else self.job)
        return leases, *_fetched(next_due)

    def _claim_granted(
        self, db: Connection, claim: Claim, where: dict[str, Any]
    ) -> tuple[list[Lease], int | None, int, list[Grant]]:
        """As many of each service that is not simply closed as it grants."""
        with _transaction(db, BEGIN_ASYNCHRONOUS):
            if repeated := self._repeated(db, claim):
                return repeated, None, self._time(db), []
            grants = self._grants(db, claim, where)
            where["grants"] = to_json([grant.values for grant in grants])
            statement = _claiming("claim", whole=claim.whole, source="granted" if grants else "picked")
            job = None if claim.whole else self.job
            leases = _leases(db, statement, _claim_values(claim, where), job=job)
            due, now = _row(db, SQL["next_due"], {"now": self._now})
            _play(db, self._services.taken(grants, leases, now))
            if claim.fair:
                _execute(db, SQL["turns_raise"], _turn_values(claim))
        return leases, due, now, grants

    def _repeated(self, db: Connection, claim: Claim) -> list[Lease]:
        """The leases of this very call: what services grant was counted when it was first made."""
        return self._recalled(db, SQL["claim_repeated"], {"incarnation": claim.incarnation, "claim": claim.number})

    def _recalled(self, db: Connection, statement: str, values: dict[str, Any]) -> list[Lease]:
        leases = _leases(db, statement, values)
        if any(lease.service for lease in leases):
            _play(db, self._services.recalled(leases, _row(db, SQL["now"], {"now": self._now})[0]))
        return leases

    def _grants(self, db: Connection, claim: Claim, where: dict[str, Any]) -> list[Grant]:
        (now,) = _row(db, SQL["now"], {"now": self._now})
        names = _ids(db, _claiming("claim_services"), where)
        return _play(db, self._services.grants(claim, names, now))

    def _pass_door(self, db: Connection) -> tuple[Door, int | None]:
        """What is left to do there, and in how many microseconds it is worth to look at the limits again."""
        door = self._door(db)
        if not (door.has_work or self._limits.has_news):
            return door, None
        # In its own transaction: its id would be older than those of jobs that come now, and the log would start them
        # before they came.
        with _transaction(db, BEGIN_ASYNCHRONOUS):
            return self._promote(db)

    def _door(self, db: Connection) -> Door:
        return Door(*_row(db, SQL["door"], {"now": self._now}))

    def _promote(self, db: Connection, tally: Tally | None = None) -> tuple[Door, int | None]:
        self._say_limits(db)
        door = self._door(db)
        if door.is_anyone:
            for _ in range(PROMOTE_PASSES):
                passed, held = _row(db, SQL["promote"], self._door_values())
                if passed + held < PROMOTE_PASS:
                    break
            door = self._door(db)
        has_admitted = door.has_budget and self._admit(db) > 0
        again = self._let_in(db, tally) if door.has_limit or has_admitted else None
        return door, again

    def _say_limits(self, db: Connection) -> None:
        if self._limits.has_news:
            _play(db, self._limits.says(self._time(db)))

    def _let_in(self, db: Connection, tally: Tally | None = None) -> int | None:
        """In how many microseconds it is worth to look again."""
        admitted = _play(db, self._limits.admit(self._time(db)))
        _play(db, self._unrun.ending(admitted.failed, self._now, tally=tally))
        return admitted.again_in

    def _time(self, db: Connection) -> int:
        return int(_row(db, SQL["now"], {"now": self._now})[0])

    def _admit(self, db: Connection) -> int:
        """Retries that their services' budgets allow."""
        return sum(
            int(_row(db, SQL["admit"], {**self._door_values(), "gate": gate, "limit": number or PROMOTE_PASS})[0])
            for gate, number in _play(db, self._services.admitted(self._time(db)))
        )

    def _door_values(self, *, duty: str | None = None, limit: int = PROMOTE_PASS) -> dict[str, Any]:
        step = TABLE[Move.PROMOTE, State.WAITING]
        where = {"duty": duty, "gate": f"duty/{duty}", "limit": limit}
        return {**where, "now": self._now, "queued": step.target.value, "event": step.event}

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        values = {"incarnation": incarnation, "before": before, "held": [fence.id for fence in held]}
        return self._run(lambda db: self._recalled(db, SQL["adopt"], values))

    def secure(self, fence: Fence) -> bool:
        # Committed synchronously, and with it all that was written before: the claim too.
        return self._run(lambda db: _execute(db, SQL["secure"], fence_values(fence)).rowcount == 1)

    # Beat

    def beat(self, beat: Beat) -> BeatReply:
        reply = self._run(lambda db: self._beat(db, beat))
        self._limits.told()
        return reply

    def _beat(self, db: Connection, beat: Beat) -> BeatReply:
        return _play_in(db, BEGIN_ASYNCHRONOUS, self._beats.beating(beat, self._now))

    def leave(self, incarnation: str) -> None:
        self._read(lambda _: alone(Statement(SQL["leave"], {"incarnation": incarnation})))

    # Settle

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        if short := [outcome.lease for outcome in outcomes if needs_record(outcome)]:
            self.load(short)
        return self._run(lambda db: self._settle(db, outcomes))

    def _settle(self, db: Connection, outcomes: Sequence[Outcome]) -> Answers:
        try:
            return self._settle_together(db, outcomes)
        except DATA_ERRORS:
            alone = [self._settle_alone(db, outcome) for outcome in outcomes]
        held = dict(item for _, heard in alone for item in heard.held.items())
        return Answers(
            [answer for answer, _ in alone], held, [change for _, heard in alone for change in heard.changes]
        )

    def _settle_together(self, db: Connection, outcomes: Sequence[Outcome]) -> Answers:
        firsts = _firsts(outcomes)
        succeeded = {n: outcome for n, outcome in firsts.items() if has_succeeded(outcome)}
        others = {n: (outcome, settlement(outcome)) for n, outcome in firsts.items() if n not in succeeded}
        # Most settles are one statement, and need no more.
        is_more = (
            (succeeded and others)
            or any(change.target is State.FAILED for _, change in others.values())
            or any(outcome.lease.service or outcome.calls for outcome in outcomes)
            or any(outcome.lease.batch is not None for outcome in firsts.values())
        )
        with _transaction(db, BEGIN) if is_more else contextlib.nullcontext():
            accepted = {*self._write_succeeded(db, succeeded), *self._write(db, others)}
            heard = self._hear(db, [outcomes[n] for n in accepted])
            self._count_settled(db, [outcomes[n] for n in sorted(accepted)])
        self._limits.freed(outcomes[n].lease for n in accepted)
        answers = [
            Settled.ACCEPTED if n in accepted else self._not_settled(db, outcome, settlement(outcome))
            for n, outcome in enumerate(outcomes)
        ]
        return Answers(answers, *heard)

    def _hear(self, db: Connection, accepted: Sequence[Outcome]) -> Heard:
        """What these attempts tell of their services."""
        heard = hearsay(accepted)
        if not heard:
            return Heard({}, [])
        (now,) = _row(db, SQL["now"], {"now": self._now})
        return _play(db, self._services.heard(heard, accepted[0].teller, now))

    def _settle_alone(self, db: Connection, outcome: Outcome) -> tuple[Settled, Heard]:
        """One by one, so that the culprit is found and loses nobody else's outcome."""
        try:
            with _transaction(db, BEGIN):
                answer, held = self._settle_as(db, outcome, settlement(outcome))
                self._count_settled(db, [outcome] if answer is Settled.ACCEPTED else [])
                return answer, held
        except DATA_ERRORS:
            with _transaction(db, BEGIN):
                answer, heard = self._settle_as(db, outcome, unstorable(outcome))
                _play(db, self._batches.settling([outcome], [_as_unstorable(answer)], self._now))
            return _as_unstorable(answer), heard

    def _count_settled(self, db: Connection, accepted: Sequence[Outcome]) -> None:
        _play(db, self._batches.settling(accepted, [Settled.ACCEPTED] * len(accepted), self._now))

    def _settle_as(self, db: Connection, outcome: Outcome, change: Settlement) -> tuple[Settled, Heard]:
        if not self._write(db, {0: (outcome, change)}):
            return self._not_settled(db, outcome, change), Heard({}, [])
        return Settled.ACCEPTED, self._hear(db, [outcome])

    def _write_succeeded(self, db: Connection, outcomes: Mapping[int, Outcome]) -> list[int]:
        """Which of them were accepted, by their numbers."""
        if not outcomes:
            return []
        columns = zip(*map(succeeded_row, outcomes.values()), strict=True)
        step, numbers = TABLE[Move.SUCCEED, State.RUNNING], list(outcomes)
        values = {
            **dict(zip(SUCCEEDED_COLUMNS, map(_joined, columns), strict=True)),
            "separator": SEPARATOR,
            "now": self._now,
            "target": step.target.value,
            "event": step.event,
        }
        return [numbers[place - 1] for (place,) in _execute(db, SQL["settle_succeeded"], values)]

    def _write(self, db: Connection, changes: Mapping[int, tuple[Outcome, Settlement]]) -> list[int]:
        """Which of them were accepted, by their numbers. In a transaction of the caller's, if one may fail its job."""
        if not changes:
            return []
        rows = [
            {
                **settle_values(outcome, change),
                "n": n,
                "event": change.event,
                "actor": outcome.actor,
                "code": change.code,
                "data": to_json(change.data),
            }
            for n, (outcome, change) in changes.items()
        ]
        values = {
            # What is left out is NULL: half of it, for most.
            "outcomes": to_json([{name: value for name, value in row.items() if value is not None} for row in rows]),
            "now": self._now,
            "cancelled": State.CANCELLED.value,
            "cancel_event": TABLE[Move.CANCEL, State.RUNNING].event,
        }
        settled = _execute(db, SQL["settle"], values).fetchall()
        self._follow(db, [FailedRow(*row) for _, *row in settled])
        return [n for n, *_ in settled]

    def _follow(self, db: Connection, failed: Sequence[FailedRow]) -> None:
        """Store what is to follow these failures. In the caller's transaction."""
        if jobs := follow_ups(failed):
            _play(db, self._enqueueing(jobs))

    def _not_settled(self, db: Connection, outcome: Outcome, change: Settlement) -> Settled:
        fence = outcome.lease.fence
        row = _find(db, SQL["settled"], {"id": fence.id})
        if row is None:
            return Settled.REFUSED
        values = {"id": fence.id, "attempt": fence.attempt, "types": list(SETTLE_EVENTS)}
        if is_repeat(outcome, row, lambda: [data for (data,) in _execute(db, SQL["settled_before"], values)]):
            return Settled.REPEATED
        if outcome.reclaimed_by is None:
            _execute(db, SQL["event"], refusal_values(outcome, change, row, now=self._now))
        return Settled.REFUSED

    # Upkeep

    def overdue(self, *, besides: str, limit: int) -> list[Lease]:
        values = {"now": self._now, "besides": besides, "limit": limit}
        return self._run(lambda db: _leases(db, SQL["overdue"], values))

    def stuck(
        self, *, after: timedelta, job: str | None = None, owner: str | None = None, limit: int = 50
    ) -> list[Lease]:
        values = {"after": to_duration(after), "job": job, "owner": owner, "limit": limit, "now": self._now}
        return self._run(lambda db: _leases(db, SQL["stuck"], values))

    def promote(self, duty: str, *, limit: int, by_hand: bool = False) -> int:
        passed = self._run(lambda db: self._promote_by_duty(db, duty, limit, by_hand=by_hand))
        if passed:
            self._notifier.hint()
        return passed

    def _promote_by_duty(self, db: Connection, duty: str, limit: int, *, by_hand: bool) -> int:
        with _transaction(db, BEGIN):
            self._say_limits(db)
            passed = int(_row(db, SQL["promote"], self._door_values(duty=duty, limit=limit))[0])
            if by_hand and passed < limit:
                passed += int(_row(db, SQL["admit"], self._door_values(duty=duty, limit=limit - passed))[0])
            self._let_in(db)
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

    def note(self, done: Round) -> None:
        begin = BEGIN_ASYNCHRONOUS if done.request is None else BEGIN
        self._transact(lambda now: self._rounds.noting(done, now), begin)

    def rounds(self) -> list[Round]:
        return self._read(lambda _: self._rounds.listing())

    # Batches

    def create_batch(self, batch: NewBatch) -> BatchRecord:
        return self._read(lambda now: self._batches.creating(batch, now))

    def publish(self, batch_id: str, *, owner: str | None = None, actor: str | None = None) -> BatchRecord:
        batch = self._run(lambda db: self._publish(db, batch_id, owner, actor))
        let_in(self)
        return batch

    def _publish(self, db: Connection, batch_id: str, owner: str | None, actor: str | None) -> BatchRecord:
        try:
            return _play_in(db, BEGIN_PUBLISH, self._batches.publishing(storable(batch_id), owner, actor, self._now))
        except psycopg.errors.LockNotAvailable as error:
            raise BatchBusy(batch_id) from error

    def retry_members(self, request: BatchRetry) -> list[str]:
        retried = self._transact(lambda now: self._batches.retrying(request, now))
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
        if not _play(db, self._batches.need_tending(self._now)):
            return 0
        with _transaction(db, BEGIN):
            did = _play(db, self._batches.expiring(limit, self._now))
        for batch in _play(db, self._batches.aborted(limit, self._now)):
            # One by one: members before their batch, and never two batches at once.
            with _transaction(db, BEGIN):
                did += _play(db, self._batches.sweeping(batch, max(0, limit - did), self._now))
        _play(db, self._batches.admitted())
        return did

    def prune_batches(self, *, before: datetime, limit: int) -> int:
        return self._read(lambda _: self._batches.pruning(before, limit))

    # Services and limits

    def services(self) -> list[ServiceRecord]:
        return self._read(self._services.listed)

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
        return self._read(lambda now: self._limits.budgets.record(owner, now))

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

    def count_over(self, wanted: JobFilter, *, before: datetime, owner: str | None = None) -> list[Pile]:
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
        with _transaction(db, BEGIN):
            return _play(db, self._redrives.advancing(redrive, moves, self._now, self._hands(db)))

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
        with _transaction(db, BEGIN):
            return _play(db, self._moves.moving(request, self._now, self._hands(db)))

    def _hands(self, db: Connection) -> Hands:
        return Hands(
            settle=lambda first: self._settle_as(db, first, settlement(first)),
            promote=lambda tally: self._promote(db, tally),
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

    def next_expiry(self) -> datetime | None:
        return self._read(lambda _: self._reading.next_expiry())

    def ahead_of(self, job: Job[Any], *, limit: int) -> int:
        return self._read(lambda _: self._reading.ahead_of(job, limit))

    def lanes(self) -> list[Lane]:
        return self._read(lambda _: self._reading.lanes())

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

    def _read(self, steps: Callable[[Now], Steps[T]]) -> T:
        """Each statement by itself: for those who look, and for what is one statement anyway."""
        return self._run(lambda db: _play(db, steps(self._now)))

    def _transact(self, steps: Callable[[Now], Steps[T]], begin: str = BEGIN) -> T:
        return self._run(lambda db: _play_in(db, begin, steps(self._now)))

    def _run(self, work: Callable[[Connection], T]) -> T:
        self._check_once()
        return self._connections.run(work)

    def _check_once(self) -> None:
        if not self._is_checked:
            self._connections.run(self._check)
            self._is_checked = True

    def _check(self, db: Connection) -> None:
        found, oldest = schema.version(db)
        check_version(found, oldest, schema.VERSION)
        if found < schema.VERSION:
            raise SchemaMismatch(
                f"the database has schema {found}, this mulligan needs {schema.VERSION}: run 'mulligan migrate'"
            )

    @property
    def _now(self) -> int | None:
        return None if self._given_now is None else to_time(self._given_now())


def _claim_values(claim: Claim, where: dict[str, Any]) -> dict[str, Any]:
    step = TABLE[Move.CLAIM, State.QUEUED]
    return {
        **where,
        "incarnation": claim.incarnation,
        "claim": claim.number,
        "limit": claim.limit,
        "lease": to_duration(claim.lease),
        "running": step.target.value,
        "event": step.event,
        "version": claim.version,
        "automatic": start_data(claim, "automatic"),
        "manual": start_data(claim, "manual"),
    }


def _turn_values(claim: Claim) -> dict[str, Any]:
    return {"incarnation": claim.incarnation, "claim": claim.number, "fair": list(claim.fair)}


@cache
def _claiming(name: str, *, whole: bool = False, source: str = "") -> str:
    """A statement about the lanes that a claim may take from."""
    columns = "mulligan_jobs.*" if whole else CLAIMED
    return SQL[name].format(lanes=SQL["claim_lanes"], columns=columns, source=source)


def _firsts(outcomes: Sequence[Outcome]) -> dict[int, Outcome]:
    """The first outcome of each lease, by its place: of several the server would take any."""
    places: dict[tuple[Fence, str | None], int] = {}
    for n, outcome in enumerate(outcomes):
        places.setdefault((outcome.lease.fence, outcome.reclaimed_by), n)
    return {n: outcomes[n] for n in places.values()}


@contextlib.contextmanager
def _transaction(db: Connection, begin: str) -> Iterator[None]:
    """A transaction and its settings in one round trip."""
    db.execute(begin)
    try:
        yield
    except BaseException:
        with contextlib.suppress(psycopg.Error):
            db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def _joined(column: Iterable[Any]) -> str:
    """A column as one text. A value that holds the separator would make two of one: it goes another way."""
    values = ["" if value is None else str(value) for value in column]
    text = SEPARATOR.join(values)
    if text.count(SEPARATOR) != len(values) - 1:
        raise ValueError("a value contains the separator")
    return text


def _execute(db: Connection, statement: str, values: dict[str, Any]) -> psycopg.Cursor[tuple[Any, ...]]:
    return db.cursor(binary=True).execute(statement, values)


def _row(db: Connection, statement: str, values: dict[str, Any]) -> tuple[Any, ...]:
    return _fetched(_execute(db, statement, values))


def _fetched(cursor: psycopg.Cursor[tuple[Any, ...]]) -> tuple[Any, ...]:
    row = cursor.fetchone()
    assert row is not None
    return row


def _find(db: Connection, statement: str, values: dict[str, Any]) -> Record | None:
    cursor = _execute(db, statement, values)
    row = cursor.fetchone()
    return None if row is None else records(cursor, [row])[0]


def _ids(db: Connection, statement: str, values: dict[str, Any]) -> list[str]:
    return [id_ for (id_,) in _execute(db, statement, values)]


def _play(db: Connection, steps: Steps[T]) -> T:
    return play(steps, lambda statement: _rows(db, statement))


def _play_in(db: Connection, begin: str, steps: Steps[T]) -> T:
    with _transaction(db, begin):
        return _play(db, steps)


def _removing(ids: Sequence[str]) -> Steps[int]:
    """With their history, as far as all cursors have passed it."""
    (row,) = yield Statement(SQL["remove"], {"ids": list(ids)})
    return int(row["number"])


def _as_unstorable(answer: Settled) -> Settled:
    return Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer


def _rows(db: Connection, statement: Statement) -> list[Record]:
    cursor = _execute(db, statement.sql, statement.values)
    return [] if cursor.description is None else records(cursor, cursor.fetchall())


def _leases(
    db: Connection, statement: str, values: dict[str, Any], job: Callable[[str], Job[Any]] | None = None
) -> list[Lease]:
    cursor = _execute(db, statement, values)
    return to_leases(cursor, cursor.fetchall(), job)
