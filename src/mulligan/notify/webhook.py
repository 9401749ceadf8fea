"""Sends one webhook: a signed POST that follows no redirect, to an address that was checked, within a time limit.

The connection is `http.client`'s with a socket of ours. Larger clients have pools, proxies and redirects, each of which
is one more way to another address.
"""

import io
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse
from importlib.metadata import version
from ssl import SSLError
from typing import Any

from mulligan.egress import Deadline, Egress, Target, check_url, connect
from mulligan.errors import TargetRefused, WebhookFailed
from mulligan.failure.redact import first_line, sanitize
from mulligan.failure.verdict import Failure
from mulligan.notify.cloud_event import CONTENT_TYPE
from mulligan.notify.signature import sign
from mulligan.values.clock import Clock, SystemClock
from mulligan.values.text import safe_lines

CONNECT_SECONDS = 5.0
TOTAL_SECONDS = 15.0
# In bytes: what is read of an answer, and what of it is kept to be shown.
MOST_READ = 64 * 1024
MOST_SHOWN = 1024
GONE = 410
UNREACHABLE = "the receiver cannot be reached"
_READ_AT_ONCE = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A message to one receiver. `id` and `body` are the same in every attempt; the signature is made by each.

    `secrets` has one secret, or the new and the old one during a rotation.
    """

    url: str
    id: str
    body: bytes
    secrets: Sequence[str] = field(repr=False)
    content_type: str = CONTENT_TYPE


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """What came of one attempt. `shown` is the beginning of the answer's body, `error` one line if it failed.
    `is_reached` is False if there was no connection."""

    status: int | None = None
    seconds: float | None = None
    shown: str = ""
    error: str | None = None
    is_reached: bool = True
    problem: Exception | None = field(default=None, repr=False, compare=False)

    @property
    def is_gone(self) -> bool:
        """The receiver asks for no more webhooks: its subscription is to be disabled."""
        return self.status == GONE

    def without_network(self) -> "WebhookAnswer":
        """The answer as the owner of the webhook may see it. Whether a name leads into the operator's network, exists,
        or has a server that refuses the connection, looks the same: also in what the engine makes of it."""
        if self.is_reached:
            return self
        problem = ConnectionError(UNREACHABLE)
        problem.__cause__ = self.problem
        return WebhookAnswer(error=UNREACHABLE, is_reached=False, problem=problem)

    def raise_for_failure(self) -> None:
        """Raise what went wrong, for the engine's rules to classify."""
        if self.problem is not None:
            raise self.problem


def send_webhook(webhook: Webhook, *, egress: Egress, clock: Clock | None = None) -> WebhookAnswer:
    """Send it once. A failure is part of the answer and is not raised; a bad secret raises BadSecret."""
    clock = clock or SystemClock()
    started, deadline = clock.monotonic(), Deadline(clock, TOTAL_SECONDS)
    headers = _headers(webhook, clock)
    try:
        target = check_url(webhook.url, egress)
    except TargetRefused as error:
        answer = _failed(error)
    else:
        answer = _call(target, webhook.body, headers, egress, deadline)
    return replace(answer, seconds=clock.monotonic() - started)


def _headers(webhook: Webhook, clock: Clock) -> dict[str, str]:
    timestamp = int(clock.now().timestamp())
    return {
        "content-type": webhook.content_type,
        "user-agent": f"mulligan/{version('mulligan')}",
        "accept-encoding": "identity",
        "connection": "close",
        **sign(webhook.body, message_id=webhook.id, timestamp=timestamp, secrets=webhook.secrets),
    }


def _failed(problem: Exception, *, status: int | None = None, shown: str = "") -> WebhookAnswer:
    line = first_line(Failure.of(problem).line)
    return WebhookAnswer(status=status, shown=shown, error=line, problem=problem)


def _call(target: Target, body: bytes, headers: Mapping[str, str], egress: Egress, deadline: Deadline) -> WebhookAnswer:
    try:
        opened = connect(target, egress, deadline.sooner(CONNECT_SECONDS))
    except SSLError as error:
        return _failed(error)
    except (TargetRefused, OSError) as error:
        return replace(_failed(error), is_reached=False)
    try:
        return _exchange(opened, target, body, headers, deadline)
    except (OSError, HTTPException) as error:
        return _failed(error)


def _exchange(
    opened: socket.socket, target: Target, body: bytes, headers: Mapping[str, str], deadline: Deadline
) -> WebhookAnswer:
    with opened:
        connection = HTTPConnection(target.host, target.port)
        connection.sock = _Timed(opened, deadline)
        connection.request("POST", target.path, body=body, headers={"host": target.netloc, **headers})
        response = connection.getresponse()
        status = response.status
        # Only the status counts: an answer that breaks off was given.
        shown = _show(_read(response))
    if 200 <= status < 300:
        return WebhookAnswer(status=status, shown=shown)
    said = {name: value for name in ("Retry-After", "Date") if (value := response.getheader(name))}
    return _failed(WebhookFailed(target.shown, status, said), status=status, shown=shown)


def _read(response: HTTPResponse) -> bytes:
    """At most 64 KiB of the body. The rest is not read."""
    found = b""
    try:
        while len(found) < MOST_READ and (part := response.read1(min(_READ_AT_ONCE, MOST_READ - len(found)))):
            found += part
    except (OSError, HTTPException):
        pass
    return found


def _show(body: bytes) -> str:
    text = sanitize(safe_lines(body[: 2 * MOST_SHOWN].decode(errors="replace")), 2 * MOST_SHOWN)
    return text.encode()[:MOST_SHOWN].decode(errors="ignore")


class _Timed:
    """A socket whose every read and write ends at the deadline: a server that sends a byte a second gains nothing."""

    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline

    def sendall(self, data: Any) -> None:
        # Not by the socket's own, which waits that long for each part if the connection is encrypted.
        rest = memoryview(data)
        while rest:
            self._connection.settimeout(self._deadline.left("sending"))
            rest = rest[self._connection.send(rest) :]

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(_TimedReader(self._connection, self._deadline))

    def close(self) -> None:
        """Nothing: `http.client` closes it after the head if the server will, and the body is still to be read."""


class _TimedReader(io.RawIOBase):
    def __init__(self, connection: socket.socket, deadline: Deadline) -> None:
        self._connection, self._deadline = connection, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(self._deadline.left("waiting for the answer"))
        return self._connection.recv_into(buffer)
