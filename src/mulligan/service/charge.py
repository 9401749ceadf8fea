"""Whether the job or the service is charged for a failed call.

service not closed             the service: the call was a probe, or an outage began while it ran
epoch differs from the call's  the service: it was not closed in between
closed, pace still limited     the service, for the first calls of a job. A flapping service uses up no attempts, and a
                               job that fails by itself does not run forever. Probes are not counted
closed                         the job
"""

from mulligan.service.state import BreakerState, ServiceState

# A recovering service is charged for at most this many failed calls of a job; then the job is.
MOST_RETURNS = 20


def charge_reason(state: ServiceState, *, epoch: int, returns: int) -> str | None:
    """Why the service is charged for a failed call claimed in this epoch; None: the job is charged."""
    if state.breaker is BreakerState.OPEN:
        return "is open"
    if state.breaker is BreakerState.HALF_OPEN:
        return "is being probed"
    if epoch != state.epoch:
        return "was not closed meanwhile"
    return "is recovering from an outage" if state.pace is not None and returns <= MOST_RETURNS else None
