"""How an attempt ended."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from mulligan.failure.verdict import Failure, Verdict


class Success(NamedTuple):
    result: str


@dataclass(frozen=True, slots=True)
class Failed:
    what: Failure


@dataclass(frozen=True, slots=True)
class Judged:
    """A failure with a known verdict: it was classified in a child, or the child died."""

    verdict: Verdict


class StopReason(StrEnum):
    """Why an attempt was stopped from outside. The values are stored."""

    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    SHUTDOWN = "shutdown"
    LOST = "lost"
    HELD = "its service is held"
    CUT_OFF = "the store did not answer"


@dataclass(frozen=True, slots=True)
class Interruption:
    why: StopReason


Ended = Success | Failed | Judged | Interruption
