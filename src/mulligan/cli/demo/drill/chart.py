"""A small chart in plain characters: answered and failed calls a second over time."""

from collections.abc import Sequence

from mulligan.cli.demo.drill.figures import CallsByStep
from mulligan.cli.demo.drill.plan import STEPS, DrillPlan

GOOD, VAIN, MORE = "#", "x", "^"
ROWS = 5
MARGIN = 7


def chart(plan: DrillPlan, seen: CallsByStep) -> list[str]:
    """The chart of one service. A column is a step of the plan, a row is half of the load."""
    worth = plan.load / 2
    columns = [_column(plan, calls, good, worth) for calls, good in zip(seen.calls, seen.good, strict=True)][:STEPS]
    rows = []
    for row in reversed(range(ROWS)):
        label = f"{(row + 1) * worth:5.0f} |" if row % 2 else "      |"
        rows.append((label + "".join(column[row] for column in columns)).rstrip())
    return [*rows, _axis(plan), _times(plan)]


def _column(plan: DrillPlan, calls: int, good: int, worth: float) -> str:
    """One column, from the bottom up."""
    high, filled = (round(number / plan.step / worth) for number in (calls, good))
    # Even a single call is shown.
    high = max(high, min(1, calls))
    column = (GOOD * filled + VAIN * (high - filled))[:ROWS].ljust(ROWS)
    return column[:-1] + MORE if high > ROWS else column


def _axis(plan: DrillPlan) -> str:
    first, last = round(plan.begins / plan.step), round(plan.recovers / plan.step)
    outage = " outage ".center(last - first, "=")
    return " " * (MARGIN - 1) + "+" + "-" * first + outage + "-" * (STEPS - last)


def _times(plan: DrillPlan) -> str:
    line = [" "] * (MARGIN + STEPS + 8)
    for at in (0.0, plan.begins, plan.recovers, plan.seconds):
        _write(line, MARGIN + round(at / plan.step), f"{at:.0f} s")
    return "".join(line).rstrip()


def _write(line: list[str], at: int, words: str) -> None:
    at = min(at, MARGIN + STEPS - len(words))
    line[at : at + len(words)] = list(words)


def side_by_side(names: Sequence[str], rows: Sequence[tuple[str, str, str]]) -> list[str]:
    """A table of two columns of values."""
    lines = [("", *names), *rows]
    return [f"  {name:34}{one:>20}{other:>20}".rstrip() for name, one, other in lines]
