"""`mulligan redrive`: put failed jobs back, many at once and gently; watch it, look back at it, cancel it."""

import sys
from dataclasses import fields
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.errors import NotNow
from mulligan.cli.filters import filtered, job_filter
from mulligan.cli.opening import opened_existing, opened_for_watching
from mulligan.cli.options import CliCommand, Given, Group, pass_given
from mulligan.cli.output import say, say_heading, say_json, say_pairs, say_table
from mulligan.cli.parameters import login, text
from mulligan.cli.progress import follow
from mulligan.cli.summaries import short
from mulligan.console.documents import document_of
from mulligan.explain.words import at, counted, relative
from mulligan.values.clock import SystemClock
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.app import App
    from mulligan.records.redrive import Redrive

LIST_FIRST = 20


@click.group("redrive", cls=Group, invoke_without_command=True)
@filtered
@click.option("--preview", is_flag=True, help="Only show what would be retried: counts by kind and code, some ids.")
@click.option("--rate", type=text, default="50/s", show_default=True, help="How many at most: 50/s, 600/m, 1000/h.")
@click.option(
    "--canary",
    type=click.IntRange(0, 100),
    default=5,
    show_default=True,
    help="So many go first, alone; the others follow when enough of them succeed. 0: all go at once.",
)
@click.option(
    "--abort-above",
    type=click.FloatRange(0, 1),
    default=0.5,
    show_default=True,
    help="It stops itself when more than this share does not succeed at the next attempt.",
)
@click.option("--request-id", type=text, help="A name of your own: asked again with it, it is the same operation.")
@click.option("--reason", type=text, help="Why; kept in each job's history.")
@click.option("--actor", type=text, default=login, help="Who; kept too.  [default: your login name]")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@click.option(
    "--follow", "is_followed", is_flag=True, help="Show the progress until it is over. Ctrl-C only stops looking."
)
@click.pass_context
def redrive(
    context: click.Context,
    /,
    *,
    preview: bool,
    is_sure: bool,
    is_followed: bool,
    **options: Any,
) -> None:
    """Retry many failed jobs at a rate, canaries first.

    Name which jobs are meant with --kind, --code, --group, --owner, --tag, --version, --since … (every one given must
    match); --state failed means all that failed, --state cancelled means cancelled ones. It is first shown what would
    be retried, and asked. The operation is stored and carried out by the workers, one chunk a second; it survives
    their restarts, and no job is retried twice for it. Jobs that fail after it began are not picked up again.

    \b
    mulligan redrive --kind convert --code GW_5XX --preview
    mulligan redrive --kind convert --code GW_5XX --rate 20/s --reason "the gateway is back" --follow
    mulligan redrive list
    mulligan redrive cancel ID

    When more than --abort-above of the canaries do not succeed at their next attempt (or do not end within 15 minutes),
    it stops itself and says why; the same holds later for the newest fifty. With --follow the exit code is 0 when it is
    done, 5 when it was stopped or cancelled. Of an ID, six characters of its beginning or its end are enough.
    """
    from mulligan.records.job import JobFilter

    if context.invoked_subcommand is not None:
        return
    given = context.ensure_object(Given)
    names = {field.name for field in fields(JobFilter)}
    wanted = {name: options.pop(name) for name in names if name in options}
    if not any(value is not None for value in wanted.values()):
        raise click.UsageError("name which jobs: --kind, --code, --group … or --state failed for all; see --help")
    _start(given, wanted, options, is_preview=preview, is_sure=is_sure, is_followed=is_followed)


def _start(
    given: Given, said: dict[str, Any], options: dict[str, Any], *, is_preview: bool, is_sure: bool, is_followed: bool
) -> None:
    with opened_for_watching(given) as app:
        wanted = job_filter(app, said)
        if is_preview or not is_sure:
            found = app.redrive(wanted, dry_run=True, **options)
            if is_preview or not found.matched:
                _show_preview(given, found)
                return
            if not _is_agreed(given, found):
                say("Nothing was changed.")
                return
        begun = app.redrive(wanted, **options)
        if not begun.id:
            _show_preview(given, begun)
            return
        if not is_followed:
            _show_begun(given, app, begun)
            return
        if not follow(app, begun.id, as_json=given.as_json, document=redrive_document):
            raise click.exceptions.Exit(NotNow.exit_code)


def _is_agreed(given: Given, found: "Redrive") -> bool:
    """Whoever can be asked is asked; a program has to be sure."""
    if given.as_json or not sys.stdin.isatty():
        raise click.UsageError("nobody can be asked here: add --yes to begin, or --preview to look")
    _say_matches(found)
    return click.confirm(f"Retry {counted(found.matched, 'job')} at {found.rate}?")


def _show_preview(given: Given, found: "Redrive") -> None:
    if given.as_json:
        say_json(redrive_document(found))
        return
    _say_matches(found)
    if found.matched:
        say()
        say(safe(f"Such as: {', '.join(map(short, found.sample[:3]))}"))
        say("Nothing was changed. To begin: the same without --preview")


def _say_matches(found: "Redrive") -> None:
    if not found.matched:
        say("No job matches: there is nothing to retry.")
        return
    rows = [(match.kind, match.code or "", f"{match.number:,}") for match in found.matches]
    say_table(("Kind", "Code", "Jobs"), rows)
    say(f"\n{counted(found.matched, 'job')} would be retried, {_pace(found)}.")


def _pace(found: "Redrive") -> str:
    first = f", the first {found.canary} alone" if found.canary else ""
    return f"at most {found.rate}{first}"


def _show_begun(given: Given, app: "App", begun: "Redrive") -> None:
    if given.as_json:
        say_json(redrive_document(begun))
        return
    size = f"{counted(begun.matched, 'job')}, {_pace(begun)}"
    if begun.is_repeated:
        say(safe(f"Redrive {begun.id} was begun earlier with this request id: {size}. It is {begun.state}."))
    else:
        say(safe(f"Redrive {begun.id} has begun: {size}."))
    say(safe(f"See how it goes with: mulligan redrive show {begun.id}"))
    if not begun.state.is_over and not app.workers():
        say("No worker runs now, and workers carry it out. Start one with: mulligan worker MODULE:APP")


@redrive.command("list", cls=CliCommand)
@click.option("--limit", type=click.IntRange(1, 1_000), default=LIST_FIRST, show_default=True)
@pass_given
def list_(given: Given, *, limit: int) -> None:
    """List the redrives, the newest first. They are kept for 90 days after their end."""
    with opened_existing(given) as app:
        found = app.redrives(limit=limit)
    if given.as_json:
        say_json({"redrives": [redrive_document(one) for one in found]})
    elif found:
        now = SystemClock().now()
        headings = ("Id", "State", "Began", "Matched", "Retried", "Skipped", "About", "Request id")
        say_table(headings, [_row(one, now) for one in found])
    else:
        say("There was no redrive yet. Begin one with: mulligan redrive --code CODE")


def _row(found: "Redrive", now: datetime) -> tuple[str, ...]:
    return (
        short(found.id),
        str(found.state),
        relative(found.began_at, now),
        f"{found.matched:,}",
        f"{found.retried:,}",
        f"{sum(found.skipped.values()):,}",
        found.because or ", ".join(filter(None, [_meant(found), found.actor and f"by {found.actor}", found.reason])),
        _request(found),
    )


def _request(found: "Redrive") -> str:
    """The name somebody gave it; without one it has its own."""
    return found.request_id if found.request_id != found.id else ""


@redrive.command("show", cls=CliCommand)
@click.argument("redrive_id", metavar="ID", type=text)
@click.option("--follow", "is_followed", is_flag=True, help="Show the progress until it is over.")
@pass_given
def show(given: Given, *, redrive_id: str, is_followed: bool) -> None:
    """Show one redrive: how far it has come, what was skipped and why, how the retried jobs did."""
    with opened_existing(given) as app:
        found = app.redrive_status(app.find_id("redrive", redrive_id))
        if is_followed:
            if not follow(app, found.id, as_json=given.as_json, document=redrive_document):
                raise click.exceptions.Exit(NotNow.exit_code)
            return
    if given.as_json:
        say_json(redrive_document(found))
    else:
        _say(found)


@redrive.command("cancel", cls=CliCommand)
@click.argument("redrive_id", metavar="ID", type=text)
@click.option("--reason", type=text, help="Why; kept in the log.")
@click.option("--actor", type=text, default=login, help="Who; kept too.  [default: your login name]")
@pass_given
def cancel(given: Given, *, redrive_id: str, reason: str | None, actor: str) -> None:
    """End a redrive. What it has retried stays retried; the other jobs stay as they are."""
    with opened_existing(given) as app:
        found = app.cancel_redrive(app.find_id("redrive", redrive_id), actor=actor, reason=reason)
    if str(found.state) != "cancelled":
        raise NotNow("RedriveOver", f"redrive {found.id} cannot be cancelled: it is {found.state}", given)
    if given.as_json:
        say_json(redrive_document(found))
    else:
        say(
            safe(
                f"Redrive {found.id} {_cancelled(found)}: {found.retried:,} of {counted(found.matched, 'job')} retried."
            )
        )


def _cancelled(found: "Redrive") -> str:
    """Whoever comes second is told of the first."""
    return (
        f"was cancelled before{f' ({found.because})' if found.because else ''}" if found.is_repeated else "is cancelled"
    )


def _say(found: "Redrive") -> None:
    now = SystemClock().now()
    state = f"{found.state}: {found.because}" if found.because else str(found.state)
    pairs = {
        "id": found.id,
        "request id": _request(found),
        "state": state,
        "jobs": _meant(found),
        "pace": f"{_pace(found)}, stops above {found.abort_above:.0%}",
        "by": ": ".join(filter(None, [found.actor or "somebody", found.reason])),
        "began": at(found.began_at, now),
        "ended": at(found.ended_at, now) if found.ended_at else "",
        "matched": f"{found.matched:,}",
        "retried": f"{found.retried:,}",
        "skipped": ", ".join(f"{number:,} {why}" for why, number in found.skipped.items()),
        "next attempts": _answers(found),
        "left": "" if found.state.is_over else f"jobs of {', '.join(found.course.cursors) or 'no kind'}",
    }
    say_pairs((name, safe(value)) for name, value in pairs.items() if value)
    if found.matches:
        say_heading("Matched")
        say_table(("Kind", "Code", "Jobs"), [(one.kind, one.code or "", f"{one.number:,}") for one in found.matches])


def _answers(found: "Redrive") -> str:
    counts = {"succeeded": found.succeeded, "did not": found.failed_again, "not ended in time": found.silent}
    return ", ".join(f"{number:,} {what}" for what, number in counts.items() if number)


def _meant(found: "Redrive") -> str:
    return ", ".join(f"{name} {value}" for name, value in _given(found).items())


def _given(found: "Redrive") -> dict[str, Any]:
    values = document_of(found.filter)
    return {name: value for name, value in values.items() if value is not None}


def redrive_document(found: "Redrive") -> dict[str, Any]:
    document = document_of(found)
    del document["course"]
    return document | {
        "filter": _given(found),
        "matches": [document_of(match) for match in found.matches],
        "kinds_left": list(found.course.cursors),
        "looked_at": found.looked_at,
    }
