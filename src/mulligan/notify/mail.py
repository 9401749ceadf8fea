"""Mails: one message to one recipient, made from fixed headers and sent by SMTP."""

import smtplib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from hashlib import sha256

from mulligan.egress import tls_context
from mulligan.errors import BadMail
from mulligan.notify.address import parse_mailbox
from mulligan.notify.smtp_server import SmtpServer
from mulligan.values.check import name as name_of_length

LONGEST_SUBJECT = 120
MOST_ATTACHED = 10 * 1024 * 1024
# For each step of the conversation.
SMTP_SECONDS = 30.0
_FILE_NAME = name_of_length(100)


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file, `text/csv` as UTF-8."""

    name: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """`id` is the delivery's: the same in every attempt, so that a mail that arrives twice can be recognized.

    The subject may be any string; it becomes one line of at most 120 characters.
    """

    id: str
    to: str
    subject: str
    text: str
    html: str | None = None
    attachments: Sequence[Attachment] = ()


def send_mail(mail: Mail, *, server: SmtpServer, date: datetime) -> None:
    """Send it once. `date` is when the delivery was created.

    Raises BadMail, or what `smtplib` raises: the rules of the pack `smtp` classify it.
    """
    message = compose(mail, sender=server.sender, date=date)
    sender, recipient = parse_mailbox(server.sender).address, parse_mailbox(mail.to).address
    with _session(server) as session:
        session.send_message(message, sender, [recipient])


def compose(mail: Mail, *, sender: str, date: datetime) -> EmailMessage:
    """The message. Its headers are these and no others."""
    message = EmailMessage(policy=SMTP)
    message["From"] = _header(sender)
    message["To"] = _header(mail.to)
    message["Subject"] = one_line(mail.subject)
    message["Date"] = format_datetime(date)
    message["Message-ID"] = message_id(mail.id, sender)
    # Absence notes and ticket systems must not answer.
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    message.set_content(_storable(mail.text))
    if mail.html is not None:
        message.add_alternative(_storable(mail.html), subtype="html")
    for attachment in mail.attachments:
        _attach(message, attachment)
    return message


def message_id(delivery: str, sender: str) -> str:
    """The same for every attempt. A digest, because the id may have any form."""
    digest = sha256(delivery.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"<{digest}@{parse_mailbox(sender).domain}>"


def one_line(text: str, longest: int = LONGEST_SUBJECT) -> str:
    """The string as one line: whatever ends or hides a line becomes a space.

    Encoded words (`=?utf-8?q?=0D=0A…?=`) are broken up: Python decodes them, line breaks included, into the header.
    """
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in _storable(text)).split())
    line = line.replace("=?", "= ?")
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def _header(text: str) -> Address:
    mailbox = parse_mailbox(text)
    return Address(mailbox.name, mailbox.local, mailbox.domain)


def _attach(message: EmailMessage, attachment: Attachment) -> None:
    if not _FILE_NAME.fits(attachment.name) or "/" in attachment.name or "\\" in attachment.name:
        raise BadMail("the name of an attachment", attachment.name, f"{_FILE_NAME.allowed}, without slashes")
    content = _storable(attachment.content).encode()
    if len(content) > MOST_ATTACHED:
        raise BadMail("an attachment", f"of {len(content):,} bytes", f"at most {MOST_ATTACHED:,} bytes")
    message.add_attachment(
        content, maintype="text", subtype="csv", filename=attachment.name, params={"charset": "utf-8"}
    )


def _storable(text: str) -> str:
    """Without NUL and lone surrogates, which no encoding of a mail can carry."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


@contextmanager
def _session(server: SmtpServer) -> Iterator[smtplib.SMTP]:
    """A connection, encrypted and logged in as the server's URL says."""
    if server.encryption == "tls":
        opened: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=SMTP_SECONDS, context=tls_context())
    else:
        opened = smtplib.SMTP(server.host, server.port, timeout=SMTP_SECONDS)
    with opened as session:
        if server.encryption == "starttls":
            # Raises SMTPNotSupportedError if the server does not offer it: nothing is sent unencrypted.
            session.starttls(context=tls_context())
        if server.user is not None and server.password is not None:
            session.login(server.user, server.password)
        yield session
