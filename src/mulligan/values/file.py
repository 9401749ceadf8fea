"""Read a user-named file safely: regular files only, up to a size limit."""

import stat
from pathlib import Path

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class Unreadable(Exception):
    """The message completes a sentence about the file."""


def read_contents(path: Path, *, largest: int) -> bytes:
    """All bytes of a regular file. Raises Unreadable for anything else, and OSError as `open` does."""
    if what := special_file(path):
        raise Unreadable(f"it is {what}, not a file")
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise Unreadable(f"it takes more than {largest:,} bytes, which is the limit")
    return content


def special_file(path: Path) -> str | None:
    """What the path is, unless it is a regular file. Opening a pipe waits for its writer, and a device has no end."""
    kind = stat.S_IFMT(path.stat().st_mode)
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "something else")
