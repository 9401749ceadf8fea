"""What the demo shows while it runs: a calm picture on a terminal, a line a second elsewhere."""

import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mulligan.cli.demo.story import Happening, Weight
from mulligan.cli.demo.weather import WORDS, Phase
from mulligan.lifecycle import State

ROWS = 8
# More new rows at once and nobody can read them; the rest is counted, not shown.
ROWS_AT_ONCE = 2
SAME_AGAIN = timedelta(seconds=1.5)
LONGEST_BAR = 78

# Shapes as well as colours: some terminals, and some people, see no colours.
SHAPES = {
    State.SUCCEEDED: ("█", "green"),
    State.RUNNING: ("▓", "blue"),
    State.QUEUED: ("▒", "cyan"),
    State.WAITING: ("░", "yellow"),
    State.FAILED: ("▚", "red"),
}
COLOURS = {Phase.HEALTHY: "green", Phase.DOWN: "red"}
STYLES = {
    Weight.USUAL: "bold",
    Weight.RECOVERY: "green",
    Weight.RETRY: "yellow",
    Weight.WAIT: "yellow",
    Weight.FAILURE: "red",
    Weight.LOSS: "magenta",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that is shown at one moment."""

    elapsed: float
    seconds: float | None
    began_at: datetime
    phase: Phase
    calls: int
    workers: int
    killed: int
    taken_back: int
    states: Mapping[str, int]
    accepted: int
    retries: int
    waits: int
    happenings: list[Happening]


class View(Protocol):
    interval: float

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def show(self, scene: Scene) -> None: ...


def fitting_view() -> View:
    # Asked of the stream itself: FORCE_COLOR in a CI makes a terminal of nothing.
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return DemoPicture(Console()) if is_terminal else DemoLines()


class QuietDemo:
    """For a program, which only wants to know how it ended."""

    interval = 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def show(self, scene: Scene) -> None:
        pass


class DemoPicture:
    """Redrawn in place; of the same height from the first moment on, so that nothing jumps."""

    interval = 0.5

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._rows: deque[Happening] = deque(maxlen=ROWS)
        self._last: dict[str, datetime] = {}

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, scene: Scene) -> None:
        self._rows.extend(most_notable(self._news(scene.happenings), ROWS_AT_ONCE))
        self._live.update(picture(scene, self._rows), refresh=True)

    def _news(self, happenings: Iterable[Happening]) -> list[Happening]:
        """Without those that only say again what was just said."""
        news = []
        for happening in happenings:
            last = self._last.get(happening.what)
            if last is None or happening.at - last >= SAME_AGAIN or happening.weight >= Weight.FAILURE:
                self._last[happening.what] = happening.at
                news.append(happening)
        return news


class DemoLines:
    """One plain line a second: for logs."""

    interval = 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, scene: Scene) -> None:
        states = " ".join(f"{state} {scene.states.get(state, 0)}" for state in SHAPES)
        told = "".join(f" · {happening}" for happening in most_notable(scene.happenings, 1))
        print(f"{scene.elapsed:4.0f}s gateway {scene.phase} · {states}{told}", flush=True)


def most_notable(happenings: Iterable[Happening], limit: int) -> list[Happening]:
    """At most so many, the weightiest, in the order in which they happened."""
    weightiest = sorted(happenings, key=lambda happening: -happening.weight)[:limit]
    return sorted(weightiest, key=lambda happening: happening.at)


def picture(scene: Scene, rows: Iterable[Happening]) -> Group:
    return Group(
        _title(scene),
        Text(),
        _facts(scene),
        Text(),
        _bar(scene.states),
        _legend(scene.states),
        Text(),
        Text("What happened", style="bold"),
        _table(scene, list(rows)),
    )


def _title(scene: Scene) -> Table:
    left = "" if scene.seconds is None else f" of {scene.seconds:.0f} s"
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(
        Text("mulligan demo", style="bold"),
        Text(f"{scene.elapsed:.0f} s{left} · Ctrl-C ends it with a summary", style="dim"),
    )
    return line


def _facts(scene: Scene) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(no_wrap=True)
    gateway = Text.assemble(
        ("● ", COLOURS.get(scene.phase, "yellow")), (WORDS[scene.phase], "bold"), (f" · {scene.calls} calls", "dim")
    )
    killed = f" · {scene.killed} killed and replaced, {scene.taken_back} jobs taken back" if scene.killed else ""
    grid.add_row("Gateway", gateway)
    grid.add_row("Workers", f"{scene.workers} at work{killed}")
    grid.add_row("Jobs", f"{scene.accepted} accepted · {scene.retries} retries · {scene.waits} rate limit waits")
    return grid


def _bar(states: Mapping[str, int]) -> Text:
    bar = Text(no_wrap=True, overflow="crop")
    for state, cells in lengths(states, LONGEST_BAR).items():
        shape, colour = SHAPES[state]
        bar.append(shape * cells, colour)
    return bar


def lengths(states: Mapping[str, int], width: int) -> dict[State, int]:
    """The cells of each state: its share, but at least one if there is anything to see."""
    total = sum(states.get(state, 0) for state in SHAPES)
    cells = {state: max(1, states[state] * width // total) for state in SHAPES if states.get(state)}
    if cells:
        longest = max(cells, key=lambda state: cells[state])
        cells[longest] += width - sum(cells.values())
    return cells


def _legend(states: Mapping[str, int]) -> Text:
    legend = Text(no_wrap=True)
    for state, (shape, colour) in SHAPES.items():
        legend.append(f"{shape} ", colour).append(f"{state} {states.get(state, 0):<5}")
    return legend


def _table(scene: Scene, rows: list[Happening]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", justify="right", min_width=3, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for happening in rows:
        table.add_row(_seconds(happening.at - scene.began_at), _row(happening))
    for _ in range(ROWS - len(rows)):
        table.add_row()
    return table


def _row(happening: Happening) -> Text:
    # Short, to fit: the colour says that it failed.
    what = happening.what.removeprefix("failed with ").removeprefix("met ")
    return Text.assemble(happening.who, " ", (what, STYLES[happening.weight]), f": {happening.decided}")


def _seconds(since: timedelta) -> str:
    return f"{max(0.0, since.total_seconds()):.0f}s"
