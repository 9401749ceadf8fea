"""What a worker says about its attempts: one line each, with the same fields for programs that read them.

What goes as planned is said at DEBUG, so that a healthy worker is quiet.
"""

import logging
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mulligan.failure.decision import Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.failure.verdict import Ledger, Verdict
from mulligan.lifecycle import REFUSED, TABLE, Move, State
from mulligan.records.job import Lease
from mulligan.service.records import ServiceChange
from mulligan.store.protocols import Outcome, Settled
from mulligan.store.services import MANY
from mulligan.values.duration import describe

logger = logging.getLogger("mulligan.worker")

_MOVES = {
    "Succeed": Move.SUCCEED,
    "Retry": Move.RETRY,
    "Fail": Move.FAIL,
    "Postpone": Move.SNOOZE,
    "Park": Move.PARK,
    "Release": Move.RELEASE,
    "Cancel": Move.CANCEL,
}


def started(lease: Lease) -> None:
    is_first = lease.fence.attempt == 1
    # The outage has lines of its own.
    level = logging.DEBUG if is_first or lease.is_probe else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields = lease.fields | {"event": TABLE[Move.CLAIM, State.QUEUED].event, "status": str(State.RUNNING)}
    what = "first attempt" if is_first else f"attempt {lease.fence.attempt}, a retry,"
    logger.log(level, "%s of job %s (%s) started", what, lease.fence.id, lease.kind, extra=fields)


def decided(outcome: Outcome) -> None:
    lease, decision, seconds = outcome.lease, outcome.decision, outcome.seconds
    if isinstance(decision, Succeed) and lease.fence.attempt == 1 and not logger.isEnabledFor(logging.DEBUG):
        return
    level, sentence, words = _sentence(lease, decision)
    logger.log(
        level, f"job %s (%s) {sentence}", lease.fence.id, lease.kind, *words, extra=_fields(lease, decision, seconds)
    )


def _sentence(lease: Lease, decision: Decision) -> tuple[int, str, tuple[Any, ...]]:
    match decision:
        case Succeed() if lease.fence.attempt == 1:
            return logging.DEBUG, "succeeded", ()
        case Succeed():
            return logging.INFO, "succeeded at attempt %d", (lease.fence.attempt,)
        case Fail(verdict=verdict, reasons=reasons):
            return logging.WARNING, "failed for good with %s: %s", (_what(verdict), reasons.get("because"))
        case Retry(verdict=verdict, delay=delay):
            words = (lease.fence.attempt, _what(verdict), describe(delay))
            return logging.INFO, "failed at attempt %d with %s, retried in %s", words
        case Postpone(verdict=Verdict(ledger=Ledger.MISFITS) as verdict, reasons=reasons, delay=delay):
            level = logging.WARNING if reasons.get("misfit") == 1 else logging.INFO
            return level, "was not run: %s; another worker may take it in %s", (verdict.seen, describe(delay))
        case Park(verdict=verdict, reasons=reasons, is_held=is_held):
            # An outage has lines of its own: a line for each probe would be thousands a day.
            level = logging.DEBUG if is_held else logging.INFO
            charged = (lease.fence.attempt, _what(verdict), reasons.get("because"))
            return level, "failed at attempt %d with %s, %s: no attempt is used up", charged
        case Release(verdict=Verdict() as verdict, reasons=reasons):
            of = f"crash {reasons.get('crash')} of {reasons.get('of')}"
            return logging.WARNING, "took its process down with %s, %s: it runs again", (_what(verdict), of)
    return logging.INFO, "was told to %s", (type(decision).__name__.lower(),)


def _what(verdict: Verdict) -> str:
    return f"{verdict.code} ({verdict.seen})" if verdict.seen else verdict.code


def _fields(lease: Lease, decision: Decision, seconds: float | None) -> dict[str, Any]:
    step = TABLE[_MOVES[type(decision).__name__], State.RUNNING]
    fields: dict[str, Any] = lease.fields | {"event": step.event, "status": str(step.target)}
    if seconds is not None:
        fields["duration_ms"] = round(seconds * 1000, 1)
    if isinstance(decision, Retry | Postpone):
        fields["delay_ms"] = round(decision.delay.total_seconds() * 1000)
    if isinstance(decision, Retry | Postpone | Park | Fail | Release) and decision.verdict is not None:
        fields["error_code"] = decision.verdict.code
        fields["error_message"] = decision.verdict.message
        fields["error"] = decision.verdict.seen
    if isinstance(decision, Fail | Park) and "because" in decision.reasons:
        fields["because"] = str(decision.reasons["because"])
    return fields


def changed(changes: Sequence[ServiceChange]) -> None:
    """Once for a change, by the worker whose claim or settle made it."""
    for change in changes:
        level, sentence, words = _turn(change)
        fields = {"event": change.event, "service": change.service}
        if "because" in change.data:
            fields["because"] = str(change.data["because"])
        logger.log(level, f"service %s {sentence}", change.service, *words, extra=fields)


def _turn(change: ServiceChange) -> tuple[int, str, tuple[Any, ...]]:
    data = change.data
    match change.event:
        case "service.opened" if "probes_failed" in data:
            lasts, failed = describe(timedelta(seconds=round(data["outage"]))), data["probes_failed"]
            if "held" not in data:
                return logging.DEBUG, "is still open after %s: %s probes failed", (lasts, failed)
            figures = (lasts, _probes(failed), _others(data["held"]))
            return logging.WARNING, "is still open after %s: %s failed, %s", figures
        case "service.opened":
            hold = describe(timedelta(seconds=data["cooldown"]))
            words = (data["failures"], data["calls"], data["because"], hold)
            return logging.WARNING, "is open: %s of %s calls failed (%s); it is probed in %s", words
        case "service.half_opened":
            return logging.DEBUG, "is being probed", ()
        case "service.closed":
            outage = (describe(timedelta(seconds=round(data["outage"]))), _probes(data["probes_failed"]), data["pace"])
            sentence = "is closed again after %s, %s failed: it is asked %.3g times a second at first"
            return logging.WARNING, sentence, outage
    return logging.INFO, "is paced: %s", (data.get("how"),)


def _probes(number: int) -> str:
    return "1 probe" if number == 1 else f"{number:,} probes"


def _others(number: int) -> str:
    """Those that wait beside the one that was tried."""
    if number == 1:
        return "1 other job waits"
    return f"{number:,} other jobs wait" if number < MANY else f"{MANY:,} other jobs or more wait"


def answered(outcome: Outcome, answer: Settled) -> None:
    lease = outcome.lease
    if answer is Settled.REFUSED:
        sentence, level = "attempt %d of job %s came too late: its lease was another's", logging.WARNING
        logger.log(level, sentence, lease.fence.attempt, lease.fence.id, extra=lease.fields | {"event": REFUSED})
    else:
        fields = lease.fields | {"error_code": "UNSTORABLE"}
        logger.error(
            "the outcome of job %s could not be stored; the job failed saying so", lease.fence.id, extra=fields
        )
