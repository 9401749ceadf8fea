"""A small chart in plain characters: answered and failed calls a second over time."""

from mulligan.cli.demo.drill.figures import CallsByStep
from mulligan.cli.demo.drill.plan import BEGINS, LOAD, RECOVERS, STEPS, DrillPlan

GOOD, VAIN, MORE = "#", "x", "^"
ROWS = 5
ROW = LOAD / 2
MARGIN = 7


def chart(plan: DrillPlan, seen: CallsByStep) -> list[str]:
    """The chart of one service. A column is a step of the plan, a row is half of the load."""
    columns = [_column(plan, calls, good) for calls, good in zip(seen.calls, seen.good, strict=True)][:STEPS]
    rows = []
    for row in reversed(range(ROWS)):
        label = f"{(row + 1) * ROW:5.0f} |" if row % 2 else "      |"
        rows.append((label + "".join(column[row] for column in columns)).rstrip())
    outage = " outage ".center(RECOVERS - BEGINS, "=")
    axis = "+".rjust(MARGIN) + "-" * BEGINS + outage + "-" * (STEPS - RECOVERS)
    return [*rows, axis, _times(plan)]


def _column(plan: DrillPlan, calls: int, good: int) -> str:
    """One column, from the bottom up."""
    high, filled = (round(number / plan.step / ROW) for number in (calls, good))
    # Even a single call is shown.
    high = max(high, min(1, calls))
    column = (GOOD * filled + VAIN * (high - filled))[:ROWS].ljust(ROWS)
    return column[:-1] + MORE if high > ROWS else column


def _times(plan: DrillPlan) -> str:
    line = ""
    for step in (0, BEGINS, RECOVERS):
        line = line.ljust(MARGIN + step) + f"{step * plan.step:.0f} s"
    end = f"{plan.seconds:.0f} s"
    return line.ljust(MARGIN + STEPS - len(end)) + end
