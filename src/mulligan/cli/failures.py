"""`mulligan failures`: list failure groups, show one, retry its jobs, and decide about it."""

from collections.abc import Iterator
from datetime import datetime
from functools import partial
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    KIND,
    Group,
    SharedOptions,
    limit_option,
    one_argument,
    pass_shared,
    signed,
    without_subcommand,
)
from mulligan.cli.output import echo, print_heading, print_json, print_pairs, print_table, show, show_table
from mulligan.cli.parameters import duration, text
from mulligan.cli.redrive import run_operation
from mulligan.explain.words import at, counted, relative
from mulligan.records.document import document_of
from mulligan.records.failure_group import GROUP_ORDERS, FailureGroup, GroupState, NameCount
from mulligan.values.clock import SystemClock
from mulligan.values.text import safe

HEADINGS = ("Group", "State", "Impact", "Failures", "Jobs", "Failed", "Recovered", "Seen", "Kind", "Code", "Title")
NONE = "No failures."
LIVELY = (str(GroupState.OPEN), str(GroupState.REGRESSED))
# One sign for each hour of the last day.
BARS = " ▁▂▃▄▅▆▇█"


@click.group("failures", cls=Group, invoke_without_command=True)
@click.option(
    "--state",
    type=click.Choice([str(state) for state in GroupState]),
    multiple=True,
    help="May be given several times.  [default: open and regressed]",
)
@click.option("--all", "is_all", is_flag=True, help="Also ignored and resolved groups.")
@KIND
@click.option("--code", type=text, help="The error code.")
@click.option("--order", type=click.Choice(GROUP_ORDERS), default="impact", show_default=True)
@limit_option(20)
@click.option("--cursor", type=text, help="The cursor of the previous page, from --json.")
@without_subcommand
def failures(shared: SharedOptions, /, *, state: tuple[str, ...], is_all: bool, **terms: Any) -> None:
    """List failure groups, those that hurt most first.

    A group holds similar failures of attempts, also of those that recovered later. Workers derive the groups from the
    event log, about a second late.

    \b
    mulligan failures
    mulligan failures show GROUP
    mulligan failures retry GROUP --reason "the gateway is back"
    """
    states = None if is_all else (state or LIVELY)
    with open_either(shared) as app:
        page = app.failures(state=states, **terms)
    now = SystemClock().now()
    rows = [_row(group, now) for group in page.groups]
    show_table(shared, document_of(page), HEADINGS, rows, empty=NONE)


def _row(group: FailureGroup, now: datetime) -> tuple[str, ...]:
    numbers = (group.failures, group.jobs, group.failed, group.recovered)
    return (
        group.id,
        ", ".join(_marks(group)),
        f"{group.impact:,.1f}",
        *(f"{number:,}" for number in numbers),
        relative(group.last_seen_at, now),
        group.kind,
        group.code,
        group.title,
    )


def _marks(group: FailureGroup) -> Iterator[str]:
    yield str(group.state)
    yield from ("new",) if group.is_new else ()
    yield from ("rising",) if group.is_rising else ()


@failures.command("show")
@one_argument("group", "GROUP")
@pass_shared
def show_one(shared: SharedOptions, *, group: str) -> None:
    """Show one group: its last failure, versions, services, owners and hours."""
    with open_either(shared) as app:
        found = app.failure(app.find_id("group", group))
    if shared.as_json:
        print_json(document_of(found))
    else:
        _print_group(found)


def _print_group(group: FailureGroup) -> None:
    now, sample = SystemClock().now(), group.sample
    pairs = {
        "group": group.id,
        "title": group.title,
        "state": ", ".join(_state(group, now)),
        "impact": f"{group.impact:,.1f}",
        "kind, code": f"{group.kind}, {group.code} ({group.error_class})",
        "failures": f"{counted(group.failures, 'attempt')} of {counted(group.jobs, 'job')}",
        "jobs": f"{group.failed:,} failed, {group.recovered:,} recovered",
        "cost": f"{group.cost:,}" if group.cost else "",
        "seen": f"{at(group.first_seen_at, now)} to {at(group.last_seen_at, now)}",
        "last 24 hours": _sparkline(group, now),
        "last failure": f"attempt {sample.attempt} of job {sample.job}: {sample.error or sample.message}",
        "message": sample.message,
    }
    print_pairs((name, safe(value)) for name, value in pairs.items() if value)
    for heading, names in (
        ("Versions", group.versions),
        ("Services", group.services),
        ("Owners", group.top_owners),
    ):
        _print_names(heading, names, now)
    if group.failed:
        echo(f"\nRetry its failed jobs with: mulligan failures retry {group.id}")


def _state(group: FailureGroup, now: datetime) -> Iterator[str]:
    yield from _marks(group)
    if group.decided_at and group.state is not GroupState.OPEN:
        yield f"decided {at(group.decided_at, now)} by {group.decided_by or 'unknown'}"
    if group.state is GroupState.IGNORED and group.ignored_until:
        yield f"until {at(group.ignored_until, now)}"
    if group.state is GroupState.IGNORED and group.ignored_below:
        yield f"until it has {group.ignored_below:,} failures"
    if group.regressed_at:
        yield f"seen again {at(group.regressed_at, now)}"
    if group.reason:
        yield group.reason


def _sparkline(group: FailureGroup, now: datetime) -> str:
    by_hour = {round((now - count.at).total_seconds() // 3_600): count.failures for count in group.hours}
    counts = [by_hour.get(hours, 0) for hours in range(23, -1, -1)]
    most = max(counts)
    return "".join(BARS[-(-count * (len(BARS) - 1) // most)] for count in counts) if most else ""


def _print_names(heading: str, names: tuple[NameCount, ...], now: datetime) -> None:
    if names:
        print_heading(heading)
        rows = [
            (one.name, f"{one.failures:,}", relative(one.first_seen_at, now), relative(one.last_seen_at, now))
            for one in names
        ]
        print_table(("Name", "Failures", "First", "Last"), rows)


@failures.command("retry")
@one_argument("group", "GROUP")
@click.option("--preview", is_flag=True, help="Only show what would be retried: counts by kind and code, some ids.")
@click.option("--rate", type=text, default="50/s", show_default=True, help="The highest rate: 50/s, 600/m, 1000/h.")
@click.option("--canary", type=click.IntRange(0, 100), default=5, show_default=True, help="This many jobs go first.")
@click.option(
    "--abort-above",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Stop if more than this fraction does not succeed at the next attempt.",
)
@signed("the history of each job")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@click.option("--follow", "is_followed", is_flag=True, help="Show the progress until the end.")
@pass_shared
def retry(
    shared: SharedOptions, /, *, group: str, preview: bool, is_sure: bool, is_followed: bool, **options: Any
) -> None:
    """Retry the failed jobs of a group at a rate, canaries first. It is a redrive; see: mulligan redrive --help."""
    with open_either(shared, watches=True) as app:
        start = partial(app.retry_failure, app.find_id("group", group), **options)
        run_operation(shared, app, start, preview=preview, is_sure=is_sure, is_followed=is_followed)


@failures.command("ignore")
@one_argument("group", "GROUP")
@click.option("--for", "length", type=duration, help="For this long: 2h, 7d.  [default: until it is reopened]")
@click.option("--growth", type=click.FloatRange(1, min_open=True), help="Until it has this many times its failures.")
@signed()
@pass_shared
def ignore(shared: SharedOptions, /, *, group: str, length: Any, **options: Any) -> None:
    """Ignore a group: it is not listed, until its time has come or it has grown."""
    with open_either(shared) as app:
        found = app.ignore_failure(app.find_id("group", group), length, **options)
    show(shared, document_of(found), f"Group {found.id} is {', '.join(_state(found, SystemClock().now()))}.")


@failures.command("resolve")
@one_argument("group", "GROUP")
@signed()
@pass_shared
def resolve(shared: SharedOptions, /, *, group: str, **sign: Any) -> None:
    """Resolve a group. It is listed again, as regressed, if it is seen in a version that was first seen later."""
    with open_either(shared) as app:
        found = app.resolve_failure(app.find_id("group", group), **sign)
    show(shared, document_of(found), f"Group {found.id} is resolved: {found.title}")


@failures.command("reopen")
@one_argument("group", "GROUP")
@signed()
@pass_shared
def reopen(shared: SharedOptions, /, *, group: str, **sign: Any) -> None:
    """Open a group that is ignored or resolved."""
    with open_either(shared) as app:
        found = app.reopen_failure(app.find_id("group", group), **sign)
    show(shared, document_of(found), f"Group {found.id} is open: {found.title}")
