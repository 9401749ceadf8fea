"""Duties: the list of periodic maintenance work, and the record of each run."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.errors import UnknownDuty


@dataclass(frozen=True, slots=True)
class KnownDuty:
    """`alias` is its name in other systems; `about` is a description."""

    name: str
    alias: str
    about: str


DUTIES = (
    KnownDuty("reclaim", "STUCK_JOBS", "takes leases back from lost workers, reports stuck jobs"),
    KnownDuty("retry", "FAILED_JOBS", "queues failed attempts whose next try is due"),
    KnownDuty("promote", "DELAYED_JOBS", "queues delayed and snoozed jobs that are due"),
    KnownDuty("expire", "EXPIRED_JOBS", "fails jobs whose deadline passed before they ran; expires batches"),
    KnownDuty("schedule", "SCHEDULED_JOBS", "enqueues the jobs of schedules whose tick has come"),
    KnownDuty("redrive", "REDRIVES", "retries the jobs of redrives, at their rate"),
    KnownDuty("probe", "SERVICE_PROBES", "enqueues the probes of services that have one and are not closed"),
    KnownDuty("project", "PROJECTIONS", "folds the event log into failure groups, statistics and metrics"),
    KnownDuty("notify", "NOTIFICATIONS", "enqueues the mails and webhooks of subscriptions for new events"),
    KnownDuty("digest", "DIGESTS", "closes the digests that are due, and notes groups of failures that are over"),
    KnownDuty("alert", "ALERTS", "evaluates the rules of alerts, and records which of them fire and end"),
    KnownDuty("prune", "OLD_JOBS", "deletes jobs that have been over for long enough"),
)

# Jobs that wait for one of these are queued by the duty `retry`, all others by `promote`.
RETRY_REASONS = ("retry", "rate limit", "budget")


def duty_named(name: str) -> KnownDuty:
    """The duty with this name or alias, ignoring case."""
    for duty in DUTIES:
        if name.strip().lower() in (duty.name, duty.alias.lower()):
            return duty
    raise UnknownDuty(name, [duty.name for duty in DUTIES])


@dataclass(frozen=True, slots=True)
class DutyOverview:
    """What one query of the store tells all duties of a worker."""

    paused: frozenset[str]
    idle: frozenset[str]
    """Duties that have nothing to do."""
    has_ticks: bool
    """A tick of a schedule is due, or a worker must report again which schedules its code has."""


def duty_of(waiting_for: str | None) -> KnownDuty:
    """The duty that queues jobs waiting for this."""
    return duty_named("retry" if waiting_for in RETRY_REASONS else "promote")


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyRun:
    """A run of a duty, by a worker or manual. `did` is the number of jobs moved since the previous record."""

    duty: str
    worker: str
    seconds: float
    did: int
    interval: timedelta | None = None
    limit: int | None = None
    at: datetime | None = None
    ago: timedelta = timedelta(0)
    """How long before the record the run was done."""
    # For manual runs only. `request` is the caller's id, so that the call can be repeated.
    request: str | None = None
    actor: str | None = None
    reason: str | None = None
