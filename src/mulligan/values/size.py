"""Sizes of memory as people write them: `"512M"`, `"2G"`, a number of bytes."""

import re

_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_WHOLE = re.compile(r"(\d{1,15})([KMGT]?)(?:I?B)?")

LARGEST = 2**50


class BadSize(ValueError):
    """The value is not a size."""

    def __init__(self, value: object) -> None:
        super().__init__(f"{value!r:.80} is not a size; use a number of bytes or a string such as '512M' or '2G'")


def parse_size(value: int | str) -> int:
    """The size in bytes; K is 1024 bytes."""
    size = _parse_string(value) if isinstance(value, str) else value
    if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= LARGEST:
        raise BadSize(value)
    return size


def _parse_string(text: str) -> int | None:
    found = _WHOLE.fullmatch(text.strip().upper())
    return int(found[1]) * _UNITS[found[2]] if found else None


def describe_size(size: int) -> str:
    """A size for people: `512M`, `1.5G`."""
    for unit in ("T", "G", "M", "K"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.1f}".removesuffix(".0") + unit
    return f"{size}B"
