"""Output: tables for people, JSON for programs. A closed pipe is not an error."""

import json
import os
import select
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.app import App
from mulligan.cli.options import SharedOptions
from mulligan.explain.words import at
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe
from mulligan.values.text import safe

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

# A pipe has no width, and a program reads line by line.
PIPE_WIDTH = 1_000
# The space between columns, and the smallest readable width of a long last column.
GAP, FOLDED = 2, 20
# Notifications may be lost: read again after this many seconds.
LOOK_AGAIN = 1.0


def echo(text: str = "", *, end: str = "\n") -> None:
    try:
        click.echo(text + end, nl=False)
    except BrokenPipeError:
        # At exit, the interpreter must not flush into the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise click.exceptions.Exit(0) from None


def print_json(document: Any) -> None:
    """Indented for people. Plain ASCII, so that no control sequence reaches the terminal."""
    echo(json.dumps(document, indent=2))


def print_json_line(document: Any) -> None:
    echo(json.dumps(document))


def show(shared: SharedOptions, document: Any, *sentences: str) -> None:
    """Print the document for programs, the sentences for people."""
    if shared.as_json:
        print_json(document)
        return
    for sentence in sentences:
        echo(safe(sentence))


def show_table(
    shared: SharedOptions, document: Any, headings: Sequence[str], rows: Sequence[Sequence[str]], *, empty: str
) -> None:
    """Print the document for programs; the table for people, or a sentence if it is empty."""
    if rows and not shared.as_json:
        print_table(headings, rows)
    else:
        show(shared, document, empty)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows of short cells. The last cell may be long: it is folded, or gets its own line if there is no room."""
    shown = [[safe(cell) for cell in row] for row in rows]
    needed = sum(max(map(len, column)) + GAP for column in list(zip(headings, *shown, strict=True))[:-1])
    if needed + FOLDED > _console().width:
        _print_stacked(shown)
        return
    table = _table(show_header=True)
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold")
    for row in shown:
        table.add_row(*row)
    _print(table)


def _print_stacked(rows: Iterable[Sequence[str]]) -> None:
    for *cells, last in rows:
        echo("  ".join(cell for cell in cells if cell))
        if last:
            echo(f"    {last}")


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair a line."""
    table = _table(show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in pairs:
        table.add_row(name, value)
    _print(table)


def print_fields(fields: Mapping[str, Any], now: datetime) -> None:
    """Print the fields of a record that have a value."""
    print_pairs((name, _value(value, now)) for name, value in fields.items() if value not in (None, "", (), {}))


def _value(value: Any, now: datetime) -> str:
    match value:
        case datetime():
            return at(value, now)
        case timedelta():
            return describe(value)
        case tuple():
            return safe(", ".join(value))
        case Mapping():
            return safe(", ".join(f"{name} {one}" for name, one in value.items()))
        case _:
            return safe(value)


def print_heading(text: str) -> None:
    echo()
    echo(click.style(text, bold=True))


def watch(app: Any) -> Generator[None, None, None]:
    """Yield at once and after each change in the store, as long as stdout has a reader. A server is asked again and
    again."""
    if not isinstance(app, App):
        while _has_reader():
            yield
            time.sleep(LOOK_AGAIN)
        return
    changes = app.store.changes()
    try:
        while _has_reader():
            yield
            changes.wait(LOOK_AGAIN)
    finally:
        changes.close()


def time_of(app: Any) -> datetime:
    """The time of the store, or of this machine if a server is used."""
    return app.store.now() if isinstance(app, App) else SystemClock().now()


def _has_reader() -> bool:
    """Whether stdout still has a reader. Without one, a command that waits for changes would wait forever."""
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
    echo("\n".join(line.rstrip() for line in lines))
