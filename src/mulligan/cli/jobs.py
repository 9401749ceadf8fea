"""`mulligan jobs`: list, show and explain jobs. The commands that move jobs are in moves.py."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from mulligan.cli.dead_letters import export, purge
from mulligan.cli.moves import add_moves
from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    Group,
    SharedOptions,
    filter_options,
    job_filter,
    limit_option,
    one_argument,
    pass_shared,
    reveal_option,
)
from mulligan.cli.output import echo, print_fields, print_heading, print_json, print_table, show_table
from mulligan.cli.parameters import text
from mulligan.cli.questions import last_failures, position
from mulligan.cli.stuck import process_stuck, stuck
from mulligan.cli.summaries import about_event, about_job, short
from mulligan.explain.event_data import EventData
from mulligan.explain.words import relative, stamp, state_phrase
from mulligan.lifecycle import State
from mulligan.records.counts import COLUMNS
from mulligan.records.document import document_of
from mulligan.records.event import Event
from mulligan.records.job import Job, Page
from mulligan.values.clock import SystemClock
from mulligan.values.text import safe, safe_lines

# Fields that are printed elsewhere.
APART = ("id", "kind", "state", "arguments", "result", "is_duplicate", "at_most_once")
# Usually the same as the error of a failed job.
LAST = ("last_code", "last_class", "last_message", "last_detail")
HISTORY = 1_000


@click.group("jobs", cls=Group)
def jobs() -> None:
    """Find, explain, retry and cancel jobs.

    ID may be shortened to six characters of its beginning or its end, if they are unique.
    """


add_moves(jobs)
jobs.add_command(stuck)
jobs.add_command(process_stuck)
jobs.add_command(export)
jobs.add_command(purge)
jobs.add_command(position)
jobs.add_command(last_failures)


@jobs.command("list")
@filter_options
@limit_option(50)
@click.option("--cursor", type=text, help="The cursor of the previous list.")
@reveal_option
@pass_shared
def list_jobs(shared: SharedOptions, /, *, limit: int, cursor: str | None, **wanted: Any) -> None:
    """List jobs, newest first."""
    with open_either(shared) as app:
        page = app.jobs(job_filter(app, wanted), limit=limit, cursor=cursor)
        blocked = app.blocked_by(page.jobs)
    if shared.as_json:
        found = [document_of(job, blocked_by=blocked.get(job.id)) for job in page.jobs]
        print_json({"jobs": found, "cursor": page.cursor, "damaged": list(page.damaged)})
        return
    _print_page(page, blocked, is_filtered=cursor is not None or any(value is not None for value in wanted.values()))


def _print_page(page: Page[Any], blocked: Mapping[str, str], *, is_filtered: bool) -> None:
    now = SystemClock().now()
    if page.jobs:
        headings = ("Job", "Kind", "State", "Retries", "About")
        print_table(headings, [_row(job, now, blocked.get(job.id)) for job in page.jobs])
    elif is_filtered:
        echo("No job matches. See all of them with: mulligan jobs list")
    else:
        echo("No jobs yet. Enqueue one with your_task.enqueue(…), or see some with: mulligan demo")
    for damaged in page.damaged:
        echo(safe(f"Unreadable: {damaged}"))
    if page.cursor:
        echo(f"\nThere are more: repeat the command with --cursor {safe(page.cursor)}")


def _row(job: Job[Any], now: datetime, blocked_by: str | None) -> tuple[str, ...]:
    retries = f"{job.retry_count}/{job.max_retries}" if job.retry_count else ""
    return short(job.id), job.kind, str(job.state), retries, about_job(job, now, blocked_by)


@jobs.command("counts")
@filter_options
@click.option("--by", type=click.Choice(list(COLUMNS)), default="state", show_default=True)
@pass_shared
def counts(shared: SharedOptions, /, *, by: str, **wanted: Any) -> None:
    """Count jobs by state, kind, code, owner and so on (--by).

    At most 10,000 jobs of each state are read. If there are more, the numbers are marked with a plus sign: they may be
    higher.
    """
    with open_either(shared) as app:
        found = app.counts(job_filter(app, wanted), by=by)
    more = "+" if found.at_least else ""
    rows = [(name, f"{number:,}{more}") for name, number in [*found.groups.items(), ("", found.total)]]
    show_table(
        shared, document_of(found), (by.capitalize(), "Jobs"), rows if found.groups else [], empty="No job matches."
    )


@jobs.command("show")
@one_argument("job_id", "ID")
@click.option("--detail", is_flag=True, help="Include the technical detail of the last failure, such as its traceback.")
@reveal_option
@pass_shared
def show(shared: SharedOptions, job_id: str, *, detail: bool) -> None:
    """Show one job in detail."""
    with open_either(shared) as app:
        job = app.job(app.find_id("job", job_id))
        events, blocked = app.events(job.id, limit=HISTORY), app.blocked_by([job])
    if shared.as_json:
        print_json(document_of(job, blocked_by=blocked.get(job.id), events=events))
        return
    now = SystemClock().now()
    _print_job(job, now, blocked.get(job.id))
    print_heading("Events")
    print_table(("At", "Event", "Attempt", "About"), [_event_row(event, now) for event in events])
    _print_detail(job, events, wanted=detail)


def _print_job(job: Job[Any], now: datetime, blocked_by: str | None) -> None:
    echo(f"{safe(job.kind)} {safe(job.id)} {state_phrase(job.state)}: {safe(about_job(job, now, blocked_by))}\n")
    print_fields(_fields(job) | {"blocked_by": blocked_by}, now)
    print_heading("Arguments")
    echo(_pretty(job.arguments))
    if job.state is State.SUCCEEDED:
        print_heading("Result")
        expired = job.result_expired_at
        echo(_pretty(job.result) if expired is None else f"It expired {relative(expired, now)}.")


def _fields(job: Job[Any]) -> dict[str, Any]:
    apart = (*APART, *LAST) if job.last_code == job.error_code else APART
    return {name: getattr(job, name) for name in document_of(job) if name not in apart}


def _pretty(value: Any) -> str:
    return safe_lines(json.dumps(value, indent=2, ensure_ascii=False))


def _event_row(event: Event, now: datetime) -> tuple[str, ...]:
    return f"{stamp(event.at)}, {relative(event.at, now)}", event.type, str(event.attempt or ""), about_event(event)


def _print_detail(job: Job[Any], events: list[Event], *, wanted: bool = False) -> None:
    """Print the last exception. To fix a failure, its one-line message is often not enough."""
    detail = next((text for event in reversed(events) if (text := EventData(event.data).text("detail"))), None)
    if detail is None:
        return
    if wanted:
        print_heading("Detail of the last failure")
        echo(safe_lines(detail))
    else:
        echo(f"\nThe complete last failure, with its traceback: mulligan jobs show {safe(job.id)} --detail")


@jobs.command("explain")
@one_argument("job_id", "ID")
@click.option("--for-owner", is_flag=True, help="As its owner may see it: without workers, people and commands.")
@pass_shared
def explain(shared: SharedOptions, job_id: str, *, for_owner: bool) -> None:
    """Explain what happened to a job and what comes next."""
    with open_either(shared) as app:
        explanation = app.explain(app.find_id("job", job_id), for_owner=for_owner)
        job = explanation.job
        events = app.events(job.id, limit=HISTORY)
    if shared.as_json:
        print_json(document_of(explanation))
        return
    echo(f"{safe(job.kind)} {safe(job.id)} {state_phrase(job.state)}.")
    if explanation.trace_id:
        echo(f"Its trace is {safe(explanation.trace_id)}.")
    for heading, found in (("What happened", explanation.happened), ("What comes next", explanation.next)):
        print_heading(heading)
        for sentence in found:
            echo(f"- {safe(sentence)}")
    if job.state is not State.SUCCEEDED and not for_owner:
        _print_detail(job, events)
