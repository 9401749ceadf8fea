"""Settling on SQLite: all outcomes together, or one by one when one of them cannot be stored."""

from collections.abc import Mapping, Sequence

import msgspec

from mulligan.errors import StoreDamaged
from mulligan.failure.decision import Park
from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.batches import BatchSteps
from mulligan.store.follow_up import FailedRow, follow_ups
from mulligan.store.limits import LimitDesk
from mulligan.store.protocols import Answers, Outcome, Settled
from mulligan.store.refusal import refusing
from mulligan.store.service_charges import charged, first_of_each, may_be_spared
from mulligan.store.services import ServiceDesk
from mulligan.store.settle import Settlement, has_succeeded, settlement, succeeded_row, unstorable
from mulligan.store.sqlite.corruption import Damage
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.enqueue import Intake
from mulligan.store.sqlite.play import SQL, append, find, play, savepoint
from mulligan.store.values import event_values, fence_values, settle_values, when_values

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
# Also what cannot be stored has called its service.
NEWLY_SETTLED = (Settled.ACCEPTED, Settled.UNSTORABLE)


class SettleDesk:
    def __init__(self, services: ServiceDesk, limits: LimitDesk, intake: Intake, damage: Damage) -> None:
        self._services = services
        self._limits = limits
        self._intake = intake
        self._damage = damage

    @property
    def _batches(self) -> BatchSteps:
        return self._intake.batches

    def settle(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> Answers:
        answers = self.settle_uncounted(db, outcomes, now)
        settled = [answers.spared.get(n, outcome) for n, outcome in enumerate(outcomes)]
        play(db, self._batches.settling(settled, answers, now))
        return answers

    def settle_uncounted(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> Answers:
        """For a move that ends an attempt first: it counts what became of the job by itself."""
        sure = {n: outcome for n, outcome in enumerate(outcomes) if not may_be_spared(outcome)}
        answers = self._settle_all(db, sure, now)
        settled = [outcome for n, outcome in sure.items() if answers[n] in NEWLY_SETTLED]
        others = {n: outcome for n, outcome in enumerate(outcomes) if n not in sure}
        held = {n: outcome for n, outcome in first_of_each(others.items()).items() if _is_held(db, outcome, now)}
        heard = play(db, self._services.hearing([*settled, *held.values()], now))
        chosen = {n: charged(outcome, heard.standings) for n, outcome in held.items()}
        answers |= self._settle_all(db, others | chosen, now)
        self._limits.freed(outcome.lease for outcome in (*settled, *held.values()))
        spared = {n: outcome for n, outcome in chosen.items() if isinstance(outcome.decision, Park)}
        return Answers([answers[n] for n in range(len(outcomes))], heard.held, heard.changes, spared)

    def _settle_all(self, db: "sqlite3.Connection", outcomes: Mapping[int, Outcome], now: int) -> dict[int, Settled]:
        settled = list(outcomes.values())
        if not settled:
            return {}
        try:
            with savepoint(db):
                answers = self._settle_together(db, settled, now)
        except DATA_ERRORS:
            answers = [self._settle_alone(db, outcome, now) for outcome in settled]
        return dict(zip(outcomes, answers, strict=True))

    def _settle_together(self, db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> list[Settled]:
        succeeded = [outcome for outcome in outcomes if has_succeeded(outcome)]
        if succeeded and not _write_succeeded(db, succeeded, now):
            # All of them are undone: nothing else was written since.
            db.execute("ROLLBACK TO settle")
            return [self._settle_as(db, outcome, settlement(outcome), now) for outcome in outcomes]
        return [
            Settled.ACCEPTED if has_succeeded(outcome) else self._settle_as(db, outcome, settlement(outcome), now)
            for outcome in outcomes
        ]

    def _settle_alone(self, db: "sqlite3.Connection", outcome: Outcome, now: int) -> Settled:
        """One by one, so that the culprit is found and loses nobody else's outcome."""
        try:
            with savepoint(db):
                return self._settle_as(db, outcome, settlement(outcome), now)
        except DATA_ERRORS:
            answer = self._settle_as_unstorable(db, outcome, now)
            return Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer

    def _settle_as_unstorable(self, db: "sqlite3.Connection", outcome: Outcome, now: int) -> Settled:
        try:
            with savepoint(db):
                return self._settle_as(db, outcome, unstorable(outcome), now)
        except sqlite3.IntegrityError:
            # The fence matched, or nothing would have been written: it is the row that is damaged.
            row = find(db, SQL["job"], {"id": outcome.lease.fence.id, "owner": None})
            assert row is not None
            self._damage.condemn(db, [row["seq"]], now, sources=[State.RUNNING], settled_by=outcome.settled_by)
            return Settled.ACCEPTED

    def _settle_as(self, db: "sqlite3.Connection", outcome: Outcome, change: Settlement, now: int) -> Settled:
        fence, common = outcome.lease.fence, {"now": now, "cancelled": State.CANCELLED.value}
        row = db.execute(SQL["settle"], {**settle_values(outcome, change), **common}).fetchone()
        if row is None:
            return play(db, refusing(SQL, outcome, change, now))
        state, owner, on_failed = row
        # A wish to cancel may have won over going back to the queue.
        type_ = change.event if state == change.target else TABLE[Move.CANCEL, State.RUNNING].event
        about = (fence.id, outcome.lease.kind, owner, fence.attempt)
        code, data = change.code, change.data
        append(db, [event_values(type_, *about, now=now, actor=outcome.actor, code=code, data=data)])
        if on_failed is not None and state == State.FAILED:
            failed = FailedRow(fence.id, owner, fence.attempt, now, on_failed)
            self._intake.enqueue(db, follow_ups([failed]), now)
        return Settled.ACCEPTED


def _is_held(db: "sqlite3.Connection", outcome: Outcome, now: int) -> bool:
    """Whether it will be accepted."""
    return (
        find(db, SQL["settle_held"], {**fence_values(outcome.lease.fence), **when_values(outcome), "now": now})
        is not None
    )


def _write_succeeded(db: "sqlite3.Connection", outcomes: Sequence[Outcome], now: int) -> bool:
    """Whether all of them were written; if not, one was refused or repeated, and it is not known which."""
    rows = [succeeded_row(outcome) for outcome in outcomes]
    written = db.executemany(
        SQL["settle_succeeded"],
        [(row.result, now, row.settled_by, now, row.id, row.attempt, row.incarnation, row.claim) for row in rows],
    ).rowcount
    if written != len(rows):
        return False
    event = TABLE[Move.SUCCEED, State.RUNNING].event
    leases = [outcome.lease for outcome in outcomes]
    db.executemany(
        SQL["event_plain"],
        [
            (event, row.id, lease.kind, lease.owner, row.attempt, now, row.data)
            for row, lease in zip(rows, leases, strict=True)
        ],
    )
    return True
