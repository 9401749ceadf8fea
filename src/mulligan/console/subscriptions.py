"""Subscriptions: create, list, test and remove them, and rotate their secrets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from mulligan.console.arguments import BY_THE_CALL, CURSOR, FLAG, KEY_NAME, NAME, PAGE_SIZE, REQUEST_ID, STRING, check
from mulligan.errors import BadSubscriptionOption, SubscriptionNotAllowed, TargetRefused
from mulligan.failure.redact import bounded
from mulligan.records.admission import NewAuditEntry
from mulligan.records.delivery import Delivery, DeliveryState, NewDelivery
from mulligan.records.document import to_json
from mulligan.records.job import NewJob
from mulligan.records.subscription import (
    Channel,
    CreatedSubscription,
    NewSubscription,
    SigningSecret,
    SubscriptionRecord,
    check_channel,
    check_choice,
    check_digest,
)
from mulligan.store.requests import DELIVERY, AnswerFormat, format_with, to_once
from mulligan.store.store import Store
from mulligan.values.duration import Duration

T = TypeVar("T")

RECORD: AnswerFormat[SubscriptionRecord] = format_with(SubscriptionRecord, _secrets=tuple[SigningSecret, ...])
UNKNOWN_ACTOR = "unknown"
TEST = "subscription.test"
# Of one subscription at a time, by an owner.
MOST_TESTS = 3


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """`check_target` raises for an address that cannot be used; `to_job` makes the job that sends a delivery."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    _: KW_ONLY
    cursor: str
    new_secret: Callable[[], str]
    check_target: Callable[[Channel, str], str]
    to_job: Callable[[NewDelivery, str], NewJob]

    @check(
        name=KEY_NAME,
        types=BY_THE_CALL,
        channel=BY_THE_CALL,
        to=BY_THE_CALL,
        owner=KEY_NAME,
        digest=BY_THE_CALL,
        fields=BY_THE_CALL,
        for_owner=FLAG,
        is_audited=FLAG,
        actor=STRING,
        request_id=REQUEST_ID,
    )
    def create(
        self,
        name: str,
        *,
        types: Iterable[str],
        channel: str,
        to: str,
        owner: str | None = None,
        digest: Duration | UnsetType | None = UNSET,
        fields: Mapping[str, str | None],
        for_owner: bool = False,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedSubscription:
        """With `for_owner`, the owner itself creates it: no mails, which could go to strangers."""
        choice = _option("types", lambda: check_choice(types, fields))
        by = _option("channel", lambda: check_channel(channel))
        if for_owner and by is Channel.EMAIL:
            raise SubscriptionNotAllowed("only an administrator subscribes an address of mail; a webhook is possible")
        new = NewSubscription(
            id=self.ids(),
            name=name,
            owner=owner,
            choice=choice,
            channel=by,
            to=_option("to", lambda: self.check_target(by, to)),
            digest=_option("digest", lambda: check_digest(by, digest)),
            created_by=bounded(actor),
            secret=self.new_secret() if by is Channel.WEBHOOK else None,
        )
        audit = self._audit("create subscription", new.id, owner, actor, is_audited=is_audited)
        once = to_once(
            request_id,
            "subscribe",
            RECORD,
            owner,
            name=name,
            choice=choice,
            channel=by,
            to=new.to,
            digest=new.digest,
            actor=actor,
        )
        created = self.store().create_subscription(new, cursor=self.cursor, audit=audit, once=once)
        return _show(created)

    @check(owner=KEY_NAME, limit=PAGE_SIZE, cursor=CURSOR)
    def list_all(
        self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> list[SubscriptionRecord]:
        return self.store().subscriptions(owner=owner, limit=limit, cursor=cursor)

    @check(subscription=NAME, owner=KEY_NAME)
    def find(self, subscription: str, *, owner: str | None = None) -> SubscriptionRecord:
        return self.store().subscription(subscription, owner=owner)

    @check(subscription=NAME, owner=KEY_NAME, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def remove(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        once = to_once(request_id, "unsubscribe", RECORD, owner, subscription=subscription, actor=actor)
        if answers := self.store().find_answers(once):
            return answers[0]
        self._refuse_code(subscription, owner, "remove")
        audit = self._audit("remove subscription", subscription, owner, actor, is_audited=is_audited)
        return self.store().remove_subscription(subscription, owner=owner, audit=audit, once=once)

    def _refuse_code(self, subscription: str, owner: str | None, verb: str) -> None:
        found = self.store().subscription(subscription, owner=owner)
        if found.is_in_code and found.is_in_use(self.store().now()):
            raise SubscriptionNotAllowed(
                f"cannot {verb} subscription {found.name!r}: it is in the code of an app, which would store it again; "
                "disable it instead"
            )

    @check(subscription=NAME, owner=KEY_NAME, reason=STRING, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def disable(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        reason: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        audit = self._audit("disable subscription", subscription, owner, actor, is_audited=is_audited)
        because = bounded(reason or f"by {actor or UNKNOWN_ACTOR}")
        terms = {"subscription": subscription, "reason": reason, "actor": actor}
        once = to_once(request_id, "disable subscription", RECORD, owner, **terms)
        return self.store().disable_subscription(subscription, because, owner=owner, audit=audit, once=once)

    @check(subscription=NAME, owner=KEY_NAME, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def enable(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        audit = self._audit("enable subscription", subscription, owner, actor, is_audited=is_audited)
        once = to_once(request_id, "enable subscription", RECORD, owner, subscription=subscription, actor=actor)
        return self.store().enable_subscription(subscription, owner=owner, audit=audit, once=once)

    @check(subscription=NAME, owner=KEY_NAME, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def rotate(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedSubscription:
        once = to_once(request_id, "rotate secret", RECORD, owner, subscription=subscription, actor=actor)
        if answers := self.store().find_answers(once):
            return _show(answers[0])
        found = self.store().subscription(subscription, owner=owner)
        if found.channel is not Channel.WEBHOOK:
            raise SubscriptionNotAllowed(f"subscription {found.name!r} sends mails, which have no secret")
        secret = self.new_secret()
        audit = self._audit("rotate secret", subscription, owner, actor, is_audited=is_audited)
        return _show(self.store().rotate_secret(subscription, secret, owner=owner, audit=audit, once=once))

    @check(subscription=NAME, owner=KEY_NAME, is_audited=FLAG, actor=STRING, request_id=REQUEST_ID)
    def test(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Delivery:
        """Send a sample, whatever the subscription chooses. One whose code finds the recipient cannot be tested."""
        once = to_once(request_id, "test subscription", DELIVERY, owner, subscription=subscription, actor=actor)
        if answers := self.store().find_answers(once):
            return answers[0]
        found = self.store().subscription(subscription, owner=owner)
        if found.to is None:
            raise SubscriptionNotAllowed(
                f"subscription {found.name!r} cannot be tested: a function finds its recipient from an event"
            )
        if owner is not None:
            self._refuse_many_tests(found)
        new = self._sample(found)
        audit = self._audit("test subscription", subscription, owner, actor, is_audited=is_audited)
        return self.store().send_test(new, self.to_job(new, new.id), audit=audit, once=once)

    def _refuse_many_tests(self, subscription: SubscriptionRecord) -> None:
        """An owner's samples to a server that never answers would keep the workers of all owners waiting."""
        pending = self.store().deliveries(subscription=subscription.id, state=DeliveryState.PENDING, limit=MOST_TESTS)
        if len(pending) == MOST_TESTS:
            raise SubscriptionNotAllowed(
                f"subscription {subscription.name!r} cannot be tested now: {MOST_TESTS} deliveries are on their way, "
                "wait until they have ended"
            )

    def _sample(self, subscription: SubscriptionRecord) -> NewDelivery:
        new_id, now = self.ids(), to_json(self.store().now())
        about = {"type": TEST, "at": now, "data": {"name": subscription.name, "message": "This is a test."}}
        body = {"specversion": "1.0", "id": new_id, "source": "mulligan", "type": TEST, "time": now, "data": about}
        return NewDelivery(
            id=new_id,
            subscription=subscription.id,
            owner=subscription.owner,
            channel=subscription.channel,
            type=TEST,
            about=subscription.name,
            to=subscription.to,
            state=DeliveryState.PENDING,
            job=new_id,
            event=about,
            body=_encode(body) if subscription.channel is Channel.WEBHOOK else None,
        )

    def _audit(
        self, action: str, target: str, owner: str | None, actor: str | None, *, is_audited: bool
    ) -> list[NewAuditEntry]:
        """An entry, unless the caller has recorded the change."""
        if is_audited:
            return []
        by = bounded(actor or UNKNOWN_ACTOR)
        return [NewAuditEntry(id=self.ids(), actor=by, action=action, target=target, owner=owner)]


def _show(record: SubscriptionRecord) -> CreatedSubscription:
    """With the secret that signs from now on, also in the answer to a repeated request."""
    secret = record._secrets[0].secret if record._secrets else None
    return CreatedSubscription(subscription=record, secret=secret)


def _option(name: str, read: Callable[[], T]) -> T:
    try:
        return read()
    except (ValueError, TargetRefused) as error:
        raise BadSubscriptionOption(name, str(error)) from None


def _encode(body: dict[str, Any]) -> str:
    return msgspec.json.encode(body).decode()
