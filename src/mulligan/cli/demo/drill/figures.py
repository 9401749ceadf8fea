"""What was seen of a service, step by step, and what is to be said of it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mulligan.cli.demo.drill.plan import STEPS, DrillPlan

BACK = 0.95
# Goodput is that of so many steps: of one it is luck.
SMOOTH = 5


@dataclass(frozen=True, slots=True)
class Seen:
    """Numbers of each step: calls, those of them that were a job's first, and those that were answered in time."""

    calls: Sequence[int] = field(default_factory=list)
    firsts: Sequence[int] = field(default_factory=list)
    good: Sequence[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFigures:
    """Rates are a second, `peak` is a share of the calls before. None: it did not come to that."""

    calls_into_the_outage: int
    goodput_before: float
    goodput_after: float | None
    back_after: float | None
    """Seconds from the end of the outage until goodput is 95 % of what it was, and stays."""
    peak: float | None
    amplification: float | None
    """Calls for each job that was tried, from the outage on."""
    calls: int
    done: int

    def as_json(self, seen: Seen) -> dict[str, Any]:
        return {**asdict(self), "by_step": {name: list(numbers) for name, numbers in asdict(seen).items()}}


def figures(plan: DrillPlan, seen: Seen) -> DrillFigures:
    # The last step may not be over.
    known = min(max(0, len(seen.calls) - 1), STEPS)
    first, last = round(plan.begins / plan.step), round(plan.recovers / plan.step)
    before = _rate(plan, seen.good[first // 3 : first])
    after = seen.good[last + SMOOTH : known]
    return DrillFigures(
        calls_into_the_outage=sum(seen.calls[first:last]),
        goodput_before=before,
        goodput_after=_rate(plan, after) if after else None,
        back_after=_back_after(plan, seen.good[last:known], BACK * before),
        peak=_peak(plan, seen.calls[last:known], _rate(plan, seen.calls[first // 3 : first])),
        amplification=_ratio(sum(seen.calls[first:known]), sum(seen.firsts[first:known])),
        calls=sum(seen.calls[:known]),
        done=sum(seen.good[:known]),
    )


def _rate(plan: DrillPlan, numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers) / plan.step if numbers else 0.0


def _back_after(plan: DrillPlan, good: Sequence[int], enough: float) -> float | None:
    for step in range(len(good) - SMOOTH + 1):
        if _rate(plan, good[step : step + SMOOTH]) >= enough and _rate(plan, good[step:]) >= enough:
            return step * plan.step
    return None


def _peak(plan: DrillPlan, calls: Sequence[int], before: float) -> float | None:
    """Of about a second: a shorter one is luck."""
    length = max(1, round(1 / plan.step))
    if not before or len(calls) < length:
        return None
    return max(_rate(plan, calls[at : at + length]) for at in range(len(calls) - length + 1)) / before


def _ratio(one: int, other: int) -> float | None:
    return one / other if other else None
