"""Notifications: what is sent to whom, what came of it, and the hooks that partners call. An owner sees its own."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from mulligan.lifecycle import EVENT_TYPES
from mulligan.records.delivery import Delivery, DeliveryState
from mulligan.records.key import Scope
from mulligan.records.subscription import Channel, SubscriptionRecord
from mulligan.web.api.terms import String
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.sentence import Piece, Sentence, clock, failed, held
from mulligan.web.pages.words import joined, listing, number, plural, verb

pages = Pages("Notifications")

MANAGE = Scope.WEBHOOKS_MANAGE
PAGE, RECENT = 50, 20
# Events that people subscribe to most; all others are offered below them.
USUAL = {
    "job.failed": "a job failed for good",
    "alert.fired": "an alert fires",
    "alert.resolved": "an alert has ended",
    "batch.settled": "a batch has finished",
    "service.opened": "a service is down",
    "service.closed": "a service is back",
    "redrive.stopped": "a redrive stopped by itself",
    "redrive.finished": "a redrive is done",
}
CHOSEN = ("kind", "queue", "batch", "code", "group", "of_owner", "tag")


class PageQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    cursor: String | None = None


class DeliveriesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    subscription: String = ""
    state: Literal["", "pending", "delivered", "failed", "skipped", "suppressed"] = ""
    cursor: String | None = None


class SubscriptionForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    channel: Channel
    to: str
    types: list[str] = []
    owner: str | None = None
    digest: str | None = None
    kind: str | None = None
    queue: str | None = None
    batch: str | None = None
    code: str | None = None
    group: str | None = None
    of_owner: str | None = None
    tag: str | None = None


class HookForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    group: str | None = None
    batch: str | None = None
    owner: str | None = None


def describe_notifications(
    subscriptions: Sequence[SubscriptionRecord], deliveries: Sequence[Delivery], *, has_more: bool
) -> Sentence:
    if not subscriptions:
        nothing = "Failures are shown on these pages only. A subscription sends them by mail or to a webhook."
        return Sentence(("There is no subscription yet.",), (nothing,))
    count = f"{PAGE} or more subscriptions" if has_more else plural(len(subscriptions), "subscription")
    return Sentence((f"{count}.", *_disabled(subscriptions)), (_delivered(deliveries),))


def _disabled(subscriptions: Sequence[SubscriptionRecord]) -> list[Piece]:
    off = sum(not each.is_enabled for each in subscriptions)
    return [" ", held(f"{number(off)} {verb(off, 'is', 'are')} disabled"), "."] if off else []


def _delivered(deliveries: Sequence[Delivery]) -> str:
    if not deliveries:
        return "Nothing was delivered yet."
    bad = sum(each.state is DeliveryState.FAILED for each in deliveries)
    if len(deliveries) == 1:
        return "The only delivery failed." if bad else "The only delivery did not fail."
    return f"{number(bad) if bad else 'None'} of the last {number(len(deliveries))} deliveries failed."


def describe_subscription(found: SubscriptionRecord, deliveries: Sequence[Delivery], *, is_used: bool) -> Sentence:
    where = "by mail" if found.channel is Channel.EMAIL else "to a webhook"
    if found.disabled_at is not None:
        why = f"{found.disabled_because[:1].upper()}{found.disabled_because[1:]}." if found.disabled_because else ""
        return Sentence((f"{found.name} ", held("is disabled"), " since ", clock(found.disabled_at), "."), (why,))
    if not is_used:
        return Sentence((f"{found.name} is not in the code any more.",), ("Nothing is sent; it can be removed.",))
    return Sentence((f"{found.name} sends {listing(found.choice.types)} {where}.",), (_delivered(deliveries),))


def describe_deliveries(deliveries: Sequence[Delivery], query: DeliveriesQuery) -> Sentence:
    number = len(deliveries)
    if query.cursor is not None:
        return Sentence((f"Older deliveries{_in_state(query.state, 2)}.",))
    if not deliveries:
        nothing = f"There are no deliveries{_in_state(query.state, 2)}."
        return Sentence((nothing,), ("Each event that matches a subscription is one.",))
    least = "At least " if number == PAGE else ""
    return Sentence((f"{least}{plural(number, 'delivery', 'deliveries')}{_in_state(query.state, number)}.",))


def _in_state(state: str, number: int) -> str:
    """`that were skipped`"""
    words = {
        "pending": f"{verb(number, 'is', 'are')} pending",
        "delivered": f"{verb(number, 'was', 'were')} delivered",
        "failed": "failed",
        "skipped": f"{verb(number, 'was', 'were')} skipped",
        "suppressed": f"{verb(number, 'is', 'are')} part of a digest",
    }
    return f" that {words[state]}" if state else ""


def describe_delivery(delivery: Delivery) -> Sentence:
    what = f"{delivery.type} about {delivery.about}"
    tried = f"{plural(delivery.attempts, 'attempt')}." if delivery.attempts else "It was not sent yet."
    match delivery.state:
        case DeliveryState.DELIVERED:
            return Sentence((f"{what} was delivered.",), (tried,))
        case DeliveryState.FAILED:
            return Sentence((f"{what} ", failed("was not delivered"), "."), (joined(_why(delivery), tried),))
        case DeliveryState.SKIPPED:
            return Sentence((f"{what} was not sent.",), (_why(delivery),))
        case DeliveryState.SUPPRESSED:
            when = "The digest was sent." if delivery.digest else "The next digest has it."
            return Sentence((f"{what} is part of a digest.",), (when,))
    return Sentence((f"{what} is on its way.",), (joined(_why(delivery), tried),))


def _why(delivery: Delivery) -> str:
    return f"{delivery.reason[:1].upper()}{delivery.reason[1:]}." if delivery.reason else ""


def choice_of(subscription: SubscriptionRecord) -> str:
    """Which events of the types, in words: `kind convert, code TIMEOUT`."""
    given = [(name, getattr(subscription.choice, name)) for name in CHOSEN]
    return ", ".join(f"{name.removeprefix('of_')} {value}" for name, value in given if value is not None)


@pages.page("/notifications", scope=MANAGE)
def show_notifications(call: PageCall, query: PageQuery) -> View:
    subscriptions = call.console.subscriptions(limit=PAGE, cursor=query.cursor)
    deliveries = call.console.deliveries(limit=RECENT)
    has_more = len(subscriptions) == PAGE
    return View(
        "notifications.html",
        says=describe_notifications(subscriptions, deliveries, has_more=has_more or query.cursor is not None),
        subscriptions=[(each, choice_of(each), each.is_in_use(call.now)) for each in subscriptions],
        cursor=subscriptions[-1].id if has_more else None,
        deliveries=deliveries,
        names=_names(call, deliveries, subscriptions),
        hooks=call.console.incoming_hooks(limit=PAGE),
        may_retry=call.allows(Scope.JOBS_RETRY),
    )


def _names(
    call: PageCall, deliveries: Sequence[Delivery], known: Sequence[SubscriptionRecord] | None = None
) -> dict[str, str]:
    """The names of the subscriptions of these deliveries, as far as they are among the first."""
    found = call.console.subscriptions(limit=PAGE) if known is None else known
    wanted = {each.subscription for each in deliveries}
    return {each.id: each.name for each in found if each.id in wanted}


@pages.page("/notifications/subscriptions/{subscription_id}", scope=MANAGE)
def show_subscription(call: PageCall, subscription_id: str) -> View:
    found = call.console.subscription(subscription_id)
    deliveries = call.console.deliveries(subscription=found.id, limit=RECENT)
    return View(
        "subscription.html",
        says=describe_subscription(found, deliveries, is_used=found.is_in_use(call.now)),
        subscription=found,
        choice=choice_of(found),
        is_used=found.is_in_use(call.now),
        deliveries=deliveries,
    )


@pages.page("/notifications/deliveries", scope=MANAGE)
def show_deliveries(call: PageCall, query: DeliveriesQuery) -> View:
    found = call.console.deliveries(
        subscription=query.subscription or None, state=query.state or None, limit=PAGE, cursor=query.cursor
    )
    return View(
        "deliveries.html",
        says=describe_deliveries(found, query),
        deliveries=found,
        names=_names(call, found),
        cursor=found[-1].id if len(found) == PAGE else None,
        query=query,
        states=["", *map(str, DeliveryState)],
    )


@pages.page("/notifications/deliveries/{delivery_id}", scope=MANAGE)
def show_delivery(call: PageCall, delivery_id: str) -> View:
    found = call.console.delivery(delivery_id)
    return View("delivery.html", says=describe_delivery(found), delivery=found, names=_names(call, [found]))


@pages.action("/notifications/deliveries/{delivery_id}/redeliver", scope=MANAGE)
def redeliver(call: PageCall, delivery_id: str) -> Done:
    found = call.console.redeliver(delivery_id, request_id=call.request_id)
    path = f"/notifications/deliveries/{found.id}"
    if found.state is not DeliveryState.PENDING:
        return Done(path, "It is part of a digest, and is not sent alone.", tone="held")
    return Done(path, "It is sent again, with the same id and the same body.")


@pages.page("/notifications/new", scope=MANAGE)
def show_new_subscription(call: PageCall) -> View:  # noqa: ARG001
    return View("subscription_new.html", usual=USUAL, others=[each for each in EVENT_TYPES if each not in USUAL])


@pages.action("/notifications/subscribe", scope=MANAGE)
def subscribe(call: PageCall, form: SubscriptionForm) -> View | Done:
    created = call.console.subscribe(
        form.name,
        types=form.types,
        channel=form.channel,
        to=form.to,
        digest=UNSET if form.digest is None or form.channel is Channel.WEBHOOK else form.digest,
        **{name: getattr(form, name) for name in CHOSEN},
        **_owner(call, form.owner),
        request_id=call.request_id,
    )
    call.request.state.target = created.subscription.id
    if created.secret is None:
        done = f"Subscription {form.name} is there."
        return Done(_place(created.subscription), done, "Test it to see that the mail arrives.")
    return View("secret.html", subscription=created.subscription, secret=created.secret, hook=None, is_new=True)


def _place(found: SubscriptionRecord) -> str:
    return f"/notifications/subscriptions/{found.id}"


def _owner(call: PageCall, owner: str | None) -> dict[str, Any]:
    """Only an administrator chooses the owner: the console adds the owner of another caller."""
    return {"owner": owner} if call.caller.is_admin else {}


@pages.action("/notifications/subscriptions/{subscription_id}/test", scope=MANAGE)
def send_sample(call: PageCall, subscription_id: str) -> Done:
    delivery = call.console.test_subscription(subscription_id, request_id=call.request_id)
    return Done(
        f"/notifications/deliveries/{delivery.id}", "A sample is on its way.", "This page shows what comes of it."
    )


@pages.action("/notifications/subscriptions/{subscription_id}/disable", scope=MANAGE)
def disable_subscription(call: PageCall, subscription_id: str, form: WithReason) -> Done:
    found = call.console.disable_subscription(subscription_id, reason=form.reason, request_id=call.request_id)
    return Done(_place(found), f"Subscription {found.name} is disabled.", "What was not sent yet is skipped.")


@pages.action("/notifications/subscriptions/{subscription_id}/enable", scope=MANAGE)
def enable_subscription(call: PageCall, subscription_id: str) -> Done:
    found = call.console.enable_subscription(subscription_id, request_id=call.request_id)
    return Done(_place(found), f"Subscription {found.name} is enabled, from now on.")


@pages.action("/notifications/subscriptions/{subscription_id}/rotate", scope=MANAGE)
def rotate_secret(call: PageCall, subscription_id: str) -> View:
    rotated = call.console.rotate_secret(subscription_id, request_id=call.request_id)
    return View("secret.html", subscription=rotated.subscription, secret=rotated.secret, hook=None, is_new=False)


@pages.action("/notifications/subscriptions/{subscription_id}/remove", scope=MANAGE)
def unsubscribe(call: PageCall, subscription_id: str) -> Done:
    found = call.console.unsubscribe(subscription_id, request_id=call.request_id)
    return Done("/notifications", f"Subscription {found.name} was removed.", "What was not sent yet is skipped.")


@pages.page("/notifications/hooks/new", scope=MANAGE)
def show_new_hook(call: PageCall) -> View:  # noqa: ARG001
    return View("hook_new.html")


@pages.action("/notifications/hooks/create", scope=MANAGE)
def create_hook(call: PageCall, form: HookForm) -> View:
    created = call.console.create_hook(
        form.name, group=form.group, batch=form.batch, request_id=call.request_id, **_owner(call, form.owner)
    )
    call.request.state.target = created.hook.id
    return View("secret.html", hook=created.hook, secret=created.secret, subscription=None, is_new=True)


@pages.action("/notifications/hooks/{hook_id}/remove", scope=MANAGE)
def remove_hook(call: PageCall, hook_id: str) -> Done:
    found = call.console.remove_hook(hook_id, request_id=call.request_id)
    return Done("/notifications", f"Hook {found.name} was removed.", "Calls of it are refused.")
