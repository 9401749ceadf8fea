"""What the warden does: read `+name` and `-name`; at the end of the input kill what is left.

A name is the number of a process group, or a mark that processes carry in their environment. Run as a file by a bare
interpreter: it imports nothing of ours.
"""

import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping

GRACE_ROUNDS, ROUND_SECONDS = 40, 0.05
# One pass finds what was there when it began; what that started meanwhile is found by the next.
PASSES, PASS_SECONDS = 50, 0.01
MARK = "MULLIGAN_CHILD"


def main(lines: Iterable[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    names = read(lines)
    names = {name for name in names if reaches(name, signal.SIGTERM)}
    for _ in range(GRACE_ROUNDS):
        names = {name for name in names if reaches(name, 0)}
        if not names:
            return
        select.select([], [], [], ROUND_SECONDS)
    for name in names:
        reaches(name, signal.SIGKILL)
        if not name.isdigit():
            end_strays(name, {})


def read(lines: Iterable[bytes]) -> set[str]:
    names: set[str] = set()
    for line in lines:
        name = line[1:].strip().decode()
        if line.startswith(b"+"):
            names.add(name)
        else:
            names.discard(name)
    return names


def reaches(name: str, number: int) -> bool:
    # A group goes by its number below zero.
    pids = [-int(name)] if name.isdigit() else marked(name)
    return any([_sent(pid, number) for pid in pids])  # noqa: C419 - to all of them, not up to the first


def _sent(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


# On Linux: processes by their environment, and by their parents. Elsewhere none is found.


def marked(mark: str) -> Iterator[int]:
    """Who carries the mark: all that the marked one started, in whatever session, unless it cleared its environment."""
    wanted = f"{MARK}={mark}".encode()
    return (pid for pid in _processes() if wanted in _contents(pid, "environ").split(b"\0"))


def descendants(pid: int) -> dict[int, bytes]:
    """All processes below this one, each with the time it began, which tells it from a later one of its number."""
    parents = {each: _parent_and_start(each) for each in _processes()}
    found: dict[int, bytes] = {}
    pending = [pid]
    while pending:
        parent = b"%d" % pending.pop()
        below = {each: start for each, (above, start) in parents.items() if above == parent and each not in found}
        found |= below
        pending += below
    return found


def end_strays(mark: str, known: Mapping[int, bytes]) -> None:
    """Kill who carries the mark, and those that are known to be below who did."""
    for pid, start in known.items():
        if _parent_and_start(pid)[1] == start and not _is_warden(pid):
            _sent(pid, signal.SIGKILL)
    for _ in range(PASSES):
        if not reaches(mark, signal.SIGKILL):
            return
        select.select([], [], [], PASS_SECONDS)


def _processes() -> list[int]:
    try:
        names = os.listdir("/proc")  # noqa: PTH208 - pathlib takes as long to import as all else here
    except OSError:
        return []
    return [int(name) for name in names if name.isdigit() and int(name) != os.getpid()]


def _parent_and_start(pid: int) -> tuple[bytes, bytes]:
    # The name, in brackets, may have spaces and brackets of its own.
    fields = _contents(pid, "stat").rpartition(b")")[2].split()
    return (fields[1], fields[19]) if len(fields) > 19 else (b"", b"")


def _is_warden(pid: int) -> bool:
    """It has work of its own to do, and ends after that."""
    return os.fsencode(__file__) in _contents(pid, "cmdline").split(b"\0")


def _contents(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.stdin.buffer)
