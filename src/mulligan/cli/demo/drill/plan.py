"""The plan of the drill. A shorter drill is the same plan in less time."""

from dataclasses import dataclass

USUAL_SECONDS = 65.0
SHORTEST, LONGEST = 10.0, 600.0
# One second each at the usual length.
STEPS = 65

# The service: the calls at a time, and the time of each.
SLOTS = 10
EACH_SECONDS = 0.2
# How long a caller waits for an answer.
PATIENCE_SECONDS = 2.0
LOAD = 0.8


@dataclass(frozen=True, slots=True)
class DrillPlan:
    seconds: float = USUAL_SECONDS

    @property
    def scale(self) -> float:
        return self.seconds / USUAL_SECONDS

    @property
    def step(self) -> float:
        """The seconds of one column of the chart."""
        return self.seconds / STEPS

    @property
    def begins(self) -> float:
        return self.step * 15

    @property
    def lasts(self) -> float:
        return self.step * 20

    @property
    def recovers(self) -> float:
        return self.begins + self.lasts

    @property
    def capacity(self) -> float:
        """Calls a second."""
        return SLOTS / EACH_SECONDS

    @property
    def load(self) -> float:
        return self.capacity * LOAD

    @property
    def waiting(self) -> int:
        """Jobs that are enqueued at once while the service is down."""
        return round(2_000 * self.scale)

    @property
    def floods(self) -> float:
        """When they are enqueued."""
        return self.begins + self.step * 5

    @property
    def cooldown(self) -> float:
        return 5.0 * self.scale

    @property
    def rest(self) -> float:
        """The delay before the first retry; each further delay is twice as long."""
        return 2.0 * self.scale

    def is_down(self, elapsed: float) -> bool:
        return self.begins <= elapsed < self.recovers
