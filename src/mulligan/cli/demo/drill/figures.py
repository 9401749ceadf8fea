"""The calls of a service by step, and the figures computed from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from mulligan.cli.demo.drill.plan import BEGINS, RECOVERS, STEPS, DrillPlan

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


def figures(plan: DrillPlan, seen: CallsByStep) -> DrillFigures:
    # The last step may be incomplete.
    known = min(max(0, len(seen.calls) - 1), STEPS)
    before = slice(BEGINS // 3, BEGINS)
    goodput = _rate(plan, seen.good[before])
    after = seen.good[RECOVERS + SMOOTH : known]
    firsts = sum(seen.firsts[BEGINS:known])
    return DrillFigures(
        calls_into_the_outage=sum(seen.calls[BEGINS:RECOVERS]),
        goodput_before=goodput,
        goodput_after=_rate(plan, after) if after else None,
        back_after=_back_after(plan, seen.good[RECOVERS:known], BACK * goodput),
        peak=_peak(plan, seen.calls[RECOVERS:known], _rate(plan, seen.calls[before])),
        amplification=sum(seen.calls[BEGINS:known]) / firsts if firsts else None,
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
