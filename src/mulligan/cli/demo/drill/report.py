"""The output of the drill: its plan, the live picture, the figures and their meaning."""

from collections.abc import Iterable
from textwrap import wrap

from mulligan.cli.demo.drill.chart import GOOD, MORE, VAIN, chart, side_by_side
from mulligan.cli.demo.drill.figures import CallsByStep, DrillFigures
from mulligan.cli.demo.drill.plan import PATIENCE_SECONDS, DrillPlan

WIDTH = 78
NAMES = ("with a service", "with backoff alone")
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
        f"Two gateways, each with a capacity of {plan.capacity:.0f} calls a second and a load of {plan.load:.0f}. "
        f"For {plan.lasts:.0f} s both reset every call, and {plan.waiting:,} more jobs are enqueued. "
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
    rows = [
        ("calls during the outage", f"{one.calls_into_the_outage:,}", f"{other.calls_into_the_outage:,}"),
        ("answered a second before it", f"{one.goodput_before:.1f}", f"{other.goodput_before:.1f}"),
        ("answered a second after it", _rate(one.goodput_after), _rate(other.goodput_after)),
        ("back at 95 % after", _seconds(one.back_after), _seconds(other.back_after)),
        ("busiest second after it", _times(one.peak), _times(other.peak)),
        ("calls for each attempted job", _number(one.amplification), _number(other.amplification)),
        ("jobs done", f"{one.done:,}", f"{other.done:,}"),
    ]
    return side_by_side(NAMES, rows)


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


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}"


def _seconds(seconds: float | None) -> str:
    return "not in this time" if seconds is None else f"{seconds:.0f} s"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f} times before"


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"
