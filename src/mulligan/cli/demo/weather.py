"""The gateway's weather: what goes wrong with it, and when. The same in every run."""

from dataclasses import dataclass
from enum import StrEnum


class Phase(StrEnum):
    HEALTHY = "healthy"
    HICCUPS = "hiccups"
    SLOW = "slow"
    CROWDED = "crowded"
    DOWN = "down"


WORDS = {
    Phase.HEALTHY: "is well: every answer comes at once",
    Phase.HICCUPS: "has hiccups: every third answer is a 503",
    Phase.SLOW: "is slow: most answers come after the client gave up",
    Phase.CROWDED: "is overrun: it answers 429 with Retry-After",
    Phase.DOWN: "is down: it resets every connection",
}

# What each phase takes of a round, in percent.
ROUND = (
    (Phase.HEALTHY, 12),
    (Phase.HICCUPS, 18),
    (Phase.SLOW, 20),
    (Phase.CROWDED, 18),
    (Phase.DOWN, 10),
    (Phase.HEALTHY, 22),
)
# When a worker is killed: while answers are slow, so that it holds jobs, and early enough to see them taken back.
KILL = 0.36

USUAL_ROUND = 30.0


@dataclass(frozen=True, slots=True)
class Weather:
    """Rounds of phases, each `length` seconds long."""

    length: float = USUAL_ROUND

    @classmethod
    def within(cls, seconds: float | None) -> "Weather":
        """Whole rounds only, so that the end is seen in good weather."""
        if seconds is None:
            return cls()
        return cls(seconds / max(1, round(seconds / USUAL_ROUND)))

    def at(self, elapsed: float) -> Phase:
        percent = elapsed % self.length / self.length * 100
        for phase, share in ROUND:
            percent -= share
            if percent < 0:
                return phase
        return Phase.HEALTHY

    def kills_due(self, elapsed: float) -> int:
        """How many workers should have been killed by now: one a round."""
        return int(elapsed / self.length + 1 - KILL)
