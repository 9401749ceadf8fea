"""`mulligan pause`, `resume` and `pauses`: queues, kinds, services, duties and schedules."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import open_existing, open_for_watching
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import duration, login, text
from mulligan.console.documents import document_of
from mulligan.explain.words import at, quoted, relative
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.records.pause import Pause

# Options of both `pause` and `resume`.
TARGETS = {
    "queue": "The queue whose jobs are not claimed.",
    "kind": "The task whose jobs are not claimed.",
    "service": "The service; see: mulligan services",
    "duty": "The duty; see: mulligan duties",
    "schedule": "The schedule; see: mulligan schedules",
}
LENGTH = click.Option(
    ["--for", "length"], metavar="DURATION", type=duration, help="Resume automatically after this time, such as 30m."
)
SIGNED: list[click.Parameter] = [
    click.Option(["--reason"], type=text, help="Why; stored in the log."),
    click.Option(["--actor"], type=text, default=login, help="Who; stored too.  [default: your login name]"),
]


def describe_pause(pause: "Pause", now: datetime) -> str:
    """`paused until … by … because "…"`."""
    until = f" until {at(pause.until, now)}" if pause.until else " until it is resumed"
    by = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return f"paused{until}{by}{why}"


def pause_command(what: str) -> Callable[..., None]:
    """The callback of a command that pauses one queue, kind, service, duty or schedule by name."""

    @pass_shared
    def pause(shared: SharedOptions, *, name: str, length: timedelta | None, actor: str, reason: str | None) -> None:
        with open_for_watching(shared) as app:
            made = app.pause(length, **{what: name}, actor=actor, reason=reason)
            now = app.store.now()
        if shared.as_json:
            print_json(document_of(made))
        else:
            echo(safe(f"{made.name} is {describe_pause(made, now)}."))

    return pause


def resume_command(what: str) -> Callable[..., None]:
    @pass_shared
    def resume(shared: SharedOptions, *, name: str, actor: str, reason: str | None) -> None:
        with open_for_watching(shared) as app:
            ended = app.resume(**{what: name}, actor=actor, reason=reason)
        if shared.as_json:
            print_json({"ended": None if ended is None else document_of(ended)})
        elif ended is None:
            echo(safe(f"{name} was not paused."))
        else:
            echo(safe(f"{ended.name} is resumed."))

    return resume


def _for_one_target(command: Callable[[str], Callable[..., None]]) -> Callable[..., None]:
    def call(**options: Any) -> None:
        names = {what: options.pop(what) for what in TARGETS}
        named = [(what, name) for what, name in names.items() if name is not None]
        if len(named) != 1:
            raise click.UsageError(f"Name exactly one: {' or '.join(f'--{what} NAME' for what in TARGETS)}.")
        ((what, name),) = named
        command(what)(name=name, **options)

    return call


def _options() -> list[click.Parameter]:
    return [click.Option([f"--{what}"], metavar="NAME", type=text, help=about) for what, about in TARGETS.items()]


pause = CliCommand(
    "pause",
    callback=_for_one_target(pause_command),
    params=[*_options(), LENGTH, *SIGNED],
    help="Pause something in all workers.\n\nFor a while, or until resumed. Running jobs go on.",
)
resume = CliCommand(
    "resume", callback=_for_one_target(resume_command), params=[*_options(), *SIGNED], help="End a pause."
)


@click.command("pauses", cls=CliCommand)
@pass_shared
def pauses(shared: SharedOptions) -> None:
    """List the pauses in force: by whom, why, until when."""
    with open_existing(shared) as app:
        found = app.pauses()
        now = app.store.now()
    if shared.as_json:
        print_json({"pauses": [document_of(pause) for pause in found]})
    elif not found:
        echo("Nothing is paused.")
    else:
        rows = [(pause.what, pause.name, relative(pause.since, now), describe_pause(pause, now)) for pause in found]
        print_table(("What", "Name", "Since", "About"), rows)
