"""What settled attempts report about services: one call each, or the calls that their tasks reported; and whether a
failed call is charged to the service instead of the job."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, NamedTuple

from mulligan.failure.decision import Fail, Park, Postpone, Retry, Succeed
from mulligan.records.job import Fence, Lease, ReportedCall
from mulligan.service.charge import charge_reason
from mulligan.service.records import PROBE_KIND
from mulligan.service.state import BreakerState, ServiceState
from mulligan.service.window import ServiceCall
from mulligan.store.messages import Outcome

# An event lists this many calls of an attempt and counts the rest.
MOST_LISTED = 20
LARGEST_NUMBER = 2**31


class CountedCall(NamedTuple):
    """`epoch` is the epoch of the service at the claim; None if the task called another service than the job's.
    `is_check`: the call was the service's health check."""

    ok: bool
    is_retry: bool
    epoch: int | None
    is_check: bool = False


class ServiceHold(NamedTuple):
    """A request to hold all calls of a service for `length`."""

    length: timedelta
    epoch: int


@dataclass(slots=True)
class ServiceReport:
    """What a settle learns about one service."""

    calls: list[CountedCall] = field(default_factory=list)
    holds: list[ServiceHold] = field(default_factory=list)

    @property
    def is_foreign(self) -> bool:
        """Whether only jobs of other services called it."""
        return not self.holds and all(call.epoch is None for call in self.calls)

    def calls_in(self, state: ServiceState, now: int) -> list[ServiceCall]:
        """A call by a job of another service may be older than the last state change, so it counts only while the
        service is closed."""
        other = state.epoch if state.breaker is BreakerState.CLOSED else -1
        return [
            ServiceCall(now, call.ok, call.is_retry, other if call.epoch is None else call.epoch, call.is_check)
            for call in self.calls
        ]


def collect_reports(outcomes: Iterable[Outcome]) -> dict[str, ServiceReport]:
    """Return the reports by name of service."""
    reports: dict[str, ServiceReport] = {}
    for outcome in outcomes:
        lease = outcome.lease
        for called in outcome.calls:
            name, epoch = (lease.service, lease.service_epoch) if _is_own(called, lease) else (called.service, None)
            call = CountedCall(called.ok, lease.is_retry, epoch, is_check=lease.kind == PROBE_KIND)
            reports.setdefault(name, ServiceReport()).calls.append(call)
        if lease.service:
            _add_own(reports, outcome)
    return reports


def merge_reports(reports: Mapping[str, ServiceReport], shared: Mapping[str, str]) -> Mapping[str, ServiceReport]:
    """Merge the reports of services that share a name."""
    if not shared:
        return reports
    together: dict[str, ServiceReport] = {}
    for name, report in reports.items():
        one = together.setdefault(shared.get(name, name), ServiceReport())
        one.calls += report.calls
        one.holds += report.holds
    return together


def summarize_calls(outcome: Outcome) -> dict[str, dict[str, int]]:
    """Return the good and failed calls of one attempt by service, for its event."""
    summary = {}
    for name, report in collect_reports([outcome]).items():
        good = sum(call.ok for call in report.calls)
        summary[name] = {"ok": good, "failed": len(report.calls) - good}
    return summary


def list_calls(outcome: Outcome) -> dict[str, Any]:
    """Return the calls of one attempt for its event: those that the task reported, else the one that the attempt
    itself was."""
    lease = outcome.lease
    calls = outcome.calls
    if not calls and lease.service and (ok := _own_call_succeeded(outcome)) is not None:
        calls = (ReportedCall(lease.service, ok, _find_status(outcome), outcome.seconds),)
    listed = {"calls": [_to_document(call) for call in calls[:MOST_LISTED]]} if calls else {}
    return listed | ({"more_calls": len(calls) - MOST_LISTED} if len(calls) > MOST_LISTED else {})


def _to_document(call: ReportedCall) -> dict[str, Any]:
    """Without what is unknown, and without a number that JSON cannot hold."""
    document: dict[str, Any] = {"service": call.service, "ok": call.ok}
    if call.status is not None and abs(call.status) < LARGEST_NUMBER:
        document["status"] = call.status
    if call.seconds is not None and abs(call.seconds) < LARGEST_NUMBER:
        document["seconds"] = round(float(call.seconds), 6)
    return document


def _find_status(outcome: Outcome) -> int | None:
    match outcome.decision:
        case Retry(verdict=verdict) | Fail(verdict=verdict) | Postpone(verdict=verdict) | Park(verdict=verdict):
            return verdict.failure.status if verdict.failure else None
    return None


def _add_own(reports: dict[str, ServiceReport], outcome: Outcome) -> None:
    lease = outcome.lease
    ok = _own_call_succeeded(outcome)
    # A reported call of the job's service takes precedence over what the outcome suggests.
    if ok is not None and not any(_is_own(called, lease) for called in outcome.calls):
        call = CountedCall(ok, lease.is_retry, lease.service_epoch, is_check=lease.kind == PROBE_KIND)
        reports.setdefault(lease.service, ServiceReport()).calls.append(call)
    if isinstance(outcome.decision, Retry | Fail | Postpone | Park):
        verdict = outcome.decision.verdict
        if verdict.holds_service and verdict.retry_after is not None:
            hold = ServiceHold(verdict.retry_after, lease.service_epoch)
            reports.setdefault(lease.service, ServiceReport()).holds.append(hold)


def _blames_service(outcome: Outcome) -> bool:
    """Whether the job's service is at fault: as the task reported it, else as the outcome suggests."""
    reported = [called.ok for called in outcome.calls if _is_own(called, outcome.lease)]
    return not all(reported) if reported else _own_call_succeeded(outcome) is False


def _is_own(called: ReportedCall, lease: Lease) -> bool:
    """Whether the call went to the job's service. Calls of a shared service carry the name before sharing."""
    shares = len(lease.service) > 1 and lease.service.endswith("*")
    return called.service == lease.service or (shares and called.service.startswith(lease.service[:-1]))


def status_of(outcome: Outcome) -> int | None:
    """The HTTP status of the service: of the last call that the task reported, else of the failure."""
    reported = [called.status for called in outcome.calls if called.status and _is_own(called, outcome.lease)]
    if reported:
        return reported[-1]
    verdict = getattr(outcome.decision, "verdict", None)
    return verdict.failure.status if verdict and verdict.failure else None


def _own_call_succeeded(outcome: Outcome) -> bool | None:
    """Return None if the outcome says nothing about the service."""
    match outcome.decision:
        case Succeed():
            return True
        case Retry() | Fail() if outcome.lease.kind == PROBE_KIND:
            # Whatever the reason: else the service would be probed again at once, endlessly.
            return False
        case Retry(verdict=verdict) | Fail(verdict=verdict) | Postpone(verdict=verdict) | Park(verdict=verdict):
            return None if verdict.blames_service is None else not verdict.blames_service
    return None


def may_charge_service(outcome: Outcome) -> bool:
    """Whether this failure may be charged to the service. The service's own probe is never blocked by it."""
    decision, lease = outcome.decision, outcome.lease
    has_choice = isinstance(decision, Retry | Fail | Postpone) and decision.spared is not None
    return has_choice and bool(lease.service) and lease.kind != PROBE_KIND and _blames_service(outcome)


def charge(outcome: Outcome, states: Mapping[str, ServiceState]) -> Outcome:
    """Return the outcome to settle: as decided, or parked because the failure is charged to the service."""
    lease, state = outcome.lease, states.get(outcome.lease.service)
    assert isinstance(outcome.decision, Retry | Fail | Postpone) and outcome.decision.spared is not None
    spared = outcome.decision.spared
    if state is None:
        return outcome
    why = charge_reason(state, epoch=lease.service_epoch, returns=spared.returns)
    return outcome if why is None else outcome._replace(decision=_park(spared, state, why))


def _park(spared: Park, state: ServiceState, why: str) -> Park:
    because = f"charged to service {state.name}, which {why}"
    reasons = spared.reasons | {"service": state.name, "because": because}
    return Park(
        spared.delay, spared.least, spared.verdict, reasons, spared.returns, state.breaker is not BreakerState.CLOSED
    )


def first_by_lease(outcomes: Iterable[tuple[int, Outcome]]) -> dict[int, Outcome]:
    """Return the first outcome of each lease, by number: only that one can be accepted."""
    found: dict[Fence, tuple[int, Outcome]] = {}
    for n, outcome in outcomes:
        found.setdefault(outcome.lease.fence, (n, outcome))
    return dict(found.values())
