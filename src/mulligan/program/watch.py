"""The warden's program: reads `+name` and `-name`, and at the end of the input kills what is left.

A name is the number of a process group, or a mark in the environment of processes. It runs as a file in a bare
interpreter and imports nothing of mulligan.
"""

import os
import select
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping

GRACE_CHECKS, CHECK_SECONDS = 40, 0.05
# A pass finds the processes that exist when it begins; the next finds those that they started meanwhile.
PASSES, PASS_SECONDS = 50, 0.01
MARK = "MULLIGAN_CHILD"


def main(lines: Iterable[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    names = read(lines)
    names = {name for name in names if reaches(name, signal.SIGTERM)}
    for _ in range(GRACE_CHECKS):
        names = {name for name in names if reaches(name, 0)}
        if not names:
            return
        select.select([], [], [], CHECK_SECONDS)
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
    # A negative number means the process group.
    pids = [-int(name)] if name.isdigit() else find_marked(name)
    return any([_send(pid, number) for pid in pids])  # noqa: C419 - to all of them, not up to the first


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


# On Linux, processes are found by their environment and by their parents; elsewhere none is found.


def find_marked(mark: str) -> Iterator[int]:
    """The processes with the mark: all descendants in any session, except those with a cleared environment."""
    wanted = f"{MARK}={mark}".encode()
    return (pid for pid in _processes() if wanted in _contents(pid, "environ").split(b"\0"))


def find_descendants(pid: int) -> dict[int, bytes]:
    """All descendants of the process, with the start times that tell them from later processes of the same number."""
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
    """Kill the processes with the mark, and the known descendants."""
    for pid, start in known.items():
        if _parent_and_start(pid)[1] == start and not _is_warden(pid):
            _send(pid, signal.SIGKILL)
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
    # The name, in brackets, may contain spaces and brackets.
    fields = _contents(pid, "stat").rpartition(b")")[2].split()
    return (fields[1], fields[19]) if len(fields) > 19 else (b"", b"")


def _is_warden(pid: int) -> bool:
    """A warden ends by itself, after it has killed its programs."""
    return os.fsencode(__file__) in _contents(pid, "cmdline").split(b"\0")


def _contents(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return b""


if __name__ == "__main__":
    main(sys.stdin.buffer)
