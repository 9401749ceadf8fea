"""The state machine of a service: closed, open, half-open, and by what it moves.

    closed     enough of the window failed, or too many in a row, or it asked for quiet   → open
    open       its time has come, at a claim                                              → half-open
    half-open  a probe failed                                                             → open
               enough probes succeeded                                                    → closed, at a pace

Every move raises the epoch. What was begun in an older one moves nothing.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mulligan.failure.checks import refused
from mulligan.lifecycle import SERVICE_CLOSED, SERVICE_FORCED, SERVICE_HALF_OPENED, SERVICE_OPENED
from mulligan.service.config import LONGEST_COOLDOWN, Service
from mulligan.service.pace import ceiling, paced, started
from mulligan.service.state import BreakerState, Change, Forced, ServiceState, Turn, cooldown_of
from mulligan.service.window import SECOND, Figures, ServiceCall, microseconds
from mulligan.values.duration import Duration, parse


def heard(
    service: Service, standing: ServiceState, figures: Figures, calls: Sequence[ServiceCall], *, now: int
) -> Turn:
    """After a settle with these calls, which the figures contain."""
    mine = [call for call in calls if call.epoch == standing.epoch]
    if not mine or standing.forced:
        return Turn(standing)
    match standing.state:
        case BreakerState.CLOSED:
            return _heard_closed(service, standing, figures, mine, now)
        case BreakerState.HALF_OPEN:
            return _heard_half_open(service, standing, figures, mine, now)
        case BreakerState.OPEN:
            return Turn(standing)


def is_quiet(standing: ServiceState, calls: Sequence[ServiceCall]) -> bool:
    """Whether these calls can change nothing, whatever the figures are: the everyday case, and nothing need be read."""
    mine = [call for call in calls if call.epoch == standing.epoch]
    if not mine or standing.forced or standing.state is BreakerState.OPEN:
        return True
    is_well = standing.state is BreakerState.CLOSED and standing.pace is None and not standing.is_failing
    return is_well and all(call.ok for call in mine)


def _heard_closed(
    service: Service, standing: ServiceState, figures: Figures, calls: list[ServiceCall], now: int
) -> Turn:
    failed = not all(call.ok for call in calls)
    if failed and (because := _trouble(service, figures)):
        return _opened(service, standing, figures, because, now=now)
    # Only a failure begins it, only what is failing can end it.
    if (failed or standing.is_failing) and _is_failing(service, standing, figures) is not standing.is_failing:
        standing = replace(standing, failing_since=None if standing.is_failing else now)
    return paced(standing, figures, calls, now)


def _heard_half_open(
    service: Service, standing: ServiceState, figures: Figures, calls: list[ServiceCall], now: int
) -> Turn:
    if not all(call.ok for call in calls):
        return _opened(service, standing, figures, "probe", now=now)
    succeeded = standing.probes_succeeded + len(calls)
    if succeeded < service.probes:
        return Turn(replace(standing, probes_succeeded=succeeded))
    return _closed(standing, succeeded, now)


def _trouble(service: Service, figures: Figures) -> str | None:
    if figures.calls >= service.min_calls and figures.share >= service.open_at:
        return "share"
    return "in_a_row" if figures.failures_in_a_row >= service.min_calls else None


def _is_failing(service: Service, standing: ServiceState, figures: Figures) -> bool:
    """Whether the budget binds: once it does, until there are half as many failures, so that it does not flutter."""
    if service.budget is None or figures.calls < service.min_calls:
        return standing.is_failing
    return figures.share > (service.budget / 2 if standing.is_failing else service.budget)


def held(
    service: Service, standing: ServiceState, figures: Figures, retry_after: Duration, *, epoch: int, now: int
) -> Turn:
    """After a job of this epoch was told that the whole service wants quiet for so long."""
    hold = microseconds(min(parse(retry_after), LONGEST_COOLDOWN))
    is_stale = epoch != standing.epoch and standing.state is not BreakerState.OPEN
    if not hold or standing.forced or is_stale:
        return Turn(standing)
    if standing.state is not BreakerState.OPEN:
        return _opened(service, standing, figures, "asked", hold=hold, now=now)
    if standing.is_due(now) or now + hold <= standing.open_until:
        return Turn(standing)
    return Turn(replace(standing, open_until=now + hold, hold=max(hold, standing.hold)))


def due(service: Service, standing: ServiceState, *, now: int) -> Turn:
    """At a claim: an open service whose time has come is half-open. Nothing depends on settles that may never come."""
    if not standing.is_due(now):
        return Turn(standing)
    moved = _moved(standing, BreakerState.HALF_OPEN, now)
    return Turn(moved, (Change(SERVICE_HALF_OPENED, {"probes": service.probes, "open_for": _since(standing, now)}),))


def forced(
    standing: ServiceState, to: Forced | str | None, *, actor: str | None = None, reason: str | None = None, now: int
) -> Turn:
    """By hand: open, closed, or with None as the calls say again, which after *open* begins with a probe."""
    if to not in (None, *Forced):
        raise refused("the state to force", to, "'open', 'closed' or None")
    if to is None and standing.forced is None:
        return Turn(standing)
    moved = _moved(standing, _forced_state(standing, to), now)
    by = {"forced": to and Forced(to), "forced_by": to and actor, "forced_because": to and reason}
    data = {"to": "auto" if to is None else str(to), "from": str(standing.state), "actor": actor, "reason": reason}
    change = Change(SERVICE_FORCED, data)
    fresh = {"pace": None, "rate_before": None, "ceiling": None, "failing_since": None, "bucket": None, "trouble": None}
    return Turn(replace(moved, **by, **fresh, outage_since=None, probes_failed=0), (change,))


def _forced_state(standing: ServiceState, to: Forced | str | None) -> BreakerState:
    if to is None:
        return BreakerState.HALF_OPEN if standing.state is BreakerState.OPEN else BreakerState.CLOSED
    return BreakerState(to)


def _opened(
    service: Service, standing: ServiceState, figures: Figures, because: str, *, hold: int | None = None, now: int
) -> Turn:
    hold = cooldown_of(service) if hold is None else hold
    moved = replace(
        _moved(standing, BreakerState.OPEN, now),
        open_until=now + hold,
        hold=hold,
        # Of a service that is not yet what it was, the rate of then.
        rate_before=figures.rate if standing.rate_before is None else standing.rate_before,
        ceiling=ceiling(standing, figures),
        failing_since=standing.failing_since or now,
        outage_since=now if standing.outage_since is None else standing.outage_since,
        probes_failed=standing.probes_failed + (standing.state is BreakerState.HALF_OPEN),
    )
    trouble = {"because": because, **_told(service, figures)}
    data = {**trouble, "cooldown": hold / SECOND, "rate_before": moved.rate_before}
    if moved.probes_failed:
        data |= _outage(moved, now)
    return Turn(replace(moved, trouble=trouble), (Change(SERVICE_OPENED, data),))


def _closed(standing: ServiceState, probes: int, now: int) -> Turn:
    pace = started(standing.rate_before, now)
    over = {"trouble": None, "outage_since": None, "probes_failed": 0}
    moved = replace(_moved(standing, BreakerState.CLOSED, now), pace=pace, **over)
    data = {"probes": probes, "pace": pace.rate, "rate_before": standing.rate_before, **_outage(standing, now)}
    return Turn(moved, (Change(SERVICE_CLOSED, data),))


def _moved(standing: ServiceState, state: BreakerState, now: int) -> ServiceState:
    """In another state, and a new epoch: without what belonged to the one before."""
    return replace(
        standing,
        state=state,
        epoch=standing.epoch + 1,
        since=now,
        open_until=0,
        hold=0,
        pace=None,
        probes_succeeded=0,
        bucket=None,
    )


def _told(service: Service, figures: Figures) -> dict[str, Any]:
    window = service.window if isinstance(service.window, int) else service.window.total_seconds()
    return {
        "calls": figures.calls,
        "failures": figures.failures,
        "share": round(figures.share, 3),
        "in_a_row": figures.failures_in_a_row,
        "window": window if isinstance(service.window, int) else f"{window:g}s",
    }


def _outage(standing: ServiceState, now: int) -> dict[str, Any]:
    """How long it lasts, and what was tried meanwhile."""
    since = now if standing.outage_since is None else min(now, standing.outage_since)
    return {"outage": (now - since) / SECOND, "probes_failed": standing.probes_failed}


def _since(standing: ServiceState, now: int) -> float:
    return max(0, now - standing.since) / SECOND
