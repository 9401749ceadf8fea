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

    USUAL = 0
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

    def count(self, event: str) -> int:
        return sum(self.codes(event).values())

    def codes(self, event: str) -> Counter[str]:
        return Counter({code: number for (type_, code), number in self.counts.items() if type_ == event})

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
    subject, code = f"{event.kind} …{event.job[-4:]}", event.code or ""
    match event.type:
        case "job.retried":
            return Incident(event.at, subject, f"failed with {code}", _retried(event), Weight.RETRY)
        case "job.snoozed":
            return Incident(event.at, subject, f"met {code}", _snoozed(event), Weight.WAIT)
        case "job.failed":
            return Incident(event.at, subject, f"failed with {code}", _failed(event), Weight.FAILURE)
        case "job.released" if code == "WORKER_LOST":
            return Incident(event.at, subject, "lost its worker", _taken_back(event), Weight.LOSS)
        case "job.refused":
            return Incident(event.at, subject, "settled too late", "its outcome was refused", Weight.LOSS)
        case "job.succeeded" if codes_so_far:
            return Incident(event.at, subject, "succeeded", _recovered(event, codes_so_far), Weight.RECOVERY)
    return None


def _retried(event: Event) -> str:
    reasons = event.data.get("reasons", {})
    return (
        f"retried in {_delay(event)} "
        f"(failure {reasons.get('failure')} of {reasons.get('of')}, rule {reasons.get('rule')})"
    )


def _snoozed(event: Event) -> str:
    return f"waits {_delay(event)} as requested; no attempt is used up"


def _failed(event: Event) -> str:
    reasons = event.data.get("reasons", {})
    because = reasons.get("because", "the deadline passed while it waited")
    # A deadline is decided by the engine; the rule belongs to the previous failure.
    rule = f" (rule {reasons['rule']})" if reasons.get("code") == event.code else ""
    return f"no retry, {because}{rule}"


def _taken_back(event: Event) -> str:
    reasons = event.data.get("reasons", {})
    return f"taken back, queued again (loss {reasons.get('loss')} of {reasons.get('of')})"


def _recovered(event: Event, codes_so_far: Iterable[str]) -> str:
    return f"on attempt {event.attempt}, after {', '.join(dict.fromkeys(codes_so_far))}"


def _delay(event: Event) -> str:
    return describe(timedelta(seconds=event.data.get("delay", 0)))
