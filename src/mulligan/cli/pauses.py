"""`mulligan pause` and `resume`: hold back what can be paused on its own, a duty or a schedule, and let it go on."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.documents import document_of
from mulligan.cli.given import Command, Given, pass_given
from mulligan.cli.parameters import duration, login, text
from mulligan.cli.place import opened_for_watching
from mulligan.cli.screen import say, say_json
from mulligan.explain.words import at, quoted
from mulligan.safe import safe

if TYPE_CHECKING:
    from mulligan.pause import Pause

# Each is an option of both commands.
THINGS = {"duty": "duties", "schedule": "schedules"}
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
            made = app.console.pause(length, **{what: name}, actor=actor, reason=reason)
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
            ended = app.console.resume(**{what: name}, actor=actor, reason=reason)
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
    return [
        click.Option([f"--{what}"], metavar="NAME", type=text, help=f"The {what}; see: mulligan {command}")
        for what, command in THINGS.items()
    ]


pause = Command(
    "pause",
    callback=_of_the_one_named(pausing),
    params=[*_options(), LENGTH, *SIGNED],
    help="Hold a duty or a schedule back in all workers. For a while, or until it is resumed.",
)
resume = Command("resume", callback=_of_the_one_named(resuming), params=[*_options(), *SIGNED], help="End a pause.")
