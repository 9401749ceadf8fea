"""Connections to addresses that a user chose, without a way into the operator's own network.

A name is resolved once, every address that it has is checked, and the connection goes to a checked address: a name that
resolves to another address a moment later changes nothing.
"""

import re
import socket
import ssl
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from queue import Empty, SimpleQueue
from typing import TypeAlias
from urllib.parse import SplitResult, urlsplit

from mulligan.errors import TargetRefused
from mulligan.values.address import Address, Network, is_reachable, parse_address
from mulligan.values.clock import Clock, SystemClock
from mulligan.values.duration import Duration, parse

LONGEST_URL = 2_000
_PORTS = {"https": 443, "http": 80}
# Parsers disagree about all others: some drop tabs and line breaks, some read a backslash as a slash.
_URL = re.compile(r"[!-\[\]^-~]+")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
# Resolvers read such a last label as a part of an IPv4 address: 127.1, 0x7f.1, 2130706433.
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")

Resolve: TypeAlias = Callable[[str, int], list[Address]]
"""All addresses of a host. Raises OSError."""


def _resolve_by_system(host: str, port: int) -> list[Address]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    addresses = [parse_address(str(entry[4][0])) for entry in found]
    return list(dict.fromkeys(address for address in addresses if address is not None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Egress:
    """What outgoing connections may reach: public addresses and the allowed networks, on these ports.

        egress = Egress(ports=(80, 443))
        target = egress.check("https://example.org/page")
        connection = egress.open(target.host, target.port, timeout="10s")

    `ports`      the ports that may be called
    `allowed`    networks that may be reached although they are not public, as `ipaddress.ip_network("10.1.0.0/16")`
    `endpoints`  single listeners that may be reached on any port, as `(ipaddress.ip_address("127.0.0.1"), 8080)`
    `resolve`    finds the addresses of a host; default: the system's resolver

    A name is resolved once. Every address that it has is checked, and the connection goes to a checked address.
    """

    ports: Collection[int] = (443,)
    allowed: Collection[Network] = ()
    endpoints: Collection[tuple[Address, int]] = ()
    resolve: Resolve = field(default=_resolve_by_system, repr=False, compare=False)

    def check(self, url: str) -> "Target":
        """Return the parts of a URL whose form and port are allowed. Its addresses are not looked at.

        Raises TargetRefused.
        """
        return check_url(url, self)

    def open(self, host: str, port: int, *, timeout: Duration = "10s") -> socket.socket:
        """Connect to a checked address of the host, without TLS. The call blocks for at most `timeout`.

        Raises TargetRefused, and OSError with its subclasses TimeoutError and socket.gaierror.
        """
        deadline = Deadline(SystemClock(), parse(timeout).total_seconds())
        return _connect_to_one(find_addresses(self._target(host, port), self, deadline), port, deadline)

    def look_up(self, host: str, port: int, *, timeout: Duration = "10s") -> list[Address]:
        """Return every address of the host, all of them checked, without connecting.

        The name may resolve to others a moment later: this tells a user early, and only `open` is safe. Raises as
        `open`.
        """
        return find_addresses(self._target(host, port), self, Deadline(SystemClock(), parse(timeout).total_seconds()))

    def _target(self, host: str, port: int) -> "Target":
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        return check_url(f"http://[{bare}]:{port}/" if ":" in bare else f"http://{bare}:{port}/", self)

    def may_use(self, port: int) -> bool:
        """Whether an address exists that may be called on this port."""
        return port in self.ports or any(port == each for _, each in self.endpoints)

    def may_reach(self, address: Address, port: int) -> bool:
        return (address, port) in self.endpoints or (port in self.ports and is_reachable(address, self.allowed))


@dataclass(frozen=True, slots=True)
class Target:
    """A URL whose form was checked. `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "https"

    @property
    def netloc(self) -> str:
        """The `Host` header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """Without the path, which may contain a secret."""
        return f"{self.scheme}://{self.netloc}"


class Deadline:
    """A point in time that several waits share."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self._end = clock, clock.monotonic() + seconds

    def left(self, doing: str) -> float:
        """The seconds that are left. Raises TimeoutError if there are none."""
        left = self._end - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError(f"timed out while {doing}")
        return left

    def sooner(self, seconds: float) -> "Deadline":
        """Now plus these seconds, but not after this deadline."""
        return Deadline(self._clock, min(seconds, self._end - self._clock.monotonic()))


def check_url(url: str, egress: Egress) -> Target:
    """The parts of a URL that may be called. Raises TargetRefused."""
    if not isinstance(url, str) or len(url) > LONGEST_URL or not _URL.fullmatch(url):
        raise TargetRefused(
            "the URL", f"must be at most {LONGEST_URL:,} ASCII characters without spaces or backslashes"
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetRefused("the URL", "is malformed") from None
    if parts.scheme not in _PORTS:
        raise TargetRefused("the URL", "must begin with https:// or http://")
    if "@" in parts.netloc:
        raise TargetRefused("the URL", "must not contain a user name or a password")
    if "#" in url:
        raise TargetRefused("the URL", "must not contain a fragment (#…)")
    target = Target(parts.scheme, _check_host(parts), port or _PORTS[parts.scheme], _path(parts))
    if not egress.may_use(target.port) or port == 0:
        allowed = ", ".join(map(str, sorted(egress.ports)))
        raise TargetRefused(target.shown, f"port {target.port} is not allowed; allowed: {allowed}")
    return target


def check_literal(target: Target, egress: Egress) -> None:
    """Refuse an address that may not be reached. A name is looked up when it is called. Raises TargetRefused."""
    literal = parse_address(target.host)
    if literal is not None and not egress.may_reach(literal, target.port):
        raise TargetRefused("the URL", "must not lead to an address that is not public")


def find_addresses(target: Target, egress: Egress, deadline: Deadline) -> list[Address]:
    """Every address of the host, all checked. Raises TargetRefused if one of them is not allowed."""
    literal = parse_address(target.host)
    found = [literal] if literal else _resolve_in_time(target, egress.resolve, deadline)
    if not found:
        raise OSError(f"{target.host} has no address")
    if not all(egress.may_reach(address, target.port) for address in found):
        # The address stays out of the message: it would describe the operator's network.
        raise TargetRefused(target.shown, "leads to an address that is not public")
    return found


def connect(target: Target, egress: Egress, deadline: Deadline) -> socket.socket:
    """A connection to a checked address of the target, encrypted for https.

    Raises TargetRefused, or OSError with its subclasses TimeoutError and ssl.SSLError.
    """
    connection = _connect_to_one(find_addresses(target, egress, deadline), target.port, deadline)
    if not target.is_encrypted:
        return connection
    try:
        connection.settimeout(deadline.left("connecting"))
        return tls_context().wrap_socket(connection, server_hostname=target.host)
    except BaseException:
        connection.close()
        raise


@cache
def tls_context() -> ssl.SSLContext:
    """It trusts what the system trusts. Kept because reading all certificates takes 20 ms."""
    return ssl.create_default_context()


def _check_host(parts: SplitResult) -> str:
    host = (parts.hostname or "").removesuffix(".")
    if "[" in parts.netloc or parse_address(host):
        address = parse_address(host)
        if address is None or "%" in host:
            raise TargetRefused("the host", "must be a name or an IP address without a zone")
        return str(address)
    labels = host.split(".")
    if len(host) > 253 or not all(map(_LABEL.fullmatch, labels)) or _NUMBER.fullmatch(labels[-1]):
        raise TargetRefused("the host", "must be a name in ASCII (xn--… if it has other letters) or an IP address")
    return host


def _path(parts: SplitResult) -> str:
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def _resolve_in_time(target: Target, resolve: Resolve, deadline: Deadline) -> list[Address]:
    """The resolver takes no timeout. An answer that comes too late is dropped, and its thread ends."""
    answers: SimpleQueue[list[Address] | OSError] = SimpleQueue()

    def ask() -> None:
        try:
            answers.put(resolve(target.host, target.port))
        except OSError as error:
            answers.put(error)
        except UnicodeError as error:
            answers.put(OSError(str(error)))

    threading.Thread(target=ask, name="mulligan-resolve", daemon=True).start()
    try:
        answer = answers.get(timeout=deadline.left("resolving the name"))
    except Empty:
        raise TimeoutError(f"timed out while resolving {target.host}") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _connect_to_one(addresses: list[Address], port: int, deadline: Deadline) -> socket.socket:
    """The first address that answers."""
    last: OSError | None = None
    for address in addresses:
        try:
            # A literal address: the system resolves nothing again.
            return socket.create_connection((str(address), port), timeout=deadline.left("connecting"))
        except OSError as error:
            last = error
    assert last is not None
    raise last
