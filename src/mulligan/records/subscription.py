"""Subscriptions: who is told about which events, by mail or by webhook."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from msgspec import UNSET, UnsetType

from mulligan.lifecycle import ALERT_EVENTS, EVENT_TYPES
from mulligan.records.event import Event
from mulligan.values.check import STRING, not_allowed, one_of
from mulligan.values.duration import Duration, parse
from mulligan.values.suggest import unknown

# The kind of the jobs that send mails and webhooks.
DELIVER_KIND = "mulligan.deliver"
# The services that deliveries depend on: `notify:smtp`, and one for each host that gets webhooks.
SERVICE_PREFIX = "notify:"
# How many run at once, over all workers: of one sender, and in all. A receiver that accepts and never answers keeps a
# slot of a worker for as long as a delivery may take.
MOST_OF_SENDER = 3
MOST_DELIVERIES = 100

# The most of each owner, and of the administrators.
MOST_PER_OWNER = 20
MOST_OF_ADMINISTRATORS = 200
# Both secrets of a webhook are used for so long after a rotation.
ROTATION = timedelta(hours=24)
DEFAULT_DIGEST = timedelta(minutes=5)
LONGEST_TARGET = 2_000
# If no worker has reported a subscription of its code for this long, no code has it any more.
UNSEEN_AFTER = timedelta(minutes=2)
SEEN_EVERY = UNSEEN_AFTER / 4
# Why a subscription is disabled that no person has disabled.
GONE = "its receiver answered 410 Gone"


def sender_of(service: str) -> str:
    """Whose deliveries depend on this service: an owner, or the service itself if nobody owns them."""
    return service.partition("/")[2] or service


class Channel(StrEnum):
    EMAIL = "email"
    WEBHOOK = "webhook"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventChoice:
    """Which events: those of one of the types that fit all given fields. `of_owner` is the owner of the job or batch,
    `tag` a tag of the job."""

    types: tuple[str, ...]
    kind: str | None = None
    queue: str | None = None
    batch: str | None = None
    code: str | None = None
    group: str | None = None
    of_owner: str | None = None
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """`until` is when the secret ends after a rotation."""

    secret: str = field(repr=False)
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionRecord:
    """One stored subscription.

    `owner` is None for one of the administrators, which sees the events of all owners; an owner's sees its own only.
    `to` is an address of mail or a URL; None: a function in the code finds it. `digest` is the first pause between the
    mails about one group of failures. With `is_in_code`, it is defined by `App(subscriptions=…)`, and `seen_at` is when
    a worker last reported it.
    """

    id: str
    name: str
    owner: str | None
    choice: EventChoice
    channel: Channel
    to: str | None
    digest: timedelta | None = None
    is_in_code: bool = False
    created_at: datetime
    created_by: str | None = None
    disabled_at: datetime | None = None
    disabled_because: str | None = None
    seen_at: datetime | None = None
    _secrets: tuple[SigningSecret, ...] = field(default=(), repr=False)

    @property
    def is_enabled(self) -> bool:
        return self.disabled_at is None

    def is_in_use(self, now: datetime) -> bool:
        """Whether it is enabled, and its code is still there."""
        return self.is_enabled and (not self.is_in_code or self.seen_at is None or now - self.seen_at < UNSEEN_AFTER)

    def secrets(self, now: datetime) -> list[str]:
        """Those that sign now: the newest first."""
        return [each.secret for each in self._secrets if each.until is None or each.until > now]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSubscription:
    """A new subscription. `secret` signs its webhooks; it is shown this once. None for mail."""

    subscription: SubscriptionRecord
    secret: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubscription:
    """A subscription to store."""

    id: str
    name: str
    owner: str | None
    choice: EventChoice
    channel: Channel
    to: str | None
    digest: timedelta | None
    created_by: str | None = None
    is_in_code: bool = False
    secret: str | None = field(default=None, repr=False)


def about(event: Event) -> str:
    """What an event is about: the id of its job or batch, or the name of another subject."""
    name = str(event.data.get("name") or event.service)
    # Alerts of one check about two queues are two things.
    part = event.data.get("subject") if event.type in ALERT_EVENTS else None
    return event.job or event.batch or (f"{name} {part}" if part else name)


# Checks: each raises ValueError, with what is possible.

_CHANNEL = one_of(tuple(map(str, Channel)))


def check_choice(types: Iterable[str], fields: Mapping[str, str | None]) -> EventChoice:
    given = _to_list(types)
    if not given or not all(isinstance(each, str) for each in given):
        raise ValueError(not_allowed("types", given or types, "a list of event types, such as ['job.failed']"))
    wanted = tuple(dict.fromkeys(given))
    for each in wanted:
        if each not in EVENT_TYPES:
            raise ValueError(unknown("type of event", each, EVENT_TYPES))
    for name, value in fields.items():
        if value is not None and not STRING.fits(value):
            raise ValueError(not_allowed(name, value, STRING.allowed))
    return EventChoice(types=wanted, **fields)


def _to_list(types: Iterable[str]) -> list[str]:
    if isinstance(types, str):
        return [types]
    return list(types) if isinstance(types, Iterable) else []


def check_channel(channel: str) -> Channel:
    if not _CHANNEL.fits(channel):
        raise ValueError(not_allowed("channel", channel, _CHANNEL.allowed))
    return Channel(channel)


def check_digest(channel: Channel, digest: Duration | UnsetType | None) -> timedelta | None:
    if digest is UNSET:
        return DEFAULT_DIGEST if channel is Channel.EMAIL else None
    if digest is None:
        return None
    if channel is Channel.WEBHOOK:
        raise ValueError("digest= is for mails; webhooks are sent one by one")
    length = parse(digest)
    if not timedelta(seconds=1) <= length <= timedelta(days=1):
        raise ValueError(not_allowed("digest", length, "from '1s' to '24h'"))
    return length
