"""Strokes: one small sign for each attempt."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from mulligan.lifecycle import State
from mulligan.records.job import Job

MOST_SHOWN = 12


class Stroke(NamedTuple):
    """A sign, its tone, and the word for those who do not see it."""

    sign: str
    tone: str
    word: str


FAILED = Stroke("x", "failed", "failed")
SUCCEEDED = Stroke("dot", "succeeded", "succeeded")
LOST = Stroke("lost", "cancelled", "lost with its worker")
CRASHED = Stroke("lost", "failed", "crashed")
SNOOZED = Stroke("snooze", "waiting", "snoozed")
SPARED = Stroke("x", "held", "failed, charged to its service")
RELEASED = Stroke("lost", "cancelled", "released")
STOPPED = Stroke("cancelled", "cancelled", "stopped")
RUNNING = Stroke("running", "running", "running")
NEXT = Stroke("ring", "waiting", "the next one waits")


class Strokes(NamedTuple):
    """`before` is how many earlier ones are not shown."""

    shown: tuple[Stroke, ...]
    before: int
    label: str


def in_order(strokes: Sequence[Stroke]) -> Strokes:
    """Those of one job, the oldest first."""
    shown = tuple(strokes[-MOST_SHOWN:])
    return Strokes(shown, len(strokes) - len(shown), ", ".join(stroke.word for stroke in shown))


def counted(job: Job[Any]) -> Strokes:
    """Those of a job in a list, by its counters: they have no order, so they are shown by their sort."""
    kinds = ((LOST, job.losses), (CRASHED, job.crashes), (SNOOZED, job.snoozes), (FAILED, job.failures))
    strokes = [stroke for stroke, number in kinds for _ in range(number)]
    strokes += [last] if (last := _LAST.get(job.state)) else []
    shown = tuple(strokes[-MOST_SHOWN:])
    numbers = Counter(stroke.word for stroke in strokes)
    label = ", ".join(word if number == 1 else f"{number} {word}" for word, number in numbers.items())
    return Strokes(shown, len(strokes) - len(shown), label)


_LAST = {State.SUCCEEDED: SUCCEEDED, State.RUNNING: RUNNING, State.WAITING: NEXT, State.QUEUED: NEXT}
