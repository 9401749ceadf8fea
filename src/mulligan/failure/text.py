"""Strings that every store can keep and every page can show."""

import re

LEFT_OUT = "\n[… left out …]\n"

# PostgreSQL refuses NUL, UTF-8 has no lone surrogates.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def storable(text: str) -> str:
    return _UNSTORABLE.sub("\ufffd", text)


def clip(text: str, limit: int) -> str:
    """A storable string of at most `limit` bytes as UTF-8: the whole, or its head and its tail."""
    if len(text) > 2 * limit:
        # A character takes at least one byte, so nothing between these parts could remain.
        text = text[:limit] + text[-limit:]
    encoded = storable(text).encode()
    if len(encoded) <= limit:
        return encoded.decode()
    half = (limit - len(LEFT_OUT.encode())) // 2
    return encoded[:half].decode(errors="ignore") + LEFT_OUT + encoded[-half:].decode(errors="ignore")


def first_line(text: str, limit: int = 500) -> str:
    """The first line that is not empty, at most `limit` characters, safe for a terminal."""
    lines = (line.strip() for line in text[: 4 * limit].splitlines())
    line = next((line for line in lines if line), "")
    line = storable(_CONTROL.sub(" ", line))
    return line if len(line) <= limit else line[: limit - 1] + "…"
