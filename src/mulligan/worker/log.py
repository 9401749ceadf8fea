"""What a worker logs: a line for an attempt, with fields for programs, and a summary once a minute.

Lines about normal operation are at DEBUG, so a healthy worker is quiet.
"""

import logging
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from mulligan.failure.decision import Cancel, Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.failure.verdict import Ledger, Verdict
from mulligan.lifecycle import (
    REFUSED,
    SERVICE_CLOSED,
    SERVICE_HALF_OPENED,
    SERVICE_OPENED,
    SERVICE_PACED,
    TABLE,
    Move,
    State,
)
from mulligan.records.job import Lease
from mulligan.service.records import ServiceChange
from mulligan.service.state import BreakerState
from mulligan.store.messages import Outcome, Settled
from mulligan.store.service_calls import status_of
from mulligan.store.services import MANY
from mulligan.values.clock import Clock
from mulligan.values.duration import describe

logger = logging.getLogger("mulligan.worker")

SUMMARY_SECONDS = 60.0

_MOVES = {
    Succeed: Move.SUCCEED,
    Retry: Move.RETRY,
    Fail: Move.FAIL,
    Postpone: Move.SNOOZE,
    Park: Move.PARK,
    Release: Move.RELEASE,
    Cancel: Move.CANCEL,
}
ENDS = {
    Succeed: "succeeded",
    Retry: "retried",
    Fail: "failed",
    Postpone: "snoozed",
    Park: "parked",
    Release: "released",
    Cancel: "cancelled",
}

_STATES = {
    SERVICE_OPENED: str(BreakerState.OPEN),
    SERVICE_HALF_OPENED: str(BreakerState.HALF_OPEN),
    SERVICE_CLOSED: str(BreakerState.CLOSED),
    # Only a closed service has a pace.
    SERVICE_PACED: str(BreakerState.CLOSED),
}


def log_start(lease: Lease) -> None:
    is_first = lease.fence.attempt == 1
    # A probe is part of an outage, which is logged separately.
    level = logging.DEBUG if is_first or lease.is_probe else logging.INFO
    if not logger.isEnabledFor(level):
        return
    fields = lease.fields | {"event": TABLE[Move.CLAIM, State.QUEUED].event, "status": str(State.RUNNING)}
    fields |= _service_fields(lease)
    what = "first attempt" if is_first else f"attempt {lease.fence.attempt}, a retry,"
    logger.log(level, "%s of job %s (%s) started", what, lease.fence.id, lease.kind, extra=fields)


def log_decision(outcome: Outcome, *, service_state: str | None = None) -> None:
    """`service_state` is that of the job's service after the settle; None: it is as it was at the claim."""
    lease, decision = outcome.lease, outcome.decision
    level = _level(lease, decision)
    if not logger.isEnabledFor(level):
        return
    sentence, words = _sentence(lease, decision)
    fields = _fields(outcome) | _service_fields(lease, service_state)
    logger.log(level, f"job %s (%s) {sentence}", lease.fence.id, lease.kind, *words, extra=fields)


def _level(lease: Lease, decision: Decision) -> int:
    match decision:
        case Succeed() if lease.fence.attempt == 1:
            return logging.DEBUG
        case Fail() | Release(verdict=Verdict()):
            return logging.WARNING
        case Postpone(verdict=Verdict(ledger=Ledger.MISFITS), reasons=reasons) if reasons.get("misfit") == 1:
            return logging.WARNING
        case Park(is_held=True):
            # An outage is logged separately: a line for each probe would be thousands a day.
            return logging.DEBUG
    return logging.INFO


def _sentence(lease: Lease, decision: Decision) -> tuple[str, tuple[Any, ...]]:
    match decision:
        case Succeed() if lease.fence.attempt == 1:
            return "succeeded", ()
        case Succeed():
            return "succeeded at attempt %d", (lease.fence.attempt,)
        case Fail(verdict=verdict, reasons=reasons):
            return "failed for good with %s: %s", (_what(verdict), reasons.get("because"))
        case Retry(verdict=verdict, delay=delay):
            words = (lease.fence.attempt, _what(verdict), describe(delay))
            return "failed at attempt %d with %s, retried in %s", words
        case Postpone(verdict=Verdict(ledger=Ledger.MISFITS) as verdict, delay=delay):
            return "was not run: %s; another worker may take it in %s", (verdict.technical_line, describe(delay))
        case Park(verdict=verdict, reasons=reasons):
            charged = (lease.fence.attempt, _what(verdict), reasons.get("because"))
            return "failed at attempt %d with %s, %s: no attempt is used up", charged
        case Release(verdict=Verdict() as verdict, reasons=reasons):
            of = f"crash {reasons.get('crash')} of {reasons.get('of')}"
            return "crashed its process with %s, %s: it runs again", (_what(verdict), of)
    return "was %s", (ENDS[type(decision)],)


def _what(verdict: Verdict) -> str:
    return f"{verdict.code} ({verdict.technical_line})" if verdict.technical_line else verdict.code


def _service_fields(lease: Lease, state: str | None = None) -> dict[str, Any]:
    """The job's service and the state of its breaker."""
    if not lease.service:
        return {}
    return {"service": lease.service, "service_state": state or str(_state_at_claim(lease))}


def _state_at_claim(lease: Lease) -> BreakerState:
    if lease.is_refused:
        return BreakerState.OPEN
    return BreakerState.HALF_OPEN if lease.is_probe else BreakerState.CLOSED


def _fields(outcome: Outcome) -> dict[str, Any]:
    lease, decision, seconds = outcome.lease, outcome.decision, outcome.seconds
    step = TABLE[_MOVES[type(decision)], State.RUNNING]
    fields: dict[str, Any] = lease.fields | {"event": step.event, "status": str(step.target)}
    if seconds is not None:
        fields["duration_ms"] = round(seconds * 1000, 1)
    if (status := status_of(outcome)) is not None:
        fields["gateway_status"] = status
    if isinstance(decision, Retry | Postpone):
        fields["delay_ms"] = round(decision.delay.total_seconds() * 1000)
    if isinstance(decision, Retry | Postpone | Park | Fail | Release) and decision.verdict is not None:
        fields["error_code"] = decision.verdict.code
        fields["error_message"] = decision.verdict.message
        fields["error"] = decision.verdict.technical_line
    if isinstance(decision, Fail | Park) and "because" in decision.reasons:
        fields["because"] = str(decision.reasons["because"])
    return fields


def log_service_changes(changes: Sequence[ServiceChange]) -> None:
    """Log each change once, in the worker whose claim or settle made it."""
    for change in changes:
        level, sentence, words = _service_sentence(change)
        fields = {"event": change.event, "service": change.service, "service_state": _STATES.get(change.event)}
        if "because" in change.data:
            fields["because"] = str(change.data["because"])
        logger.log(level, f"service %s {sentence}", change.service, *words, extra=fields)


def _service_sentence(change: ServiceChange) -> tuple[int, str, tuple[Any, ...]]:
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
            sentence = "is closed again after %s, %s failed: it starts at %.3g calls a second"
            return logging.WARNING, sentence, outage
    return logging.INFO, "is paced: %s", (data.get("how"),)


def _probes(number: int) -> str:
    return "1 probe" if number == 1 else f"{number:,} probes"


def _others(number: int) -> str:
    """Other jobs: not the one that was tried as a probe."""
    if number == 1:
        return "1 other job waits"
    return f"{number:,} other jobs wait" if number < MANY else f"{MANY:,} other jobs or more wait"


def log_refusal(outcome: Outcome, answer: Settled) -> None:
    """Log an outcome that the store did not accept."""
    lease = outcome.lease
    if answer is Settled.REFUSED:
        sentence = "the outcome of attempt %d of job %s was refused: another worker holds the lease"
        logger.warning(sentence, lease.fence.attempt, lease.fence.id, extra=lease.fields | {"event": REFUSED})
    else:
        fields = lease.fields | {"error_code": "UNSTORABLE"}
        logger.error("the outcome of job %s could not be stored; the job failed", lease.fence.id, extra=fields)


class Summary:
    """Counts attempts by how they were settled. Only the loop's thread uses it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since = clock.monotonic()
        self._counts: Counter[str] = Counter()

    def count(self, outcomes: Sequence[Outcome], answers: Sequence[Settled]) -> None:
        self._counts.update(_end(outcome, answer) for outcome, answer in zip(outcomes, answers, strict=True))

    def log_if_due(self, running: int) -> None:
        """Log a line if a minute has passed, unless nothing happened or only probes failed: an outage is logged
        separately."""
        is_due = self._clock.monotonic() - self._since >= SUMMARY_SECONDS
        if is_due and self._counts.keys() != {ENDS[Park]}:
            self.log(running)

    def log(self, running: int) -> None:
        seconds = self._clock.monotonic() - self._since
        counts, self._counts, self._since = self._counts, Counter(), self._clock.monotonic()
        if not counts or not logger.isEnabledFor(logging.INFO):
            return
        ends = {name: counts[name] for name in (*ENDS.values(), "refused") if counts[name]}
        words = ", ".join(f"{number:,} {name}" for name, number in ends.items())
        fields = ends | {"running": running, "seconds": round(seconds, 1)}
        period = describe(timedelta(seconds=round(seconds)))
        logger.info("in %s: %s; %d running now", period, words, running, extra=fields)


def _end(outcome: Outcome, answer: Settled) -> str:
    if answer is Settled.REFUSED:
        return "refused"
    # A job whose outcome cannot be stored has failed.
    return ENDS[Fail if answer is Settled.UNSTORABLE else type(outcome.decision)]
