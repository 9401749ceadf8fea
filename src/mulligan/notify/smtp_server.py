"""The mail server, as `MULLIGAN_SMTP_URL` names it."""

from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mulligan.failure.redact import SHORTEST_SECRET
from mulligan.notify.address import parse_mailbox

ALLOWED = (
    "smtp://user:password@host:587?from=jobs@example.org (STARTTLS) or smtps://… (TLS, port 465); "
    "'from' may be left out if the user is an address; '&tls=off' is allowed without a password, or on this machine"
)
_PORTS = {"smtp": 587, "smtps": 465}
_OPTIONS = {"from", "tls"}


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """`encryption` is "tls", "starttls" or "off". `sender` is the address in `From`, with or without a name."""

    host: str
    port: int
    encryption: str
    sender: str
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The password, if it can be masked everywhere: not a short one, and not one that is also a name."""
        if self.password is None or len(self.password) < SHORTEST_SECRET or self.password in (self.user, self.host):
            return ()
        return (self.password,)


def parse_smtp_url(url: str) -> SmtpServer:
    """Raises ValueError; `ALLOWED` says what is possible."""
    parts = urlsplit(url.strip())
    options = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query), keep_blank_values=True))
    if parts.scheme not in _PORTS or not parts.hostname or parts.path.strip("/") or parts.fragment:
        raise ValueError("not an SMTP URL")
    if set(options) - _OPTIONS or options.get("tls", "on") not in ("on", "off"):
        raise ValueError("unknown option")
    user = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    if (user is None) is not (password is None):
        raise ValueError("a user and a password go together")
    sender = options.get("from", user or "")
    parse_mailbox(sender)
    port = parts.port or _PORTS[parts.scheme]
    return SmtpServer(parts.hostname, port, _encryption(parts, options, password), sender, user, password)


def _encryption(parts: SplitResult, options: dict[str, str], password: str | None) -> str:
    if options.get("tls") != "off":
        return "tls" if parts.scheme == "smtps" else "starttls"
    if parts.scheme == "smtps" or (password is not None and not _is_this_machine(parts.hostname or "")):
        raise ValueError("a password is never sent without encryption")
    return "off"


def _is_this_machine(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
