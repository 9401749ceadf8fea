"""Subscriptions as the code of an app defines them, with functions that find the recipient and write the message."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from mulligan.errors import BadSecret, BadSubscription
from mulligan.notify.address import parse_mailbox
from mulligan.notify.matching import Message
from mulligan.notify.signature import check_secret
from mulligan.records.batch import BatchRecord
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.records.subscription import (
    LONGEST_TARGET,
    Channel,
    NewSubscription,
    check_channel,
    check_choice,
    check_digest,
)
from mulligan.values.check import NAME, not_allowed
from mulligan.values.duration import Duration

if TYPE_CHECKING:
    # A worker needs them; most programs do not, and they import TLS.
    from mulligan.notify.content import Content

TARGETS = {Channel.EMAIL: "an address such as 'ops@example.org'", Channel.WEBHOOK: "a URL, such as 'https://…'"}


@dataclass(frozen=True, slots=True)
class Notice:
    """An event that a subscription matches, with its job or its batch as they are now. None: deleted, or there is
    none."""

    event: Event
    job: Job[Any] | None = None
    batch: BatchRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bulletin:
    """What one mail says: the name of the subscription, and the events as they were stored when they were matched.

    An event is a mapping with `type`, `at`, `job`, `kind`, `owner`, `attempt`, `code`, `batch`, `data`, and `label`.
    """

    name: str
    events: tuple[Mapping[str, Any], ...]
    is_digest: bool = False


FindRecipient = Callable[[Notice], str | None]
WritePayload = Callable[[Notice], "Message | tuple[str, Mapping[str, Any]]"]
WriteLabel = Callable[[Notice], str]
WriteMail = Callable[[Bulletin], "Content"]


class Subscription:
    """Who gets which events of this app.

        Subscription("failures", types=["job.failed"], channel="email", to="ops@example.org")
        Subscription("ready", types=["batch.settled"], channel="webhook", to="https://example.org/hook",
                     payload=lambda notice: ("campaign_ready", {"state": notice.batch.state}))

    `types`    names of events, as in `app.events()`
    `channel`  "email" or "webhook"
    `to`       an address or a URL; for mail also a function of a `Notice` that returns an address, or None for no mail
    `digest`   how long like failures are collected after the first, which is sent at once; None: each is sent at once,
               as far as the recipient's mails of an hour allow; default: "5m" for mail; webhooks are never collected
    `payload`  of a webhook: a function of a `Notice` that returns the type and the data of its body
    `label`    of a mail: a function of a `Notice` that names whom the job was for
    `template` of a mail: a function of a `Bulletin` that returns a `Content`
    `secret`   of a webhook: `whsec_…`; default: one that `mulligan subscriptions rotate` shows
    `owner`    whose events; then the subscription belongs to that owner; default: those of all owners
    `kind`, `queue`, `batch`, `code`, `group`, `of_owner`, `tag`   only events with these

    The name identifies it: workers store it when they start, and a later definition replaces an earlier one. The
    functions are called by workers. Raises BadSubscription for options that cannot work.
    """

    def __init__(
        self,
        name: str,
        *,
        types: Iterable[str],
        channel: str,
        to: str | FindRecipient,
        digest: Duration | UnsetType | None = UNSET,
        payload: WritePayload | None = None,
        label: WriteLabel | None = None,
        template: WriteMail | None = None,
        secret: str | None = None,
        owner: str | None = None,
        kind: str | None = None,
        queue: str | None = None,
        batch: str | None = None,
        code: str | None = None,
        group: str | None = None,
        of_owner: str | None = None,
        tag: str | None = None,
    ) -> None:
        if not NAME.fits(name):
            raise BadSubscription(not_allowed("the name of a subscription", name, NAME.allowed))
        self.name, self.owner = name, owner
        chosen = {
            "kind": kind, "queue": queue, "batch": batch, "code": code, "group": group, "of_owner": of_owner, "tag": tag
        }  # fmt: skip
        try:
            self.choice = check_choice(types, chosen)
            self.channel = check_channel(channel)
            self.to = None if callable(to) else check_target(self.channel, to)
            self.digest = check_digest(self.channel, digest)
        except ValueError as error:
            raise BadSubscription(f"subscription {name!r}: {error}") from None
        self.find = to if callable(to) else None
        self.payload, self.label, self.template = payload, label, template
        self._check_functions()
        self.secret = self._check_secret(secret)

    def _check_functions(self) -> None:
        of_mail = (("to", self.find), ("label", self.label), ("template", self.template))
        others = of_mail if self.channel is Channel.WEBHOOK else (("payload", self.payload),)
        for option, function in others:
            if function is not None:
                raise BadSubscription(f"subscription {self.name!r}: {option}= is no function of a {self.channel}")
        for option, function in (*of_mail, ("payload", self.payload)):
            if function is not None and not callable(function):
                raise BadSubscription(f"subscription {self.name!r}: {not_allowed(option, function, 'a function')}")

    def _check_secret(self, secret: str | None) -> str | None:
        if secret is None:
            return None
        try:
            check_secret(secret)
        except BadSecret as error:
            raise BadSubscription(f"subscription {self.name!r}: {error}") from None
        return secret

    @property
    def key(self) -> tuple[str | None, str]:
        return self.owner, self.name

    def __repr__(self) -> str:
        return f"<subscription {self.name!r}: {', '.join(self.choice.types)} by {self.channel}>"

    def to_new(self, new_id: str, secret: str | None) -> NewSubscription:
        """The subscription to store. `secret` is drawn for a webhook whose code gives none."""
        return NewSubscription(
            id=new_id,
            name=self.name,
            owner=self.owner,
            choice=self.choice,
            channel=self.channel,
            to=self.to,
            digest=self.digest,
            is_in_code=True,
            secret=self.secret or secret,
        )


def check_payloads(payloads: Mapping[str, WritePayload]) -> dict[str, WritePayload]:
    """Bodies of webhooks by the type of the event. Raises BadSubscription."""
    for name, function in payloads.items():
        try:
            check_choice([name], {})
        except ValueError as error:
            raise BadSubscription(f"payloads: {error}") from None
        if not callable(function):
            raise BadSubscription(f"payloads: {not_allowed(name, function, 'a function')}")
    return dict(payloads)


def check_target(channel: Channel, to: object) -> str:
    """An address of mail, or a URL. Where a URL leads is checked when it is called. Raises ValueError."""
    if not isinstance(to, str) or not 0 < len(to) <= LONGEST_TARGET or not to.isprintable():
        raise ValueError(not_allowed("to", to, TARGETS[channel]))
    if channel is Channel.EMAIL:
        parse_mailbox(to)
    elif "@" in to.partition("://")[2].partition("/")[0]:
        # Subscriptions are shown with their URL; so the message does not repeat it.
        raise ValueError("to must not contain a user name or a password; receivers check the signature instead")
    return to
