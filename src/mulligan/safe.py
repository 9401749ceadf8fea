"""Text of others, made safe for a terminal: what would move the cursor or hide text is shown instead."""

import re

# Besides control characters: what reverses, hides or breaks lines, and what no terminal can encode.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


def safe(text: object) -> str:
    """One line without anything that steers a terminal."""
    return _STEERING.sub(_shown, str(text))


def safe_lines(text: object) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(safe(line.replace("\t", "    ")) for line in str(text).split("\n"))


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
