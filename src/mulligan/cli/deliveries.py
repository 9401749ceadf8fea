"""`mulligan deliveries`: what subscriptions were told, and what came of it."""

from contextlib import suppress
from datetime import datetime

import click

from mulligan.app import App
from mulligan.cli.opening import open_either
from mulligan.cli.options import ACTOR, Group, SharedOptions, limit_option, one_argument, pass_shared
from mulligan.cli.output import show, show_table
from mulligan.cli.parameters import text
from mulligan.errors import BatchNotFound, JobNotFound
from mulligan.explain.words import at
from mulligan.records.delivery import Delivery, DeliveryState
from mulligan.records.document import document_of
from mulligan.values.clock import SystemClock


@click.group("deliveries", cls=Group)
def deliveries() -> None:
    """List mails and webhooks, and send them again."""


@deliveries.command("list")
@click.option("--subscription", type=text, help="Only those of this subscription.")
@click.option("--state", type=click.Choice([str(state) for state in DeliveryState]))
@click.option("--about", type=text, help="Only those about this job or batch.")
@click.option("--digest", type=text, help="Only those that this digest tells of.")
@click.option("--owner", type=text, help="Only those of this owner's subscriptions.")
@limit_option(50)
@click.option("--cursor", type=text, help="The id of the last delivery of the previous page.")
@pass_shared
def list_all(
    shared: SharedOptions,
    /,
    *,
    subscription: str | None,
    state: str | None,
    about: str | None,
    digest: str | None,
    owner: str | None,
    limit: int,
    cursor: str | None,
) -> None:
    """List deliveries, newest first."""
    with open_either(shared) as app:
        found = app.deliveries(
            subscription=subscription and app.find_id("subscription", subscription),
            state=state,
            about=about and _find_subject(app, about),
            digest=digest and app.find_id("delivery", digest),
            owner=owner,
            limit=limit,
            cursor=cursor,
        )
    now = SystemClock().now()
    headings = ("Id", "Time", "Event", "About", "To", "State", "Attempts", "Reason")
    document = {"deliveries": [document_of(each) for each in found]}
    show_table(shared, document, headings, [_row(each, now) for each in found], empty="No deliveries.")


def _find_subject(app: App, about: str) -> str:
    """The id of a job or a batch, of which a part may be given, or another subject's name."""
    for what, missing in (("job", JobNotFound), ("batch", BatchNotFound)):
        with suppress(missing):
            return app.find_id(what, about)
    return about


def _row(each: Delivery, now: datetime) -> tuple[str, ...]:
    about = f"{each.items:,} events" if each.is_digest else each.about
    return (
        each.id,
        at(each.created_at, now),
        each.type,
        about,
        each.to or "",
        _state(each),
        str(each.attempts),
        each.reason or "",
    )


def _state(each: Delivery) -> str:
    if each.state is not DeliveryState.SUPPRESSED:
        return str(each.state)
    return f"in digest {each.digest}" if each.digest else "waits for a digest"


@deliveries.command("show")
@one_argument("delivery", "ID")
@pass_shared
def show_one(shared: SharedOptions, /, *, delivery: str) -> None:
    """Show one delivery with the body that every attempt sends."""
    with open_either(shared) as app:
        found = app.delivery(app.find_id("delivery", delivery))
    lines = [
        f"{name}: {value}"
        for name, value in document_of(found).items()
        if value not in (None, "") and name not in ("response",)
    ]
    answer = [f"answer: {found.response}"] if found.response else []
    body = ["", found.body] if found.body else []
    show(shared, document_of(found, body=found.body), *lines, *answer, *body)


@deliveries.command("redeliver")
@one_argument("delivery", "ID")
@ACTOR
@pass_shared
def redeliver(shared: SharedOptions, /, *, delivery: str, actor: str) -> None:
    """Send the same body under the same id again."""
    with open_either(shared, watches=True) as app:
        again = app.redeliver(app.find_id("delivery", delivery), actor=actor)
    show(shared, document_of(again), f"Delivery {again.id} is {again.state}.")
