"""The progress of a redrive: a bar in a terminal, a line for each change elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

from mulligan.app import App
from mulligan.cli.output import echo, print_json_line, watch
from mulligan.records.redrive import Redrive
from mulligan.values.text import safe

DONE = {"retry": "retried", "cancel": "cancelled", "snooze": "snoozed", "run_now": "run", "forget": "cancelled"}


def follow(app: App, redrive_id: str, *, as_json: bool, document: Callable[[Redrive], dict[str, Any]]) -> bool:
    """Show a redrive until it is over, or Ctrl-C; False if it was stopped or cancelled."""
    found = app.redrive_status(redrive_id)
    try:
        if as_json:
            for found in _changes(app, redrive_id):
                print_json_line(document(found))
        elif sys.stdout.isatty():
            found = _with_bar(_changes(app, redrive_id), found)
        else:
            for found in _changes(app, redrive_id):
                echo(safe(line(found)))
    except KeyboardInterrupt:
        echo()
        echo(safe(f"The redrive goes on. See it again with: mulligan redrive show {redrive_id} --follow"))
        return True
    return str(found.state) not in ("stopped", "cancelled")


def _changes(app: App, redrive_id: str) -> Iterator[Redrive]:
    """The redrive after each visible change, until it is over."""
    shown = ""
    with closing(watch(app)) as changes:
        for _ in changes:
            found = app.redrive_status(redrive_id)
            if line(found) != shown:
                shown = line(found)
                yield found
            if found.state.is_over:
                return


def line(found: Redrive) -> str:
    """The state of a redrive in one line."""
    skipped = sum(found.skipped.values())
    parts = [
        f"{found.retried:,} of {found.matched:,} {DONE[found.verb]}",
        f"{found.purged:,} deleted" if found.purged else "",
        f"{skipped:,} skipped" if skipped else "",
        f"{found.succeeded:,} succeeded" if found.succeeded else "",
        f"{found.bad:,} did not" if found.bad else "",
        found.because or "",
    ]
    return f"{found.state}: {', '.join(filter(None, parts))}"


def _with_bar(changes: Iterator[Redrive], found: Redrive) -> Redrive:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns) as progress:
        task = progress.add_task(safe(line(found)), total=max(1, found.matched))
        for one in changes:
            found = one
            progress.update(task, completed=found.looked_at, description=safe(line(found)))
    return found
