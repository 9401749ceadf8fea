"""How much of a service may be claimed now, and how many retries may pass the door."""

from msgspec import Struct
from msgspec.structs import replace

from mulligan.failure.catalogue import DEFAULT, Catalogue, ErrorClass
from mulligan.failure.fingerprint import fingerprint
from mulligan.failure.verdict import Verdict
from mulligan.service.config import Service
from mulligan.service.state import BreakerState, Bucket, Forced, ServiceState
from mulligan.service.window import AHEAD, SECOND, Figures

# What may be claimed at once after a pause, in seconds of the pace.
BURST = 0.1
_ALMOST = 1e-6
# How exactly it is known when there last were too few.
SHORT = SECOND
# Named as the rule of what is not tried.
FAILS_FAST = "service.open"
# Retries of a minute that nobody is refused: few calls make no share.
FLOOR = 10


class Allowance(Struct, frozen=True):
    """`standing` is how the service stands when that many were claimed. `again_in` is when it is worth to ask for more,
    in microseconds; None: when something changes."""

    number: int
    standing: ServiceState
    again_in: int | None = None
    short_before: int | None = None

    def without(self, unused: int) -> "Allowance":
        """After fewer were found than were allowed: then it was not too few either."""
        bucket = self.standing.bucket
        if not unused or bucket is None:
            return self
        back = Bucket(bucket.tokens + unused, bucket.filled_at, self.short_before)
        return Allowance(self.number - unused, replace(self.standing, bucket=back), self.again_in, self.short_before)


def allowance(service: Service, standing: ServiceState, *, running: int, wanted: int, now: int) -> Allowance:
    """How many jobs a claim may take. `running` are those of the current epoch, also with expired leases."""
    match standing.state:
        case BreakerState.OPEN:
            until = standing.held_until(now)
            return Allowance(0, standing, None if until is None else until - now)
        case BreakerState.HALF_OPEN:
            permits = max(0, service.probes - standing.probes_succeeded - running)
            return _from_bucket(service.rate, standing, min(wanted, permits), wanted, now)
        case BreakerState.CLOSED:
            return _from_bucket(_rate(service, standing), standing, wanted, wanted, now)


def _rate(service: Service, standing: ServiceState) -> float | None:
    pace = None if standing.pace is None else standing.pace.rate
    return min((rate for rate in (service.rate, pace) if rate is not None), default=None)


def _from_bucket(rate: float | None, standing: ServiceState, permitted: int, wanted: int, now: int) -> Allowance:
    if rate is None:
        return Allowance(permitted, standing, 0 if permitted == wanted else None)
    burst = 1.0 + rate * BURST
    tokens = _filled(standing.bucket, rate, burst, now)
    number = min(permitted, int(tokens + _ALMOST))
    left = max(0.0, tokens - number)
    again_in = _again_in(rate, burst, left, number, permitted, wanted)
    short_before = None if standing.bucket is None else standing.bucket.short_at
    if not number and _is_told(standing.bucket, now):
        return Allowance(0, standing, again_in, short_before)
    short_at = now if number < permitted else short_before
    bucket = Bucket(left, _filled_at(standing.bucket, now), short_at)
    return Allowance(number, replace(standing, bucket=bucket), again_in, short_before)


def _is_told(bucket: Bucket | None, now: int) -> bool:
    """Whether it is known that there are too few. Workers wake each other by what they write: if everyone who finds
    nothing wrote that down, they would never rest."""
    if bucket is None or bucket.short_at is None or bucket.filled_at > now:
        return False
    return 0 <= now - bucket.short_at < SHORT


def _again_in(rate: float, burst: float, left: float, number: int, permitted: int, wanted: int) -> int | None:
    if number < permitted:
        missing = max(1.0, burst / 2) - left
        return max(1, round(missing / rate * SECOND))
    return 0 if permitted == wanted else None


def _filled(bucket: Bucket | None, rate: float, burst: float, now: int) -> float:
    if bucket is None:
        return 1.0
    # Nothing for a clock that was set back, which is counted from now on.
    return min(burst, bucket.tokens + rate * max(0, now - bucket.filled_at) / SECOND)


def _filled_at(bucket: Bucket | None, now: int) -> int:
    """One who waited for his turn comes with a time that was counted already."""
    is_counted = bucket is not None and now < bucket.filled_at <= now + AHEAD
    return bucket.filled_at if bucket is not None and is_counted else now


def retry_allowance(service: Service, standing: ServiceState, figures: Figures, *, in_flight: int) -> int | None:
    """How many retries may pass the door; None: any number. `in_flight` are those that passed and were not heard of."""
    if service.budget is None or not standing.is_failing or standing.forced is Forced.CLOSED:
        return None
    allowed = max(int(service.budget * figures.firsts), FLOOR)
    return max(0, allowed - figures.retries - in_flight)


def holds(service: Service, standing: ServiceState) -> bool:
    """Whether its jobs are held until it is closed."""
    return standing.state is not BreakerState.CLOSED and service.mode == "hold"


def fails_fast(service: Service, standing: ServiceState, *, now: int) -> bool:
    """Whether its jobs are to be handed out with `service_open`, and settled without being run."""
    return service.mode == "fail_fast" and standing.state is BreakerState.OPEN and not standing.is_due(now)


def stays_refused(service: Service, standing: ServiceState, *, epoch: int) -> bool:
    """Whether a lease of this epoch that is handed out once more is not to be run. The time that has passed since does
    not make it a probe: it runs when its service is closed, or as a probe of the current epoch."""
    is_probe = standing.state is BreakerState.HALF_OPEN and epoch == standing.epoch
    return service.mode == "fail_fast" and standing.state is not BreakerState.CLOSED and not is_probe


def service_open(service: Service, name: str, *, kind: str = "", catalogue: Catalogue = DEFAULT) -> Verdict:
    """What is said of a job that is not tried because its service is open. It says nothing of the service."""
    entry = catalogue.get(service.fail_code)
    return Verdict(
        code=entry.code,
        error_class=ErrorClass.FINAL,
        message=entry.last_word,
        final_message=entry.last_word,
        rule=FAILS_FAST,
        group=fingerprint(entry.code, name, kind=kind),
        detail=f"service {name} is open, and set to fail fast: this was not tried",
    )
