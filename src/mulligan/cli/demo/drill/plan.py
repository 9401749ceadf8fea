"""The plan of the drill. A shorter drill is the same plan in less time."""

from dataclasses import dataclass

USUAL_SECONDS = 65.0
SHORTEST, LONGEST = 10.0, 600.0
# One second each at the usual length, and a column of the chart.
STEPS = 65
# The steps in which the outage begins, more jobs are enqueued, and the outage ends.
BEGINS, FLOODS, RECOVERS = 15, 20, 35
FLOOD = 2_000

# The service: the calls at a time, the time of each, and the calls a second.
SLOTS = 10
EACH_SECONDS = 0.2
CAPACITY = SLOTS / EACH_SECONDS
LOAD = 0.8 * CAPACITY
# How long a caller waits for an answer.
PATIENCE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class DrillPlan:
    seconds: float = USUAL_SECONDS

    @property
    def step(self) -> float:
        """The seconds of one step."""
        return self.seconds / STEPS

    @property
    def begins(self) -> float:
        return self.step * BEGINS

    @property
    def recovers(self) -> float:
        return self.step * RECOVERS

    @property
    def flood(self) -> int:
        """Jobs that are enqueued at once while the service is down."""
        return round(FLOOD * self.step)

    def is_down(self, elapsed: float) -> bool:
        return self.begins <= elapsed < self.recovers

    def jobs_due(self, elapsed: float) -> int:
        """How many jobs should have been enqueued by now."""
        return int(LOAD * elapsed) + (self.flood if elapsed >= self.step * FLOODS else 0)
