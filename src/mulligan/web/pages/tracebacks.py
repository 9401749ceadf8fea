"""Tracebacks for people: without the frames of the worker, and with the lines of the user's own code marked."""

import re
from collections.abc import Iterator
from typing import NamedTuple

_FRAME = re.compile(r'  File "(?P<path>[^"]*)", line \d+')
_OWN_ERRORS = re.compile(r"^mulligan\.errors\.(?:Final|Retryable|RateLimited)Error: ")
# Below these, code is not the user's.
FOREIGN = ("/site-packages/", "/dist-packages/", "/lib/python3", "<frozen ")
WORKER = "/mulligan/worker/"


class Line(NamedTuple):
    """`tone` is `mine` for a source line of the user's code, `others` for frames, and empty for the error itself."""

    text: str
    tone: str


def traceback_lines(detail: str) -> list[Line]:
    return list(_marked(detail.rstrip("\n").split("\n")))


def _marked(lines: list[str]) -> Iterator[Line]:
    path, is_frame = "", False
    for line in lines:
        if found := _FRAME.match(line):
            path, is_frame = found["path"], True
        elif not line.startswith("    "):
            is_frame = False
        if is_frame and WORKER in path:
            continue
        is_mine = is_frame and found is None and not any(part in path for part in FOREIGN)
        is_head = line.startswith("Traceback (most recent call last)")
        yield Line(line, "mine" if is_mine else "others" if is_frame or is_head else "")


def short_title(title: str) -> str:
    """A technical line without the name of an error that a task raises to say just this."""
    return _OWN_ERRORS.sub("", title)
