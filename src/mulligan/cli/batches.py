"""`mulligan batches`: list batches, publish a draft, retry failed members, cancel the others."""

from contextlib import suppress
from datetime import datetime
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    ACTOR,
    OWNER,
    REQUEST_ID,
    Group,
    SharedOptions,
    limit_option,
    one_argument,
    pass_shared,
    signed,
)
from mulligan.cli.output import echo, print_fields, print_json, show, show_table
from mulligan.cli.parameters import text
from mulligan.cli.summaries import short
from mulligan.console.batches import Batch
from mulligan.errors import BatchNotFound
from mulligan.explain.words import counted, relative
from mulligan.records.document import document_of
from mulligan.values.clock import SystemClock
from mulligan.values.text import safe

STATES = ("draft", "processing", "ready", "partial", "failed", "expired")
HEADINGS = ("Batch", "Name", "State", "Members", "About")
NONE = "No batches. Create one with: app.batch(name)"


@click.group("batches", cls=Group, invoke_without_command=True)
@click.pass_context
def batches(context: click.Context) -> None:
    """List batches with the counts of their members.

    ID may be shortened to six characters of its beginning or its end, if they are unique.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_batches)


@batches.command("list")
@click.option("--state", type=click.Choice(STATES))
@OWNER
@limit_option(50)
@click.option("--cursor", type=text, help="The id of the last batch seen, or its end.")
@pass_shared
def list_batches(
    shared: SharedOptions, *, state: str | None, owner: str | None, limit: int, cursor: str | None
) -> None:
    """List batches, newest first."""
    with open_either(shared) as app:
        with suppress(BatchNotFound):
            cursor = cursor and app.find_id("batch", cursor)
        found = app.batches(state=state, owner=owner, limit=limit, cursor=cursor)
    following = found[-1].id if len(found) == limit else None
    now = SystemClock().now()
    document = {"batches": [document_of(batch) for batch in found], "cursor": following}
    show_table(shared, document, HEADINGS, [_row(batch, now) for batch in found], empty=NONE)
    if following and not shared.as_json:
        echo(f"\nThere may be more: mulligan batches list --cursor {safe(following)}")


def _row(batch: Batch, now: datetime) -> tuple[str, ...]:
    return short(batch.id), batch.name, str(batch.state), f"{batch.total:,}", _about(batch, now)


def _about(batch: Batch, now: datetime) -> str:
    counts = {name: getattr(batch, name) for name in ("succeeded", "failed", "cancelled", "left")}
    parts = [f"{number:,} {name}" for name, number in counts.items() if number]
    if batch.aborted_at:
        parts.append(f"aborted {relative(batch.aborted_at, now)}")
    if batch.settled_at:
        parts.append(f"settled {relative(batch.settled_at, now)}")
    return ", ".join(parts)


@batches.command("show")
@one_argument("batch_id", "ID")
@pass_shared
def show_one(shared: SharedOptions, *, batch_id: str) -> None:
    """Show one batch in detail."""
    with open_either(shared) as app:
        batch = app.find_batch(app.find_id("batch", batch_id))
    _print_batch(shared, batch)


@batches.command("publish")
@one_argument("batch_id", "ID")
@ACTOR
@REQUEST_ID
@pass_shared
def publish(shared: SharedOptions, /, *, batch_id: str, **sign: Any) -> None:
    """Let the members of a draft run. Idempotent."""
    with open_either(shared) as app:
        batch = app.publish_batch(app.find_id("batch", batch_id), **sign)
    _print_batch(shared, batch)


@batches.command("retry")
@one_argument("batch_id", "ID")
@click.option("--cancelled", "with_cancelled", is_flag=True, help="Cancelled members too.")
@signed()
@pass_shared
def retry(shared: SharedOptions, /, *, batch_id: str, with_cancelled: bool, **sign: Any) -> None:
    """Retry all failed members in one step."""
    with open_either(shared) as app:
        done = app.retry_batch(app.find_id("batch", batch_id), cancelled=with_cancelled, **sign)
    skipped = f", {len(done.skipped):,} skipped" if done.skipped else ""
    show(
        shared,
        document_of(done),
        *(f"{job_id} was skipped: {why}" for job_id, why in done.skipped.items()),
        f"{counted(len(done.jobs), 'member')} of {done.batch.name} retried{skipped}; it is {done.batch.state}.",
    )


@batches.command("cancel")
@one_argument("batch_id", "ID")
@signed()
@pass_shared
def cancel(shared: SharedOptions, /, *, batch_id: str, **sign: Any) -> None:
    """Cancel all members that are not over."""
    with open_either(shared) as app:
        batch = app.cancel_batch(app.find_id("batch", batch_id), **sign)
    _print_batch(shared, batch)


def _print_batch(shared: SharedOptions, batch: Batch) -> None:
    document = document_of(batch)
    if shared.as_json:
        print_json(document)
        return
    now = SystemClock().now()
    about = f"{batch.name} {batch.id} is {batch.state}: {counted(batch.total, 'member')}, {_about(batch, now)}"
    echo(f"{safe(about)}\n")
    print_fields({name: getattr(batch, name) for name in document if name not in ("id", "name", "state")}, now)
    echo(f"\nIts members: mulligan jobs list --batch {safe(batch.id)}")
