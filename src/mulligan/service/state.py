"""How a service stands: the one row that all workers share, and what is written when it changes."""

from enum import StrEnum
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from mulligan.service.config import Service
from mulligan.service.window import microseconds

# What a row may say: with other numbers nobody could reckon.
Rate = Annotated[float, Meta(ge=1e-4, le=1e9)]
Time = Annotated[int, Meta(ge=-(2**62), le=2**62)]


class BreakerState(StrEnum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class Forced(StrEnum):
    OPEN = "open"
    CLOSED = "closed"


class Pace(Struct, frozen=True):
    """How fast a service is asked after an outage: calls a second, counted since `stepped_at`.

    `calm_since` is when it came up to the rate of before; None while it is on its way there. `is_behind`: the service
    answered fewer calls than it was asked, in the step before this one. `kept_up` counts the steps in which it did not.
    """

    rate: Rate
    stepped_at: Time
    ok: int = 0
    failed: int = 0
    calm_since: Time | None = None
    is_behind: bool = False
    kept_up: Annotated[int, Meta(ge=0, le=1_000)] = 0


class Bucket(Struct, frozen=True):
    """Calls that may be made at once, and when they were counted. `short_at`: when there last were too few."""

    tokens: Annotated[float, Meta(ge=0, le=1e9)]
    filled_at: Time
    short_at: Time | None = None


class ServiceState(Struct, frozen=True, omit_defaults=True):
    """Times are the store's, in microseconds. Every change of state raises the epoch, so that what was begun before
    it is told apart. `rate_before` is that of before the outage, kept until the pace is lifted, and
    `ceiling` what the pace does not go beyond. `trouble` are the figures that opened it, kept until it is closed, as
    is `outage_since`, when it first opened, and how many probes failed since."""

    name: str
    state: BreakerState = BreakerState.CLOSED
    epoch: int = 0
    since: Time = 0
    open_until: Time = 0
    hold: Time = 0
    forced: Forced | None = None
    forced_by: str | None = None
    forced_because: str | None = None
    pace: Pace | None = None
    rate_before: Annotated[float, Meta(ge=0, le=1e9)] | None = None
    ceiling: Rate | None = None
    probes_succeeded: int = 0
    failing_since: Time | None = None
    bucket: Bucket | None = None
    trouble: dict[str, Any] | None = None
    outage_since: Time | None = None
    probes_failed: int = 0

    @classmethod
    def plain(cls, name: str) -> "ServiceState":
        """A service of which nothing is stored."""
        return cls(name)

    @property
    def is_failing(self) -> bool:
        """Whether the budget binds."""
        return self.failing_since is not None

    def is_due(self, now: int) -> bool:
        """Whether an open service is to be probed. One that seems open for longer than it was opened for is: the clock
        was set back."""
        if self.state is not BreakerState.OPEN or self.forced:
            return False
        return not 0 < self.open_until - now <= self.hold

    def held_until(self, now: int) -> int | None:
        """Until when nothing of it is claimed; None when it is not held, or nobody knows until when."""
        if self.state is not BreakerState.OPEN or self.forced or self.is_due(now):
            return None
        return self.open_until


def encode(standing: ServiceState) -> str:
    return msgspec.json.encode(standing).decode()


def decode(text: str | bytes) -> ServiceState:
    return msgspec.json.decode(text, type=ServiceState)


class Change(Struct, frozen=True):
    """An event about a service, with the figures that caused it."""

    type: str
    data: dict[str, Any]


class Turn(Struct, frozen=True):
    """How a service stands now, and what changed by that. The same standing and no change is nothing to write."""

    standing: ServiceState
    changes: tuple[Change, ...] = ()


def is_milestone(probes_failed: int) -> bool:
    """Whether an outage is worth another line of the log: after 1, 2, 4, 8, … failed probes, so a day is 12 lines."""
    return probes_failed > 0 and probes_failed & (probes_failed - 1) == 0


def is_restricted(service: Service, standing: ServiceState) -> bool:
    """Whether a claim has to ask for an allowance."""
    held = standing.state is not BreakerState.CLOSED or standing.forced is Forced.OPEN
    return held or standing.pace is not None or service.rate is not None


def cooldown_of(service: Service) -> int:
    return microseconds(service.cooldown)
