"""`mulligan batches`: list batches, publish a draft, retry failed members, cancel the others."""

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, Group, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_pairs, print_table
from mulligan.cli.parameters import text
from mulligan.cli.pauses import SIGNED
from mulligan.cli.summaries import short
from mulligan.console.documents import Document, document_of
from mulligan.errors import BatchNotFound
from mulligan.explain.words import at, counted, relative
from mulligan.values.clock import SystemClock
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.console.batches import Batch, Retried

STATES = ("draft", "processing", "ready", "partial", "failed", "expired")
ID = click.Argument(["batch_id"], metavar="ID", type=text)
CANCELLED = click.Option(["--cancelled", "with_cancelled"], is_flag=True, help="Cancelled members too.")


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
@click.option("--owner", type=text)
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@click.option("--cursor", type=text, help="The id of the last batch seen, or its end.")
@pass_shared
def list_batches(
    shared: SharedOptions,
    *,
    state: str | None = None,
    owner: str | None = None,
    limit: int = 50,
    cursor: str | None = None,
) -> None:
    """List batches, newest first."""
    with open_existing(shared) as app:
        with suppress(BatchNotFound):
            cursor = cursor and app.find_id("batch", cursor)
        found = app.batches(state=state, owner=owner, limit=limit, cursor=cursor)
    following = found[-1].id if len(found) == limit else None
    if shared.as_json:
        print_json({"batches": [_document(batch) for batch in found], "cursor": following})
        return
    if not found:
        echo("No batches. Create one with: app.batch(name)")
        return
    now = SystemClock().now()
    print_table(("Batch", "Name", "State", "Members", "About"), [_row(batch, now) for batch in found])
    if following:
        echo(f"\nThere may be more: mulligan batches list --cursor {safe(following)}")


def _document(batch: "Batch") -> Document:
    document = {name: value for name, value in document_of(batch).items() if not name.startswith("_")}
    return document | {"finished": batch.finished, "left": batch.left}


def _row(batch: "Batch", now: datetime) -> tuple[str, ...]:
    return short(batch.id), batch.name, str(batch.state), f"{batch.total:,}", _about(batch, now)


def _about(batch: "Batch", now: datetime) -> str:
    counts = {name: getattr(batch, name) for name in ("succeeded", "failed", "cancelled", "left")}
    parts = [f"{number:,} {name}" for name, number in counts.items() if number]
    if batch.aborted_at:
        parts.append(f"aborted {relative(batch.aborted_at, now)}")
    if batch.settled_at:
        parts.append(f"settled {relative(batch.settled_at, now)}")
    return ", ".join(parts)


@pass_shared
def _show(shared: SharedOptions, *, batch_id: str) -> None:
    with open_existing(shared) as app:
        batch = app.find_batch(app.find_id("batch", batch_id))
    _print_batch(shared, batch)


@pass_shared
def _publish(shared: SharedOptions, *, batch_id: str, actor: str) -> None:
    with open_existing(shared) as app:
        batch = app.publish_batch(app.find_id("batch", batch_id), actor=actor)
    _print_batch(shared, batch)


@pass_shared
def _retry(shared: SharedOptions, *, batch_id: str, with_cancelled: bool, actor: str, reason: str | None) -> None:
    with open_existing(shared) as app:
        done = app.retry_batch(app.find_id("batch", batch_id), cancelled=with_cancelled, actor=actor, reason=reason)
    if shared.as_json:
        print_json({"batch": _document(done.batch), "retried": list(done.jobs), "skipped": done.skipped})
    else:
        _print_retried(done)


def _print_retried(done: "Retried") -> None:
    for job_id, why in done.skipped.items():
        echo(safe(f"{job_id} was skipped: {why}"))
    skipped = f", {len(done.skipped):,} skipped" if done.skipped else ""
    echo(safe(f"{counted(len(done.jobs), 'member')} of {done.batch.name} retried{skipped}; it is {done.batch.state}."))


@pass_shared
def _cancel(shared: SharedOptions, *, batch_id: str, actor: str, reason: str | None) -> None:
    with open_existing(shared) as app:
        batch = app.cancel_batch(app.find_id("batch", batch_id), actor=actor, reason=reason)
    _print_batch(shared, batch)


def _print_batch(shared: SharedOptions, batch: "Batch") -> None:
    if shared.as_json:
        print_json(_document(batch))
        return
    now = SystemClock().now()
    echo(
        safe(f"{batch.name} {batch.id} is {batch.state}: {counted(batch.total, 'member')}, {_about(batch, now)}") + "\n"
    )
    shown = {name: getattr(batch, name) for name in _document(batch) if name not in ("id", "name", "state")}
    print_pairs((name, _value(value, now)) for name, value in shown.items() if value not in (None, ""))
    echo(f"\nIts members: mulligan jobs list --batch {safe(batch.id)}")


def _value(value: Any, now: datetime) -> str:
    return at(value, now) if isinstance(value, datetime) else safe(value)


def _command(verb: str, callback: Any, about: str, *params: click.Parameter) -> click.Command:
    return CliCommand(verb, callback=callback, params=[ID, *params], help=about)


ACTOR = SIGNED[1]
batches.add_command(_command("show", _show, "Show one batch in detail."))
batches.add_command(_command("publish", _publish, "Let the members of a draft run. Idempotent.", ACTOR))
batches.add_command(_command("retry", _retry, "Retry all failed members in one step.", CANCELLED, *SIGNED))
batches.add_command(_command("cancel", _cancel, "Cancel all members that are not over.", *SIGNED))
