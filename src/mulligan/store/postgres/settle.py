"""Settling on PostgreSQL: all outcomes together, or one by one when one of them cannot be stored."""

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import psycopg

from mulligan.errors import StoreDamaged
from mulligan.failure.decision import Park
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import Fence
from mulligan.store.follow_up import FailedRow, follow_ups
from mulligan.store.messages import Answers, Outcome, Settled
from mulligan.store.parts import Parts
from mulligan.store.postgres.enqueue import PostgresEnqueue
from mulligan.store.postgres.session import BEGIN, SQL, Cursor, PostgresSession
from mulligan.store.refusal import refuse
from mulligan.store.rows import to_json
from mulligan.store.service_charges import charged, first_of_each, may_be_spared
from mulligan.store.services import ServiceUpdate
from mulligan.store.session import Now
from mulligan.store.settle import Settlement, has_succeeded, settlement, succeeded_row, unstorable
from mulligan.store.values import fence_values, settle_values, when_values

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
# Never part of JSON, nor of an id of ours.
SEPARATOR = "\x1e"
SUCCEEDED_COLUMNS = ("ids", "attempts", "incarnations", "claims", "settled_by", "results", "data")


class PostgresSettle:
    def __init__(self, parts: Parts, enqueue: PostgresEnqueue) -> None:
        self._services = parts.services
        self._limits = parts.limits
        self._batches = parts.batches
        self._enqueue = enqueue

    def settle(self, session: PostgresSession, outcomes: Sequence[Outcome], now: Now) -> Answers:
        try:
            return self._settle_together(session, outcomes, now)
        except DATA_ERRORS:
            alone = [self._settle_alone(session, outcome, now) for outcome in outcomes]
        held = dict(item for one in alone for item in one.held.items())
        changes = [change for one in alone for change in one.changes]
        spared = {n: outcome for n, one in enumerate(alone) for outcome in one.spared.values()}
        return Answers([answer for one in alone for answer in one], held, changes, spared)

    def settle_uncounted(self, session: PostgresSession, outcome: Outcome, now: Now) -> Answers:
        """For a move that ends an attempt first: it counts what became of the job by itself."""
        return self._settle_one(session, outcome, now)

    def _settle_together(self, session: PostgresSession, outcomes: Sequence[Outcome], now: Now) -> Answers:
        firsts = _firsts(outcomes)
        succeeded = {n: outcome for n, outcome in firsts.items() if has_succeeded(outcome)}
        unsure = {n: outcome for n, outcome in firsts.items() if may_be_spared(outcome)}
        sure = {n: outcome for n, outcome in firsts.items() if n not in succeeded and n not in unsure}
        others = {n: (outcome, settlement(outcome)) for n, outcome in sure.items()}
        # Most settles are one statement, and need no more.
        is_more = (
            (succeeded and others)
            or any(change.target is State.FAILED for _, change in others.values())
            or any(outcome.lease.service or outcome.lease.batch or outcome.calls for outcome in outcomes)
        )
        first = partial(_write_succeeded, session, succeeded, now)
        with session.transaction_with(first) if is_more else contextlib.nullcontext(first()) as written:
            accepted = {*_accepted(written, succeeded), *self._write(session, others, now)}
            held = _held(session, unsure, now)
            accepted |= held.keys()
            heard = self._services.record_calls(session, [outcomes[n] for n in sorted(accepted)], now)
            spared = self._charge(session, held, heard, now)
            self._count(session, [spared.get(n, outcomes[n]) for n in sorted(accepted)], Settled.ACCEPTED, now)
        self._limits.freed(outcomes[n].lease for n in accepted)
        answers = [
            Settled.ACCEPTED if n in accepted else refuse(session, outcome, settlement(outcome), now)
            for n, outcome in enumerate(outcomes)
        ]
        return Answers(answers, heard.held, heard.changes, spared)

    def _charge(
        self, session: PostgresSession, held: Mapping[int, Outcome], heard: ServiceUpdate, now: Now
    ) -> dict[int, Outcome]:
        """Settle what a service may have to bear; those outcomes of which it does."""
        chosen = {n: charged(outcome, heard.standings) for n, outcome in held.items()}
        self._write(session, {n: (outcome, settlement(outcome)) for n, outcome in chosen.items()}, now)
        return {n: outcome for n, outcome in chosen.items() if isinstance(outcome.decision, Park)}

    def _settle_alone(self, session: PostgresSession, outcome: Outcome, now: Now) -> Answers:
        """One by one, so that the culprit is found and loses nobody else's outcome."""
        try:
            with session.transaction(BEGIN):
                answers = self._settle_one(session, outcome, now)
                self._count(session, [answers.spared.get(0, outcome)], answers[0], now)
                return answers
        except DATA_ERRORS:
            with session.transaction(BEGIN):
                answer, heard = self._settle_as(session, outcome, unstorable(outcome), now)
                answer = Settled.UNSTORABLE if answer is Settled.ACCEPTED else answer
                self._count(session, [outcome], answer, now)
            return Answers([answer], heard.held, heard.changes)

    def _count(self, session: PostgresSession, outcomes: Sequence[Outcome], answer: Settled, now: Now) -> None:
        self._batches.count_settled(session, outcomes, [answer] * len(outcomes), now)

    def _settle_one(self, session: PostgresSession, outcome: Outcome, now: Now) -> Answers:
        held = _held(session, {0: outcome}, now) if may_be_spared(outcome) else {}
        if not held:
            answer, heard = self._settle_as(session, outcome, settlement(outcome), now)
            return Answers([answer], heard.held, heard.changes)
        heard = self._services.record_calls(session, [outcome], now)
        spared = self._charge(session, held, heard, now)
        return Answers([Settled.ACCEPTED], heard.held, heard.changes, spared)

    def _settle_as(
        self, session: PostgresSession, outcome: Outcome, change: Settlement, now: Now
    ) -> tuple[Settled, ServiceUpdate]:
        if not self._write(session, {0: (outcome, change)}, now):
            return refuse(session, outcome, change, now), ServiceUpdate()
        return Settled.ACCEPTED, self._services.record_calls(session, [outcome], now)

    def _write(
        self, session: PostgresSession, changes: Mapping[int, tuple[Outcome, Settlement]], now: Now
    ) -> list[int]:
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
            "now": now,
            "cancelled": State.CANCELLED.value,
            "cancel_event": TABLE[Move.CANCEL, State.RUNNING].event,
        }
        settled = session.cursor(SQL["settle"], values).fetchall()
        if jobs := follow_ups([FailedRow(*row) for _, *row in settled]):
            session.play(self._enqueue.enqueue_steps(jobs))
        return [n for n, *_ in settled]


def _held(session: PostgresSession, outcomes: Mapping[int, Outcome], now: Now) -> dict[int, Outcome]:
    """Those that will be accepted. Nobody else moves their jobs before this transaction ends."""
    firsts = first_of_each(outcomes.items())
    if not firsts:
        return {}
    rows = [{"n": n, **fence_values(one.lease.fence), **when_values(one)} for n, one in firsts.items()]
    held = session.cursor(SQL["settle_held"], {"outcomes": to_json(rows), "now": now}).fetchall()
    return {n: firsts[n] for (n,) in held}


def _firsts(outcomes: Sequence[Outcome]) -> dict[int, Outcome]:
    """The first outcome of each lease, by its place: of several the server would take any."""
    places: dict[tuple[Fence, str | None], int] = {}
    for n, outcome in enumerate(outcomes):
        places.setdefault((outcome.lease.fence, outcome.reclaimed_by), n)
    return {n: outcomes[n] for n in places.values()}


def _write_succeeded(session: PostgresSession, outcomes: Mapping[int, Outcome], now: Now) -> Cursor | None:
    if not outcomes:
        return None
    columns = zip(*map(succeeded_row, outcomes.values()), strict=True)
    step = TABLE[Move.SUCCEED, State.RUNNING]
    values = {
        **dict(zip(SUCCEEDED_COLUMNS, map(_joined, columns), strict=True)),
        "separator": SEPARATOR,
        "now": now,
        "target": step.target.value,
        "event": step.event,
    }
    return session.cursor(SQL["settle_succeeded"], values, prepare=True)


def _accepted(written: Cursor | None, outcomes: Iterable[int]) -> list[int]:
    """The numbers of those outcomes that were."""
    if written is None:
        return []
    numbers = list(outcomes)
    return [numbers[place - 1] for (place,) in written.fetchall()]


def _joined(column: Iterable[Any]) -> str:
    """A column as one text. A value that holds the separator would make two of one: it goes another way."""
    values = ["" if value is None else str(value) for value in column]
    text = SEPARATOR.join(values)
    if text.count(SEPARATOR) != len(values) - 1:
        raise ValueError("a value contains the separator")
    return text
