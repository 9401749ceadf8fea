"""Untrusted strings, shown in a terminal without control over it."""

import re

# Besides control characters: those that reverse, hide or break lines, and those that no terminal can encode.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def with_detail(message: str | None, detail: str | None) -> str:
    """The message for people, with the technical detail in parentheses if it adds anything."""
    if not message or not detail or detail == message or detail.endswith(f": {message}"):
        return message or detail or ""
    return f"{message} ({detail})"


def safe(text: object) -> str:
    """One line with every control character escaped."""
    return _CONTROLS.sub(_escape, str(text))


def safe_lines(text: object) -> str:
    """The same for several lines, which stay lines."""
    return "\n".join(safe(line.replace("\t", "    ")) for line in str(text).split("\n"))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
