"""`mulligan pause`, `resume` and `pauses`: queues, kinds, services, duties, schedules and intake."""

from datetime import datetime, timedelta
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    CliCommand,
    Group,
    SharedOptions,
    one_argument,
    pass_shared,
    signed,
    together,
)
from mulligan.cli.output import show, show_table, time_of
from mulligan.cli.parameters import duration, text
from mulligan.explain.words import at, quoted, relative
from mulligan.records.document import document_of
from mulligan.records.pause import EVERYTHING, Pause

# Options of both `pause` and `resume`.
TARGETS = {
    "queue": "The queue whose jobs are not claimed.",
    "kind": "The task whose jobs are not claimed.",
    "service": "The service; see: mulligan services",
    "duty": "The duty; see: mulligan duties",
    "schedule": "The schedule; see: mulligan schedules",
    "intake": "The task or queue that accepts no new jobs, or * for all.",
}
target_options = together(
    *(click.option(f"--{what}", metavar="NAME", type=text, help=about) for what, about in TARGETS.items())
)
for_length = click.option(
    "--for", "length", metavar="DURATION", type=duration, help="Resume automatically after this time, such as 30m."
)


def describe_pause(pause: Pause, now: datetime) -> str:
    """`paused until … by … because "…"`."""
    until = f" until {at(pause.until, now)}" if pause.until else " until it is resumed"
    by = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return f"paused{until}{by}{why}"


def _subject(what: str, name: str) -> str:
    if what != "intake":
        return name
    return "all intake" if name == EVERYTHING else f"intake of {name}"


def _pause(shared: SharedOptions, target: dict[str, str], length: timedelta | None, **sign: Any) -> None:
    with open_either(shared, watches=True) as app:
        made = app.pause(length, **target, **sign)
        now = time_of(app)
    show(shared, document_of(made), f"{_subject(made.what, made.name)} is {describe_pause(made, now)}.")


def _resume(shared: SharedOptions, target: dict[str, str], **sign: Any) -> None:
    with open_either(shared, watches=True) as app:
        ended = app.resume(**target, **sign)
    ((what, name),) = target.items()
    said = f"{_subject(what, name)} was not paused." if ended is None else f"{_subject(what, ended.name)} is resumed."
    show(shared, {"ended": ended and document_of(ended)}, said)


def add_pause_commands(group: Group, what: str, about: str) -> None:
    """Add `pause NAME` and `resume NAME` to the group of schedules or of duties."""

    @group.command("pause", help=about)
    @one_argument("name", "NAME")
    @for_length
    @signed()
    @pass_shared
    def pause(shared: SharedOptions, /, *, name: str, **options: Any) -> None:
        _pause(shared, {what: name}, **options)

    @group.command("resume", help="End a pause.")
    @one_argument("name", "NAME")
    @signed()
    @pass_shared
    def resume(shared: SharedOptions, /, *, name: str, **options: Any) -> None:
        _resume(shared, {what: name}, **options)


def _target(options: dict[str, Any]) -> dict[str, str]:
    """Take the target from the options."""
    names = {what: options.pop(what) for what in TARGETS}
    named = {what: name for what, name in names.items() if name is not None}
    if len(named) != 1:
        raise click.UsageError(f"Name exactly one: {' or '.join(f'--{what} NAME' for what in TARGETS)}.")
    return named


@click.command("pause", cls=CliCommand)
@target_options
@for_length
@signed()
@pass_shared
def pause(shared: SharedOptions, /, **options: Any) -> None:
    """Pause something in all workers.

    For a while, or until resumed. Running jobs go on.
    """
    _pause(shared, _target(options), **options)


@click.command("resume", cls=CliCommand)
@target_options
@signed()
@pass_shared
def resume(shared: SharedOptions, /, **options: Any) -> None:
    """End a pause."""
    _resume(shared, _target(options), **options)


@click.command("pauses", cls=CliCommand)
@pass_shared
def pauses(shared: SharedOptions) -> None:
    """List the pauses in force: by whom, why, until when."""
    with open_either(shared) as app:
        found = app.pauses()
        now = time_of(app)
    document = {"pauses": [document_of(pause) for pause in found]}
    rows = [(pause.what, pause.name, relative(pause.since, now), describe_pause(pause, now)) for pause in found]
    show_table(shared, document, ("What", "Name", "Since", "About"), rows, empty="Nothing is paused.")
