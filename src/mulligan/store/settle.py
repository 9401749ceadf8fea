"""What both backends share in a settle: decisions as changes of a row, and outcomes that are refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any, NamedTuple, assert_never

import msgspec

from mulligan.errors import LeaseLost, StoreDamaged
from mulligan.failure.decision import Cancel, Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.fingerprint import fingerprint
from mulligan.failure.verdict import Failure, Ledger, Verdict
from mulligan.lifecycle import REFUSED, TABLE, Move, State
from mulligan.records.job import ANOTHER_VERSION, RECOVERING
from mulligan.store.events import event_values, to_data
from mulligan.store.messages import Outcome, Settled, signature
from mulligan.store.rows import Record, error_values, fence_values, to_duration, to_json, to_time
from mulligan.store.service_calls import list_calls, summarize_calls
from mulligan.store.session import Session

SETTLE_EVENTS = tuple(sorted({step.event for (_, source), step in TABLE.items() if source is State.RUNNING}))

SNOOZED = "SNOOZED"

# Errors that a value of an outcome can cause.
VALUE_ERRORS = (
    StoreDamaged,
    msgspec.MsgspecError,
    OverflowError,
    RecursionError,
    ValueError,
    TypeError,
)


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a settle writes. Counters are increments; a delay counts from the store's time."""

    move: Move
    data: dict[str, Any]
    verdict: Verdict | None = None
    result: str | None = None
    delay: timedelta | None = None
    waiting_for: str | None = None
    # Blocked until its service is closed, or all other jobs were used as probes.
    is_held: bool = False
    failures: int = 0
    crashes: int = 0
    losses: int = 0
    snoozes: int = 0
    # An attempt that ended by itself shows that the job does not kill its worker.
    clears_losses: bool = False
    code_failures: str | None = None
    max_attempts: int | None = None
    # A retry that is due at once: the settle promotes it if nothing can block it.
    promotes: bool = False

    @property
    def target(self) -> State:
        return TABLE[self.move, State.RUNNING].target

    @property
    def event(self) -> str:
        return TABLE[self.move, State.RUNNING].event

    @property
    def requeues(self) -> bool:
        return not self.target.is_final

    @property
    def code(self) -> str | None:
        return self.verdict.code if self.verdict else None


class SucceededRow(NamedTuple):
    """The row of a succeeded attempt. Most attempts succeed, so it is small."""

    id: str
    attempt: int
    incarnation: str
    claim: int
    settled_by: str
    result: str | None
    data: str


class RetriedRow(NamedTuple):
    """The row of an attempt that is retried."""

    id: str
    attempt: int
    incarnation: str
    claim: int
    settled_by: str
    promotes: bool
    delay: int
    code_failures: str | None
    max_attempts: int | None
    code: str
    error_class: str
    message: str
    detail: str
    data: str


def has_succeeded(outcome: Outcome) -> bool:
    return type(outcome.decision) is Succeed and outcome.reclaimed_by is None


def is_plain_retry(outcome: Outcome) -> bool:
    """Whether the statement for retries can write it: its worker settles it, and no service is concerned."""
    decision = outcome.decision
    return (
        type(decision) is Retry
        and outcome.reclaimed_by is None
        and outcome.actor is None
        and not outcome.calls
        and not outcome.lease.service
        # A task that snoozes has not failed, so the last failure stays.
        and decision.verdict.code != SNOOZED
    )


def needs_record(outcome: Outcome) -> bool:
    """Whether writing it requires the full record of the job, which is not loaded."""
    decision = outcome.decision
    counts = isinstance(decision, Retry | Fail | Park) or _is_misfit(decision)
    return not outcome.lease.is_whole and (counts or (isinstance(decision, Postpone) and decision.spared is not None))


def _is_misfit(decision: Decision) -> bool:
    return isinstance(decision, Postpone) and decision.verdict.ledger is Ledger.MISFITS


def succeeded_row(outcome: Outcome) -> SucceededRow:
    decision, seconds = outcome.decision, outcome.seconds
    assert isinstance(decision, Succeed)
    id_, attempt, incarnation, claim = outcome.lease.fence
    settled_by, signature = _signature(incarnation, claim)
    data = f"{signature}}}" if seconds is None else f'{signature},"seconds":{seconds:.6f}}}'
    if outcome.calls or outcome.lease.service:
        data = f"{data[:-1]},{to_json(list_calls(outcome))[1:]}"
    return SucceededRow(id_, attempt, incarnation, claim, settled_by, _check_readable(decision.result), data)


def retried_row(outcome: Outcome, *, may_promote: bool) -> RetriedRow:
    change, fence = to_settlement(outcome), outcome.lease.fence
    assert change.verdict is not None and change.delay is not None
    return RetriedRow(
        *fence,
        outcome.settled_by,
        change.promotes and may_promote,
        to_duration(change.delay),
        change.code_failures,
        change.max_attempts,
        change.verdict.code,
        str(change.verdict.error_class),
        change.verdict.message,
        change.verdict.technical_line,
        to_json(change.data),
    )


@lru_cache(maxsize=256)
def _signature(incarnation: str, claim: int) -> tuple[str, str]:
    """Return the signature that settles attempts of this claim, and the beginning of their event data."""
    settled_by = signature(incarnation, claim)
    return settled_by, msgspec.json.encode({"worker": incarnation, "by": settled_by}).decode()[:-1]


def to_settlement(outcome: Outcome) -> Settlement:
    match outcome.decision:
        case Succeed(result=result):
            return Settlement(Move.SUCCEED, _data(outcome, {}), result=_check_readable(result), clears_losses=True)
        case Retry(delay=delay, verdict=verdict, reasons=reasons, max_attempts=max_attempts):
            return Settlement(
                Move.RETRY,
                _data(outcome, reasons, verdict, delay),
                verdict=verdict,
                delay=delay,
                waiting_for="retry",
                failures=1,
                clears_losses=True,
                code_failures=_count_code(outcome, verdict.code),
                max_attempts=max_attempts,
                promotes=_is_due_at_once(outcome, delay),
            )
        case Postpone(delay=delay, verdict=verdict, reasons=reasons) if _is_misfit(outcome.decision):
            # Nothing ran, so it does not show whether the job kills its worker.
            return Settlement(
                Move.SNOOZE,
                _data(outcome, reasons, verdict, delay),
                verdict=verdict,
                delay=delay,
                waiting_for=ANOTHER_VERSION,
                code_failures=_count_code(outcome, verdict.code),
            )
        case Postpone(delay=delay, verdict=verdict, reasons=reasons):
            return Settlement(
                Move.SNOOZE,
                _data(outcome, reasons, verdict, delay),
                verdict=verdict,
                delay=delay,
                waiting_for="snooze" if verdict.code == SNOOZED else "rate limit",
                snoozes=1,
                clears_losses=True,
            )
        case Park(delay=delay, least=least, verdict=verdict, reasons=reasons, is_held=is_held):
            wait = (least if is_held else delay) or None
            return Settlement(
                Move.PARK,
                _data(outcome, reasons, verdict, wait) | {"waiting_for": "service"},
                verdict=verdict,
                delay=wait,
                waiting_for="service",
                is_held=is_held,
                clears_losses=True,
                code_failures=None if is_held else _count_code(outcome, RECOVERING),
            )
        case Fail(verdict=verdict, reasons=reasons, max_attempts=max_attempts):
            return Settlement(
                Move.FAIL,
                _data(outcome, reasons, verdict) | failure_to_keep(verdict),
                verdict=verdict,
                failures=int(verdict.ledger is Ledger.FAILURES),
                crashes=int(verdict.ledger is Ledger.CRASHES),
                losses=int(verdict.ledger is Ledger.LOSSES),
                code_failures=_count_code(outcome, verdict.code),
                max_attempts=max_attempts,
            )
        case Release(reasons=reasons, ledger=ledger, verdict=verdict):
            return Settlement(
                Move.RELEASE,
                _data(outcome, reasons, verdict),
                verdict=verdict,
                failures=int(ledger is Ledger.FAILURES),
                crashes=int(ledger is Ledger.CRASHES),
                losses=int(ledger is Ledger.LOSSES),
            )
        case Cancel(reasons=reasons):
            return Settlement(Move.CANCEL, _data(outcome, reasons))
        case _ as never:
            assert_never(never)


def _is_due_at_once(outcome: Outcome, delay: timedelta) -> bool:
    """A failure of a service may block its retries, and a manual move of a stuck job finds the job waiting."""
    return delay == timedelta(0) and outcome.reclaimed_by is None and not outcome.lease.service


def unstorable(outcome: Outcome) -> Settlement:
    """Return what is written if the outcome itself cannot be stored. It contains only values of the engine."""
    verdict = _unstorable("The outcome of the attempt could not be stored.")
    data = _data(outcome._replace(calls=()), {"rule": "engine", "outcome": type(outcome.decision).__name__}, verdict)
    return Settlement(Move.FAIL, data, verdict=verdict, failures=1)


def damaged_verdict() -> Verdict:
    """The verdict for a job whose record was damaged in the database."""
    return _unstorable("The record of this job was damaged in the database.")


def _unstorable(message: str) -> Verdict:
    return Verdict(
        code="UNSTORABLE",
        error_class=ErrorClass.FINAL,
        message=message,
        rule="engine",
        group=fingerprint("UNSTORABLE", message),
    )


def _check_readable(result: str | None) -> str | None:
    """Return the result. Raises if a reader could not decode it, before it is stored."""
    if result is not None and result != "null":
        msgspec.json.decode(result)
    return result


def failure_to_keep(verdict: Verdict) -> dict[str, Any]:
    """The event data that `reclassify` judges a failed job by."""
    if verdict.failure is None:
        return {}
    kept: dict[str, Any] = msgspec.to_builtins(verdict.failure)
    return {
        "failure": {name: value for name, value in kept.items() if value is not False and value not in (None, "", ())}
    }


def read_failure(data: Mapping[str, Any]) -> Failure | None:
    """Return the failure stored in the event of a failed job, or None if it cannot be read."""
    try:
        return msgspec.convert(data.get("failure"), Failure)
    except msgspec.ValidationError:
        return None


def _count_code(outcome: Outcome, code: str) -> str:
    try:
        counts = dict(outcome.lease.job.code_failures)
    except (StoreDamaged, LeaseLost):
        counts = {}
    counts[code] = counts.get(code, 0) + 1
    return msgspec.json.encode(counts).decode()


def _data(
    outcome: Outcome, reasons: dict[str, Any], verdict: Verdict | None = None, delay: timedelta | None = None
) -> dict[str, Any]:
    data: dict[str, Any] = {"worker": outcome.lease.fence.incarnation, "by": outcome.settled_by}
    if outcome.seconds is not None:
        data["seconds"] = round(outcome.seconds, 6)
    data |= list_calls(outcome)
    if delay is not None:
        data["delay"] = delay.total_seconds()
    if reasons:
        data["reasons"] = dict(reasons)
    if verdict is not None:
        data |= {
            "class": verdict.error_class,
            "message": verdict.message,
            "group": verdict.group,
            "error": verdict.technical_line,
            "detail": verdict.detail,
        }
        if calls := summarize_calls(outcome):
            data["services"] = calls
    return data


def settle_values(outcome: Outcome, change: Settlement) -> dict[str, Any]:
    fence, verdict = outcome.lease.fence, change.verdict if change.target is State.FAILED else None
    return {
        **fence_values(fence),
        **when_values(outcome),
        "settled_by": outcome.settled_by,
        "target": change.target.value,
        "requeues": change.requeues,
        "waiting_for": change.waiting_for,
        "is_held": change.is_held,
        "delay": None if change.delay is None else to_duration(change.delay),
        "failures": change.failures,
        "crashes": change.crashes,
        "losses": change.losses,
        "snoozes": change.snoozes,
        "clears_losses": change.clears_losses,
        "code_failures": change.code_failures,
        "max_attempts": change.max_attempts,
        "result": change.result,
        **error_values(verdict),
        **last_values(change.verdict),
    }


def when_values(outcome: Outcome) -> dict[str, Any]:
    """A reclaimer may settle only a lease that has expired and was not extended since it was read, or a stuck
    attempt."""
    stuck_after = outcome.stuck_after
    is_expired = outcome.reclaimed_by is not None and stuck_after is None
    return {
        "expired_at": to_time(outcome.lease.until) if is_expired else None,
        "stuck_after": None if stuck_after is None else to_duration(stuck_after),
    }


def last_values(verdict: Verdict | None) -> dict[str, Any]:
    """The last failure of an attempt; None keeps the previous one. A task that snoozes has not failed."""
    failed = None if verdict is None or verdict.code == SNOOZED else verdict
    return {
        "last_code": failed and failed.code,
        "last_class": failed and str(failed.error_class),
        "last_message": failed and failed.message,
        "last_detail": failed and failed.technical_line,
    }


def refusal_values(outcome: Outcome, change: Settlement, row: Record) -> dict[str, Any]:
    """Return the event of a refused outcome. It is written once, however often the outcome is repeated."""
    fence = outcome.lease.fence
    return event_values(
        REFUSED,
        fence.id,
        row["kind"],
        row["owner"],
        fence.attempt,
        request=f"refused:{fence.id}:{fence.attempt}:{outcome.settled_by}",
        code=change.code,
        data={"decision": str(change.move), "worker": fence.incarnation},
    )


def refuse(session: Session, outcome: Outcome, change: Settlement) -> Settled:
    rows = session.rows("settled", {"id": outcome.lease.fence.id})
    if not rows:
        return Settled.REFUSED
    if is_repeat(session, outcome, rows[0]):
        return Settled.REPEATED
    if outcome.reclaimed_by is None:
        session.rows("event", refusal_values(outcome, change, rows[0]))
    return Settled.REFUSED


def is_repeat(session: Session, outcome: Outcome, row: Record) -> bool:
    """Whether this settle was accepted before: according to the row, or to the log for an older attempt."""
    fence = outcome.lease.fence
    if row["settled_attempt"] == fence.attempt:
        return bool(row["settled_by"] == outcome.settled_by)
    values = {"id": fence.id, "attempt": fence.attempt, "types": to_json(SETTLE_EVENTS)}
    settles = session.rows("settled_before", values)
    return any(to_data(settle["data"]).get("by") == outcome.settled_by for settle in settles)
