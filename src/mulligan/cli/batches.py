"""`mulligan batches`: what became of jobs that belong together; publish a draft, retry what failed, cancel the rest."""

from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.opening import opened_existing
from mulligan.cli.options import CliCommand, Given, Group, pass_given
from mulligan.cli.output import say, say_json, say_pairs, say_table
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
    """List batches: how many members are over, and how.

    Of an ID, six characters of its beginning or its end are enough, as long as no other id shares them.
    """
    if context.invoked_subcommand is None:
        context.invoke(list_batches)


@batches.command("list")
@click.option("--state", type=click.Choice(STATES))
@click.option("--owner", type=text)
@click.option("--limit", type=click.IntRange(1, 1_000), default=50, show_default=True)
@click.option("--cursor", type=text, help="The id of the last one seen, or its end.")
@pass_given
def list_batches(
    given: Given, *, state: str | None = None, owner: str | None = None, limit: int = 50, cursor: str | None = None
) -> None:
    """List batches, the newest first."""
    with opened_existing(given) as app:
        with suppress(BatchNotFound):
            cursor = cursor and app.find_id("batch", cursor)
        found = app.batches(state=state, owner=owner, limit=limit, cursor=cursor)
    following = found[-1].id if len(found) == limit else None
    if given.as_json:
        say_json({"batches": [_document(batch) for batch in found], "cursor": following})
        return
    if not found:
        say("There are no batches here. Make one with: app.batch(name)")
        return
    now = SystemClock().now()
    say_table(("Batch", "Name", "State", "Members", "About"), [_row(batch, now) for batch in found])
    if following:
        say(f"\nThere may be more: mulligan batches list --cursor {safe(following)}")


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


@pass_given
def _show(given: Given, *, batch_id: str) -> None:
    with opened_existing(given) as app:
        batch = app.find_batch(app.find_id("batch", batch_id))
    _say(given, batch)


@pass_given
def _publish(given: Given, *, batch_id: str, actor: str) -> None:
    with opened_existing(given) as app:
        batch = app.publish_batch(app.find_id("batch", batch_id), actor=actor)
    _say(given, batch)


@pass_given
def _retry(given: Given, *, batch_id: str, with_cancelled: bool, actor: str, reason: str | None) -> None:
    with opened_existing(given) as app:
        done = app.retry_batch(app.find_id("batch", batch_id), cancelled=with_cancelled, actor=actor, reason=reason)
    if given.as_json:
        say_json({"batch": _document(done.batch), "retried": list(done.jobs), "skipped": done.skipped})
    else:
        _say_retried(done)


def _say_retried(done: "Retried") -> None:
    for job_id, why in done.skipped.items():
        say(safe(f"{job_id} stays as it is: {why}"))
    skipped = f", {len(done.skipped):,} skipped" if done.skipped else ""
    say(safe(f"{counted(len(done.jobs), 'member')} of {done.batch.name} retried{skipped}; it is {done.batch.state}."))


@pass_given
def _cancel(given: Given, *, batch_id: str, actor: str, reason: str | None) -> None:
    with opened_existing(given) as app:
        batch = app.cancel_batch(app.find_id("batch", batch_id), actor=actor, reason=reason)
    _say(given, batch)


def _say(given: Given, batch: "Batch") -> None:
    if given.as_json:
        say_json(_document(batch))
        return
    now = SystemClock().now()
    say(
        safe(f"{batch.name} {batch.id} is {batch.state}: {counted(batch.total, 'member')}, {_about(batch, now)}") + "\n"
    )
    shown = {name: getattr(batch, name) for name in _document(batch) if name not in ("id", "name", "state")}
    say_pairs((name, _value(value, now)) for name, value in shown.items() if value not in (None, ""))
    say(f"\nIts members: mulligan jobs list --batch {safe(batch.id)}")


def _value(value: Any, now: datetime) -> str:
    return at(value, now) if isinstance(value, datetime) else safe(value)


def _command(verb: str, callback: Any, about: str, *params: click.Parameter) -> click.Command:
    return CliCommand(verb, callback=callback, params=[ID, *params], help=about)


ACTOR = SIGNED[1]
batches.add_command(_command("show", _show, "Show all that is known about a batch."))
batches.add_command(_command("publish", _publish, "Let the members of a draft run; again is harmless.", ACTOR))
batches.add_command(_command("retry", _retry, "Start all failed members again, in one step.", CANCELLED, *SIGNED))
batches.add_command(_command("cancel", _cancel, "Cancel all members that are not over.", *SIGNED))
