"""Deliveries: one row for each event that a subscription is told, whether at once, in a digest, or not at all."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, ClassVar

from mulligan.records.document import Shape
from mulligan.records.job import NewJob
from mulligan.records.subscription import Channel, SubscriptionRecord

# Of an answer, in bytes.
MOST_SHOWN = 1_024
# How many events one digest tells of; the rest is told by the next.
MOST_ITEMS = 10_000


class DeliveryState(StrEnum):
    PENDING = "pending"
    """A job sends it."""
    DELIVERED = "delivered"
    FAILED = "failed"
    """Its job failed for good."""
    SKIPPED = "skipped"
    """It is not sent; `reason` says why."""
    SUPPRESSED = "suppressed"
    """It is told in a digest: `digest` is the id of that delivery, once it is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message, or one event that a digest tells of.

    `id` is the `webhook-id` or part of the `Message-ID` of every attempt, so that a receiver can tell repeats. `body`
    is what is sent, unchanged by every attempt. `sequence` counts the webhooks of one subscription about one job or
    batch, from 1: a gap means that one is missing or late. `job` is the job that sends it.
    """

    _shape: ClassVar = Shape(given={"body": str | None})

    id: str
    subscription: str
    owner: str | None
    channel: Channel
    type: str
    about: str
    to: str | None
    state: DeliveryState
    reason: str | None = None
    digest: str | None = None
    items: int = 0
    """Of a digest: of how many events it tells."""
    sequence: int | None = None
    job: str | None = None
    attempts: int = 0
    status: int | None = None
    """The HTTP status of the last answer."""
    response: str | None = None
    """The beginning of the last answer."""
    seconds: float | None = None
    """How long the last attempt took."""
    created_at: datetime
    updated_at: datetime
    delivered_at: datetime | None = None
    _event: Mapping[str, Any] | None = field(default=None, repr=False)
    _body: str | None = field(default=None, repr=False)

    @property
    def body(self) -> str | None:
        """What every attempt sends: of a webhook the JSON, of a mail its parts. None before the first attempt."""
        return self._body

    @property
    def event(self) -> Mapping[str, Any] | None:
        """What a mail tells of the event."""
        return self._event

    @property
    def is_digest(self) -> bool:
        return self.items > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDelivery:
    """A delivery to store. `event` is what mails tell of the event; `body` is the frozen body of a webhook."""

    id: str
    subscription: str
    owner: str | None
    about_owner: str = ""
    channel: Channel
    type: str
    about: str
    to: str | None
    state: DeliveryState
    reason: str | None = None
    items: int = 0
    sequence: int | None = None
    job: str | None = None
    event: Mapping[str, Any] | None = None
    body: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """Like events that go on: the first was told at once, the others are told in digests. `group` is None for events
    that are no failures."""

    id: str
    subscription: str
    to: str
    type: str
    kind: str
    owner: str
    code: str
    group: str | None
    title: str
    opened_at: datetime
    last_at: datetime
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestPlan:
    """When the next digest of a subscription to a recipient is due; None while there is nothing to tell. `step` counts
    the digests that followed each other: each pause is longer than the one before."""

    subscription: str
    to: str
    due_at: datetime | None = None
    step: int = 0
    last_at: datetime | None = None

    @property
    def id(self) -> str:
        return digest_id(self.subscription, self.to)


def digest_id(subscription: str, to: str) -> str:
    return f"{subscription}/{to}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyKeys:
    """What of the state a plan needs: incidents by id; subscription and recipient of digests; subscription and subject
    of sequences."""

    incidents: frozenset[str] = frozenset()
    digests: frozenset[tuple[str, str]] = frozenset()
    sequences: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyState:
    """What the store knows when events are told. `mails` counts those of the last hour by recipient; `sequences` has
    the last number by subscription and subject."""

    now: datetime
    incidents: Mapping[str, Incident] = field(default_factory=dict)
    digests: Mapping[str, DigestPlan] = field(default_factory=dict)
    mails: Mapping[str, int] = field(default_factory=dict)
    sequences: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NotifyPlan:
    """What is written together with the cursor."""

    deliveries: Sequence[NewDelivery] = ()
    incidents: Sequence[Incident] = ()
    digests: Sequence[DigestPlan] = ()
    jobs: Sequence[NewJob] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifyStep:
    """Events of the log that are told, from one position of the cursor to another. `ended` are jobs that sent
    deliveries and failed or were cancelled, with the reason."""

    cursor: str
    before: int
    position: int
    keys: NotifyKeys
    plan: Callable[[NotifyState], NotifyPlan]
    ended: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """What came of one attempt. `state` is PENDING if the job may try again."""

    state: DeliveryState
    reason: str | None = None
    status: int | None = None
    response: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Undelivered:
    """How many deliveries failed or were skipped, with one of the reasons."""

    state: DeliveryState
    channel: Channel
    number: int
    reason: str | None


@dataclass(frozen=True, slots=True)
class DigestContents:
    """What a digest that is due tells: `number` events, and whether more are left for the next."""

    number: int
    has_more: bool
    now: datetime


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A delivery with its subscription, None if that was removed, and the time of the store."""

    delivery: Delivery
    subscription: SubscriptionRecord | None
    now: datetime
