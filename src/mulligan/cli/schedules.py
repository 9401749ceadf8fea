"""`mulligan schedules`: what runs by the clock; when it ran last and runs next; pause it, run it now."""

from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import opened_existing, opened_for_watching
from mulligan.cli.options import CliCommand, Given, Group, pass_given
from mulligan.cli.output import say, say_json, say_table
from mulligan.cli.parameters import text
from mulligan.cli.pauses import LENGTH, SIGNED, pausing, resuming, said
from mulligan.console.documents import document_of, job_document
from mulligan.explain.words import at, relative
from mulligan.values.text import safe

NAME = click.Argument(["name"], metavar="NAME", type=text)


@click.group("schedules", cls=Group, invoke_without_command=True)
@click.pass_context
def schedules(context: click.Context) -> None:
    """List the schedules. Their next ticks, their last run, and whether they are paused."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(Given))


def _list(given: Given) -> None:
    with opened_existing(given) as app:
        found = app.schedules()
        held = next((duty.paused for duty in app.duties() if duty.name == "schedule"), None)
        now = app.store.now()
    if given.as_json:
        say_json({"schedules": [_document(schedule) for schedule in found]})
    elif not found:
        say("There are no schedules. Put @app.cron above @app.task, and start a worker: mulligan worker MODULE:APP")
    else:
        headings = ("Schedule", "Task", "Expression", "Zone", "Last", "Next", "About")
        say_table(headings, [_row(schedule, now) for schedule in found])
        if held:
            say()
            say(safe(f"None of them runs: the duty 'schedule' is {said(held, now)}."))


def _document(schedule: Any) -> dict[str, Any]:
    return document_of(schedule) | {"paused": schedule.paused and document_of(schedule.paused)}


def _row(schedule: Any, now: datetime) -> tuple[str, ...]:
    state = f" {schedule.last_state}" if schedule.last_state else ""
    return (
        schedule.name,
        schedule.kind,
        schedule.expression,
        schedule.timezone,
        f"{relative(schedule.last_tick, now)}{state}" if schedule.last_tick else state.strip() or "never",
        ", ".join(relative(tick, now) for tick in schedule.next),
        _about(schedule, now),
    )


def _about(schedule: Any, now: datetime) -> str:
    if schedule.is_orphaned:
        return f"in nobody's code any more; to forget it: mulligan schedules remove {schedule.name}"
    if schedule.paused:
        return said(schedule.paused, now)
    if schedule.overdue_since:
        return f"no worker ran it: due since {at(schedule.overdue_since, now)}"
    return f"last job {schedule.last_job}" if schedule.last_job else ""


@pass_given
def _run(given: Given, *, name: str, actor: str, reason: str | None) -> None:
    with opened_for_watching(given) as app:
        job = app.run_schedule(name, actor=actor, reason=reason)
    if given.as_json:
        say_json(job_document(job))
    else:
        say(safe(f"{name} runs now as job {job.id}; its next tick stays where it is."))


@pass_given
def _remove(given: Given, *, name: str, actor: str, reason: str | None) -> None:
    with opened_for_watching(given) as app:
        app.remove_schedule(name, actor=actor, reason=reason)
    if given.as_json:
        say_json({"removed": name})
    else:
        say(safe(f"{name} is forgotten; its jobs stay."))


def _command(verb: str, callback: Any, about: str, *params: click.Parameter) -> click.Command:
    return CliCommand(verb, callback=callback, params=[NAME, *params, *SIGNED], help=about)


schedules.add_command(_command("run", _run, "Run a schedule's task now, also while it is paused; needs its app."))
schedules.add_command(_command("pause", pausing("schedule"), "Hold a schedule back, for a while or not.", LENGTH))
schedules.add_command(_command("resume", resuming("schedule"), "End a pause."))
schedules.add_command(_command("remove", _remove, "Forget a schedule that is in nobody's code any more."))
