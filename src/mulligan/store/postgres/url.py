"""PostgreSQL URLs: those of libpq, with two additional options."""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from mulligan.errors import BadUrl

SCHEMES = ("postgresql", "postgres")
OPTIONS = {"notify": ("on", "off"), "proxy": ("none", "transaction")}


@dataclass(frozen=True, slots=True)
class Address:
    """`listens`: NOTIFY wakes idle workers. `prepares`: statements are prepared on the server."""

    url: str
    listens: bool
    prepares: bool


def parse_url(url: str) -> Address:
    """`?notify=off` only polls; `?proxy=transaction` is for a proxy that pools transactions, such as pgbouncer."""
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES:
        raise BadUrl(url, "it does not begin with 'postgresql://'")
    # Not decoded: libpq parses the rest differently; a plus stays a plus.
    query = [(part.partition("=")[0], part.partition("=")[2], part) for part in parts.query.split("&") if part]
    chosen = {name: default for name, (default, _) in OPTIONS.items()}
    for name, value, _ in query:
        if name in OPTIONS:
            if value not in OPTIONS[name]:
                raise BadUrl(url, f"{name} is {' or '.join(map(repr, OPTIONS[name]))}, not {value!r}")
            chosen[name] = value
    rest = "&".join(part for name, _, part in query if name not in OPTIONS)
    is_proxied = chosen["proxy"] == "transaction"
    return Address(
        url=urlunsplit(parts._replace(query=rest)),
        listens=chosen["notify"] == "on" and not is_proxied,
        prepares=not is_proxied,
    )
