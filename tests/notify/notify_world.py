"""An app with real sinks: a mail server, a receiver of webhooks, and a store whose clock the test moves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from email.message import EmailMessage
from ipaddress import ip_network
from typing import Any

from mail_sink import Accepted, mail_server
from receiver import Receiver, receiving

from mulligan import App, FinalError, JobFilter
from mulligan.notify.smtp_server import parse_smtp_url
from mulligan.records.delivery import Delivery
from mulligan.records.job import Job
from mulligan.records.subscription import DELIVER_KIND
from mulligan.service.config import ServiceBook
from mulligan.settings import Settings
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock
from mulligan.wiring import AppParts

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
LOOPBACK = ip_network("127.0.0.0/8")


class NotifyWorld:
    """`convert` fails for good with the message that it is given; without one it succeeds."""

    def __init__(self, app: App, clock: VirtualClock, mails: list[Accepted], receiver: Receiver) -> None:
        self.app, self.clock, self.mails, self.receiver = app, clock, mails, receiver
        self.convert = app.task("convert")(convert)

    def fail(self, *errors: str, owner: str = "", **options: Any) -> list[Job[Any]]:
        """Jobs that have failed with these errors."""
        submission = self.convert.options(owner=owner, **options)
        jobs = self.app.enqueue_many([submission.bind(error) for error in errors])
        self.app.run_until_idle(timeout="60s")
        return jobs

    def tell(self) -> None:
        """Do what the duties do now, and send what they enqueue. The ends of these jobs are read too."""
        self.app.run_duty("notify")
        self.app.run_duty("digest")
        if self.app.counts(JobFilter(kind=DELIVER_KIND, state=("waiting", "queued"))).total:
            self.app.run_until_idle(timeout="60s")
            self.app.run_duty("notify")

    def advance(self, by: timedelta) -> None:
        self.clock.advance(by)

    def deliveries(self, **filters: Any) -> list[Delivery]:
        """The oldest first."""
        return self.app.deliveries(**filters, limit=1_000)[::-1]

    @property
    def messages(self) -> list[EmailMessage]:
        return [mail.message for mail in self.mails]

    def texts(self) -> list[str]:
        """The plain part of each mail, and its attached files."""
        return [_text_of(message) for message in self.messages]


def convert(error: str) -> str:
    if error:
        raise FinalError(error, code="NOT_PDF")
    return "done"


def _text_of(message: EmailMessage) -> str:
    body = message.get_body(("plain",))
    assert body is not None
    return "\n".join([body.get_content(), *(part.get_content() for part in message.iter_attachments())])


@contextmanager
def notify_world(
    url: str, *, with_smtp: bool = True, settings: dict[str, Any] | None = None, **options: Any
) -> Iterator[NotifyWorld]:
    clock = VirtualClock()
    with mail_server() as mails, receiving() as receiver:
        smtp = f"smtp://127.0.0.1:{mails.port}?from=jobs@example.org&tls=off"
        chosen = Settings(
            database_url=url,
            smtp_url=parse_smtp_url(smtp) if with_smtp else None,
            public_url="https://jobs.example.org",
            webhook_ports=(receiver.port,),
            webhook_allowed_networks=(LOOPBACK,),
            **(settings or {}),
        )
        app = App(settings=chosen, **options)
        with app.wiring.use(AppParts(open_store=opener(clock.now))):
            app.migrate()
            yield NotifyWorld(app, clock, mails.accepted, receiver)


def opener(now: Callable[[], datetime]) -> Callable[[str, Callable[[], ServiceBook]], Store]:
    def open_store(url: str, services: Callable[[], ServiceBook]) -> Store:
        if url.startswith("sqlite:"):
            from mulligan.store.sqlite import SqliteStore

            return SqliteStore(url, now=now, services=services)
        from mulligan.store.postgres import PostgresStore

        return PostgresStore(url, now=now, services=services)

    return open_store
