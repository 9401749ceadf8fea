"""Whom a failed call is charged to, in every store: chosen by the settle, once it has heard what the calls say."""

from collections.abc import Iterable, Mapping

from mulligan.failure.decision import Fail, Park, Postpone, Retry
from mulligan.records.job import Fence
from mulligan.service import BreakerState, ServiceState, charge_reason
from mulligan.service.records import PROBE_KIND
from mulligan.store.messages import Outcome
from mulligan.store.service_calls import is_blamed


def may_be_spared(outcome: Outcome) -> bool:
    """Whether its service may have to bear this failure. A probe of the service's own waits for nothing."""
    decision, lease = outcome.decision, outcome.lease
    has_choice = isinstance(decision, Retry | Fail | Postpone) and decision.spared is not None
    return has_choice and bool(lease.service) and lease.kind != PROBE_KIND and is_blamed(outcome)


def charged(outcome: Outcome, standings: Mapping[str, ServiceState]) -> Outcome:
    """The outcome as it is settled: with what was decided, or spared because the service bears it."""
    lease, standing = outcome.lease, standings.get(outcome.lease.service)
    assert isinstance(outcome.decision, Retry | Fail | Postpone) and outcome.decision.spared is not None
    spared = outcome.decision.spared
    if standing is None:
        return outcome
    why = charge_reason(standing, epoch=lease.service_epoch, returns=spared.returns)
    return outcome if why is None else outcome._replace(decision=_parked(spared, standing, why))


def _parked(spared: Park, standing: ServiceState, why: str) -> Park:
    because = f"charged to service {standing.name}, which {why}"
    reasons = spared.reasons | {"service": standing.name, "because": because}
    return Park(
        spared.delay, spared.least, spared.verdict, reasons, spared.returns, standing.breaker is not BreakerState.CLOSED
    )


def first_of_each(outcomes: Iterable[tuple[int, Outcome]]) -> dict[int, Outcome]:
    """The first outcome of each lease, by its number: only that can be accepted, and is heard."""
    found: dict[Fence, tuple[int, Outcome]] = {}
    for n, outcome in outcomes:
        found.setdefault(outcome.lease.fence, (n, outcome))
    return dict(found.values())
