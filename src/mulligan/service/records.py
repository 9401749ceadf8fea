"""The records of a service: its state as people see it, and manual requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mulligan.records.pause import Pause

# The task that runs the probe functions of services.
PROBE_KIND = "mulligan.probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """A request to force a service open or closed, or to return it to its calls (None). `id` is the caller's: repeating
    the request has no further effect."""

    id: str
    name: str
    to: str | None
    actor: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """A service as it is stored; the defaults are those of a service without a row. `calls` and `failures` are those of
    its window in the current epoch. `rate` is the number of successful calls per second, `pace` the limit after an
    outage. While it `is_failing`, retries wait for a budget that compares `retries` with `firsts`. `trouble` holds the
    figures that opened it."""

    name: str
    state: str = "closed"
    epoch: int = 0
    since: datetime | None = None
    open_until: datetime | None = None
    forced: str | None = None
    actor: str | None = None
    reason: str | None = None
    is_failing: bool = False
    pace: float | None = None
    rate_before: float | None = None
    calls: int = 0
    failures: int = 0
    rate: float | None = None
    firsts: int = 0
    retries: int = 0
    probes_succeeded: int = 0
    is_checked: bool = False
    trouble: Mapping[str, Any] | None = None

    @property
    def is_due(self) -> bool:
        """It is open, and the next claim probes it."""
        return self.state == "open" and self.forced is None and self.open_until is None


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """A change of a service by a claim or a settle: an event and its figures."""

    service: str
    event: str
    data: Mapping[str, Any]


class Demand(NamedTuple):
    """How many jobs of a service are ready, and how many of its retries wait for its budget."""

    service: str
    ready: int
    parked: int


class Family(NamedTuple):
    """How many computed names of one pattern are tracked separately, and how many can be."""

    pattern: str
    names: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatus:
    """A service's state together with its configuration in this app. `share` is the fraction of failures in the window;
    `ready` and `parked` jobs are counted up to a limit. It opens when the fraction `open_at` of at least `min_calls`
    calls in its `window`, such as `20 calls` or `2m`, failed. `is_known`: the store has a row for it."""

    name: str
    state: str
    since: datetime | None
    open_until: datetime | None
    is_due: bool
    forced: str | None
    actor: str | None
    reason: str | None
    is_failing: bool
    calls: int
    failures: int
    share: float
    rate: float | None
    pace: float | None
    rate_before: float | None
    firsts: int
    retries: int
    probes_succeeded: int
    is_checked: bool
    trouble: Mapping[str, Any] | None
    ready: int
    parked: int
    paused: Pause | None
    mode: str
    fail_code: str
    cooldown: timedelta
    probes: int
    has_probe: bool
    budget: float | None
    window: str
    min_calls: int
    open_at: float
    most_a_second: float | None
    is_known: bool
