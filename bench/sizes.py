"""How much each part does. The whole is for a quiet machine; the small one shows that everything runs."""

from dataclasses import dataclass, fields
from typing import Any, Self


@dataclass(frozen=True)
class Sizes:
    enqueue_seconds: float = 2.5
    bulk: int = 20_000
    drained: float = 1.0
    """Factor on each peer's own number of jobs in a drain."""
    latencies: int = 200
    """Jobs 10 ms apart; half as many are sent to an idle worker."""
    storm_seconds: float = 3.0
    http_seconds: float = 4.0
    backlog: int = 1_000_000
    """Jobs that are not to be run beside those measured, on PostgreSQL; a fifth of it on SQLite."""
    ahead: int = 5_000
    """Jobs measured beside such a backlog."""
    owners: int = 10_000
    due: int = 100_000
    peak: int = 100_000
    reading: int = 1_000_000
    starts: int = 10
    drain_seconds: float = 60.0
    """How long a drain may take."""

    def drain(self, jobs: int) -> int:
        return max(50, int(jobs * self.drained))

    @classmethod
    def read(cls, values: dict[str, Any]) -> Self:
        return cls(**{field.name: values[field.name] for field in fields(cls)})


WHOLE = Sizes()
SMALL = Sizes(
    enqueue_seconds=0.5,
    bulk=3_000,
    drained=0.1,
    latencies=40,
    storm_seconds=1.0,
    http_seconds=1.0,
    backlog=20_000,
    ahead=2_000,
    owners=500,
    due=5_000,
    peak=5_000,
    reading=5_000,
    starts=3,
    drain_seconds=40.0,
)
