"""`mulligan redrive`: retry many failed jobs at a rate; list, show and cancel redrives."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime
from functools import partial
from typing import Any

import click

from mulligan.app import App
from mulligan.cli.errors import NotNow
from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    Group,
    SharedOptions,
    filter_options,
    job_filter,
    limit_option,
    one_argument,
    pass_shared,
    signed,
    without_subcommand,
)
from mulligan.cli.output import echo, print_heading, print_json, print_pairs, print_table, show, show_table
from mulligan.cli.parameters import text
from mulligan.cli.progress import DONE, follow
from mulligan.cli.summaries import short
from mulligan.explain.words import at, counted, relative
from mulligan.records.document import document_of
from mulligan.records.job import JobFilter
from mulligan.records.redrive import Redrive
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe
from mulligan.values.text import safe

HEADINGS = ("Id", "Verb", "State", "Began", "Matched", "Moved", "Skipped", "About", "Request id")


@click.group("redrive", cls=Group, invoke_without_command=True)
@filter_options
@click.option("--preview", is_flag=True, help="Only show what would be retried: counts by kind and code, some ids.")
@click.option("--rate", type=text, default="50/s", show_default=True, help="The highest rate: 50/s, 600/m, 1000/h.")
@click.option(
    "--canary",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="This many jobs go first; the others follow if enough of them succeed. 0: no canaries.",
)
@click.option(
    "--abort-above",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="Stop if more than this fraction does not succeed at the next attempt.",
)
@signed("the history of each job")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--follow", "is_followed", is_flag=True, help="Show the progress until the end. Ctrl-C does not stop the redrive."
)
@without_subcommand
def redrive(shared: SharedOptions, /, *, preview: bool, is_sure: bool, is_followed: bool, **options: Any) -> None:
    """Retry many failed jobs at a rate, canaries first.

    Select jobs with --kind, --code, --group, --owner, --tag, --version, --since … (all of them must match). --state
    failed selects all failed jobs, --state cancelled the cancelled ones. The command first shows the jobs and asks for
    confirmation. Workers carry out the stored redrive, one chunk a second. It survives their restarts, and it retries
    no job twice. Jobs that fail after its start are not included.

    \b
    mulligan redrive --kind convert --code GW_5XX --preview
    mulligan redrive --kind convert --code GW_5XX --rate 20/s --reason "the gateway is back" --follow
    mulligan redrive list
    mulligan redrive cancel ID

    If more than --abort-above of the canaries do not succeed at their next attempt, or do not end within 15 minutes,
    the redrive stops itself; later, the newest fifty jobs are judged alike. With --follow, the exit code is 0 if it is
    done, 5 if it was stopped or cancelled. ID may be shortened to six characters of its beginning or its end.
    """
    selected = {field.name: options.pop(field.name) for field in fields(JobFilter) if field.name in options}
    if not any(value is not None for value in selected.values()):
        raise click.UsageError("select jobs: --kind, --code, --group …, or --state failed for all; see --help")
    with open_either(shared, watches=True) as app:
        wanted = job_filter(app, selected)
        start = partial(app.redrive, wanted, **options)
        run_operation(shared, app, start, preview=preview, is_sure=is_sure, is_followed=is_followed)


def run_operation(
    shared: SharedOptions,
    app: App,
    start: Callable[..., Redrive],
    *,
    preview: bool,
    is_sure: bool,
    is_followed: bool,
) -> None:
    """Show what would be done and ask for confirmation, then begin."""
    if preview or not is_sure:
        found = start(dry_run=True)
        if preview or not found.matched:
            _show_preview(shared, found)
            return
        if not _is_agreed(shared, found):
            echo("Nothing was changed.")
            return
    begun = start()
    if not begun.id:
        _show_preview(shared, begun)
    elif is_followed:
        _follow(shared, app, begun)
    else:
        show(shared, document_of(begun), *_begun(app, begun))


def _follow(shared: SharedOptions, app: App, found: Redrive) -> None:
    if not follow(app, found.id, as_json=shared.as_json, document=document_of):
        raise click.exceptions.Exit(NotNow.exit_code)


def _is_agreed(shared: SharedOptions, found: Redrive) -> bool:
    """Ask for confirmation in a terminal; a program must pass --yes."""
    if shared.as_json or not sys.stdin.isatty():
        raise click.UsageError("cannot ask for confirmation here: add --yes to begin, or --preview to look")
    _print_preview(found)
    verb = found.verb.replace("_", " ").capitalize()
    return click.confirm(f"{verb} {counted(found.matched, 'job')} at {found.rate}?")


def _show_preview(shared: SharedOptions, found: Redrive) -> None:
    if shared.as_json:
        print_json(document_of(found))
    elif not found.matched:
        echo("No job matches.")
    else:
        _print_preview(found)
        echo(f"\nFor example: {safe(', '.join(map(short, found.sample[:3])))}")
        echo("Nothing was changed. To begin, repeat the command without --preview")


def _print_preview(found: Redrive) -> None:
    done = "deleted" if found.verb == "forget" else DONE[found.verb]
    _print_matches(found)
    echo(f"\n{counted(found.matched, 'job')} would be {done}, {_pace(found)}.")


def _print_matches(found: Redrive) -> None:
    rows = [(match.kind, match.code or "", f"{match.number:,}") for match in found.matches]
    print_table(("Kind", "Code", "Jobs"), rows)


def _pace(found: Redrive) -> str:
    first = f", the first {found.canary} alone" if found.canary else ""
    return f"at most {found.rate}{first}"


def _begun(app: App, begun: Redrive) -> Iterator[str]:
    size = f"{counted(begun.matched, 'job')}, {_pace(begun)}"
    if begun.is_repeated:
        yield f"Redrive {begun.id} exists already with this request id: {size}. It is {begun.state}."
    else:
        yield f"Redrive {begun.id} has begun: {size}."
    yield f"See its progress with: mulligan redrive show {begun.id}"
    if not begun.state.is_over and not app.workers():
        yield "Workers carry it out, and none is running. Start one with: mulligan worker MODULE:APP"


@redrive.command("list")
@limit_option(20)
@pass_shared
def list_(shared: SharedOptions, *, limit: int) -> None:
    """List the redrives and bulk operations, newest first. They are kept for 90 days after their end."""
    with open_either(shared) as app:
        found = app.redrives(limit=limit)
    now = SystemClock().now()
    document = {"redrives": [document_of(one) for one in found]}
    none = "No redrives. Start one with: mulligan redrive --code CODE"
    show_table(shared, document, HEADINGS, [_row(one, now) for one in found], empty=none)


def _row(found: Redrive, now: datetime) -> tuple[str, ...]:
    return (
        short(found.id),
        found.verb,
        str(found.state),
        relative(found.began_at, now),
        f"{found.matched:,}",
        f"{found.retried:,}",
        f"{sum(found.skipped.values()):,}",
        found.because or _origin(found),
        _request(found),
    )


def _origin(found: Redrive) -> str:
    return ", ".join(filter(None, [_selection(found), found.actor and f"by {found.actor}", found.reason]))


def _request(found: Redrive) -> str:
    """The request id of the caller; without one, the redrive has its own id."""
    return found.request_id if found.request_id != found.id else ""


@redrive.command("show")
@one_argument("redrive_id", "ID")
@click.option("--follow", "is_followed", is_flag=True, help="Show the progress until the end.")
@pass_shared
def show_one(shared: SharedOptions, *, redrive_id: str, is_followed: bool) -> None:
    """Show one redrive: its progress, the skipped jobs, and how the retried jobs ended."""
    with open_either(shared) as app:
        found = app.redrive_status(app.find_id("redrive", redrive_id))
        if is_followed:
            _follow(shared, app, found)
        elif shared.as_json:
            print_json(document_of(found))
        else:
            _print_redrive(found)


@redrive.command("cancel")
@one_argument("redrive_id", "ID")
@signed()
@pass_shared
def cancel(shared: SharedOptions, /, *, redrive_id: str, **sign: Any) -> None:
    """Cancel a redrive. Jobs that it has retried stay retried."""
    with open_either(shared) as app:
        found = app.cancel_redrive(app.find_id("redrive", redrive_id), **sign)
    if str(found.state) != "cancelled":
        raise NotNow("RedriveOver", f"redrive {found.id} cannot be cancelled: it is {found.state}", shared)
    retried = f"{found.retried:,} of {counted(found.matched, 'job')} {DONE[found.verb]}"
    show(shared, document_of(found), f"Redrive {found.id} {_cancelled(found)}: {retried}.")


def _cancelled(found: Redrive) -> str:
    """A second cancellation reports the first one."""
    because = f" ({found.because})" if found.because else ""
    return f"was cancelled earlier{because}" if found.is_repeated else "is cancelled"


def _print_redrive(found: Redrive) -> None:
    now = SystemClock().now()
    state = f"{found.state}: {found.because}" if found.because else str(found.state)
    pairs = {
        "id": found.id,
        "request id": _request(found),
        "state": state,
        "jobs": _selection(found),
        "verb": "" if found.verb == "retry" else found.verb.replace("_", " "),
        "delay": describe(found.delay) if found.delay else "",
        "pace": f"{_pace(found)}, stops above {found.abort_above:.0%}" if found.canary else _pace(found),
        "by": ": ".join(filter(None, [found.actor or "unknown", found.reason])),
        "began": at(found.began_at, now),
        "ended": at(found.ended_at, now) if found.ended_at else "",
        "matched": f"{found.matched:,}",
        DONE[found.verb]: f"{found.retried:,}",
        "deleted": f"{found.purged:,}" if found.purged else "",
        "skipped": ", ".join(f"{number:,} {why}" for why, number in found.skipped.items()),
        "next attempts": _answers(found),
        "left": "" if found.state.is_over else f"jobs of {', '.join(found.course.cursors) or 'no kind'}",
    }
    print_pairs((name, safe(value)) for name, value in pairs.items() if value)
    if found.matches:
        print_heading("Matched")
        _print_matches(found)


def _answers(found: Redrive) -> str:
    counts = {"succeeded": found.succeeded, "did not": found.failed_again, "not ended in time": found.silent}
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)


def _selection(found: Redrive) -> str:
    return ", ".join(f"{name} {value}" for name, value in document_of(found)["filter"].items())
