"""Subscriptions and the log of their deliveries. An owner's key reaches those of its own owner."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.errors import (
    DeliveryNotFound,
    SubscriptionExists,
    SubscriptionNotAllowed,
    SubscriptionNotFound,
    TooManySubscriptions,
)
from mulligan.records.delivery import Delivery, DeliveryState
from mulligan.records.document import Document, document_of
from mulligan.records.key import Scope
from mulligan.records.subscription import LONGEST_TARGET, Channel, CreatedSubscription, SubscriptionRecord
from mulligan.values.check import LONGEST_NAME
from mulligan.web.api.terms import Duration, PageSize, Reason, String
from mulligan.web.problems import Problem
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Subscriptions")

MANAGE = Scope.WEBHOOKS_MANAGE
_Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class SubscriptionsQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: PageSize = 50
    cursor: String | None = None


class NewSubscriptionBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: _Name
    """For people; each owner uses a name once."""
    types: Annotated[list[String], Meta(min_length=1, max_length=100, examples=[["job.failed"]])]
    """Which events."""
    channel: Channel
    """Only an administrator's key subscribes an address of mail."""
    to: Annotated[str, Meta(max_length=LONGEST_TARGET, examples=["https://example.org/hook"])]
    """A URL, or an address of mail."""
    owner: _Name | UnsetType | None = UNSET
    """Whose events, and whose subscription. Only an administrator gives it; null: the events of all owners."""
    digest: Duration | UnsetType | None = UNSET
    """Of mails: how long like failures are collected after the first. Null: each is told at once."""
    kind: String | None = None
    queue: String | None = None
    batch: String | None = None
    code: String | None = None
    group: String | None = None
    of_owner: String | None = None
    tag: String | None = None


@routes.get("/subscriptions", scope=MANAGE, answer=Many("subscriptions", SubscriptionRecord, pages=True))
def subscriptions(call: Call, query: SubscriptionsQuery) -> Any:
    """The subscriptions by id, also disabled ones and those of the code."""
    found = call.console.subscriptions(limit=query.limit, cursor=query.cursor)
    return found, found[-1].id if len(found) == query.limit else None


@routes.post(
    "/subscriptions",
    scope=MANAGE,
    answer=One(CreatedSubscription),
    status=201,
    errors=[SubscriptionExists, SubscriptionNotAllowed, TooManySubscriptions],
)
def subscribe(call: Call, body: NewSubscriptionBody) -> Any:
    """Subscribe to events. The secret that signs webhooks is in the answer, and is not shown again."""
    chosen = {name: getattr(body, name) for name in ("kind", "queue", "batch", "code", "group", "of_owner", "tag")}
    created = call.console.subscribe(
        body.name,
        types=body.types,
        channel=body.channel,
        to=body.to,
        digest=body.digest,
        request_id=call.request_id,
        **chosen,
        **_owner(call, body),
    )
    call.request.state.target = created.subscription.id
    return created


def _owner(call: Call, body: NewSubscriptionBody) -> dict[str, Any]:
    """Only an administrator chooses the owner: the console adds the owner of another caller."""
    if call.caller.is_admin:
        return {"owner": None if body.owner is UNSET else body.owner}
    if body.owner is not UNSET and body.owner != call.caller.owner:
        raise Problem(403, "FORBIDDEN", "a key makes subscriptions of its own owner only", path="$.owner")
    return {}


@routes.get(
    "/subscriptions/{subscription_id}", scope=MANAGE, answer=One(SubscriptionRecord), errors=[SubscriptionNotFound]
)
def subscription(call: Call, subscription_id: str) -> Any:
    """One subscription. Its secrets are not shown."""
    return call.console.subscription(subscription_id)


@routes.delete(
    "/subscriptions/{subscription_id}",
    scope=MANAGE,
    answer=One(SubscriptionRecord),
    errors=[SubscriptionNotFound, SubscriptionNotAllowed],
)
def unsubscribe(call: Call, subscription_id: str) -> Any:
    """Remove a subscription. What was not sent yet is skipped."""
    return call.console.unsubscribe(subscription_id, request_id=call.request_id)


@routes.post(
    "/subscriptions/{subscription_id}/disable",
    scope=MANAGE,
    answer=One(SubscriptionRecord),
    errors=[SubscriptionNotFound],
)
def disable_subscription(call: Call, subscription_id: str, body: Reason) -> Any:
    """Stop telling a subscription. What was not sent yet is skipped."""
    return call.console.disable_subscription(subscription_id, reason=body.reason, request_id=call.request_id)


@routes.post(
    "/subscriptions/{subscription_id}/enable",
    scope=MANAGE,
    answer=One(SubscriptionRecord),
    errors=[SubscriptionNotFound],
)
def enable_subscription(call: Call, subscription_id: str) -> Any:
    """Tell a disabled subscription again, from now on."""
    return call.console.enable_subscription(subscription_id, request_id=call.request_id)


@routes.post(
    "/subscriptions/{subscription_id}/rotate",
    scope=MANAGE,
    answer=One(CreatedSubscription),
    errors=[SubscriptionNotFound, SubscriptionNotAllowed],
)
def rotate_secret(call: Call, subscription_id: str) -> Any:
    """Give a webhook a new secret, shown this once. For a day, the previous one signs as well."""
    return call.console.rotate_secret(subscription_id, request_id=call.request_id)


@routes.post(
    "/subscriptions/{subscription_id}/test",
    scope=MANAGE,
    answer=One(Delivery),
    errors=[SubscriptionNotFound, SubscriptionNotAllowed],
)
def send_sample(call: Call, subscription_id: str) -> Any:
    """Send a sample to the recipient. `GET /deliveries/{id}` shows what came of it."""
    return call.console.test_subscription(subscription_id, request_id=call.request_id)


class DeliveriesQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    subscription: String | None = None
    state: DeliveryState | None = None
    about: String | None = None
    """The id of the job or batch that the event is about."""
    digest: String | None = None
    """The id of a digest: the deliveries that it tells of."""
    limit: PageSize = 50
    cursor: String | None = None


@routes.get("/deliveries", scope=MANAGE, answer=Many("deliveries", Delivery, pages=True))
def deliveries(call: Call, query: DeliveriesQuery) -> Any:
    """What subscriptions were told, newest first."""
    found = call.console.deliveries(
        subscription=query.subscription,
        state=query.state,
        about=query.about,
        digest=query.digest,
        limit=query.limit,
        cursor=query.cursor,
    )
    return found, found[-1].id if len(found) == query.limit else None


@routes.get("/deliveries/{delivery_id}", scope=MANAGE, answer=One(Delivery), errors=[DeliveryNotFound])
def delivery(call: Call, delivery_id: str) -> Any:
    """One delivery, with the body that every attempt sends."""
    found: Delivery = call.console.delivery(delivery_id)
    shown: Document = document_of(found, body=found.body)
    return shown


@routes.post("/deliveries/{delivery_id}/redeliver", scope=MANAGE, answer=One(Delivery), errors=[DeliveryNotFound])
def redeliver(call: Call, delivery_id: str) -> Any:
    """Send the same body under the same id again. One that is pending or told in a digest does not change."""
    return call.console.redeliver(delivery_id, request_id=call.request_id)
