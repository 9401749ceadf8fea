"""What the demo shows while it runs: a live picture in a terminal, one line a second elsewhere."""

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

from mulligan.cli.demo.faults import WORDS, Phase
from mulligan.cli.demo.incidents import Incident, Weight
from mulligan.lifecycle import State

ROWS = 8
# More new rows at once cannot be read; the others are only counted.
ROWS_AT_ONCE = 2
SAME_AGAIN = timedelta(seconds=1.5)
LONGEST_BAR = 78

# Shapes as well as colours, because some terminals and some people see no colours.
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
class Snapshot:
    """Everything that is shown at one moment."""

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
    incidents: list[Incident]


class View(Protocol):
    interval: float

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...

    def show(self, snapshot: Snapshot) -> None: ...


def choose_view() -> View:
    # The stream itself decides: with FORCE_COLOR, rich takes any output for a terminal.
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    return DemoPicture(Console()) if is_terminal else DemoLines()


class QuietDemo:
    """Shows nothing: a program reads only the summary."""

    interval = 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def show(self, snapshot: Snapshot) -> None:
        pass


class DemoPicture:
    """Redrawn in place, always with the same height, so that it does not jump."""

    interval = 0.5

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._rows: deque[Incident] = deque(maxlen=ROWS)
        self._last: dict[str, datetime] = {}

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, snapshot: Snapshot) -> None:
        self._rows.extend(most_notable(self._news(snapshot.incidents), ROWS_AT_ONCE))
        self._live.update(picture(snapshot, self._rows), refresh=True)

    def _news(self, incidents: Iterable[Incident]) -> list[Incident]:
        """The incidents that were not just shown."""
        news = []
        for incident in incidents:
            last = self._last.get(incident.what)
            if last is None or incident.at - last >= SAME_AGAIN or incident.weight >= Weight.FAILURE:
                self._last[incident.what] = incident.at
                news.append(incident)
        return news


class DemoLines:
    """One plain line a second, for logs."""

    interval = 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, snapshot: Snapshot) -> None:
        states = " ".join(f"{state} {snapshot.states.get(state, 0)}" for state in SHAPES)
        notable = "".join(f" · {incident}" for incident in most_notable(snapshot.incidents, 1))
        print(f"{snapshot.elapsed:4.0f}s gateway {snapshot.phase} · {states}{notable}", flush=True)


def most_notable(incidents: Iterable[Incident], limit: int) -> list[Incident]:
    """The most notable incidents, at most `limit`, in their order."""
    weightiest = sorted(incidents, key=lambda incident: -incident.weight)[:limit]
    return sorted(weightiest, key=lambda incident: incident.at)


def picture(snapshot: Snapshot, rows: Iterable[Incident]) -> Group:
    return Group(
        _title(snapshot),
        Text(),
        _facts(snapshot),
        Text(),
        _bar(snapshot.states),
        _legend(snapshot.states),
        Text(),
        Text("What happened", style="bold"),
        _table(snapshot, list(rows)),
    )


def _title(snapshot: Snapshot) -> Table:
    left = "" if snapshot.seconds is None else f" of {snapshot.seconds:.0f} s"
    line = Table.grid(expand=True)
    line.add_column()
    line.add_column(justify="right")
    line.add_row(
        Text("mulligan demo", style="bold"),
        Text(f"{snapshot.elapsed:.0f} s{left} · Ctrl-C stops it with a summary", style="dim"),
    )
    return line


def _facts(snapshot: Snapshot) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(no_wrap=True)
    gateway = Text.assemble(
        ("● ", COLOURS.get(snapshot.phase, "yellow")),
        (WORDS[snapshot.phase], "bold"),
        (f" · {snapshot.calls} calls", "dim"),
    )
    lost = f" · {snapshot.killed} killed and replaced, {snapshot.taken_back} jobs taken back"
    grid.add_row("Gateway", gateway)
    grid.add_row("Workers", f"{snapshot.workers} running{lost if snapshot.killed else ''}")
    grid.add_row(
        "Jobs", f"{snapshot.accepted} accepted · {snapshot.retries} retries · {snapshot.waits} rate limit waits"
    )
    return grid


def _bar(states: Mapping[str, int]) -> Text:
    bar = Text(no_wrap=True, overflow="crop")
    for state, cells in lengths(states, LONGEST_BAR).items():
        shape, colour = SHAPES[state]
        bar.append(shape * cells, colour)
    return bar


def lengths(states: Mapping[str, int], width: int) -> dict[State, int]:
    """The cells of each state in proportion to its jobs, but at least one if it has any."""
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


def _table(snapshot: Snapshot, rows: list[Incident]) -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", justify="right", min_width=3, no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for incident in rows:
        table.add_row(_seconds(incident.at - snapshot.began_at), _row(incident))
    for _ in range(ROWS - len(rows)):
        table.add_row()
    return table


def _row(incident: Incident) -> Text:
    # Shortened to fit: the colour shows that it failed.
    what = incident.what.removeprefix("failed with ").removeprefix("met ")
    return Text.assemble(incident.subject, " ", (what, STYLES[incident.weight]), f": {incident.decided}")


def _seconds(since: timedelta) -> str:
    return f"{max(0.0, since.total_seconds()):.0f}s"
