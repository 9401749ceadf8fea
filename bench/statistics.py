"""Medians with their spread, percentiles, and ratios of what was measured in the same round."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Self

Round = tuple[str, int]
"""The run and the number of the round in it."""


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float
    rounds: int

    @classmethod
    def over(cls, values: Iterable[float]) -> Self | None:
        found = list(values)
        return cls(median(found), min(found), max(found), len(found)) if found else None


def percentile(values: Sequence[float], percent: float) -> float:
    """The nearest rank: a value that was measured, none between two."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(percent / 100 * (len(ordered) - 1)))]


def ratio(ours: Mapping[Round, float], theirs: Mapping[Round, float]) -> Spread | None:
    """Ours by theirs in each round that has both: what disturbed one has probably disturbed the other."""
    return Spread.over(value / theirs[key] for key, value in ours.items() if theirs.get(key))
