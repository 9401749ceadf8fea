"""The contents of a file that somebody named, who may have named anything: a pipe, a device, a backup of all he has."""

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
    """Says why, as the end of a sentence about the file."""


def contents(path: Path, *, largest: int) -> bytes:
    """All bytes of a regular file. Raises Unreadable for whatever else has this name, and OSError as `open` does."""
    if what := other_than_file(path):
        raise Unreadable(f"it is {what}, not a file")
    with path.open("rb") as file:
        content = file.read(largest + 1)
    if len(content) > largest:
        raise Unreadable(f"it takes more than {largest:,} bytes, which is the limit")
    return content


def other_than_file(path: Path) -> str | None:
    """What has this name, unless it is a file. To open a pipe is to wait for its writer, and a device has no end."""
    kind = stat.S_IFMT(path.stat().st_mode)
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "something else")
