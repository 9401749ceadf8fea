"""Mail addresses: one mailbox, checked, so that no address can add a header or a recipient."""

import re
from typing import NamedTuple

from mulligan.errors import BadMail
from mulligan.values.check import encodes

ALLOWED = "one address such as 'ada@example.org' or 'Ada <ada@example.org>'"
LONGEST_ADDRESS = 254
LONGEST_NAME = 200
# RFC 5322's dot-atom. Quoted local parts are legal, and nearly always an attack or a mistake.
_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_DOMAIN = re.compile(r"(?:(?!-)[A-Za-z0-9-]{1,63}(?<!-)\.)*(?!-)[A-Za-z0-9-]{1,63}(?<!-)")


class Mailbox(NamedTuple):
    name: str
    local: str
    domain: str

    @property
    def address(self) -> str:
        return f"{self.local}@{self.domain}"


def parse_mailbox(text: str) -> Mailbox:
    """`ada@example.org` or `Ada <ada@example.org>`. Raises BadMail."""
    if not isinstance(text, str) or not text.isprintable() or not encodes(text):
        raise BadMail("the address", text, ALLOWED)
    name, bracket, address = text.rpartition("<")
    if bracket and not address.endswith(">"):
        raise BadMail("the address", text, ALLOWED)
    local, _, domain = (address.removesuffix(">") if bracket else text).strip().rpartition("@")
    name = name.strip().strip('"')
    fits = _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(domain) and len(local) <= 64
    # Python decodes an encoded word inside a name, and what it contains becomes part of the header.
    fits = fits and "=?" not in name
    if not fits or len(local) + len(domain) >= LONGEST_ADDRESS or len(name) > LONGEST_NAME:
        raise BadMail("the address", text, ALLOWED)
    return Mailbox(name, local, domain.lower())
