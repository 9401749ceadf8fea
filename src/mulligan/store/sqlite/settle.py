"""Settle on SQLite: all outcomes together, or one by one if one of them cannot be stored."""

from collections.abc import Mapping, Sequence

from mulligan.failure.decision import Park
from mulligan.lifecycle import TABLE, Move, State
from mulligan.store.enqueue import SharedOperations
from mulligan.store.events import event_values
from mulligan.store.follow_up import EndedRow, store_follow_ups
from mulligan.store.messages import Answers, Outcome, Settled
from mulligan.store.rows import fence_values, to_json
from mulligan.store.service_calls import charge, first_by_lease, may_charge_service
from mulligan.store.session import Session
from mulligan.store.settle import (
    VALUE_ERRORS,
    Settlement,
    has_succeeded,
    is_plain_retry,
    refuse,
    retried_row,
    settle_values,
    succeeded_row,
    to_settlement,
    unstorable,
    when_values,
)
from mulligan.store.sqlite.corruption import Corruption
from mulligan.store.sqlite.session import SQL, SqliteSession, sqlite3

# Errors caused by the outcome itself. Any other error is a fault of the store, not of the job.
DATA_ERRORS = (
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    *VALUE_ERRORS,
)
PROMOTED = TABLE[Move.PROMOTE, State.WAITING].event
# An attempt whose outcome cannot be stored has called its service too.
NEWLY_SETTLED = (Settled.ACCEPTED, Settled.UNSTORABLE)
# What successes have in common that one statement settles.
IN_COMMON = ("settled_by", "attempt", "incarnation", "claim")


class SqliteSettle:
    def __init__(self, parts: SharedOperations, corruption: Corruption) -> None:
        self._services = parts.services
        self._limits = parts.limits
        self._batches = parts.batches
        self._enqueue = parts.enqueue
        self._corruption = corruption

    def settle(self, session: SqliteSession, outcomes: Sequence[Outcome]) -> Answers:
        answers = self.settle_uncounted(session, outcomes)
        settled = [answers.spared.get(n, outcome) for n, outcome in enumerate(outcomes)]
        self._batches.count_settled(session, settled, answers)
        return answers

    def settle_uncounted(self, session: Session, outcomes: Sequence[Outcome]) -> Answers:
        """Settle without counting batch members: a move that ends an attempt first counts them itself."""
        sure = {n: outcome for n, outcome in enumerate(outcomes) if not may_charge_service(outcome)}
        answers = self._settle_all(session, sure)
        settled = [outcome for n, outcome in sure.items() if answers[n] in NEWLY_SETTLED]
        others = {n: outcome for n, outcome in enumerate(outcomes) if n not in sure}
        fenced = {n: outcome for n, outcome in first_by_lease(others.items()).items() if _holds(session, outcome)}
        update = self._services.record_calls(session, [*settled, *fenced.values()])
        chosen = {n: charge(outcome, update.states) for n, outcome in fenced.items()}
        answers |= self._settle_all(session, others | chosen)
        self._limits.note_settled(outcome.lease for outcome in (*settled, *fenced.values()))
        spared = {n: outcome for n, outcome in chosen.items() if isinstance(outcome.decision, Park)}
        return Answers(
            [answers[n] for n in range(len(outcomes))], update.not_closed, update.changes, spared, update.breakers
        )

    def _settle_all(self, session: Session, outcomes: Mapping[int, Outcome]) -> dict[int, Settled]:
        settled = list(outcomes.values())
        if not settled:
            return {}
        try:
            with session.undo(BaseException):
                answers = self._settle_together(session, settled)
        except DATA_ERRORS:
            answers = [self._settle_alone(session, outcome) for outcome in settled]
        return dict(zip(outcomes, answers, strict=True))

    def _settle_together(self, session: Session, outcomes: Sequence[Outcome]) -> list[Settled]:
        is_written = self._write_plain(session, outcomes)
        if not is_written:
            # Undoes all of them: nothing else was written since the savepoint.
            session.undo_steps()
        return [
            Settled.ACCEPTED
            if is_written and (has_succeeded(outcome) or is_plain_retry(outcome))
            else self._apply(session, outcome, to_settlement(outcome))
            for outcome in outcomes
        ]

    def _write_plain(self, session: Session, outcomes: Sequence[Outcome]) -> bool:
        """Write successes and plain retries. Return whether all were written. If not, at least one was refused,
        repeated or cancelled; which one is unknown."""
        if len({outcome.lease.fence for outcome in outcomes}) < len(outcomes):
            # Of several outcomes of one lease the first counts, so they are written in order.
            return False
        succeeded = [outcome for outcome in outcomes if has_succeeded(outcome)]
        retried = [outcome for outcome in outcomes if is_plain_retry(outcome)]
        return (not succeeded or _write_succeeded(session, succeeded)) and (
            not retried or _write_retried(session, retried, may_promote=self._may_promote(session))
        )

    def _may_promote(self, session: Session) -> bool:
        return not self._limits.has_news and bool(session.rows("settle_passes")[0]["passes"])

    def _settle_alone(self, session: Session, outcome: Outcome) -> Settled:
        """Settle one outcome alone, so that a bad one does not affect the others."""
        try:
            with session.undo(BaseException):
                return self._apply(session, outcome, to_settlement(outcome))
        except DATA_ERRORS:
            answer = self._settle_as_unstorable(session, outcome)
            return Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer

    def _settle_as_unstorable(self, session: Session, outcome: Outcome) -> Settled:
        try:
            with session.undo(BaseException):
                return self._apply(session, outcome, unstorable(outcome))
        except sqlite3.IntegrityError:
            # The fence matched, or nothing would have been written: the row itself is damaged.
            (row,) = session.rows("job", {"id": outcome.lease.fence.id, "owner": None})
            self._corruption.condemn(session, [row["seq"]], sources=[State.RUNNING], settled_by=outcome.settled_by)
            return Settled.ACCEPTED

    def _apply(self, session: Session, outcome: Outcome, change: Settlement) -> Settled:
        fence = outcome.lease.fence
        passes = change.promotes and self._may_promote(session)
        values = {**settle_values(outcome, change), "cancelled": State.CANCELLED.value, "passes": passes}
        rows = session.rows("settle", values)
        if not rows:
            return refuse(session, outcome, change)
        state, owner, follow_up = rows[0].values()
        is_promoted = state == State.QUEUED and change.target is not State.QUEUED
        # A cancel request may have taken precedence over going back to the queue.
        type_ = change.event if state == change.target or is_promoted else TABLE[Move.CANCEL, State.RUNNING].event
        about = (fence.id, outcome.lease.kind, owner, fence.attempt)
        session.rows("event", event_values(type_, *about, actor=outcome.actor, code=change.code, data=change.data))
        if is_promoted:
            session.rows("event", event_values(PROMOTED, *about))
        if follow_up is not None:
            ended = EndedRow(fence.id, owner, fence.attempt, session.moment(), state, follow_up)
            store_follow_ups(session, self._enqueue, [ended])
        return Settled.ACCEPTED


def _holds(session: Session, outcome: Outcome) -> bool:
    """Whether the fence still matches, so that the outcome will be accepted."""
    values = {**fence_values(outcome.lease.fence), **when_values(outcome)}
    return bool(session.rows("settle_fenced", values))


def _write_succeeded(session: Session, outcomes: Sequence[Outcome]) -> bool:
    assert isinstance(session, SqliteSession)
    rows, now = [succeeded_row(outcome) for outcome in outcomes], session.now
    claims: dict[tuple[object, ...], dict[str, str | None]] = {}
    for row in rows:
        claims.setdefault((row.settled_by, row.attempt, row.incarnation, row.claim), {})[row.id] = row.result
    for claim, results in claims.items():
        values = {**dict(zip(IN_COMMON, claim, strict=True)), "results": to_json(results), "now": now}
        if session.db.execute(SQL["settle_succeeded"], values).rowcount != len(results):
            return False
    data = to_json({row.id: row.data for row in rows})
    event = TABLE[Move.SUCCEED, State.RUNNING].event
    session.db.execute(SQL["settle_succeeded_events"], {"data": data, "type": event, "at": now})
    return True


def _write_retried(session: Session, outcomes: Sequence[Outcome], *, may_promote: bool) -> bool:
    assert isinstance(session, SqliteSession)
    rows, now = [retried_row(outcome, may_promote=may_promote) for outcome in outcomes], session.now
    written = session.db.executemany(SQL["settle_retried"], [{**row._asdict(), "now": now} for row in rows]).rowcount
    if written != len(rows):
        return False
    event = TABLE[Move.RETRY, State.RUNNING].event
    events: list[tuple[object, ...]] = []
    for row, outcome in zip(rows, outcomes, strict=True):
        about = (row.id, outcome.lease.kind, outcome.lease.owner, row.attempt, now)
        events.append((event, *about, row.code, row.data))
        if row.promotes:
            events.append((PROMOTED, *about, None, "{}"))
    session.db.executemany(SQL["event_with_code"], events)
    return True
