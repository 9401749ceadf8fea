"""`mulligan duties`: the upkeep that workers do; when it was done, run it now, pause it for a while."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.documents import document_of
from mulligan.cli.given import Command, Given, Group, pass_given
from mulligan.cli.parameters import duration, login, text
from mulligan.cli.place import opened_existing, opened_for_watching
from mulligan.cli.safe import safe
from mulligan.cli.screen import say, say_json, say_table
from mulligan.clock import SystemClock
from mulligan.duration import describe
from mulligan.explain.words import at, counted, quoted, relative

if TYPE_CHECKING:
    from mulligan.pause import Pause

NAME = click.Argument(["name"], metavar="NAME", type=text)
# What can be paused on its own; each is an option of `mulligan pause` and `mulligan resume`.
DUTY = click.Option(["--duty", "name"], metavar="NAME", type=text, required=True, help="The duty; see: mulligan duties")
LENGTH = click.Option(
    ["--for", "length"], metavar="DURATION", type=duration, help="Resume by itself after that long, such as 30m."
)
SIGNED: list[click.Parameter] = [
    click.Option(["--reason"], type=text, help="Why; kept in the log."),
    click.Option(["--actor"], type=text, default=login, help="Who; kept too.  [default: your login name]"),
]


@click.group("duties", cls=Group, invoke_without_command=True)
@click.pass_context
def duties(context: click.Context) -> None:
    """List the duties: when each was done last, with what result, and whether it is paused."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Given))


def _list(given: Given) -> None:
    with opened_existing(given) as app:
        found = app.console.duties()
        workers = {worker.incarnation: f"{worker.host}/{worker.pid}" for worker in app.console.workers()}
    now = SystemClock().now()
    if given.as_json:
        say_json({"duties": [_document(duty) for duty in found]})
        return
    say_table(("Duty", "Every", "Limit", "Last", "Did", "Next", "About"), [_row(duty, workers, now) for duty in found])
    if not any(duty.workers for duty in found):
        say("\nNo worker does them now. Start one with: mulligan worker MODULE:APP")


def _document(duty: Any) -> dict[str, Any]:
    parts = {"last": duty.last, "paused": duty.paused}
    return document_of(duty) | {name: part and document_of(part) for name, part in parts.items()}


def _row(duty: Any, workers: dict[str, str], now: datetime) -> tuple[str, ...]:
    last = duty.last
    return (
        duty.name,
        describe(duty.interval),
        str(duty.limit),
        relative(last.at, now) if last else "never",
        f"{last.did} in {describe(timedelta(seconds=round(last.seconds, 3)))}" if last else "",
        "paused" if duty.paused else relative(duty.next, now) if duty.next else "",
        _about(duty, workers, now),
    )


def _about(duty: Any, workers: dict[str, str], now: datetime) -> str:
    if duty.paused:
        return _said(duty.paused, now)
    if duty.last and duty.last.actor:
        return f"by hand, {duty.last.actor}"
    by = f"; by {workers.get(duty.last.worker, duty.last.worker)}" if duty.last else ""
    return f"{duty.about}{by}"


def _said(pause: "Pause", now: datetime) -> str:
    """`paused until … by … because "…"`."""
    until = f" until {at(pause.until, now)}" if pause.until else " until it is resumed"
    who = f" by {pause.actor}" if pause.actor else ""
    why = f" because {quoted(pause.reason)}" if pause.reason else ""
    return f"paused{until}{who}{why}"


@pass_given
def _run(given: Given, *, name: str, actor: str, reason: str | None) -> None:
    with opened_for_watching(given) as app:
        done = app.console.run_duty(name, actor=actor, reason=reason)
    if given.as_json:
        say_json(document_of(done))
    else:
        say(safe(f"{done.duty} was done here: {counted(done.did, 'job')} moved."))


@pass_given
def _pause(given: Given, *, name: str, length: timedelta | None, actor: str, reason: str | None) -> None:
    with opened_for_watching(given) as app:
        pause = app.pause(length, duty=name, actor=actor, reason=reason)
        now = app.store.now()
    if given.as_json:
        say_json(document_of(pause))
    else:
        say(safe(f"{pause.name} is {_said(pause, now)}."))


@pass_given
def _resume(given: Given, *, name: str, actor: str, reason: str | None) -> None:
    with opened_for_watching(given) as app:
        ended = app.resume(duty=name, actor=actor, reason=reason)
    if given.as_json:
        say_json({"ended": None if ended is None else document_of(ended)})
    elif ended is None:
        say(safe(f"{name} was not paused."))
    else:
        say(f"{ended.name} goes on.")


def _command(verb: str, callback: Any, params: Sequence[click.Parameter], about: str) -> click.Command:
    return Command(verb, callback=callback, params=[*params, *SIGNED], help=about)


RUN = "Do a duty once, in this process, also while it is paused. With reclaim, stuck jobs are settled as timed out."
PAUSE = "Hold a duty back in all workers, for a while or until it is resumed."
RESUME = "End a pause."

duties.add_command(_command("run", _run, [NAME], RUN))
duties.add_command(_command("pause", _pause, [NAME, LENGTH], PAUSE))
duties.add_command(_command("resume", _resume, [NAME], RESUME))

pause = _command("pause", _pause, [DUTY, LENGTH], PAUSE)
resume = _command("resume", _resume, [DUTY], RESUME)
