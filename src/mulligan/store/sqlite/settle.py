"""Settling on SQLite: all outcomes together, or one by one when one of them cannot be stored."""

from collections.abc import Mapping, Sequence

import msgspec

from mulligan.errors import StoreDamaged
from mulligan.failure.decision import Park
from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.follow_up import FailedRow, follow_ups
from mulligan.store.messages import Answers, Outcome, Settled
from mulligan.store.parts import Parts
from mulligan.store.refusal import refuse
from mulligan.store.service_charges import charged, first_of_each, may_be_spared
from mulligan.store.settle import Settlement, has_succeeded, settlement, succeeded_row, unstorable
from mulligan.store.sqlite.corruption import Corruption
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.enqueue import SqliteEnqueue
from mulligan.store.sqlite.session import SQL, SqliteSession
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


class SqliteSettle:
    def __init__(self, parts: Parts, enqueue: SqliteEnqueue, damage: Corruption) -> None:
        self._services = parts.services
        self._limits = parts.limits
        self._batches = parts.batches
        self._enqueue = enqueue
        self._damage = damage

    def settle(self, session: SqliteSession, outcomes: Sequence[Outcome], now: int) -> Answers:
        answers = self.settle_uncounted(session, outcomes, now)
        settled = [answers.spared.get(n, outcome) for n, outcome in enumerate(outcomes)]
        self._batches.count_settled(session, settled, answers, now)
        return answers

    def settle_uncounted(self, session: SqliteSession, outcomes: Sequence[Outcome], now: int) -> Answers:
        """For a move that ends an attempt first: it counts what became of the job by itself."""
        sure = {n: outcome for n, outcome in enumerate(outcomes) if not may_be_spared(outcome)}
        answers = self._settle_all(session, sure, now)
        settled = [outcome for n, outcome in sure.items() if answers[n] in NEWLY_SETTLED]
        others = {n: outcome for n, outcome in enumerate(outcomes) if n not in sure}
        held = {n: outcome for n, outcome in first_of_each(others.items()).items() if _is_held(session, outcome, now)}
        heard = self._services.record_calls(session, [*settled, *held.values()], now)
        chosen = {n: charged(outcome, heard.standings) for n, outcome in held.items()}
        answers |= self._settle_all(session, others | chosen, now)
        self._limits.freed(outcome.lease for outcome in (*settled, *held.values()))
        spared = {n: outcome for n, outcome in chosen.items() if isinstance(outcome.decision, Park)}
        return Answers([answers[n] for n in range(len(outcomes))], heard.held, heard.changes, spared)

    def _settle_all(self, session: SqliteSession, outcomes: Mapping[int, Outcome], now: int) -> dict[int, Settled]:
        settled = list(outcomes.values())
        if not settled:
            return {}
        try:
            with session.savepoint():
                answers = self._settle_together(session, settled, now)
        except DATA_ERRORS:
            answers = [self._settle_alone(session, outcome, now) for outcome in settled]
        return dict(zip(outcomes, answers, strict=True))

    def _settle_together(self, session: SqliteSession, outcomes: Sequence[Outcome], now: int) -> list[Settled]:
        succeeded = [outcome for outcome in outcomes if has_succeeded(outcome)]
        if succeeded and not _write_succeeded(session, succeeded, now):
            # All of them are undone: nothing else was written since.
            session.db.execute("ROLLBACK TO settle")
            return [self._settle_as(session, outcome, settlement(outcome), now) for outcome in outcomes]
        return [
            Settled.ACCEPTED if has_succeeded(outcome) else self._settle_as(session, outcome, settlement(outcome), now)
            for outcome in outcomes
        ]

    def _settle_alone(self, session: SqliteSession, outcome: Outcome, now: int) -> Settled:
        """One by one, so that the culprit is found and loses nobody else's outcome."""
        try:
            with session.savepoint():
                return self._settle_as(session, outcome, settlement(outcome), now)
        except DATA_ERRORS:
            answer = self._settle_as_unstorable(session, outcome, now)
            return Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer

    def _settle_as_unstorable(self, session: SqliteSession, outcome: Outcome, now: int) -> Settled:
        try:
            with session.savepoint():
                return self._settle_as(session, outcome, unstorable(outcome), now)
        except sqlite3.IntegrityError:
            # The fence matched, or nothing would have been written: it is the row that is damaged.
            row = session.first("job", {"id": outcome.lease.fence.id, "owner": None})
            assert row is not None
            self._damage.condemn(session, [row["seq"]], now, sources=[State.RUNNING], settled_by=outcome.settled_by)
            return Settled.ACCEPTED

    def _settle_as(self, session: SqliteSession, outcome: Outcome, change: Settlement, now: int) -> Settled:
        fence, common = outcome.lease.fence, {"now": now, "cancelled": State.CANCELLED.value}
        row = session.db.execute(SQL["settle"], {**settle_values(outcome, change), **common}).fetchone()
        if row is None:
            return refuse(session, outcome, change, now)
        state, owner, on_failed = row
        # A wish to cancel may have won over going back to the queue.
        type_ = change.event if state == change.target else TABLE[Move.CANCEL, State.RUNNING].event
        about = (fence.id, outcome.lease.kind, owner, fence.attempt)
        code, data = change.code, change.data
        session.append([event_values(type_, *about, now=now, actor=outcome.actor, code=code, data=data)])
        if on_failed is not None and state == State.FAILED:
            failed = FailedRow(fence.id, owner, fence.attempt, now, on_failed)
            self._enqueue.enqueue(session, follow_ups([failed]), now)
        return Settled.ACCEPTED


def _is_held(session: SqliteSession, outcome: Outcome, now: int) -> bool:
    """Whether it will be accepted."""
    return (
        session.first("settle_held", {**fence_values(outcome.lease.fence), **when_values(outcome), "now": now})
        is not None
    )


def _write_succeeded(session: SqliteSession, outcomes: Sequence[Outcome], now: int) -> bool:
    """Whether all of them were written; if not, one was refused or repeated, and it is not known which."""
    rows = [succeeded_row(outcome) for outcome in outcomes]
    written = session.db.executemany(
        SQL["settle_succeeded"],
        [(row.result, now, row.settled_by, now, row.id, row.attempt, row.incarnation, row.claim) for row in rows],
    ).rowcount
    if written != len(rows):
        return False
    event = TABLE[Move.SUCCEED, State.RUNNING].event
    leases = [outcome.lease for outcome in outcomes]
    session.db.executemany(
        SQL["event_plain"],
        [
            (event, row.id, lease.kind, lease.owner, row.attempt, now, row.data)
            for row, lease in zip(rows, leases, strict=True)
        ],
    )
    return True
