"""Which subscriptions get which events: now, or in a digest. Pure: values in, values out."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from mulligan.explain.context import hide_in_event
from mulligan.failure.redact import first_line
from mulligan.lifecycle import ALERT_EVENTS
from mulligan.records.delivery import DeliveryState, DigestPlan, Incident, NewDelivery, NotifyKeys, NotifyPlan
from mulligan.records.delivery import NotifyState as State
from mulligan.records.document import to_json
from mulligan.records.event import Event
from mulligan.records.finding import Check
from mulligan.records.subscription import (
    DEFAULT_DIGEST,
    DELIVER_KIND,
    SERVICE_PREFIX,
    Channel,
    SubscriptionRecord,
    about,
)
from mulligan.service.records import PROBE_KIND
from mulligan.values.ids import id_from
from mulligan.values.moment import microseconds

# Jobs of the engine itself.
BUILT_IN_KINDS = frozenset({PROBE_KIND, DELIVER_KIND})
# Mails to one recipient in an hour. The last ones are kept for digests.
MAILS_PER_HOUR = 10
MAILS_AT_ONCE = 7
# Pauses between digests that follow each other: 5 minutes, 30 minutes, 3 hours, 6 hours.
GROWTH = 6
LONGEST_PAUSE = timedelta(hours=6)
# A group of failures is over if it has not recurred for this long; or for the second, and none of its jobs is failed.
QUIET = timedelta(hours=1)
SHORT_QUIET = timedelta(minutes=10)
RESOLVED = "group.resolved"
# Not sent: they are long, and shown by `mulligan jobs show`.
LEFT_OUT = frozenset({"detail", "failure"})


Encode = Callable[["Message", str, Event, int], str]
"""Makes the frozen body of a webhook from its message, the id of the delivery, the event and the sequence."""


@dataclass(frozen=True, slots=True)
class Match:
    subscription: SubscriptionRecord
    event: Event

    @property
    def shown(self) -> Event:
        """The event as the owner of the subscription may see it."""
        return self.event if self.subscription.owner is None else hide_in_event(self.event)


@dataclass(frozen=True, slots=True)
class Message:
    """What a webhook says: the type and the data of a CloudEvent."""

    type: str
    data: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A match with its recipient. Without one, `reason` says why it is not sent. `message` is the webhook's own."""

    match: Match
    to: str | None
    message: Message | None = None
    label: str | None = None
    reason: str | None = None
    is_failed: bool = False


def match(
    events: Iterable[Event], subscriptions: Sequence[SubscriptionRecord], tags: Mapping[str, Sequence[str]]
) -> list[Match]:
    """The pairs in the order of the events. `tags` are those of the events' jobs."""
    return [
        Match(subscription, event)
        for event in events
        if can_notify(event)
        for subscription in subscriptions
        if _fits(subscription, event, tags.get(event.job, ()))
    ]


def can_notify(event: Event) -> bool:
    """False for the engine's own jobs and services: a mail about a mail that failed would fail too, and so on. And for
    an alert that is silenced."""
    if event.type in ALERT_EVENTS:
        return not event.data.get("silenced") and not _is_of_deliveries(event)
    return event.kind not in BUILT_IN_KINDS and not event.service.startswith(SERVICE_PREFIX)


def _is_of_deliveries(event: Event) -> bool:
    is_theirs = str(event.data.get("subject", "")).startswith(SERVICE_PREFIX)
    return is_theirs or event.data.get("name") == Check.DELIVERIES


def _fits(subscription: SubscriptionRecord, event: Event, tags: Sequence[str]) -> bool:
    choice = subscription.choice
    if event.type not in choice.types or event.at < subscription.created_at:
        return False
    if subscription.owner is not None and event.owner != subscription.owner:
        return False
    given = (
        (choice.kind, event.kind),
        (choice.queue, event.queue),
        (choice.batch, event.batch),
        (choice.code, event.code),
        (choice.group, event.data.get("group")),
        (choice.of_owner, event.owner),
    )
    return all(wanted is None or wanted == found for wanted, found in given) and (
        choice.tag is None or choice.tag in tags
    )


def wants_tags(subscriptions: Iterable[SubscriptionRecord]) -> bool:
    return any(subscription.choice.tag is not None for subscription in subscriptions)


# What is sent now, and what later


def keys_of(notifications: Iterable[Notification]) -> NotifyKeys:
    """What the plan needs to know."""
    sent = [each for each in notifications if each.to is not None]
    mails = [each for each in sent if each.match.subscription.channel is Channel.EMAIL]
    return NotifyKeys(
        incidents=frozenset(incident_id(each) for each in mails),
        digests=frozenset((each.match.subscription.id, each.to or "") for each in mails),
        sequences=frozenset(_subject(each) for each in sent if each.match.subscription.channel is Channel.WEBHOOK),
    )


def incident_id(notification: Notification) -> str:
    """Alike are failures of one group, kind and owner. Other events are alike if they are about the same subject."""
    event = notification.match.event
    group = event.data.get("group")
    alike = (event.owner, event.kind, str(group)) if group else (about(event),)
    return sha256(
        "\n".join((notification.match.subscription.id, notification.to or "", event.type, *alike)).encode()
    ).hexdigest()


def plan(notifications: Sequence[Notification], state: State, *, encode: Encode) -> NotifyPlan:
    """The deliveries, incidents and digests to store. `encode` makes the frozen body of a webhook."""
    planner = _Planner(state, encode)
    deliveries = [planner.plan(each) for each in notifications]
    return NotifyPlan(deliveries, list(planner.incidents.values()), list(planner.digests.values()))


class _Planner:
    def __init__(self, state: State, encode: Encode) -> None:
        self._state, self._encode = state, encode
        self.incidents: dict[str, Incident] = {}
        self.digests: dict[str, DigestPlan] = {}
        self._mails = Counter(state.mails)
        self._sequences = dict(state.sequences)
        self._causes = Counter[str]()

    def plan(self, notification: Notification) -> NewDelivery:
        new = self._new(notification)
        if notification.to is None:
            state = DeliveryState.FAILED if notification.is_failed else DeliveryState.SKIPPED
            return replace(new, state=state, reason=notification.reason)
        if notification.match.subscription.channel is Channel.WEBHOOK:
            return self._webhook(notification, new)
        return self._mail(notification, new)

    def _new(self, notification: Notification) -> NewDelivery:
        subscription, event = notification.match.subscription, notification.match.event
        return NewDelivery(
            id=self._id(notification.match),
            subscription=subscription.id,
            owner=subscription.owner,
            about_owner=event.owner,
            channel=subscription.channel,
            type=event.type,
            about=about(event),
            to=notification.to,
            state=DeliveryState.PENDING,
        )

    def _id(self, found: Match) -> str:
        """The same for the same event and subscription. Two events of one transaction may be alike."""
        event = found.event
        cause = f"{found.subscription.id}/{event.position}/{event.type}/{about(event)}/{event.attempt}"
        self._causes[cause] += 1
        return id_from(f"{cause}/{self._causes[cause]}", microseconds(event.at) // 1000)

    def _webhook(self, notification: Notification, new: NewDelivery) -> NewDelivery:
        subject = _subject(notification)
        self._sequences[subject] = sequence = self._sequences.get(subject, 0) + 1
        message = notification.message or default_message(notification.match.shown)
        body = self._encode(message, new.id, notification.match.event, sequence)
        return replace(new, type=message.type, sequence=sequence, body=body)

    def _mail(self, notification: Notification, new: NewDelivery) -> NewDelivery:
        subscription, to = notification.match.subscription, notification.to or ""
        is_known = self._note_incident(notification)
        new = replace(
            new,
            event=snapshot(notification.match.shown) | ({"label": notification.label} if notification.label else {}),
        )
        if (subscription.digest is None or not is_known) and self._mails[to] < MAILS_AT_ONCE:
            self._mails[to] += 1
            return new
        self._open_digest(subscription, to)
        return replace(new, state=DeliveryState.SUPPRESSED)

    def _note_incident(self, notification: Notification) -> bool:
        """Whether it was open before."""
        found_id, event = incident_id(notification), notification.match.event
        found = self.incidents.get(found_id) or self._state.incidents.get(found_id)
        if found is None:
            self.incidents[found_id] = _new_incident(found_id, notification)
            return False
        self.incidents[found_id] = replace(found, number=found.number + 1, last_at=max(event.at, found.last_at))
        return True

    def _open_digest(self, subscription: SubscriptionRecord, to: str) -> None:
        empty = DigestPlan(subscription=subscription.id, to=to)
        found = self.digests.get(empty.id) or self._state.digests.get(empty.id) or empty
        opened = open_digest(found, subscription.digest or DEFAULT_DIGEST, self._state.now)
        if opened is not found:
            self.digests[opened.id] = opened


def _new_incident(incident: str, notification: Notification) -> Incident:
    event = notification.match.event
    return Incident(
        id=incident,
        subscription=notification.match.subscription.id,
        to=notification.to or "",
        type=event.type,
        kind=event.kind,
        owner=event.owner,
        code=event.code or "",
        group=event.data.get("group"),
        title=title_of(notification.match.shown),
        opened_at=event.at,
        last_at=event.at,
        number=1,
    )


def title_of(event: Event) -> str:
    said = (event.data.get(name) for name in ("error", "message", "found"))
    return first_line(str(next(filter(None, said), None) or event.code or event.type), 200)


def open_digest(digest: DigestPlan, first: timedelta, now: datetime) -> DigestPlan:
    """The digest with a time at which it is due. One that is open stays as it is."""
    if digest.due_at is not None:
        return digest
    # After a rest the pauses begin anew.
    is_rested = digest.last_at is None or now - digest.last_at > 2 * pause(first, digest.step)
    step = 0 if is_rested else digest.step
    return replace(digest, due_at=now + pause(first, step), step=step)


def close_digest(digest: DigestPlan, first: timedelta, now: datetime, *, has_more: bool) -> DigestPlan:
    """The digest after a mail. What is left goes into the next."""
    closed = replace(digest, due_at=None, step=digest.step + 1, last_at=now)
    return open_digest(closed, first, now) if has_more else closed


def pause(first: timedelta, step: int) -> timedelta:
    """How long events are collected. Digests that follow each other come at growing distances."""
    growth: int = GROWTH ** min(step, 20)
    return min(first * growth, max(first, LONGEST_PAUSE))


def resolve(incident: Incident, subscription: SubscriptionRecord, state: State, *, is_retried: bool) -> NotifyPlan:
    """The note that a group of failures is over. It goes into the next digest."""
    how = "no job of the group is failed any more" if is_retried else "no failure for an hour"
    event = {
        "type": RESOLVED,
        "at": to_json(state.now),
        "kind": incident.kind,
        "owner": incident.owner,
        "code": incident.code,
        "group": incident.group,
        "number": incident.number,
        "opened_at": to_json(incident.opened_at),
        "last_at": to_json(incident.last_at),
        "message": f"{incident.title}: {how}",
    }
    note = NewDelivery(
        id=id_from(f"{incident.id}/{microseconds(incident.opened_at)}/resolved", microseconds(state.now) // 1000),
        subscription=subscription.id,
        owner=subscription.owner,
        about_owner=incident.owner,
        channel=subscription.channel,
        type=RESOLVED,
        about=incident.group or "",
        to=incident.to,
        state=DeliveryState.SUPPRESSED,
        event=event,
    )
    digest = state.digests[DigestPlan(subscription=subscription.id, to=incident.to).id]
    return NotifyPlan([note], (), [open_digest(digest, subscription.digest or DEFAULT_DIGEST, state.now)])


# What is sent


def default_message(event: Event) -> Message:
    """The event as the API shows it, without what is long."""
    return Message(event.type, snapshot(event))


def snapshot(event: Event) -> dict[str, Any]:
    data = {name: value for name, value in event.data.items() if name not in LEFT_OUT}
    return {
        "type": event.type,
        "position": event.position,
        "at": to_json(event.at),
        "job": event.job or None,
        "kind": event.kind,
        "owner": event.owner,
        "attempt": event.attempt,
        "actor": event.actor,
        "code": event.code,
        "batch": event.batch,
        "queue": event.queue,
        "service": event.service,
        "data": to_json(data),
    }


def _subject(notification: Notification) -> tuple[str, str]:
    return notification.match.subscription.id, about(notification.match.event)
