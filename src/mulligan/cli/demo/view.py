"""The picture of the demo, and its lines for a log."""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Group
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


def line(snapshot: Snapshot) -> str:
    """One plain line for a log."""
    states = " ".join(f"{state} {snapshot.states.get(state, 0)}" for state in SHAPES)
    notable = "".join(f" · {incident}" for incident in most_notable(snapshot.incidents, 1))
    return f"{snapshot.elapsed:4.0f}s gateway {snapshot.phase} · {states}{notable}"


def most_notable(incidents: Iterable[Incident], limit: int) -> list[Incident]:
    """The most notable incidents, at most `limit`, in their order."""
    weightiest = sorted(incidents, key=lambda incident: -incident.weight)[:limit]
    return sorted(weightiest, key=lambda incident: incident.at)


class DemoPicture:
    """Draws snapshots, and keeps the newest incidents of the previous ones."""

    def __init__(self) -> None:
        self._rows: deque[Incident] = deque(maxlen=ROWS)
        self._last: dict[str, datetime] = {}

    def draw(self, snapshot: Snapshot) -> Group:
        self._rows.extend(most_notable(self._news(snapshot.incidents), ROWS_AT_ONCE))
        return picture(snapshot, self._rows)

    def _news(self, incidents: Iterable[Incident]) -> Iterator[Incident]:
        """The incidents that were not just shown."""
        for incident in incidents:
            last = self._last.get(incident.what)
            if last is None or incident.at - last >= SAME_AGAIN or incident.weight >= Weight.FAILURE:
                self._last[incident.what] = incident.at
                yield incident


def picture(snapshot: Snapshot, rows: Iterable[Incident]) -> Group:
    """Always of the same height, so that it does not jump."""
    shown = [_row(incident, snapshot.began_at) for incident in rows]
    empty = [Text()] * (ROWS - len(shown))
    happened = Text("What happened", style="bold")
    return Group(*_facts(snapshot), Text(), *_bar(snapshot.states), Text(), happened, *shown, *empty)


def _facts(snapshot: Snapshot) -> Iterator[Text]:
    of = "" if snapshot.seconds is None else f" of {snapshot.seconds:.0f} s"
    lost = f" · {snapshot.killed} killed and replaced, {snapshot.taken_back} jobs taken back"
    jobs = f"{snapshot.accepted} accepted · {snapshot.retries} retries · {snapshot.waits} rate limit waits"
    yield _line(("mulligan demo", "bold"), (f" · {snapshot.elapsed:.0f} s{of} · Ctrl-C stops it with a summary", "dim"))
    yield Text()
    yield _line(
        ("Gateway  ", "dim"),
        ("● ", COLOURS.get(snapshot.phase, "yellow")),
        (WORDS[snapshot.phase], "bold"),
        (f" · {snapshot.calls} calls", "dim"),
    )
    yield _line(("Workers  ", "dim"), f"{snapshot.workers} running{lost if snapshot.killed else ''}")
    yield _line(("Jobs     ", "dim"), jobs)


def _bar(states: Mapping[str, int]) -> tuple[Text, Text]:
    """A bar of the states, and its legend."""
    cells = lengths(states, LONGEST_BAR)
    bar, legend = Text(no_wrap=True, overflow="crop"), Text(no_wrap=True)
    for state, (shape, colour) in SHAPES.items():
        bar.append(shape * cells.get(state, 0), colour)
        legend.append(f"{shape} ", colour).append(f"{state} {states.get(state, 0):<5}")
    return bar, legend


def lengths(states: Mapping[str, int], width: int) -> dict[State, int]:
    """The cells of each state in proportion to its jobs, but at least one if it has any."""
    total = sum(states.get(state, 0) for state in SHAPES)
    cells = {state: max(1, states[state] * width // total) for state in SHAPES if states.get(state)}
    if cells:
        longest = max(cells, key=lambda state: cells[state])
        cells[longest] += width - sum(cells.values())
    return cells


def _row(incident: Incident, began_at: datetime) -> Text:
    seconds = max(0.0, (incident.at - began_at).total_seconds())
    # Shortened to fit: the colour shows that it failed.
    what = incident.what.removeprefix("failed with ").removeprefix("met ")
    return _line(
        (f"{f'{seconds:.0f}s':>3} ", "dim"),
        f"{incident.subject} ",
        (what, STYLES[incident.weight]),
        f": {incident.decided}",
    )


def _line(*parts: str | tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
