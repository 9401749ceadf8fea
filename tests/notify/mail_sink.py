"""A mail server on loopback: it keeps what it accepts, and answers as the recipient's name asks.

`r450@…` is answered with 450 to RCPT, `d552@…` with 552 to DATA; everything else is accepted.
"""

import asyncio
import contextlib
import re
import socketserver
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

_WISH = re.compile(r"([rdm])([45]\d\d)")
USER, PASSWORD = "jobs@example.org", "correct horse battery"


@dataclass
class Accepted:
    sender: str
    recipients: list[str]
    content: bytes

    @property
    def message(self) -> EmailMessage:
        return cast("EmailMessage", message_from_bytes(self.content, policy=policy.default))


class Sink:
    def __init__(self) -> None:
        self.accepted: list[Accepted] = []

    async def handle_RCPT(
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        wish = _WISH.match(address)
        if wish and wish[1] == "r":
            return f"{wish[2]} 4.2.1 said to {address}"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:
        wish = _WISH.match(envelope.rcpt_tos[0])
        if wish and wish[1] == "d":
            return f"{wish[2]} 5.2.2 said to {envelope.rcpt_tos[0]}"
        assert isinstance(envelope.content, bytes)
        self.accepted.append(Accepted(envelope.mail_from or "", envelope.rcpt_tos, envelope.content))
        return "250 OK"


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and data == LoginPassword(USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


@dataclass
class MailServer:
    port: int
    accepted: list[Accepted]


@contextlib.contextmanager
def mail_server(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, auth: bool = False
) -> Iterator[MailServer]:
    """A server on a loop and a thread of its own."""
    sink, loop = Sink(), asyncio.new_event_loop()

    def session() -> SMTP:
        return SMTP(
            sink,
            hostname="localhost",
            loop=loop,
            tls_context=starttls,
            authenticator=_authenticate,
            auth_required=auth,
            auth_require_tls=starttls is not None,
        )

    server = loop.run_until_complete(loop.create_server(session, "127.0.0.1", 0, ssl=tls))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield MailServer(int(server.sockets[0].getsockname()[1]), sink.accepted)
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.run_until_complete(_end_sessions(loop))
        loop.close()


async def _end_sessions(loop: asyncio.AbstractEventLoop) -> None:
    rest = [task for task in asyncio.all_tasks(loop) if task is not asyncio.current_task()]
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


class _Script(socketserver.StreamRequestHandler):
    """Sends the next line after each line that comes; then it hangs up."""

    timeout = 20.0

    def handle(self) -> None:
        for line in self.server.lines:  # type: ignore[attr-defined]
            self.wfile.write(f"{line}\r\n".encode())
            if not self.rfile.readline():
                return


@contextlib.contextmanager
def scripted(*lines: str) -> Iterator[int]:
    """A server that speaks exactly these lines; its port."""
    with socketserver.TCPServer(("127.0.0.1", 0), _Script) as server:
        server.lines = lines  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()
