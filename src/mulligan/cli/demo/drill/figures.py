"""The calls of a service by step, and the figures computed from them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mulligan.cli.demo.drill.plan import STEPS, DrillPlan

BACK = 0.95
# Goodput is averaged over this many steps, because one alone is noise.
SMOOTH = 5


@dataclass(frozen=True, slots=True)
class CallsByStep:
    """Counts for each step: all calls, the first calls of a job, and the calls answered in time."""

    calls: Sequence[int] = field(default_factory=list)
    firsts: Sequence[int] = field(default_factory=list)
    good: Sequence[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillFigures:
    """Rates are per second, `peak` is relative to the calls before the outage. None: not reached."""

    calls_into_the_outage: int
    goodput_before: float
    goodput_after: float | None
    back_after: float | None
    """Seconds from the end of the outage until goodput stays at 95 % of its previous value."""
    peak: float | None
    amplification: float | None
    """Calls for each attempted job, from the outage on."""
    calls: int
    done: int

    def as_json(self, seen: CallsByStep) -> dict[str, Any]:
        return {**asdict(self), "by_step": {name: list(numbers) for name, numbers in asdict(seen).items()}}


def figures(plan: DrillPlan, seen: CallsByStep) -> DrillFigures:
    # The last step may be incomplete.
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
    """The highest rate over about a second, because a shorter peak is noise."""
    length = max(1, round(1 / plan.step))
    if not before or len(calls) < length:
        return None
    return max(_rate(plan, calls[at : at + length]) for at in range(len(calls) - length + 1)) / before


def _ratio(one: int, other: int) -> float | None:
    return one / other if other else None
