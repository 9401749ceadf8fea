"""Incidents: the notable events of the log, in words."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from mulligan import App
from mulligan.records.event import Event
from mulligan.values.duration import describe

PAGE = 1_000


class Weight(IntEnum):
    """How notable an incident is."""

    RECOVERY = 1
    RETRY = 2
    WAIT = 3
    FAILURE = 4
    LOSS = 5


@dataclass(frozen=True, slots=True)
class Incident:
    """A notable event: its subject, what happened, and the decision with its reason."""

    at: datetime
    subject: str
    what: str
    decided: str
    weight: Weight

    def __str__(self) -> str:
        return f"{self.subject} {self.what}: {self.decided}"


class EventReader:
    """Reads the event log from its current end, counts all events, and returns the notable ones."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._position = app.last_position()
        self._codes_so_far: defaultdict[str, list[str]] = defaultdict(list)
        self.counts: Counter[tuple[str, str]] = Counter()
        """The number of events by type and code."""
        self.successes: Counter[str] = Counter()
        """How often each job succeeded. More than once would be a bug."""

    def follow(self) -> list[Incident]:
        """The incidents since the last call."""
        incidents: list[Incident] = []
        while events := self._app.events(after=self._position, limit=PAGE):
            self._position = events[-1].position
            incidents += [incident for event in events if (incident := self._note(event)) is not None]
        return incidents

    @property
    def taken_back(self) -> int:
        return self.counts["job.released", "WORKER_LOST"]

    @property
    def rate_limit_waits(self) -> int:
        return self.counts["job.snoozed", "RATE_LIMITED"]

    @property
    def retries(self) -> Counter[str]:
        """The number of retries by code."""
        return Counter({code: number for (type_, code), number in self.counts.items() if type_ == "job.retried"})

    def _note(self, event: Event) -> Incident | None:
        self.counts[event.type, event.code or ""] += 1
        if event.type == "job.succeeded":
            self.successes[event.job] += 1
        incident = describe_event(event, self._codes_so_far[event.job])
        if event.code:
            self._codes_so_far[event.job].append(event.code)
        return incident


def describe_event(event: Event, codes_so_far: Iterable[str]) -> Incident | None:
    """One event in words, or None if it is not notable. `codes_so_far` are the earlier codes of its job."""
    reasons, code = event.data.get("reasons", {}), event.code or ""
    delay = describe(timedelta(seconds=event.data.get("delay", 0)))
    match event.type:
        case "job.retried":
            count = f"failure {reasons.get('failure')} of {reasons.get('of')}, rule {reasons.get('rule')}"
            found = f"failed with {code}", f"retried in {delay} ({count})", Weight.RETRY
        case "job.snoozed":
            found = f"met {code}", f"waits {delay} as requested; no attempt is used up", Weight.WAIT
        case "job.failed":
            because = reasons.get("because", "the deadline passed while it waited")
            # A deadline is decided by the engine; the rule belongs to the previous failure.
            rule = f" (rule {reasons['rule']})" if reasons.get("code") == code else ""
            found = f"failed with {code}", f"no retry, {because}{rule}", Weight.FAILURE
        case "job.released" if code == "WORKER_LOST":
            count = f"loss {reasons.get('loss')} of {reasons.get('of')}"
            found = "lost its worker", f"taken back, queued again ({count})", Weight.LOSS
        case "job.refused":
            found = "settled too late", "its outcome was refused", Weight.LOSS
        case "job.succeeded" if codes_so_far:
            codes = ", ".join(dict.fromkeys(codes_so_far))
            found = "succeeded", f"on attempt {event.attempt}, after {codes}", Weight.RECOVERY
        case _:
            return None
    return Incident(event.at, f"{event.kind} …{event.job[-4:]}", *found)
