"""How many jobs of a service a claim may take now, and how many of its retries may be promoted."""

from msgspec import Struct
from msgspec.structs import replace

from mulligan.failure.error_codes import DEFAULT, Catalogue, ErrorClass
from mulligan.failure.fingerprint import fingerprint
from mulligan.failure.verdict import Verdict
from mulligan.records.rate import TokenBucket
from mulligan.service.config import Service
from mulligan.service.state import BreakerState, Bucket, Forced, ServiceState
from mulligan.service.window import AHEAD, SECOND, Figures

# How much may be claimed at once after a rest, in seconds of the pace.
BURST = 0.1
# The precision of `short_at`.
SHORT = SECOND
# The name of the rule that refuses jobs of an open service.
FAILS_FAST = "service.open"
# This many retries per minute are always allowed: a fraction of few calls would be none.
FLOOR = 10


class Allowance(Struct, frozen=True):
    """`number` jobs may be claimed, and `state` is the service's state once they are. `again_in` is the number of
    microseconds until more may be allowed; None: not before something changes."""

    number: int
    state: ServiceState
    again_in: int | None = None
    short_before: int | None = None

    def without(self, unused: int) -> "Allowance":
        """The allowance when fewer jobs were found than allowed. Tokens were not short then."""
        bucket = self.state.bucket
        if not unused or bucket is None:
            return self
        taken = max(0, bucket.taken - unused)
        back = Bucket(bucket.tokens + unused, bucket.filled_at, self.short_before, taken)
        return Allowance(self.number - unused, replace(self.state, bucket=back), self.again_in, self.short_before)


def claim_allowance(service: Service, state: ServiceState, *, running: int, wanted: int, now: int) -> Allowance:
    """How many jobs a claim may take. `running` counts the jobs of the current epoch, with expired leases too."""
    match state.breaker:
        case BreakerState.OPEN:
            until = state.held_until(now)
            return Allowance(0, state, None if until is None else until - now)
        case BreakerState.HALF_OPEN:
            # After a health check, as many as could show that it was wrong.
            left = service.min_calls - state.failed_after_check
            probes = left if state.is_checked else service.probes - state.probes_succeeded
            permits = max(0, probes - running)
            return _take_tokens(service.rate, state, min(wanted, permits), wanted, now)
        case BreakerState.CLOSED:
            return _take_tokens(_current_rate(service, state), state, wanted, wanted, now)


def _current_rate(service: Service, state: ServiceState) -> float | None:
    pace = None if state.pace is None else state.pace.rate
    return min((rate for rate in (service.rate, pace) if rate is not None), default=None)


def _take_tokens(rate: float | None, state: ServiceState, permitted: int, wanted: int, now: int) -> Allowance:
    if rate is None:
        return Allowance(permitted, state, 0 if permitted == wanted else None)
    filled = _filled(state.bucket, rate, now)
    number = min(permitted, filled.whole)
    left = filled.without(number)
    again_in = _again_in(left, number, permitted, wanted)
    short_before = None if state.bucket is None else state.bucket.short_at
    if not number and _is_noted(state.bucket, now):
        return Allowance(0, state, again_in, short_before)
    short_at = now if number < permitted else short_before
    taken = 0 if state.pace is None else number + (0 if state.bucket is None else state.bucket.taken)
    bucket = Bucket(max(0.0, left.tokens), _filled_at(state.bucket, now), short_at, taken)
    return Allowance(number, replace(state, bucket=bucket), again_in, short_before)


def _filled(bucket: Bucket | None, rate: float, now: int) -> TokenBucket:
    burst = 1.0 + rate * BURST
    if bucket is None:
        return TokenBucket(rate, burst, 1.0)
    return TokenBucket(rate, burst, bucket.tokens).after(now - bucket.filled_at)


def _is_noted(bucket: Bucket | None, now: int) -> bool:
    """Whether the row already says that tokens are short. Writes wake other workers: if every worker that finds no
    token wrote so, they would never rest."""
    if bucket is None or bucket.short_at is None or bucket.filled_at > now:
        return False
    return 0 <= now - bucket.short_at < SHORT


def _again_in(left: TokenBucket, number: int, permitted: int, wanted: int) -> int | None:
    if number < permitted:
        return max(1, left.time_until(max(1.0, left.burst / 2)))
    return 0 if permitted == wanted else None


def _filled_at(bucket: Bucket | None, now: int) -> int:
    """A claim that waited for the lock brings a time that was already counted."""
    is_counted = bucket is not None and now < bucket.filled_at <= now + AHEAD
    return bucket.filled_at if bucket is not None and is_counted else now


def retry_allowance(service: Service, state: ServiceState, figures: Figures, *, in_flight: int) -> int | None:
    """How many retries may be promoted; None: any number. `in_flight` counts those promoted whose result is not known
    yet."""
    if service.budget is None or not state.is_failing or state.forced is Forced.CLOSED:
        return None
    allowed = max(int(service.budget * figures.firsts), FLOOR)
    return max(0, allowed - figures.retries - in_flight)


def holds(service: Service, state: ServiceState) -> bool:
    """Whether its jobs are held until it is closed."""
    return state.breaker is not BreakerState.CLOSED and service.mode == "hold"


def fails_fast(service: Service, state: ServiceState, *, now: int) -> bool:
    """Whether its jobs are claimed only to fail with `service_open_verdict`, without running."""
    return service.mode == "fail_fast" and state.breaker is BreakerState.OPEN and not state.is_due(now)


def stays_refused(service: Service, state: ServiceState, *, epoch: int) -> bool:
    """Whether a lease of this epoch that is handed out once more must not run. The passing of time does not make it a
    probe: it runs when its service is closed, or as a probe of the current epoch."""
    is_probe = state.breaker is BreakerState.HALF_OPEN and epoch == state.epoch
    return service.mode == "fail_fast" and state.breaker is not BreakerState.CLOSED and not is_probe


def service_open_verdict(service: Service, name: str, *, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """The verdict on a job that does not run because its service is open. It neither blames nor clears the service."""
    entry = catalogue.get(service.fail_code)
    return Verdict(
        code=entry.code,
        error_class=ErrorClass.FINAL,
        message=entry.last_message,
        final_message=entry.last_message,
        rule=FAILS_FAST,
        group=fingerprint(entry.code, name, kind=kind),
        detail=f"service {name} is open and set to fail fast: the task did not run",
    )
