"""Who bears a failed call: the job, or the service that was not well when it was made.

service not closed            the service: a probe, or a call that the outage met under way
another epoch than the call's the service: it was not closed meanwhile
closed, still paced           the service, for the first calls of a job: a service that flaps uses up no attempts, and a
                              job that fails for itself does not go on for ever. Probes are not counted
closed                        the job
"""

from mulligan.service.state import BreakerState, ServiceState

# Failed calls of a job that a recovering service is charged for, in all. Beyond them, the job is.
MOST_RETURNS = 20


def borne_because(standing: ServiceState, *, epoch: int, returns: int) -> str | None:
    """How the service stands, if it bears a failed call that was claimed in this epoch; None: the job does."""
    if standing.state is BreakerState.OPEN:
        return "is open"
    if standing.state is BreakerState.HALF_OPEN:
        return "is being probed"
    if epoch != standing.epoch:
        return "was not closed meanwhile"
    return "is recovering from an outage" if standing.pace is not None and returns <= MOST_RETURNS else None
