"""`mulligan duties`: list the maintenance duties of workers, run one now, pause one."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import click

from mulligan.cli.opening import open_existing, open_for_watching
from mulligan.cli.options import CliCommand, Group, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import text
from mulligan.cli.pauses import LENGTH, SIGNED, describe_pause, pause_command, resume_command
from mulligan.console.documents import document_of
from mulligan.explain.words import counted, relative
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe
from mulligan.values.text import safe

NAME = click.Argument(["name"], metavar="NAME", type=text)


@click.group("duties", cls=Group, invoke_without_command=True)
@click.pass_context
def duties(context: click.Context) -> None:
    """List the duties, with their last run and pause."""
    if context.invoked_subcommand is None:
        _list(context.ensure_object(SharedOptions))


def _list(shared: SharedOptions) -> None:
    with open_existing(shared) as app:
        found = app.duties()
        workers = {worker.incarnation: f"{worker.host}/{worker.pid}" for worker in app.workers()}
    now = SystemClock().now()
    if shared.as_json:
        print_json({"duties": [_document(duty) for duty in found]})
        return
    print_table(
        ("Duty", "Every", "Limit", "Last", "Did", "Next", "About"), [_row(duty, workers, now) for duty in found]
    )
    if not any(duty.workers for duty in found):
        echo("\nNo worker runs them now. Start one with: mulligan worker MODULE:APP")


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
        return describe_pause(duty.paused, now)
    if duty.last and duty.last.actor:
        return f"run manually by {duty.last.actor}"
    by = f"; by {workers.get(duty.last.worker, duty.last.worker)}" if duty.last else ""
    return f"{duty.about}{by}"


@pass_shared
def _run(shared: SharedOptions, *, name: str, actor: str, reason: str | None) -> None:
    with open_for_watching(shared) as app:
        done = app.run_duty(name, actor=actor, reason=reason)
    if shared.as_json:
        print_json(document_of(done))
    else:
        did = "deleted" if done.duty == "prune" else "moved"
        echo(safe(f"{done.duty} ran here: {counted(done.did, 'job')} {did}."))


def _command(verb: str, callback: Any, params: Sequence[click.Parameter], about: str) -> click.Command:
    return CliCommand(verb, callback=callback, params=[*params, *SIGNED], help=about)


RUN = "Run a duty once in this process. Also while it is paused; reclaim settles stuck jobs as timed out."
PAUSE = "Pause a duty in all workers, for a while or until resumed."
RESUME = "End a pause."

duties.add_command(_command("run", _run, [NAME], RUN))
duties.add_command(_command("pause", pause_command("duty"), [NAME, LENGTH], PAUSE))
duties.add_command(_command("resume", resume_command("duty"), [NAME], RESUME))
