"""`mulligan schedules`: list the schedules, run one now, pause one."""

from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import open_existing, open_for_watching
from mulligan.cli.options import Group, SharedOptions, one_argument, pass_shared, signed, without_subcommand
from mulligan.cli.output import echo, show, show_table
from mulligan.cli.pauses import add_pause_commands, describe_pause
from mulligan.explain.words import at, relative
from mulligan.records.document import document_of
from mulligan.values.text import safe

HEADINGS = ("Schedule", "Task", "Expression", "Zone", "Last", "Next", "About")
NONE = "No schedules. Put @app.cron above @app.task and start a worker: mulligan worker MODULE:APP"


@click.group("schedules", cls=Group, invoke_without_command=True)
@without_subcommand
def schedules(shared: SharedOptions) -> None:
    """List the schedules, with their next ticks and last run."""
    with open_existing(shared) as app:
        found = app.schedules()
        held = next((duty.paused for duty in app.duties() if duty.name == "schedule"), None)
        now = app.store.now()
    document = {"schedules": [document_of(schedule) for schedule in found]}
    show_table(shared, document, HEADINGS, [_row(schedule, now) for schedule in found], empty=NONE)
    if held and found and not shared.as_json:
        echo()
        echo(safe(f"None of them runs: the duty 'schedule' is {describe_pause(held, now)}."))


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


@schedules.command("run")
@one_argument("name", "NAME")
@signed()
@pass_shared
def run(shared: SharedOptions, /, *, name: str, **sign: Any) -> None:
    """Run a schedule now. Also while it is paused; needs its app."""
    with open_for_watching(shared) as app:
        job = app.run_schedule(name, **sign)
    show(shared, document_of(job), f"{name} was enqueued now as job {job.id}. Its next tick does not change.")


add_pause_commands(schedules, "schedule", "Pause a schedule.")


@schedules.command("remove")
@one_argument("name", "NAME")
@signed()
@pass_shared
def remove(shared: SharedOptions, /, *, name: str, **sign: Any) -> None:
    """Remove a schedule that no code defines any more."""
    with open_for_watching(shared) as app:
        app.remove_schedule(name, **sign)
    show(shared, {"removed": name}, f"{name} was removed; its jobs stay.")
