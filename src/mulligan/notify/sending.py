"""The engine's own task that sends deliveries, and the jobs it is enqueued as."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from mulligan.failure.backoff import Exponential
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.redact import first_line
from mulligan.failure.verdict import Failure
from mulligan.notify.address import parse_mailbox
from mulligan.notify.smtp_server import SmtpServer
from mulligan.notify.subscription import Bulletin, Subscription
from mulligan.records.delivery import Delivery, DeliveryState, NewDelivery, Outgoing, SendResult
from mulligan.records.job import NewJob
from mulligan.records.subscription import (
    DELIVER_KIND,
    GONE,
    MOST_DELIVERIES,
    SERVICE_PREFIX,
    Channel,
    SubscriptionRecord,
)
from mulligan.store.store import Store
from mulligan.task.client import Client
from mulligan.task.registry import Registry
from mulligan.task.task import Task
from mulligan.values.check import LONGEST_NAME
from mulligan.values.clock import Clock

if TYPE_CHECKING:
    # Imported by the first delivery: they import TLS, which most programs do not need from us.
    from mulligan.egress import Egress
    from mulligan.notify.content import Rendered
    from mulligan.notify.mail import Mail

logger = logging.getLogger("mulligan.notify")

# Tries over two days: after 15 s, 1 min, 4 min, 16 min, 1 h, 4 h, and then each 12 h.
POLICY = RetryPolicy(max_attempts=10, backoff=Exponential("15s", factor=4, cap="12h"))
TIMEOUT = timedelta(minutes=3)
NO_SMTP = "no mail server is configured: set MULLIGAN_SMTP_URL"


def service_of(channel: Channel, to: str | None, owner: str | None) -> str:
    """The service that a delivery depends on. Each host has a breaker of its own, and each owner one for each host:
    what one owner sends there holds no other's."""
    if channel is Channel.EMAIL:
        return f"{SERVICE_PREFIX}smtp"
    try:
        host = urlsplit(to or "").hostname or "nowhere"
    except ValueError:
        host = "nowhere"
    if not owner:
        return f"{SERVICE_PREFIX}{host}"[:LONGEST_NAME]
    # The host is cut first: the owner's deliveries are counted by its name.
    room = LONGEST_NAME - len(f"{SERVICE_PREFIX}/{owner}")
    return f"{SERVICE_PREFIX}{host[: max(room, 1)]}/{owner}"[:LONGEST_NAME]


@dataclass(frozen=True, slots=True)
class Deliver:
    """`definitions` are the subscriptions of the code, by owner and name."""

    store: Callable[[], Store]
    clock: Callable[[], Clock]
    _: KW_ONLY
    definitions: Mapping[tuple[str | None, str], Subscription]
    smtp: Callable[[], SmtpServer | None]
    egress: "Callable[[], Egress]"
    public_url: Callable[[], str | None]

    def deliver(self, delivery: str, service: str) -> dict[str, Any]:  # noqa: ARG002
        """Send one delivery. What goes wrong is recorded, then raised for the engine to decide."""
        outgoing = self.store().outgoing(delivery)
        if outgoing.delivery.state is not DeliveryState.PENDING:
            return {"state": outgoing.delivery.state}
        if reason := self._why_skipped(outgoing):
            self._record(delivery, SendResult(state=DeliveryState.SKIPPED, reason=reason), is_attempt=False)
            return {"state": "skipped", "reason": reason}
        assert outgoing.subscription is not None
        if outgoing.delivery.channel is Channel.WEBHOOK:
            return self._send_webhook(outgoing.delivery, outgoing.subscription, outgoing)
        return self._send_mail(outgoing.delivery, outgoing.subscription)

    def _why_skipped(self, outgoing: Outgoing) -> str | None:
        subscription = outgoing.subscription
        if subscription is None:
            return "the subscription was removed"
        if not subscription.is_enabled:
            # Why is in the subscription: an owner sees deliveries, but not what operators say.
            return "the subscription is disabled"
        return NO_SMTP if outgoing.delivery.channel is Channel.EMAIL and self.smtp() is None else None

    def _send_webhook(self, delivery: Delivery, subscription: SubscriptionRecord, outgoing: Outgoing) -> dict[str, Any]:
        from mulligan.notify.webhook import Webhook, send_webhook

        webhook = Webhook(
            url=delivery.to or "",
            id=delivery.id,
            body=(delivery.body or "").encode(),
            secrets=subscription.secrets(outgoing.now),
        )
        answer = send_webhook(webhook, egress=self.egress(), clock=self.clock())
        if delivery.owner is not None:
            answer = answer.without_network()
        state = DeliveryState.PENDING if answer.error else DeliveryState.DELIVERED
        self._record(
            delivery.id,
            SendResult(
                state=state, reason=answer.error, status=answer.status, response=answer.shown, seconds=answer.seconds
            ),
        )
        if answer.is_gone:
            self.store().disable_subscription(subscription.id, GONE)
            logger.warning("subscription %s (%s) is disabled: %s", subscription.id, subscription.name, GONE)
        answer.raise_for_failure()
        return {"state": "delivered", "status": answer.status}

    def _send_mail(self, delivery: Delivery, subscription: SubscriptionRecord) -> dict[str, Any]:
        from mulligan.notify.mail import send_mail

        server = self.smtp()
        assert server is not None
        began = self.clock().monotonic()
        try:
            mail = self._mail(delivery, subscription)
            send_mail(mail, server=server, date=delivery.created_at)
        except Exception as error:
            reason, seconds = first_line(Failure.of(error).line), self.clock().monotonic() - began
            self._record(delivery.id, SendResult(state=DeliveryState.PENDING, reason=reason, seconds=seconds))
            raise
        seconds = self.clock().monotonic() - began
        self._record(delivery.id, SendResult(state=DeliveryState.DELIVERED, seconds=seconds))
        return {"state": "delivered"}

    def _mail(self, delivery: Delivery, subscription: SubscriptionRecord) -> "Mail":
        """The mail as the first attempt wrote it."""
        from mulligan.notify.content import Rendered
        from mulligan.notify.mail import Mail

        body = delivery.body
        if body is None:
            written = msgspec.json.encode(self._write(delivery, subscription)).decode()
            body = self.store().freeze_delivery(delivery.id, written)
        content = msgspec.json.decode(body, type=Rendered)
        return Mail(
            id=delivery.id,
            to=delivery.to or "",
            subject=content.subject,
            text=content.text,
            html=content.html,
            attachments=content.attachments,
        )

    def _write(self, delivery: Delivery, subscription: SubscriptionRecord) -> "Rendered":
        from mulligan.notify.content import render
        from mulligan.notify.mails import write_mail

        items = self.store().digest_items(delivery.id) if delivery.is_digest else [delivery]
        bulletin = Bulletin(
            name=subscription.name,
            events=tuple(item.event for item in items if item.event is not None),
            is_digest=delivery.is_digest,
        )
        code = self.definitions.get((subscription.owner, subscription.name)) if subscription.is_in_code else None
        template = write_mail if code is None or code.template is None else code.template
        name = parse_mailbox(delivery.to).name if delivery.to else None
        return render(template(bulletin), public_url=self.public_url(), name=name)

    def _record(self, delivery: str, result: SendResult, *, is_attempt: bool = True) -> None:
        self.store().record_delivery(delivery, result, is_attempt=is_attempt)


@dataclass(frozen=True, slots=True)
class DeliveryJobs:
    """Makes the jobs that send deliveries."""

    client: Client
    task: Task[..., Any, Any]
    tasks: Registry

    def limit(self, *, is_needed: bool) -> None:
        """Bound how many run at once while there are subscriptions. Each limit costs every enqueue a little."""
        self.tasks.limit(self.task.name, MOST_DELIVERIES if is_needed else None)

    def to_send(self, delivery: NewDelivery | Delivery, job_id: str, queue: str | None = None) -> NewJob:
        service = service_of(delivery.channel, delivery.to, delivery.owner)
        binding = self.task.options(queue=queue or self.task.queue).bind(delivery.id, service)
        return self.client.new_job(binding, job_id)


def deliver_task(deliver: Deliver, client: Client) -> Task[..., Any, Any]:
    return Task(
        deliver.deliver,
        client=client,
        name=DELIVER_KIND,
        retry=POLICY,
        service=lambda delivery, service: service,  # noqa: ARG005
        timeout=TIMEOUT,
        # It waits in a thread, and a lost worker is no reason to suspect it.
        isolate=False,
    )
