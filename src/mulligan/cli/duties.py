"""`mulligan duties`: list the maintenance duties of workers, run one now, pause one."""

from datetime import datetime, timedelta
from typing import Any

import click

from mulligan.cli.opening import open_existing, open_for_watching
from mulligan.cli.options import Group, SharedOptions, one_argument, pass_shared, signed, without_subcommand
from mulligan.cli.output import echo, print_json, print_table, show
from mulligan.cli.pauses import add_pause_commands, describe_pause
from mulligan.explain.words import counted, relative
from mulligan.records.document import document_of
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe

HEADINGS = ("Duty", "Every", "Limit", "Last", "Did", "Next", "About")

# What a manual run says that it did; others have moved jobs.
DONE = {"prune": ("job", "deleted"), "project": ("event", "counted")}


@click.group("duties", cls=Group, invoke_without_command=True)
@without_subcommand
def duties(shared: SharedOptions) -> None:
    """List the duties, with their last run and pause."""
    with open_existing(shared) as app:
        found = app.duties()
        workers = {worker.incarnation: f"{worker.host}/{worker.pid}" for worker in app.workers()}
    if shared.as_json:
        print_json({"duties": [document_of(duty) for duty in found]})
        return
    now = SystemClock().now()
    print_table(HEADINGS, [_row(duty, workers, now) for duty in found])
    if not any(duty.workers for duty in found):
        echo("\nNo worker runs them now. Start one with: mulligan worker MODULE:APP")


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
        return describe_pause(duty.paused, now)
    if duty.last and duty.last.actor:
        return f"run manually by {duty.last.actor}"
    by = f"; by {workers.get(duty.last.worker, duty.last.worker)}" if duty.last else ""
    return f"{duty.about}{by}"


@duties.command("run")
@one_argument("name", "NAME")
@signed()
@pass_shared
def run(shared: SharedOptions, /, *, name: str, **sign: Any) -> None:
    """Run a duty once in this process. Also while it is paused; reclaim settles stuck jobs as timed out."""
    with open_for_watching(shared) as app:
        done = app.run_duty(name, **sign)
    what, did = DONE.get(done.duty, ("job", "moved"))
    show(shared, document_of(done), f"{done.duty} ran here: {counted(done.did, what)} {did}.")


add_pause_commands(duties, "duty", "Pause a duty in all workers, for a while or until resumed.")
