"""The story: what the event log says, in plain words."""

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
    """How much it matters to somebody who watches."""

    USUAL = 0
    RECOVERY = 1
    RETRY = 2
    WAIT = 3
    FAILURE = 4
    LOSS = 5


@dataclass(frozen=True, slots=True)
class Happening:
    """Who, what, and what was decided about it, with the reason."""

    at: datetime
    who: str
    what: str
    decided: str
    weight: Weight

    def __str__(self) -> str:
        return f"{self.who} {self.what}: {self.decided}"


class DemoStory:
    """Follows the log from where it is now; counts every event and tells the notable ones."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._position = app.last_position()
        self._troubles: defaultdict[str, list[str]] = defaultdict(list)
        self.counts: Counter[tuple[str, str]] = Counter()
        """How often each event happened with each code."""
        self.successes: Counter[str] = Counter()
        """How often each job succeeded: once, one hopes."""

    def follow(self) -> list[Happening]:
        """What happened since the last call."""
        happenings: list[Happening] = []
        while events := self._app.events(after=self._position, limit=PAGE):
            self._position = events[-1].position
            happenings += [told for event in events if (told := self._note(event)) is not None]
        return happenings

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

    def _note(self, event: Event) -> Happening | None:
        self.counts[event.type, event.code or ""] += 1
        if event.type == "job.succeeded":
            self.successes[event.job] += 1
        told = tell(event, self._troubles[event.job])
        if event.code:
            self._troubles[event.job].append(event.code)
        return told


def tell(event: Event, troubles: Iterable[str]) -> Happening | None:
    """One event in words; None for those that are nothing special. `troubles` are its job's codes so far."""
    who, code = f"{event.kind} …{event.job[-4:]}", event.code or ""
    match event.type:
        case "job.retried":
            return Happening(event.at, who, f"failed with {code}", _retried(event), Weight.RETRY)
        case "job.snoozed":
            return Happening(event.at, who, f"met {code}", _put_off(event), Weight.WAIT)
        case "job.failed":
            return Happening(event.at, who, f"failed with {code}", _failed(event), Weight.FAILURE)
        case "job.released" if code == "WORKER_LOST":
            return Happening(event.at, who, "lost its worker", _taken_back(event), Weight.LOSS)
        case "job.refused":
            return Happening(event.at, who, "came too late", "its outcome was refused", Weight.LOSS)
        case "job.succeeded" if troubles:
            return Happening(event.at, who, "succeeded", _recovered(event, troubles), Weight.RECOVERY)
    return None


def _retried(event: Event) -> str:
    reasons = event.data.get("reasons", {})
    return (
        f"retried in {_delay(event)} "
        f"(failure {reasons.get('failure')} of {reasons.get('of')}, rule {reasons.get('rule')})"
    )


def _put_off(event: Event) -> str:
    return f"waits {_delay(event)} as it was told; no attempt used up"


def _failed(event: Event) -> str:
    reasons = event.data.get("reasons", {})
    because = reasons.get("because", "the deadline passed while it waited")
    # A deadline is the engine's own word: the rule speaks of the failure before.
    rule = f" (rule {reasons['rule']})" if reasons.get("code") == event.code else ""
    return f"no retry, {because}{rule}"


def _taken_back(event: Event) -> str:
    reasons = event.data.get("reasons", {})
    return f"taken back, queued again (loss {reasons.get('loss')} of {reasons.get('of')})"


def _recovered(event: Event, troubles: Iterable[str]) -> str:
    return f"on attempt {event.attempt}, after {', '.join(dict.fromkeys(troubles))}"


def _delay(event: Event) -> str:
    return describe(timedelta(seconds=event.data.get("delay", 0)))
