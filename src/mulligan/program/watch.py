"""What the warden does: read `+group` and `-group`; at the end of the input kill the groups that are left.

Run as a file by a bare interpreter: it imports nothing of ours.
"""

import os
import select
import signal
import sys
from collections.abc import Iterable

GRACE_ROUNDS, ROUND_SECONDS = 40, 0.05


def main(lines: Iterable[bytes]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups = read(lines)
    groups = {group for group in groups if reaches(group, signal.SIGTERM)}
    for _ in range(GRACE_ROUNDS):
        groups = {group for group in groups if reaches(group, 0)}
        if not groups:
            return
        select.select([], [], [], ROUND_SECONDS)
    for group in groups:
        reaches(group, signal.SIGKILL)


def read(lines: Iterable[bytes]) -> set[int]:
    groups: set[int] = set()
    for line in lines:
        if line.startswith(b"+"):
            groups.add(int(line[1:]))
        else:
            groups.discard(int(line[1:]))
    return groups


def reaches(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    main(sys.stdin.buffer)
