"""What is printed: tables for people, JSON for programs. A reader who has left is no error."""

import json
import os
import select
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from mulligan.values.text import safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# Wide enough for what a program reads line by line: a pipe has no edge.
PIPE_WIDTH = 1_000
# Between columns, and the least width in which a long last one can be read.
GAP, FOLDED = 2, 20


def say(text: str = "", *, end: str = "\n") -> None:
    try:
        click.echo(text + end, nl=False)
    except BrokenPipeError:
        # Nothing is left to be flushed into the closed pipe when the interpreter ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


def say_json(document: Any) -> None:
    """Indented for a look at it; plain ASCII, so that nothing in it can steer a terminal."""
    say(json.dumps(document, indent=2))


def say_json_line(document: Any) -> None:
    say(json.dumps(document))


def say_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows of short cells; the last may be long and is folded. Where they don't fit, it gets a line of its own."""
    shown = [[safe(cell) for cell in row] for row in rows]
    needed = sum(max(map(len, column)) + GAP for column in list(zip(headings, *shown, strict=True))[:-1])
    if needed + FOLDED > _console().width:
        _say_stacked(shown)
        return
    table = _table(show_header=True)
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold")
    for row in shown:
        table.add_row(*row)
    _print(table)


def _say_stacked(rows: Iterable[Sequence[str]]) -> None:
    for *cells, last in rows:
        say("  ".join(cell for cell in cells if cell))
        if last:
            say(f"    {last}")


def say_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and their values, one below the other."""
    table = _table(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, value)
    _print(table)


def say_heading(text: str) -> None:
    say()
    say(click.style(text, bold=True))


def has_reader() -> bool:
    """Whether somebody still reads stdout; else a command that only waits would wait for ever."""
    try:
        poller = select.poll()
        poller.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):
        return True
    return not poller.poll(0)


def _table(*, show_header: bool) -> "Table":
    from rich.table import Table

    return Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), show_header=show_header, header_style="bold")


def _console() -> "Console":
    from rich.console import Console

    has_edge = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(markup=False, emoji=False, highlight=False, width=None if has_edge else PIPE_WIDTH)


def _print(table: "Table") -> None:
    console = _console()
    with console.capture() as captured:
        console.print(table)
    lines = captured.get().rstrip("\n").split("\n")
    say("\n".join(line.rstrip() for line in lines))
