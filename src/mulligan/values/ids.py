"""Ids are UUIDv7 strings: globally unique, and sorted by the time they contain."""

import re
from hashlib import sha256

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_id(value: object) -> bool:
    """Whether it has the form of an id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def uuid7(millisecond: int, head: int, tail: int) -> str:
    """An id from 48 bits of time, 12 bits and 62 bits."""
    digits = f"{millisecond:012x}7{head:03x}{0b10 << 62 | tail:016x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_from(cause: str, millisecond: int = 0) -> str:
    """An id from a digest: the same cause gives the same id in every process and at any time.

    `millisecond` since 1970 sorts it among other ids; by default it sorts below all of them.
    """
    digest = int.from_bytes(sha256(cause.encode()).digest()[:10])
    return uuid7(millisecond & (1 << 48) - 1, digest >> 68, digest & (1 << 62) - 1)
