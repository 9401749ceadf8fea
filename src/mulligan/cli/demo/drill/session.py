"""One run of the drill: start both sides, follow the plan, stop them, and print the report."""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from time import monotonic
from typing import Any

from rich.text import Text

from mulligan import MulliganError
from mulligan.cli.demo.display import Display, open_display
from mulligan.cli.demo.drill.figures import CallsByStep, figures
from mulligan.cli.demo.drill.plan import CAPACITY, LOAD, USUAL_SECONDS, DrillPlan
from mulligan.cli.demo.drill.report import meaning, moment, picture, table
from mulligan.cli.demo.drill.side import Side
from mulligan.cli.demo.session import TICK, stop_signals
from mulligan.cli.output import echo, print_json

LONGEST_START = 30.0

Moment = tuple[float, Sequence[CallsByStep]]


def run_drill(*, seconds: float | None, as_json: bool) -> int:
    """Run it in `seconds`. Returns 0 at its end and after Ctrl-C."""
    plan = DrillPlan(USUAL_SECONDS if seconds is None else seconds)
    with stop_signals() as stopped, _sides(plan) as both:
        if not _are_ready(both, stopped):
            return 0
        with _open_display(plan, as_json=as_json) as display:
            elapsed = _run(plan, both, stopped, display)
        seen = [side.gateway.seen for side in both]
    if as_json:
        print_json(_document(plan, seen, is_whole=elapsed >= plan.seconds))
    else:
        echo("\n".join(_report(plan, seen, elapsed)))
    return 0


@contextmanager
def _sides(plan: DrillPlan) -> Iterator[list[Side]]:
    """Start one side with a service and one without; stop them at the end."""
    both: list[Side] = []
    with tempfile.TemporaryDirectory(prefix="mulligan-") as folder:
        try:
            for has_service in (True, False):
                both.append(Side(plan, Path(folder), has_service=has_service))
                both[-1].start()
            yield both
        finally:
            with ThreadPoolExecutor() as pool:
                list(pool.map(Side.stop, both))


def _are_ready(both: Sequence[Side], stopped: threading.Event) -> bool:
    """Wait until all workers are registered; False after Ctrl-C."""
    end = monotonic() + LONGEST_START
    while not all(side.is_ready for side in both):
        if stopped.wait(TICK):
            return False
        if monotonic() > end:
            raise MulliganError("the workers of the drill do not start; the machine may be too busy")
    return True


def _open_display(plan: DrillPlan, *, as_json: bool) -> AbstractContextManager[Display[Moment]]:
    def draw(shown: Moment) -> Text:
        return Text("\n".join(picture(plan, *shown)), no_wrap=True)

    # Transient, because the final picture is printed with the figures.
    return open_display(draw, lambda shown: moment(plan, *shown), as_json=as_json, transient=True)


def _run(plan: DrillPlan, both: Sequence[Side], stopped: threading.Event, display: Display[Moment]) -> float:
    """Follow the plan to its end or until Ctrl-C. Returns the seconds since its beginning."""
    began, elapsed = monotonic(), 0.0
    for side in both:
        side.gateway.begin()
    while not stopped.wait(TICK) and elapsed < plan.seconds + 2 * plan.step:
        elapsed = monotonic() - began
        for side in both:
            side.gateway.is_down = plan.is_down(elapsed)
            side.enqueue(plan.jobs_due(elapsed) - side.enqueued)
        display.update(elapsed, lambda: (monotonic() - began, [side.gateway.seen for side in both]))
    return monotonic() - began


def _report(plan: DrillPlan, seen: Sequence[CallsByStep], elapsed: float) -> Iterator[str]:
    one, other = (figures(plan, each) for each in seen)
    yield from ("", *picture(plan, max(elapsed, plan.seconds), seen), "")
    if elapsed < plan.seconds:
        yield from (f"Ended after {elapsed:.0f} s of {plan.seconds:.0f} s: the figures are incomplete.", "")
    yield from (*table(one, other), "", *meaning(plan, one, other))


def _document(plan: DrillPlan, seen: Sequence[CallsByStep], *, is_whole: bool) -> dict[str, Any]:
    with_service, backoff_alone = (asdict(figures(plan, each)) | {"by_step": asdict(each)} for each in seen)
    return {
        "seconds": plan.seconds,
        "step": plan.step,
        "outage": {"begins": plan.begins, "ends": plan.recovers},
        "capacity": CAPACITY,
        "load": LOAD,
        "is_whole": is_whole,
        "with_service": with_service,
        "backoff_alone": backoff_alone,
    }
