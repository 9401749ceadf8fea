"""What a verification finds: a result, never an error."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    PASSED = "Passed"
    NEEDS_REVIEW = "NeedsReview"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """`score` is what the replay scored here, if it could be played to its end."""

    outcome: Outcome
    reason: str
    score: float | None
