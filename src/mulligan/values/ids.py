"""Ids are UUIDv7 strings: globally unique, and sorted by the time they contain."""

import re
from hashlib import sha256

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A fingerprint.
_GROUP = re.compile(r"[0-9a-f]{12}")


def is_id(value: object) -> bool:
    """Whether it has the form of an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_complete(what: str, part: str) -> bool:
    """Whether it has the form of a whole id of a `"job"`, a `"group"` and so on; a key's id has none."""
    return _GROUP.fullmatch(part) is not None if what == "group" else is_id(part)


def uuid7(millisecond: int, head: int, tail: int) -> str:
    """An id from 48 bits of time, 12 bits and 62 bits."""
    node, variant = tail & (1 << 48) - 1, 0b10 << 14 | tail >> 48
    # An f-string takes twice as long.
    return "%08x-%04x-7%03x-%04x-%012x" % (millisecond >> 16, millisecond & 0xFFFF, head, variant, node)  # noqa: UP031


def id_from(cause: str, millisecond: int = 0) -> str:
    """An id from a digest: the same cause gives the same id in every process and at any time.

    `millisecond` since 1970 sorts it among other ids; by default it sorts below all of them.
    """
    digest = int.from_bytes(sha256(cause.encode()).digest()[:10])
    return uuid7(millisecond & (1 << 48) - 1, digest >> 68, digest & (1 << 62) - 1)
