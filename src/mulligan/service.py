"""The records of a service: how it stands, as people see it, and what they ask for by hand."""

from dataclasses import dataclass
from datetime import datetime

# The task that runs the probes of services that have one of their own.
PROBE_KIND = "mulligan.probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """To force a service open or closed, or to leave it to its calls again (None). `id` is the caller's: repeating the
    request changes nothing more."""

    id: str
    name: str
    to: str | None
    actor: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRecord:
    """How a service stands. `calls` and `failures` are those of its window, in the current epoch; `rate` is of
    successful calls a second, `pace` the most it is asked after an outage; while it `is_failing` retries wait for their
    budget."""

    name: str
    state: str
    epoch: int
    since: datetime | None
    open_until: datetime | None
    forced: str | None
    actor: str | None
    reason: str | None
    is_failing: bool
    pace: float | None
    rate_before: float | None
    calls: int
    failures: int
    rate: float | None
