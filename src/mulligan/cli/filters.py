"""The options that select jobs, for commands that work on many."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.parameters import text, when
from mulligan.lifecycle import State

if TYPE_CHECKING:
    from mulligan.app import App
    from mulligan.records.job import JobFilter

Function = Callable[..., Any]

_OPTIONS = (
    click.option("--state", type=click.Choice([str(state) for state in State])),
    click.option("--kind", type=text, help="The task's name."),
    click.option("--owner", type=text),
    click.option("--queue", type=text),
    click.option("--code", type=text, help="The error code of failed jobs."),
    click.option("--last-code", type=text, help="The error code of the last failed attempt, in any state."),
    click.option("--group", type=text, help="The error group of failed jobs."),
    click.option("--batch", type=text, help="The id of the batch, or six characters of its end."),
    click.option("--tag", type=text),
    click.option("--version", type=text, help="The version of the app that ran the last attempt."),
    click.option("--since", type=when, help="Enqueued since: a time, or a duration such as 2h."),
    click.option("--until", type=when, help="Enqueued before: a time, or a duration such as 2h."),
)


def job_filter(app: "App", wanted: Mapping[str, Any]) -> "JobFilter":
    """The filter of these options. The id of a batch may be shortened."""
    from mulligan.records.job import JobFilter

    batch = wanted.get("batch")
    return JobFilter(**{**wanted, "batch": batch and app.find_id("batch", batch)})


def filter_options(function: Function) -> Function:
    """Add an option for each field of JobFilter, passed as keyword arguments."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
