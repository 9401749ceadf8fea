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
    """A failure whose verdict is known: judged in a child, or the child's own death."""

    verdict: Verdict


class StopReason(StrEnum):
    """Who stopped an attempt from outside."""

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
