"""`mulligan schedules`: list the schedules, run one now, pause one."""

from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import open_existing, open_for_watching
from mulligan.cli.options import CliCommand, Group, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import text
from mulligan.cli.pauses import LENGTH, SIGNED, describe_pause, pause_command, resume_command
from mulligan.console.documents import document_of, job_document
from mulligan.explain.words import at, relative
from mulligan.values.text import safe

NAME = click.Argument(["name"], metavar="NAME", type=text)


@click.group("schedules", cls=Group, invoke_without_command=True)
@click.pass_context
def schedules(context: click.Context) -> None:
    """List the schedules, with their next ticks and last run."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(SharedOptions))


def _list(shared: SharedOptions) -> None:
    with open_existing(shared) as app:
        found = app.schedules()
        held = next((duty.paused for duty in app.duties() if duty.name == "schedule"), None)
        now = app.store.now()
    if shared.as_json:
        print_json({"schedules": [_document(schedule) for schedule in found]})
    elif not found:
        echo("No schedules. Put @app.cron above @app.task and start a worker: mulligan worker MODULE:APP")
    else:
        headings = ("Schedule", "Task", "Expression", "Zone", "Last", "Next", "About")
        print_table(headings, [_row(schedule, now) for schedule in found])
        if held:
            echo()
            echo(safe(f"None of them runs: the duty 'schedule' is {describe_pause(held, now)}."))


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
        return f"no code defines it any more; to remove it: mulligan schedules remove {schedule.name}"
    if schedule.paused:
        return describe_pause(schedule.paused, now)
    if schedule.overdue_since:
        return f"no worker ran it; due since {at(schedule.overdue_since, now)}"
    return f"last job {schedule.last_job}" if schedule.last_job else ""


@pass_shared
def _run(shared: SharedOptions, *, name: str, actor: str, reason: str | None) -> None:
    with open_for_watching(shared) as app:
        job = app.run_schedule(name, actor=actor, reason=reason)
    if shared.as_json:
        print_json(job_document(job))
    else:
        echo(safe(f"{name} was enqueued now as job {job.id}. Its next tick does not change."))


@pass_shared
def _remove(shared: SharedOptions, *, name: str, actor: str, reason: str | None) -> None:
    with open_for_watching(shared) as app:
        app.remove_schedule(name, actor=actor, reason=reason)
    if shared.as_json:
        print_json({"removed": name})
    else:
        echo(safe(f"{name} was removed; its jobs stay."))


def _command(verb: str, callback: Any, about: str, *params: click.Parameter) -> click.Command:
    return CliCommand(verb, callback=callback, params=[NAME, *params, *SIGNED], help=about)


schedules.add_command(_command("run", _run, "Run a schedule now. Also while it is paused; needs its app."))
schedules.add_command(_command("pause", pause_command("schedule"), "Pause a schedule.", LENGTH))
schedules.add_command(_command("resume", resume_command("schedule"), "End a pause."))
schedules.add_command(_command("remove", _remove, "Remove a schedule that no code defines any more."))
