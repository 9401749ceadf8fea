"""The circuit breaker of a service.

    closed     too large a fraction of the window failed, or too many calls in a row,
               or the service asked to be left alone                                   → open
    open       its cooldown is over, at a claim                                        → half-open
    half-open  a probe failed                                                          → open
               enough probes succeeded                                                 → closed, with a limited pace
               its health check succeeded, and jobs wait: they probe it
    … checked  a job's call succeeded                                                  → closed, with a limited pace
               too many calls of jobs failed                                           → open

Each change of state starts a new epoch. Calls of jobs that were claimed in an earlier epoch change nothing.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from mulligan.failure.checks import bad_value
from mulligan.lifecycle import SERVICE_CLOSED, SERVICE_FORCED, SERVICE_HALF_OPENED, SERVICE_OPENED
from mulligan.service.config import LONGEST_COOLDOWN, Service
from mulligan.service.pace import adjust_pace, initial_pace, pace_ceiling
from mulligan.service.state import BreakerState, Change, Forced, ServiceState, Transition
from mulligan.service.window import SECOND, Figures, ServiceCall, microseconds
from mulligan.values.duration import Duration, parse


def record_calls(
    service: Service,
    state: ServiceState,
    figures: Figures,
    calls: Sequence[ServiceCall],
    *,
    is_awaited: bool = False,
    now: int,
) -> Transition:
    """Apply the calls of one settle. The figures already contain them. `is_awaited`: jobs wait for the service."""
    current = [call for call in calls if call.epoch == state.epoch]
    if not current or state.forced:
        return Transition(state)
    match state.breaker:
        case BreakerState.CLOSED:
            return _record_closed(service, state, figures, current, now)
        case BreakerState.HALF_OPEN:
            if state.is_checked:
                return _record_checked(service, state, figures, current, now)
            return _record_half_open(service, state, figures, current, is_awaited=is_awaited, now=now)
        case BreakerState.OPEN:
            return Transition(state)


def is_routine(state: ServiceState, calls: Sequence[ServiceCall]) -> bool:
    """Whether these calls cannot change the state, whatever the figures are. Then nothing has to be read."""
    current = [call for call in calls if call.epoch == state.epoch]
    if not current or state.forced or state.breaker is BreakerState.OPEN:
        return True
    is_healthy = state.breaker is BreakerState.CLOSED and state.pace is None and not state.is_failing
    return is_healthy and all(call.ok for call in current)


def _record_closed(
    service: Service, state: ServiceState, figures: Figures, calls: list[ServiceCall], now: int
) -> Transition:
    failed = not all(call.ok for call in calls)
    if failed and (because := _reason_to_open(service, figures)):
        return _open(service, state, figures, because, now=now)
    # Only a failure can make a service failing, and only a failing service can recover.
    if (failed or state.is_failing) and _is_failing(service, state, figures) is not state.is_failing:
        state = replace(state, failing_since=None if state.is_failing else now)
    return adjust_pace(state, figures, calls, now)


def _record_half_open(
    service: Service, state: ServiceState, figures: Figures, calls: list[ServiceCall], *, is_awaited: bool, now: int
) -> Transition:
    if not all(call.ok for call in calls):
        return _open(service, state, figures, "probe", now=now)
    succeeded = state.probes_succeeded + len(calls)
    # A health check may succeed while calls do not.
    is_checked = is_awaited and all(call.is_check for call in calls)
    if succeeded < service.probes or is_checked:
        return Transition(replace(state, probes_succeeded=succeeded, is_checked=succeeded >= service.probes))
    return _close(state, succeeded, now)


def _record_checked(
    service: Service, state: ServiceState, figures: Figures, calls: list[ServiceCall], now: int
) -> Transition:
    """One success of a job is enough, and one failure is not: it may be the job's own, and the health check is well."""
    if any(call.ok and not call.is_check for call in calls):
        return _close(state, state.probes_succeeded, now)
    # Counted here: by their times, calls after a step of the clock would seem to come before the health check.
    failed = state.failed_after_check + sum(not call.ok and not call.is_check for call in calls)
    is_unwell = any(call.is_check and not call.ok for call in calls)
    if is_unwell or failed >= service.min_calls:
        return _open(service, state, figures, "probe", now=now)
    return Transition(replace(state, failed_after_check=failed))


def _reason_to_open(service: Service, figures: Figures) -> str | None:
    if figures.calls >= service.min_calls and figures.failure_ratio >= service.open_at:
        return "share"
    return "in_a_row" if figures.failures_in_a_row >= service.min_calls else None


def _is_failing(service: Service, state: ServiceState, figures: Figures) -> bool:
    """Whether the budget limits retries. It stops at half the ratio at which it starts, so that it does not flap."""
    if service.budget is None or figures.calls < service.min_calls:
        return state.is_failing
    return figures.failure_ratio > (service.budget / 2 if state.is_failing else service.budget)


def hold(
    service: Service, state: ServiceState, figures: Figures, retry_after: Duration, *, epoch: int, now: int
) -> Transition:
    """Open the service for `retry_after`, as the service itself asked a job that was claimed in this epoch."""
    length = microseconds(min(parse(retry_after), LONGEST_COOLDOWN))
    is_stale = epoch != state.epoch and state.breaker is not BreakerState.OPEN
    if not length or state.forced or is_stale:
        return Transition(state)
    if state.breaker is not BreakerState.OPEN:
        return _open(service, state, figures, "asked", hold=length, now=now)
    if state.is_due(now) or now + length <= state.open_until:
        return Transition(state)
    return Transition(replace(state, open_until=now + length, hold=max(length, state.hold)))


def begin_probing(service: Service, state: ServiceState, *, now: int) -> Transition:
    """At a claim, make an open service whose cooldown is over half-open. This does not depend on a settle, which may
    never come."""
    if not state.is_due(now):
        return Transition(state)
    moved = _move_to(state, BreakerState.HALF_OPEN, now)
    data = {"probes": service.probes, "open_for": _seconds_in_state(state, now)}
    return Transition(moved, (Change(SERVICE_HALF_OPENED, data),))


def force(
    state: ServiceState, to: Forced | str | None, *, actor: str | None = None, reason: str | None = None, now: int
) -> Transition:
    """Force the service open or closed. None returns it to its calls; a service that was open is probed first."""
    if to not in (None, *Forced):
        raise bad_value("the state to force", to, "'open', 'closed' or None")
    if to is None and state.forced is None:
        return Transition(state)
    moved = _move_to(state, _breaker_when_forced(state, to), now)
    by = {"forced": to and Forced(to), "forced_by": to and actor, "forced_because": to and reason}
    data = {"to": "auto" if to is None else str(to), "from": str(state.breaker), "actor": actor, "reason": reason}
    change = Change(SERVICE_FORCED, data)
    fresh = {"pace": None, "rate_before": None, "ceiling": None, "failing_since": None, "bucket": None, "trouble": None}
    return Transition(replace(moved, **by, **fresh, outage_since=None, probes_failed=0), (change,))


def _breaker_when_forced(state: ServiceState, to: Forced | str | None) -> BreakerState:
    if to is None:
        return BreakerState.HALF_OPEN if state.breaker is BreakerState.OPEN else BreakerState.CLOSED
    return BreakerState(to)


def _open(
    service: Service, state: ServiceState, figures: Figures, because: str, *, hold: int | None = None, now: int
) -> Transition:
    hold = microseconds(service.cooldown) if hold is None else hold
    moved = replace(
        _move_to(state, BreakerState.OPEN, now),
        open_until=now + hold,
        hold=hold,
        # A service that has not recovered keeps the rate from before the first outage.
        rate_before=figures.rate if state.rate_before is None else state.rate_before,
        ceiling=pace_ceiling(state, figures),
        failing_since=state.failing_since or now,
        outage_since=now if state.outage_since is None else state.outage_since,
        probes_failed=state.probes_failed + (state.breaker is BreakerState.HALF_OPEN),
    )
    trouble = {"because": because, **_figures_data(service, figures)}
    data = {**trouble, "cooldown": hold / SECOND, "rate_before": moved.rate_before}
    if moved.probes_failed:
        data |= _outage_data(moved, now)
    return Transition(replace(moved, trouble=trouble), (Change(SERVICE_OPENED, data),))


def _close(state: ServiceState, probes: int, now: int) -> Transition:
    pace = initial_pace(state.rate_before, now)
    over = {"trouble": None, "outage_since": None, "probes_failed": 0}
    moved = replace(_move_to(state, BreakerState.CLOSED, now), pace=pace, **over)
    data = {"probes": probes, "pace": pace.rate, "rate_before": state.rate_before, **_outage_data(state, now)}
    return Transition(moved, (Change(SERVICE_CLOSED, data),))


def _move_to(state: ServiceState, breaker: BreakerState, now: int) -> ServiceState:
    """The state in a new epoch, without the values of the previous one."""
    return replace(
        state,
        breaker=breaker,
        epoch=state.epoch + 1,
        since=now,
        open_until=0,
        hold=0,
        pace=None,
        probes_succeeded=0,
        is_checked=False,
        failed_after_check=0,
        bucket=None,
    )


def _figures_data(service: Service, figures: Figures) -> dict[str, Any]:
    window = service.window if isinstance(service.window, int) else service.window.total_seconds()
    return {
        "calls": figures.calls,
        "failures": figures.failures,
        "share": round(figures.failure_ratio, 3),
        "in_a_row": figures.failures_in_a_row,
        "window": window if isinstance(service.window, int) else f"{window:g}s",
    }


def _outage_data(state: ServiceState, now: int) -> dict[str, Any]:
    since = now if state.outage_since is None else min(now, state.outage_since)
    return {"outage": (now - since) / SECOND, "probes_failed": state.probes_failed}


def _seconds_in_state(state: ServiceState, now: int) -> float:
    return max(0, now - state.since) / SECOND
