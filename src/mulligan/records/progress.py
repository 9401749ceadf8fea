"""Progress: how far a running job is, as its task reports it. Progress is not an event: only the last one is kept."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Progress:
    """`ratio` is between 0 and 1. `at` is when the job's row changed.

    `kind`, `owner` and `batch` are those of the job.
    """

    job: str
    ratio: float
    text: str
    at: datetime
    kind: str = ""
    owner: str = ""
    batch: str | None = None
