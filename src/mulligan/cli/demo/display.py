"""What is shown during a demo: a picture redrawn in place, one line a second in a log, nothing for a program."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

from rich.console import Console, RenderableType
from rich.live import Live

from mulligan.cli.output import echo

Snapshot = TypeVar("Snapshot")


class Display(Generic[Snapshot]):
    def __init__(self, interval: float, show: Callable[[Snapshot], None]) -> None:
        self._interval = interval
        self._show = show
        self._next = 0.0

    def update(self, elapsed: float, snapshot: Callable[[], Snapshot]) -> None:
        """Show a new snapshot, unless the last one is still fresh."""
        if elapsed >= self._next:
            self._next = elapsed + self._interval
            self._show(snapshot())


@contextmanager
def open_display(
    picture: Callable[[Snapshot], RenderableType],
    line: Callable[[Snapshot], str],
    *,
    as_json: bool,
    transient: bool = False,
) -> Iterator[Display[Snapshot]]:
    if as_json:
        yield Display(1.0, lambda _: None)
    # The stream itself decides: with FORCE_COLOR, rich takes any output for a terminal.
    elif not sys.stdout.isatty() or os.environ.get("TERM") == "dumb":
        yield Display(1.0, lambda snapshot: echo(line(snapshot)))
    else:
        with Live(console=Console(highlight=False), auto_refresh=False, transient=transient) as live:
            yield Display(0.5, lambda snapshot: live.update(picture(snapshot), refresh=True))
