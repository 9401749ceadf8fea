"""`mulligan bulk`: cancel, snooze or run many jobs as one durable operation."""

from dataclasses import fields
from functools import partial
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    Function,
    Group,
    SharedOptions,
    filter_options,
    job_filter,
    one_argument,
    pass_shared,
    signed,
    together,
)
from mulligan.cli.parameters import text
from mulligan.cli.redrive import run_operation
from mulligan.records.job import JobFilter


@click.group("bulk", cls=Group)
def bulk() -> None:
    """Cancel, snooze or run many jobs at a rate.

    Select jobs with --kind, --owner, --id … (all of them must match). The command first shows the jobs and asks for
    confirmation. Workers carry out the stored operation; it survives their restarts. Jobs enqueued after its start are
    not included. See and cancel it with: mulligan redrive list|show|cancel
    """


def _options(function: Function) -> Function:
    return together(
        filter_options,
        click.option("--preview", is_flag=True, help="Only show what would be done: counts by kind, some ids."),
        click.option("--rate", type=text, default="500/s", show_default=True, help="The highest rate: 50/s, 600/m."),
        signed("the history of each job"),
        click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation."),
        click.option("--follow", "is_followed", is_flag=True, help="Show the progress until the end."),
        pass_shared,
    )(function)


@bulk.command("cancel")
@_options
def cancel(shared: SharedOptions, /, **options: Any) -> None:
    """Cancel jobs that are not over. Running ones are asked to stop."""
    _run(shared, "cancel", **options)


@bulk.command("snooze")
@one_argument("delay", "DURATION")
@_options
def snooze(shared: SharedOptions, /, **options: Any) -> None:
    """Postpone waiting and queued jobs: mulligan bulk snooze 1h --kind convert"""
    _run(shared, "snooze", **options)


@bulk.command("run-now")
@_options
def run_now(shared: SharedOptions, /, **options: Any) -> None:
    """Run waiting jobs now; failed and cancelled ones too with --state or --id."""
    _run(shared, "run_now", **options)


def _run(shared: SharedOptions, verb: str, *, preview: bool, is_sure: bool, is_followed: bool, **options: Any) -> None:
    selected = {field.name: options.pop(field.name) for field in fields(JobFilter) if field.name in options}
    if all(value is None for value in selected.values()):
        raise click.UsageError("select jobs: --kind, --owner, --id …, or --state for all in a state; see --help")
    with open_either(shared, watches=True) as app:
        start = partial(app.bulk, verb, job_filter(app, selected), **options)
        run_operation(shared, app, start, preview=preview, is_sure=is_sure, is_followed=is_followed)
