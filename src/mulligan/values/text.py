"""Text of others: whether a database can hold it, and how a terminal shows it without being steered by it."""

import re

# Besides control characters: what reverses, hides or breaks lines, and what no terminal can encode.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


LONGEST_NAME = 200
LONGEST_WORD = 1_000
WORD_ALLOWED = f"text of at most {LONGEST_WORD:,} characters that a database can hold"


def is_word(text: object) -> bool:
    """Whether it is a name or an id such as a database can hold: PostgreSQL refuses NUL, UTF-8 has no surrogates."""
    return isinstance(text, str) and len(text) <= LONGEST_WORD and "\0" not in text and encodes(text)


def is_name(text: object, *, longest: int = LONGEST_NAME) -> bool:
    """Whether it may be stored as a name: what steers, hides or ends a line would deceive whoever reads it."""
    return isinstance(text, str) and 0 < len(text) <= longest and text.isprintable() and text == text.strip()


def name_allowed(longest: int = LONGEST_NAME) -> str:
    return f"one line of 1 to {longest} printable characters, without spaces around them"


def encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def with_detail(message: str | None, detail: str | None) -> str:
    """The line for people and the technical line beside it, where that says more."""
    if not message or not detail or detail == message or detail.endswith(f": {message}"):
        return message or detail or ""
    return f"{message} ({detail})"


def safe(text: object) -> str:
    """One line without anything that steers a terminal."""
    return _STEERING.sub(_shown, str(text))


def safe_lines(text: object) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(safe(line.replace("\t", "    ")) for line in str(text).split("\n"))


def _shown(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()
