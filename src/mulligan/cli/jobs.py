"""`mulligan jobs`: find jobs, look at one, and have it explained. The moves by hand are in moves.py."""

import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.dead_letters import export, purge
from mulligan.cli.filters import filtered, job_filter
from mulligan.cli.moves import add_moves
from mulligan.cli.opening import opened_existing
from mulligan.cli.options import Given, Group, pass_given
from mulligan.cli.output import say, say_heading, say_json, say_pairs, say_table
from mulligan.cli.parameters import text
from mulligan.cli.stuck import process_stuck, stuck
from mulligan.cli.summaries import about_event, about_job, short
from mulligan.console.documents import document_of, event_document, job_document, listed_document
from mulligan.explain.event_data import EventData
from mulligan.explain.words import at, relative, stamp, state_phrase
from mulligan.lifecycle import State
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe
from mulligan.values.text import safe, safe_lines

if TYPE_CHECKING:
    from mulligan.records.event import Event
    from mulligan.records.job import Job, Page

# Shown in their own way.
APART = ("id", "kind", "state", "arguments", "result", "is_duplicate")
# The same as the error of a failed job, as a rule.
LAST = ("last_code", "last_class", "last_message", "last_detail")
HISTORY = 1_000


@click.group("jobs", cls=Group)
def jobs() -> None:
    """Find jobs, see what happened to them, put them right.

    Of an ID, six characters of its beginning or its end are enough, as long as no other id shares them.
    """


add_moves(jobs)
jobs.add_command(stuck)
jobs.add_command(process_stuck)
jobs.add_command(export)
jobs.add_command(purge)


@jobs.command("list")
@filtered
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@click.option("--cursor", type=text, help="Where the last list ended.")
@pass_given
def list_jobs(given: Given, /, *, limit: int, cursor: str | None, **wanted: Any) -> None:
    """List jobs, the newest first."""
    with opened_existing(given) as app:
        page = app.jobs(job_filter(app, wanted), limit=limit, cursor=cursor)
        blocked = app.blocked_by(page.jobs)
    if given.as_json:
        found = [listed_document(job, blocked) for job in page.jobs]
        say_json({"jobs": found, "cursor": page.cursor, "damaged": list(page.damaged)})
        return
    _say_page(page, blocked, is_filtered=cursor is not None or any(value is not None for value in wanted.values()))


def _say_page(page: "Page[Any]", blocked: Mapping[str, str], *, is_filtered: bool) -> None:
    now = SystemClock().now()
    if page.jobs:
        headings = ("Job", "Kind", "State", "Retries", "About")
        say_table(headings, [_row(job, now, blocked.get(job.id)) for job in page.jobs])
    elif is_filtered:
        say("No job matches. See all of them with: mulligan jobs list")
    else:
        say("No jobs yet. Enqueue one with your_task.enqueue(…), or see how it goes with: mulligan demo")
    for damaged in page.damaged:
        say(safe(f"Left out: {damaged}"))
    if page.cursor:
        say(f"\nThere are more: the same again with --cursor {safe(page.cursor)}")


def _row(job: "Job[Any]", now: datetime, blocked_by: str | None) -> tuple[str, ...]:
    retries = f"{job.retry_count}/{job.max_retries}" if job.retry_count else ""
    return short(job.id), job.kind, str(job.state), retries, about_job(job, now, blocked_by)


@jobs.command("show")
@click.argument("job_id", metavar="ID", type=text)
@click.option("--detail", is_flag=True, help="With the technical detail of the last failure, such as its traceback.")
@pass_given
def show(given: Given, job_id: str, *, detail: bool) -> None:
    """Show all that is known about a job."""
    with opened_existing(given) as app:
        job = app.job(app.console.whole_id("job", job_id))
        events, blocked = app.events(job.id, limit=HISTORY), app.blocked_by([job])
    if given.as_json:
        say_json(listed_document(job, blocked) | {"events": [event_document(event) for event in events]})
        return
    now = SystemClock().now()
    _say_job(job, now, blocked.get(job.id))
    say_heading("Events")
    say_table(("At", "Event", "Attempt", "About"), [_event_row(event, now) for event in events])
    _say_detail(job, events, wanted=detail)


def _say_job(job: "Job[Any]", now: datetime, blocked_by: str | None) -> None:
    say(f"{safe(job.kind)} {safe(job.id)} {state_phrase(job.state)}: {safe(about_job(job, now, blocked_by))}\n")
    fields = _fields(job) | {"blocked_by": blocked_by}
    say_pairs((name, _value(value, now)) for name, value in fields.items() if value not in (None, "", (), {}))
    say_heading("Arguments")
    say(_pretty(job.arguments))
    if job.state is State.SUCCEEDED:
        say_heading("Result")
        say(_pretty(job.result))


def _fields(job: "Job[Any]") -> dict[str, Any]:
    apart = (*APART, *LAST) if job.last_code == job.error_code else APART
    names = [name for name in document_of(job) if name not in apart]
    return {name: getattr(job, name) for name in [*names, "retry_count", "max_retries"]}


def _value(value: Any, now: datetime) -> str:
    if isinstance(value, datetime):
        return at(value, now)
    if isinstance(value, timedelta):
        return describe(value)
    if isinstance(value, tuple):
        return safe(", ".join(value))
    if isinstance(value, Mapping):
        return safe(", ".join(f"{name} {one}" for name, one in value.items()))
    return safe(value)


def _pretty(value: Any) -> str:
    return safe_lines(json.dumps(value, indent=2, ensure_ascii=False))


def _event_row(event: "Event", now: datetime) -> tuple[str, ...]:
    return f"{stamp(event.at)}, {relative(event.at, now)}", event.type, str(event.attempt or ""), about_event(event)


def _say_detail(job: "Job[Any]", events: list["Event"], *, wanted: bool = False) -> None:
    """What was raised last: people who mend it need more than the line for everybody."""
    detail = next((text for event in reversed(events) if (text := EventData(event.data).text("detail"))), None)
    if detail is None:
        return
    if wanted:
        say_heading("Detail of the last failure")
        say(safe_lines(detail))
    else:
        say(f"\nAll of the last failure, with the traceback: mulligan jobs show {safe(job.id)} --detail")


@jobs.command("explain")
@click.argument("job_id", metavar="ID", type=text)
@pass_given
def explain(given: Given, job_id: str) -> None:
    """Say what happened to a job and what comes next."""
    with opened_existing(given) as app:
        explanation = app.explain(app.console.whole_id("job", job_id))
        job = explanation.job
        events = app.events(job.id, limit=HISTORY)
    if given.as_json:
        told = {"happened": list(explanation.happened), "next": list(explanation.next)}
        say_json({"job": job_document(job), **told})
        return
    say(f"{safe(job.kind)} {safe(job.id)} {state_phrase(job.state)}.")
    say_heading("What happened")
    for sentence in explanation.happened:
        say(f"- {safe(sentence)}")
    say_heading("What comes next")
    for sentence in explanation.next:
        say(f"- {safe(sentence)}")
    if job.state is not State.SUCCEEDED:
        _say_detail(job, events)
