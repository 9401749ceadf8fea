"""`mulligan pause`, `resume` and `pauses`: hold back a queue, a kind, a service, a duty or a schedule; let it go on."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import opened_existing, opened_for_watching
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json, say_table
from mulligan.cli.parameters import duration, login, text
from mulligan.console.documents import document_of
from mulligan.explain.words import at, quoted, relative
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.records.pause import Pause

# Each is an option of both commands.
THINGS = {
    "queue": "The queue whose jobs are held back.",
    "kind": "The task whose jobs are held back.",
    "service": "The service; see: mulligan services",
    "duty": "The duty; see: mulligan duties",
    "schedule": "The schedule; see: mulligan schedules",
}
LENGTH = click.Option(
    ["--for", "length"], metavar="DURATION", type=duration, help="Resume by itself after that long, such as 30m."
)
SIGNED: list[click.Parameter] = [
    click.Option(["--reason"], type=text, help="Why; kept in the log."),
    click.Option(["--actor"], type=text, default=login, help="Who; kept too.  [default: your login name]"),
]


def said(pause: "Pause", now: datetime) -> str:
    """`paused until … by … because "…"`."""
    until = f" until {at(pause.until, now)}" if pause.until else " until it is resumed"
    who = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return f"paused{until}{who}{why}"


def pausing(what: str) -> Callable[..., None]:
    """What a command does that pauses one of these by its name."""

    @pass_given
    def pause(given: Given, *, name: str, length: timedelta | None, actor: str, reason: str | None) -> None:
        with opened_for_watching(given) as app:
            made = app.pause(length, **{what: name}, actor=actor, reason=reason)
            now = app.store.now()
        if given.as_json:
            say_json(document_of(made))
        else:
            say(safe(f"{made.name} is {said(made, now)}."))

    return pause


def resuming(what: str) -> Callable[..., None]:
    @pass_given
    def resume(given: Given, *, name: str, actor: str, reason: str | None) -> None:
        with opened_for_watching(given) as app:
            ended = app.resume(**{what: name}, actor=actor, reason=reason)
        if given.as_json:
            say_json({"ended": None if ended is None else document_of(ended)})
        elif ended is None:
            say(safe(f"{name} was not paused."))
        else:
            say(safe(f"{ended.name} goes on."))

    return resume


def _of_the_one_named(does: Callable[[str], Callable[..., None]]) -> Callable[..., None]:
    def call(**given: Any) -> None:
        names = {what: given.pop(what) for what in THINGS}
        named = [(what, name) for what, name in names.items() if name is not None]
        if len(named) != 1:
            raise click.UsageError(f"Name one thing: {' or '.join(f'--{what} NAME' for what in THINGS)}.")
        ((what, name),) = named
        does(what)(name=name, **given)

    return call


def _options() -> list[click.Parameter]:
    return [click.Option([f"--{what}"], metavar="NAME", type=text, help=about) for what, about in THINGS.items()]


pause = CliCommand(
    "pause",
    callback=_of_the_one_named(pausing),
    params=[*_options(), LENGTH, *SIGNED],
    help="Hold something back in all workers.\n\nFor a while, or until it is resumed. What runs goes on.",
)
resume = CliCommand("resume", callback=_of_the_one_named(resuming), params=[*_options(), *SIGNED], help="End a pause.")


@click.command("pauses", cls=CliCommand)
@pass_given
def pauses(given: Given) -> None:
    """List what is paused now: by whom, why, until when."""
    with opened_existing(given) as app:
        found = app.pauses()
        now = app.store.now()
    if given.as_json:
        say_json({"pauses": [document_of(pause) for pause in found]})
    elif not found:
        say("Nothing is paused.")
    else:
        rows = [(pause.what, pause.name, relative(pause.since, now), said(pause, now)) for pause in found]
        say_table(("What", "Name", "Since", "About"), rows)
