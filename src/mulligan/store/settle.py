"""Decisions as changes to a row: the same translation for every store."""

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
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.job import ANOTHER_VERSION, RECOVERING
from mulligan.store.messages import Outcome, signed
from mulligan.store.service_calls import told_of


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a settle writes. Counters are added to; a delay counts from the store's now."""

    move: Move
    data: dict[str, Any]
    verdict: Verdict | None = None
    result: str | None = None
    delay: timedelta | None = None
    waiting_for: str | None = None
    # Parked until its service is closed, or all others were probed.
    is_held: bool = False
    failures: int = 0
    crashes: int = 0
    losses: int = 0
    snoozes: int = 0
    # An attempt that ended by itself shows that the job does not kill its worker.
    clears_losses: bool = False
    code_failures: str | None = None
    max_attempts: int | None = None

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
    """What a settle writes for an attempt that succeeded: most of them, so it is kept lean."""

    id: str
    attempt: int
    incarnation: str
    claim: int
    settled_by: str
    result: str | None
    data: str


def has_succeeded(outcome: Outcome) -> bool:
    return type(outcome.decision) is Succeed and outcome.reclaimed_by is None


def needs_record(outcome: Outcome) -> bool:
    """Whether it can be written only with the whole record of the job, which is not at hand."""
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
    return SucceededRow(id_, attempt, incarnation, claim, settled_by, _readable(decision.result), data)


@lru_cache(maxsize=256)
def _signature(incarnation: str, claim: int) -> tuple[str, str]:
    """Who settles attempts of this claim, and how the data of their events begin."""
    settled_by = signed(incarnation, claim)
    return settled_by, msgspec.json.encode({"worker": incarnation, "by": settled_by}).decode()[:-1]


def settlement(outcome: Outcome) -> Settlement:
    match outcome.decision:
        case Succeed(result=result):
            return Settlement(Move.SUCCEED, _data(outcome, {}), result=_readable(result), clears_losses=True)
        case Retry(delay=delay, verdict=verdict, reasons=reasons, max_attempts=max_attempts):
            return Settlement(
                Move.RETRY,
                _data(outcome, reasons, verdict, delay),
                verdict=verdict,
                delay=delay,
                waiting_for="retry",
                failures=1,
                clears_losses=True,
                code_failures=_counted(outcome, verdict.code),
                max_attempts=max_attempts,
            )
        case Postpone(delay=delay, verdict=verdict, reasons=reasons) if _is_misfit(outcome.decision):
            # Nothing ran: it says nothing of what the job does to its worker.
            return Settlement(
                Move.SNOOZE,
                _data(outcome, reasons, verdict, delay),
                verdict=verdict,
                delay=delay,
                waiting_for=ANOTHER_VERSION,
                code_failures=_counted(outcome, verdict.code),
            )
        case Postpone(delay=delay, verdict=verdict, reasons=reasons):
            return Settlement(
                Move.SNOOZE,
                _data(outcome, reasons, verdict, delay),
                verdict=verdict,
                delay=delay,
                waiting_for="snooze" if verdict.code == "SNOOZED" else "rate limit",
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
                code_failures=None if is_held else _counted(outcome, RECOVERING),
            )
        case Fail(verdict=verdict, reasons=reasons, max_attempts=max_attempts):
            return Settlement(
                Move.FAIL,
                _data(outcome, reasons, verdict) | _kept(verdict),
                verdict=verdict,
                failures=int(verdict.ledger is Ledger.FAILURES),
                crashes=int(verdict.ledger is Ledger.CRASHES),
                losses=int(verdict.ledger is Ledger.LOSSES),
                code_failures=_counted(outcome, verdict.code),
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


def unstorable(outcome: Outcome) -> Settlement:
    """What is written when the outcome itself cannot be: every value in it is ours."""
    verdict = _unstorable("The outcome of the attempt could not be stored.")
    data = _data(outcome, {"rule": "engine", "outcome": type(outcome.decision).__name__}, verdict)
    return Settlement(Move.FAIL, data, verdict=verdict, failures=1)


def damaged() -> Verdict:
    """What a job fails with whose record somebody changed so that nothing can be done with it."""
    return _unstorable("The record of this job was damaged in the database.")


def _unstorable(message: str) -> Verdict:
    return Verdict(
        code="UNSTORABLE",
        error_class=ErrorClass.FINAL,
        message=message,
        rule="engine",
        group=fingerprint("UNSTORABLE", message),
    )


def _readable(result: str | None) -> str | None:
    """The result; raises what no reader could decode, before it is stored."""
    if result is not None and result != "null":
        msgspec.json.decode(result)
    return result


def _kept(verdict: Verdict) -> dict[str, Any]:
    """What a failed job can be judged by again, when the rules are others."""
    if verdict.failure is None:
        return {}
    kept: dict[str, Any] = msgspec.to_builtins(verdict.failure)
    return {
        "failure": {name: value for name, value in kept.items() if value is not False and value not in (None, "", ())}
    }


def failure_kept(data: Mapping[str, Any]) -> Failure | None:
    """The failure as the log of a failed job holds it; None when it holds none that can be read."""
    try:
        return msgspec.convert(data.get("failure"), Failure)
    except msgspec.ValidationError:
        return None


def _counted(outcome: Outcome, code: str) -> str:
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
        if told := told_of(outcome):
            data["services"] = told
    return data
