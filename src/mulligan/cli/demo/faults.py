"""The faults of the gateway: what goes wrong, and when. The plan is the same in every run."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Phase(StrEnum):
    HEALTHY = "healthy"
    HICCUPS = "hiccups"
    SLOW = "slow"
    CROWDED = "crowded"
    DOWN = "down"


WORDS = {
    Phase.HEALTHY: "is healthy: it answers at once",
    Phase.HICCUPS: "has hiccups: every third answer is a 503",
    Phase.SLOW: "is slow: most answers come after the timeout",
    Phase.CROWDED: "is overloaded: it answers 429 with Retry-After",
    Phase.DOWN: "is down: it resets every connection",
}

# The length of each phase, in percent of a round.
ROUND = (
    (Phase.HEALTHY, 12),
    (Phase.HICCUPS, 18),
    (Phase.SLOW, 20),
    (Phase.CROWDED, 18),
    (Phase.DOWN, 10),
    (Phase.HEALTHY, 22),
)
# When a worker is killed: while answers are slow, so that it holds jobs, and early enough to show their recovery.
KILL = 0.36

USUAL_ROUND = 30.0


class Faults(Protocol):
    """What is wrong with the gateway at a time, and how many workers should have been killed by then."""

    def at(self, elapsed: float) -> Phase: ...

    def kills_due(self, elapsed: float) -> int: ...


@dataclass(slots=True)
class ManualFaults:
    """Faults that a person switches."""

    phase: Phase = Phase.HEALTHY
    kills: int = 0

    def at(self, elapsed: float) -> Phase:  # noqa: ARG002
        return self.phase

    def kills_due(self, elapsed: float) -> int:  # noqa: ARG002
        return self.kills


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """Rounds of phases; a round takes `length` seconds."""

    length: float = USUAL_ROUND

    @classmethod
    def within(cls, seconds: float | None) -> "FaultPlan":
        """Complete rounds only, so that the demo ends in a healthy phase."""
        if seconds is None:
            return cls()
        return cls(seconds / max(1, round(seconds / USUAL_ROUND)))

    def at(self, elapsed: float) -> Phase:
        percent = elapsed % self.length / self.length * 100
        for phase, length in ROUND:
            percent -= length
            if percent < 0:
                return phase
        return Phase.HEALTHY

    def kills_due(self, elapsed: float) -> int:
        """How many workers should have been killed by now: one in each round."""
        return int(elapsed / self.length + 1 - KILL)
