"""`mulligan subscriptions`: who is told about which events."""

from datetime import datetime
from typing import Any

import click
from msgspec import UNSET

from mulligan.cli.errors import WrongUsage
from mulligan.cli.opening import open_app, open_either
from mulligan.cli.options import (
    ACTOR,
    KIND,
    Group,
    SharedOptions,
    complete_ids,
    limit_option,
    one_argument,
    pass_shared,
)
from mulligan.cli.output import show, show_table
from mulligan.cli.parameters import text
from mulligan.explain.words import at
from mulligan.records.document import document_of
from mulligan.records.subscription import Channel, SubscriptionRecord
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe


@click.group("subscriptions", cls=Group)
def subscriptions() -> None:
    """List, add, test and remove subscriptions to events, by mail and webhook."""


@subscriptions.command("list")
@click.option("--owner", type=text, help="Only those of this owner.")
@limit_option(50)
@click.option("--cursor", type=text, help="The id of the last subscription of the previous page.")
@pass_shared
def list_all(shared: SharedOptions, /, *, owner: str | None, limit: int, cursor: str | None) -> None:
    """List subscriptions, those of the code too."""
    with open_either(shared) as app:
        found = app.subscriptions(owner=owner, limit=limit, cursor=cursor)
    now = SystemClock().now()
    headings = ("Id", "Name", "Owner", "Events", "To", "Digest", "State")
    document = {"subscriptions": [document_of(each) for each in found]}
    show_table(shared, document, headings, [_row(each, now) for each in found], empty="No subscriptions.")


def _row(each: SubscriptionRecord, now: datetime) -> tuple[str, ...]:
    owner = "(all)" if each.owner is None else each.owner
    to = f"{each.channel} {each.to or '(found by the code)'}"
    digest = "" if each.digest is None else describe(each.digest)
    return each.id, each.name, owner, ", ".join(each.choice.types), to, digest, _state(each, now)


def _state(each: SubscriptionRecord, now: datetime) -> str:
    if each.disabled_at is not None:
        return f"disabled {at(each.disabled_at, now)}: {each.disabled_because}"
    if not each.is_in_code:
        return "enabled"
    return "enabled, in the code" if each.is_in_use(now) else "no worker has its code"


@subscriptions.command("show")
@one_argument("subscription", "ID")
@pass_shared
def show_one(shared: SharedOptions, /, *, subscription: str) -> None:
    """Show one subscription. Its secrets are not shown."""
    with open_either(shared) as app:
        found = app.subscription(app.find_id("subscription", subscription))
    document = document_of(found)
    chosen = document.pop("choice")
    lines = [f"{name}: {value}" for name, value in (*document.items(), *chosen.items()) if value not in (None, [])]
    show(shared, document_of(found), *lines)


@subscriptions.command("add")
@click.option("--name", type=text, required=True, help="For people; each owner uses a name once.")
@click.option(
    "--type", "types", type=text, multiple=True, required=True, help="An event type; may be given several times."
)
@click.option("--email", type=text, help="Tell this address of mail.")
@click.option("--webhook", type=text, help="Tell this URL.")
@click.option("--owner", type=text, help="Only events of this owner, who sees the subscription.  [default: all owners]")
@click.option("--digest", type=text, help="How long like failures are collected, or 'none'.  [default: 5m]")
@KIND
@click.option("--queue", type=text)
@click.option("--batch", type=text, help="The id of the batch, or six characters of its end.")
@click.option("--code", type=text, help="The error code.")
@click.option("--group", type=text, help="The group of failures, or six characters of its beginning.")
@click.option("--of-owner", type=text, help="Only events of this owner, who does not see the subscription.")
@click.option("--tag", type=text)
@ACTOR
@pass_shared
def add(
    shared: SharedOptions,
    /,
    *,
    email: str | None,
    webhook: str | None,
    digest: str | None,
    actor: str,
    **options: Any,
) -> None:
    """Add a subscription. The secret of a webhook is printed this once."""
    if (email is None) is (webhook is None):
        raise WrongUsage("UsageError", "give either --email ADDRESS or --webhook URL", shared)
    channel = Channel.EMAIL if email is not None else Channel.WEBHOOK
    chosen = UNSET if digest is None else None if digest == "none" else digest
    with open_either(shared) if shared.server else open_app(shared) as app:
        created = app.subscribe(
            options.pop("name"),
            channel=channel,
            to=email or webhook or "",
            digest=chosen,
            actor=actor,
            **complete_ids(app, options, "batch", "group"),
        )
    secret = [created.secret, "The secret is not shown again."] if created.secret else []
    show(shared, document_of(created), f"Subscription {created.subscription.id} is stored.", *secret)


@subscriptions.command("remove")
@one_argument("subscription", "ID")
@ACTOR
@pass_shared
def remove(shared: SharedOptions, /, *, subscription: str, actor: str) -> None:
    """Remove a subscription. What was not sent yet is skipped."""
    with open_either(shared, watches=True) as app:
        removed = app.unsubscribe(app.find_id("subscription", subscription), actor=actor)
    show(shared, document_of(removed), f"Subscription {removed.id} ({removed.name}) is removed.")


@subscriptions.command("disable")
@one_argument("subscription", "ID")
@click.option("--reason", type=text, help="Why; it is shown.")
@ACTOR
@pass_shared
def disable(shared: SharedOptions, /, *, subscription: str, reason: str | None, actor: str) -> None:
    """Stop telling a subscription."""
    with open_either(shared, watches=True) as app:
        changed = app.disable_subscription(app.find_id("subscription", subscription), reason=reason, actor=actor)
    show(shared, document_of(changed), f"Subscription {changed.id} ({changed.name}) is disabled.")


@subscriptions.command("enable")
@one_argument("subscription", "ID")
@ACTOR
@pass_shared
def enable(shared: SharedOptions, /, *, subscription: str, actor: str) -> None:
    """Tell a disabled subscription again, from now on."""
    with open_either(shared, watches=True) as app:
        changed = app.enable_subscription(app.find_id("subscription", subscription), actor=actor)
    show(shared, document_of(changed), f"Subscription {changed.id} ({changed.name}) is enabled.")


@subscriptions.command("rotate")
@one_argument("subscription", "ID")
@ACTOR
@pass_shared
def rotate(shared: SharedOptions, /, *, subscription: str, actor: str) -> None:
    """Print a new secret of a webhook. For a day, the previous one signs as well."""
    with open_either(shared, watches=True) as app:
        rotated = app.rotate_secret(app.find_id("subscription", subscription), actor=actor)
    show(
        shared,
        document_of(rotated),
        str(rotated.secret),
        "The secret is not shown again. The previous one signs as well for 24 hours.",
    )


@subscriptions.command("test")
@one_argument("subscription", "ID")
@ACTOR
@pass_shared
def test(shared: SharedOptions, /, *, subscription: str, actor: str) -> None:
    """Send a sample to the recipient, by a worker."""
    with open_either(shared, watches=True) as app:
        sent = app.test_subscription(app.find_id("subscription", subscription), actor=actor)
    show(shared, document_of(sent), f"Delivery {sent.id} is {sent.state}; see: mulligan deliveries show {sent.id}")
