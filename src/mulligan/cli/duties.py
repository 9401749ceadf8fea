"""`mulligan duties`: the upkeep that workers do; when it was done, run it now, pause it for a while."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from mulligan.cli.opening import opened_existing, opened_for_watching
from mulligan.cli.options import CliCommand, Given, Group, pass_given
from mulligan.cli.output import say, say_json, say_table
from mulligan.cli.parameters import text
from mulligan.cli.pauses import LENGTH, SIGNED, pausing, resuming, said
from mulligan.console.documents import document_of
from mulligan.explain.words import counted, relative
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe
from mulligan.values.text import safe

NAME = click.Argument(["name"], metavar="NAME", type=text)


@click.group("duties", cls=Group, invoke_without_command=True)
@click.pass_context
def duties(context: click.Context) -> None:
    """List the duties. When each was done last, with what result, and whether it is paused."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Given))


def _list(given: Given) -> None:
    with opened_existing(given) as app:
        found = app.duties()
        workers = {worker.incarnation: f"{worker.host}/{worker.pid}" for worker in app.workers()}
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
        return said(duty.paused, now)
    if duty.last and duty.last.actor:
        return f"by hand, {duty.last.actor}"
    by = f"; by {workers.get(duty.last.worker, duty.last.worker)}" if duty.last else ""
    return f"{duty.about}{by}"


@pass_given
def _run(given: Given, *, name: str, actor: str, reason: str | None) -> None:
    with opened_for_watching(given) as app:
        done = app.run_duty(name, actor=actor, reason=reason)
    if given.as_json:
        say_json(document_of(done))
    else:
        did = "deleted" if done.duty == "prune" else "moved"
        say(safe(f"{done.duty} was done here: {counted(done.did, 'job')} {did}."))


def _command(verb: str, callback: Any, params: Sequence[click.Parameter], about: str) -> click.Command:
    return CliCommand(verb, callback=callback, params=[*params, *SIGNED], help=about)


RUN = "Do a duty once, in this process, also while it is paused. With reclaim, stuck jobs are settled as timed out."
PAUSE = "Hold a duty back in all workers. For a while, or until it is resumed."
RESUME = "End a pause."

duties.add_command(_command("run", _run, [NAME], RUN))
duties.add_command(_command("pause", pausing("duty"), [NAME, LENGTH], PAUSE))
duties.add_command(_command("resume", resuming("duty"), [NAME], RESUME))
