"""Settle on PostgreSQL: all outcomes together, or one by one if one of them cannot be stored."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import psycopg

from mulligan.failure.decision import Park
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Fence
from mulligan.store.enqueue import SharedOperations
from mulligan.store.follow_up import EndedRow, store_follow_ups
from mulligan.store.messages import Answers, Outcome, Settled
from mulligan.store.postgres.session import BEGIN, SEPARATOR, SQL, Cursor, PostgresSession
from mulligan.store.rows import fence_values, to_json
from mulligan.store.service_calls import charge, first_by_lease, may_charge_service
from mulligan.store.services import ServiceUpdate
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

# Errors caused by the outcome itself. Any other error is a fault of the store, not of the job.
DATA_ERRORS = (psycopg.DataError, psycopg.IntegrityError, *VALUE_ERRORS)
SettlementByNumber = Mapping[int, tuple[Outcome, Settlement]]
SUCCEEDED_COLUMNS = ("ids", "attempts", "incarnations", "claims", "settled_by", "results", "data")
RETRIED_COLUMNS = (
    *("ids", "attempts", "incarnations", "claims", "settled_by", "promotes", "delays", "code_failures", "max_attempts"),
    *("codes", "classes", "messages", "details", "data"),
)
QUEUED = State.QUEUED.value
PROMOTED = TABLE[Move.PROMOTE, State.WAITING].event


class PostgresSettle:
    def __init__(self, parts: SharedOperations) -> None:
        self._services = parts.services
        self._limits = parts.limits
        self._batches = parts.batches
        self._enqueue = parts.enqueue

    def settle(self, session: PostgresSession, outcomes: Sequence[Outcome]) -> Answers:
        try:
            return self._settle_together(session, outcomes)
        except DATA_ERRORS:
            alone = [self._settle_alone(session, outcome) for outcome in outcomes]
        not_closed = dict(item for one in alone for item in one.not_closed.items())
        changes = [change for one in alone for change in one.changes]
        spared = {n: outcome for n, one in enumerate(alone) for outcome in one.spared.values()}
        breakers = dict(item for one in alone for item in one.breakers.items())
        return Answers([answer for one in alone for answer in one], not_closed, changes, spared, breakers)

    def _settle_together(self, session: PostgresSession, outcomes: Sequence[Outcome]) -> Answers:
        firsts = _find_firsts(outcomes)
        succeeded = {n: outcome for n, outcome in firsts.items() if has_succeeded(outcome)}
        retried = {n: outcome for n, outcome in firsts.items() if is_plain_retry(outcome)}
        unsure = {n: outcome for n, outcome in firsts.items() if may_charge_service(outcome)}
        sure = {n: outcome for n, outcome in firsts.items() if not (n in succeeded or n in retried or n in unsure)}
        others = {n: (outcome, to_settlement(outcome)) for n, outcome in sure.items()}
        # Most settles are a single statement and need no transaction.
        needs_transaction = (
            bool(succeeded) + bool(retried) + bool(others) > 1
            or any(change.target in (State.FAILED, State.CANCELLED) for _, change in others.values())
            or any(outcome.lease.service or outcome.lease.batch or outcome.calls for outcome in outcomes)
        )
        first = partial(self._write_plain, session, succeeded, retried)
        with session.transaction_with(first) if needs_transaction else contextlib.nullcontext(first()) as written:
            accepted = {*_read_accepted(written[0], succeeded), *_read_accepted(written[1], retried)}
            # Refused, repeated or cancelled: the general statement tells.
            others |= {n: (one, to_settlement(one)) for n, one in retried.items() if n not in accepted}
            accepted |= self._write(session, others) if needs_transaction else self._write_alone(session, others)
            fenced = _lock_fenced(session, unsure)
            accepted |= fenced.keys()
            update = self._services.record_calls(session, [outcomes[n] for n in sorted(accepted)])
            spared = self._charge(session, fenced, update)
            self._count(session, [spared.get(n, outcomes[n]) for n in sorted(accepted)], Settled.ACCEPTED)
        self._limits.note_settled(outcomes[n].lease for n in accepted)
        answers = [
            Settled.ACCEPTED if n in accepted else refuse(session, outcome, to_settlement(outcome))
            for n, outcome in enumerate(outcomes)
        ]
        return Answers(answers, update.not_closed, update.changes, spared, update.breakers)

    def _write_plain(
        self, session: PostgresSession, succeeded: Mapping[int, Outcome], retried: Mapping[int, Outcome]
    ) -> tuple[Cursor | None, Cursor | None]:
        may_promote = not self._limits.has_news
        return _write_succeeded(session, succeeded), _write_retried(session, retried, may_promote=may_promote)

    def _charge(self, session: Session, fenced: Mapping[int, Outcome], update: ServiceUpdate) -> dict[int, Outcome]:
        """Settle outcomes that may be charged to a service. Return those that were."""
        chosen = {n: charge(outcome, update.states) for n, outcome in fenced.items()}
        self._write(session, {n: (outcome, to_settlement(outcome)) for n, outcome in chosen.items()})
        return {n: outcome for n, outcome in chosen.items() if isinstance(outcome.decision, Park)}

    def _settle_alone(self, session: PostgresSession, outcome: Outcome) -> Answers:
        """Settle one outcome alone, so that a bad one does not affect the others."""
        try:
            with session.transaction(BEGIN):
                answers = self.settle_uncounted(session, outcome)
                self._count(session, [answers.spared.get(0, outcome)], answers[0])
                return answers
        except DATA_ERRORS:
            with session.transaction(BEGIN):
                answer, update = self._apply(session, outcome, unstorable(outcome))
                answer = Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer
                self._count(session, [outcome], answer)
            return Answers([answer], update.not_closed, update.changes, None, update.breakers)

    def _count(self, session: PostgresSession, outcomes: Sequence[Outcome], answer: Settled) -> None:
        self._batches.count_settled(session, outcomes, [answer] * len(outcomes))

    def settle_uncounted(self, session: Session, outcome: Outcome) -> Answers:
        """Settle without counting batch members: a move that ends an attempt first counts them itself."""
        fenced = _lock_fenced(session, {0: outcome}) if may_charge_service(outcome) else {}
        if not fenced:
            answer, update = self._apply(session, outcome, to_settlement(outcome))
            return Answers([answer], update.not_closed, update.changes, None, update.breakers)
        update = self._services.record_calls(session, [outcome])
        spared = self._charge(session, fenced, update)
        return Answers([Settled.ACCEPTED], update.not_closed, update.changes, spared, update.breakers)

    def _apply(self, session: Session, outcome: Outcome, change: Settlement) -> tuple[Settled, ServiceUpdate]:
        if not self._write(session, {0: (outcome, change)}):
            return refuse(session, outcome, change), ServiceUpdate()
        return Settled.ACCEPTED, self._services.record_calls(session, [outcome])

    def _write_alone(self, session: PostgresSession, changes: SettlementByNumber) -> set[int]:
        """Write without a transaction; only what another job follows, after a cancel request, is written in one."""
        accepted = self._write(session, changes, is_alone=True)
        if left := {n: change for n, change in changes.items() if n not in accepted}:
            with session.transaction(BEGIN):
                accepted |= self._write(session, left)
        return accepted

    def _write(self, session: Session, changes: SettlementByNumber, *, is_alone: bool = False) -> set[int]:
        """Return the numbers of the accepted outcomes. If a job may fail or be cancelled, the caller has a transaction
        open."""
        if not changes:
            return set()
        may_promote = not self._limits.has_news
        rows = [
            {
                **settle_values(outcome, change),
                "n": n,
                "event": change.event,
                "actor": outcome.actor,
                "code": change.code,
                "data": to_json(change.data),
                "promotes": change.promotes and may_promote,
            }
            for n, (outcome, change) in changes.items()
        ]
        values = {
            # A missing value is NULL; that is half of them for most outcomes.
            "outcomes": to_json([{name: value for name, value in row.items() if value is not None} for row in rows]),
            "cancelled": State.CANCELLED.value,
            "cancel_event": TABLE[Move.CANCEL, State.RUNNING].event,
            "queued": QUEUED,
            "promoted": PROMOTED,
            "is_alone": is_alone,
        }
        settled = session.rows("settle", values)
        numbers = {row.pop("n") for row in settled}
        store_follow_ups(session, self._enqueue, [EndedRow(**row) for row in settled])
        return numbers


def _lock_fenced(session: Session, outcomes: Mapping[int, Outcome]) -> dict[int, Outcome]:
    """Return the outcomes that will be accepted. Their jobs are locked until this transaction ends."""
    firsts = first_by_lease(outcomes.items())
    if not firsts:
        return {}
    rows = [{"n": n, **fence_values(one.lease.fence), **when_values(one)} for n, one in firsts.items()]
    return {row["n"]: firsts[row["n"]] for row in session.rows("settle_fenced", {"outcomes": to_json(rows)})}


def _find_firsts(outcomes: Sequence[Outcome]) -> dict[int, Outcome]:
    """Return the first outcome of each lease, by number: of several the server would take any."""
    numbers: dict[tuple[Fence, str | None], int] = {}
    for n, outcome in enumerate(outcomes):
        numbers.setdefault((outcome.lease.fence, outcome.reclaimed_by), n)
    return {n: outcomes[n] for n in numbers.values()}


def _write_succeeded(session: PostgresSession, outcomes: Mapping[int, Outcome]) -> Cursor | None:
    if not outcomes:
        return None
    columns = zip(*map(succeeded_row, outcomes.values()), strict=True)
    step = TABLE[Move.SUCCEED, State.RUNNING]
    values = {
        **dict(zip(SUCCEEDED_COLUMNS, map(_join, columns), strict=True)),
        "separator": SEPARATOR,
        "now": session.now,
        "target": step.target.value,
        "event": step.event,
    }
    return session.cursor(SQL["settle_succeeded"], values, prepare=True)


def _write_retried(session: PostgresSession, outcomes: Mapping[int, Outcome], *, may_promote: bool) -> Cursor | None:
    if not outcomes:
        return None
    rows = [retried_row(outcome, may_promote=may_promote) for outcome in outcomes.values()]
    step = TABLE[Move.RETRY, State.RUNNING]
    values = {
        **dict(zip(RETRIED_COLUMNS, map(_join, zip(*rows, strict=True)), strict=True)),
        "separator": SEPARATOR,
        "now": session.now,
        "target": step.target.value,
        "event": step.event,
        "queued": QUEUED,
        "promoted": PROMOTED,
    }
    return session.cursor(SQL["settle_retried"], values, prepare=True)


def _read_accepted(written: Cursor | None, outcomes: Iterable[int]) -> list[int]:
    """Return the numbers of the accepted outcomes."""
    if written is None:
        return []
    numbers = list(outcomes)
    return [numbers[row - 1] for (row,) in written.fetchall()]


def _join(column: Iterable[Any]) -> str:
    """Join a column into one string. Raises ValueError if a value contains the separator; such an outcome is settled
    alone."""
    values = ["" if value is None else str(value) for value in column]
    text = SEPARATOR.join(values)
    if text.count(SEPARATOR) != len(values) - 1:
        raise ValueError("a value contains the separator")
    return text
