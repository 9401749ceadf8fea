"""One run of the drill: start both sides, follow the plan, stop them, and print the report."""

import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mulligan import MulliganError
from mulligan.cli.demo.drill.figures import CallsByStep, figures
from mulligan.cli.demo.drill.plan import USUAL_SECONDS, DrillPlan
from mulligan.cli.demo.drill.report import meaning, moment, picture, table
from mulligan.cli.demo.drill.side import Side
from mulligan.cli.demo.session import stop_signals
from mulligan.cli.output import echo, print_json
from mulligan.values.clock import SystemClock

TICK = 0.1
LONGEST_START = 30.0


def run_session(*, seconds: float | None, as_json: bool) -> int:
    plan = DrillPlan(USUAL_SECONDS if seconds is None else seconds)
    with stop_signals() as stopped, sides(plan) as both:
        drill = Drill(plan, both, stopped)
        with show_nothing() if as_json else show_progress() as show:
            drill.run(show)
        seen = [side.seen for side in both]
    if drill.began:
        _report(plan, seen, elapsed=drill.elapsed, as_json=as_json)
    return 0


@contextmanager
def sides(plan: DrillPlan) -> Iterator[list[Side]]:
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


class Drill:
    def __init__(self, plan: DrillPlan, both: Sequence[Side], stopped: threading.Event) -> None:
        self._plan = plan
        self._both = both
        self._stopped = stopped
        self._clock = SystemClock()
        self._start = self._clock.monotonic()
        self._is_flooded = self._is_down = self.began = False

    @property
    def elapsed(self) -> float:
        return self._clock.monotonic() - self._start

    def run(self, show: "Show") -> None:
        while not all(side.is_ready for side in self._both):
            if self._stopped.wait(TICK):
                return
            if self.elapsed > LONGEST_START:
                raise MulliganError("the workers of the drill do not start; the machine may be too busy")
        self._command("begin")
        self._start, self.began = self._clock.monotonic(), True
        while not self._stopped.wait(TICK) and self.elapsed < self._plan.seconds + 2 * self._plan.step:
            self._step()
            show(self._plan, self.elapsed, [side.seen for side in self._both])

    def _step(self) -> None:
        plan, elapsed = self._plan, self.elapsed
        if plan.is_down(elapsed) is not self._is_down:
            self._is_down = not self._is_down
            self._command("down" if self._is_down else "up")
        number = int(plan.load * TICK * round(elapsed / TICK))
        if elapsed >= plan.floods:
            number += plan.waiting
        for side in self._both:
            if number > side.enqueued:
                side.enqueue(number - side.enqueued)

    def _command(self, word: str) -> None:
        for side in self._both:
            side.command(word)


class Show:
    """Shows nothing, for programs."""

    def __call__(self, plan: DrillPlan, elapsed: float, seen: Sequence[CallsByStep]) -> None:
        pass


class DrillLines(Show):
    """One line a second, for logs."""

    def __init__(self) -> None:
        self._last = -1

    def __call__(self, plan: DrillPlan, elapsed: float, seen: Sequence[CallsByStep]) -> None:
        if int(elapsed) > self._last:
            self._last = int(elapsed)
            echo(moment(plan, elapsed, seen))


class DrillPicture(Show):
    """Redrawn in place."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._shown = -1.0

    def __call__(self, plan: DrillPlan, elapsed: float, seen: Sequence[CallsByStep]) -> None:
        if elapsed >= self._shown + 0.5:
            self._shown = elapsed
            self._live.update(Text("\n".join(picture(plan, elapsed, seen)), no_wrap=True), refresh=True)


@contextmanager
def show_nothing() -> Iterator[Show]:
    yield Show()


@contextmanager
def show_progress() -> Iterator[Show]:
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield DrillLines()
        return
    # Transient, because the final picture is printed with the figures.
    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        yield DrillPicture(live)


def _report(plan: DrillPlan, seen: Sequence[CallsByStep], *, elapsed: float, as_json: bool) -> None:
    one, other = (figures(plan, each) for each in seen)
    if as_json:
        print_json(_document(plan, seen, is_whole=elapsed >= plan.seconds))
        return
    lines = picture(plan, max(elapsed, plan.seconds), seen)
    if elapsed < plan.seconds:
        lines += ["", f"Ended after {elapsed:.0f} s of {plan.seconds:.0f} s: the figures are incomplete."]
    echo("\n".join(["", *lines, "", *table(one, other), "", *meaning(plan, one, other)]))


def _document(plan: DrillPlan, seen: Sequence[CallsByStep], *, is_whole: bool) -> dict[str, Any]:
    names = ("with_service", "backoff_alone")
    return {
        "seconds": plan.seconds,
        "step": plan.step,
        "outage": {"begins": plan.begins, "ends": plan.recovers},
        "capacity": plan.capacity,
        "load": plan.load,
        "is_whole": is_whole,
        **{name: figures(plan, each).as_json(each) for name, each in zip(names, seen, strict=True)},
    }
