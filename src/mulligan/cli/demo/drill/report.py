"""The output of the drill: its plan, the live picture, the figures and their meaning."""

from collections.abc import Iterable
from textwrap import wrap

from mulligan.cli.demo.drill.chart import GOOD, MORE, VAIN, chart
from mulligan.cli.demo.drill.figures import CallsByStep, DrillFigures
from mulligan.cli.demo.drill.plan import CAPACITY, LOAD, PATIENCE_SECONDS, DrillPlan

WIDTH = 78
NAMES = ("with a service", "with backoff alone")
# The name, the field, its format, and the words for None.
ROWS = (
    ("calls during the outage", "calls_into_the_outage", "{:,}", ""),
    ("answered a second before it", "goodput_before", "{:.1f}", ""),
    ("answered a second after it", "goodput_after", "{:.1f}", "-"),
    ("back at 95 % after", "back_after", "{:.0f} s", "not in this time"),
    ("busiest second after it", "peak", "{:.2f} times before", "-"),
    ("calls for each attempted job", "amplification", "{:.2f}", "-"),
    ("jobs done", "done", "{:,}", ""),
)
TITLES = ("service=Service(…): breaker, retry budget and pace", "service=None: exponential backoff alone")


def picture(plan: DrillPlan, elapsed: float, sides: Iterable[CallsByStep]) -> list[str]:
    lines = [_title(plan, elapsed), "", *_setting(plan)]
    for title, seen in zip(TITLES, sides, strict=True):
        lines += ["", f"  {title}", *chart(plan, seen)]
    return lines


def _title(plan: DrillPlan, elapsed: float) -> str:
    if elapsed >= plan.seconds:
        return "mulligan demo --drill"
    state = "down" if plan.is_down(elapsed) else "up"
    return (
        f"mulligan demo --drill · {elapsed:.0f} s of {plan.seconds:.0f} s · both gateways are {state} · Ctrl-C ends it"
    )


def _setting(plan: DrillPlan) -> list[str]:
    text = (
        f"Two gateways, each with a capacity of {CAPACITY:.0f} calls a second and a load of {LOAD:.0f}. "
        f"For {plan.recovers - plan.begins:.0f} s both reset every call, and {plan.flood:,} more jobs are enqueued. "
        f"Callers wait {PATIENCE_SECONDS:.0f} s for an answer. "
        f"Calls a second: {GOOD} answered, {VAIN} failed, {MORE} more than fits."
    )
    return wrap(text, WIDTH)


def moment(plan: DrillPlan, elapsed: float, sides: Iterable[CallsByStep]) -> str:
    """One line for a log."""
    parts = []
    for name, seen in zip(("service", "backoff"), sides, strict=True):
        calls, good = (sum(numbers[-6:-1]) / (5 * plan.step) for numbers in (seen.calls, seen.good))
        parts.append(f"{name} {calls:.0f} calls/s, {good:.0f} good")
    return f"{elapsed:4.0f}s {'down' if plan.is_down(elapsed) else 'up  '} · " + " · ".join(parts)


def table(one: DrillFigures, other: DrillFigures) -> list[str]:
    lines = [_table_line("", NAMES)]
    for name, field, form, none in ROWS:
        values = getattr(one, field), getattr(other, field)
        lines.append(_table_line(name, [none if value is None else form.format(value) for value in values]))
    return lines


def _table_line(name: str, cells: Iterable[str]) -> str:
    return f"  {name:34}" + "".join(f"{cell:>20}" for cell in cells)


def meaning(plan: DrillPlan, one: DrillFigures, other: DrillFigures) -> list[str]:
    """The results in sentences."""
    return wrap(" ".join([_into(one, other), _back(plan, NAMES[0], one), _back(plan, NAMES[1], other)]), WIDTH)


def _into(one: DrillFigures, other: DrillFigures) -> str:
    few, many = one.calls_into_the_outage, other.calls_into_the_outage
    calls = f"During the outage there were {few:,} calls with a service, {many:,} with backoff alone"
    return f"{calls}, {many / few:.0f} times as many." if many > few > 0 else f"{calls}."


def _back(plan: DrillPlan, name: str, figures: DrillFigures) -> str:
    cost = "" if figures.amplification is None else f" Each attempted job cost {figures.amplification:.2f} calls."
    if figures.back_after is not None:
        return f"{name.capitalize()}, it had recovered {figures.back_after:.0f} s after the outage.{cost}"
    left = plan.seconds - plan.recovers
    return f"{name.capitalize()}, it had not recovered in the {left:.0f} s after the outage.{cost}"
