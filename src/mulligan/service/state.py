"""The state of a service: one row that all workers share, and what is recorded when it changes."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from mulligan.service.config import Service

# Bounds of stored numbers: arithmetic with others could overflow.
StoredRate = Annotated[float, Meta(ge=1e-4, le=1e9)]
StoredTime = Annotated[int, Meta(ge=-(2**62), le=2**62)]


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Forced(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Pace(Struct, frozen=True):
    """The most calls per second after an outage. Calls are counted since `stepped_at`.

    `calm_since` is when the pace reached the rate before the outage; None until then. `is_behind`: in the previous step
    the service answered fewer calls than it got. `kept_up` counts the steps in which it answered them.
    """

    rate: StoredRate
    stepped_at: StoredTime
    ok: int = 0
    failed: int = 0
    calm_since: StoredTime | None = None
    is_behind: bool = False
    kept_up: Annotated[int, Meta(ge=0, le=1_000)] = 0


class Bucket(Struct, frozen=True):
    """The stored part of a token bucket: `tokens` at `filled_at`. `short_at` is when a claim last got too few, `taken`
    how many were taken since the pace was last adjusted."""

    tokens: Annotated[float, Meta(ge=0, le=1e9)]
    filled_at: StoredTime
    short_at: StoredTime | None = None
    taken: Annotated[int, Meta(ge=0)] = 0


class ServiceState(Struct, frozen=True, omit_defaults=True):
    """Times are microseconds by the store's clock. Each change of `breaker` raises `epoch`, which tells calls begun
    before the change from later ones. `is_checked`: it is half-open, its health check succeeded, and its jobs probe it
    now; `failed_after_check` of their calls failed since. `rate_before` is the rate before the outage, kept until the
    pace is lifted; `ceiling` bounds the pace. `trouble` holds the figures that opened the service. It is kept until the
    service closes, as are `outage_since`, when it first opened, and the number of probes that failed since."""

    name: str
    breaker: BreakerState = msgspec.field(default=BreakerState.CLOSED, name="state")
    epoch: int = 0
    since: StoredTime = 0
    open_until: StoredTime = 0
    hold: StoredTime = 0
    forced: Forced | None = None
    forced_by: str | None = None
    forced_because: str | None = None
    pace: Pace | None = None
    rate_before: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    ceiling: StoredRate | None = None
    probes_succeeded: int = 0
    is_checked: bool = False
    failed_after_check: int = 0
    failing_since: StoredTime | None = None
    bucket: Bucket | None = None
    trouble: dict[str, Any] | None = None
    outage_since: StoredTime | None = None
    probes_failed: int = 0

    @classmethod
    def initial(cls, name: str) -> "ServiceState":
        """The state of a service that has no row."""
        return cls(name)

    @property
    def is_failing(self) -> bool:
        """Whether the budget limits retries."""
        return self.failing_since is not None

    def is_due(self, now: int) -> bool:
        """Whether an open service is due for a probe. It is also due if it seems to stay open for longer than it was
        opened for, because then the clock was set back."""
        if self.breaker is not BreakerState.OPEN or self.forced:
            return False
        return not 0 < self.open_until - now <= self.hold

    def held_until(self, now: int) -> int | None:
        """Until when its jobs are not claimed; None if it is not held, or without a known end."""
        if self.breaker is not BreakerState.OPEN or self.forced or self.is_due(now):
            return None
        return self.open_until


def encode_state(state: ServiceState) -> str:
    return msgspec.json.encode(state).decode()


def decode_state(text: str | bytes) -> ServiceState:
    return msgspec.json.decode(text, type=ServiceState)


class Change(Struct, frozen=True):
    """An event about a service, with the figures that caused it."""

    type: str
    data: dict[str, Any]


class Transition(Struct, frozen=True):
    """The new state of a service and the events to record. The same state without events needs no write."""

    state: ServiceState
    changes: tuple[Change, ...] = ()


def is_milestone(probes_failed: int) -> bool:
    """Whether to log another line about an outage: after 1, 2, 4, 8, … failed probes, 12 lines in a day."""
    return probes_failed > 0 and probes_failed & (probes_failed - 1) == 0


def is_restricted(service: Service, state: ServiceState) -> bool:
    """Whether a claim needs an allowance."""
    held = state.breaker is not BreakerState.CLOSED or state.forced is Forced.OPEN
    return held or state.pace is not None or service.rate is not None
