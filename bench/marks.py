"""What job bodies leave behind: marks in shared memory, so that the store under test carries no measuring load.

For job number i: whether it is done (a byte), how often it was tried (a byte), when it began first (a double).
"""

import mmap
import os
import struct
import time
from pathlib import Path

MOST = 200_000
VARIABLE = "MULLIGAN_BENCH_MARKS"
TRIES, BEGINNINGS = MOST, 2 * MOST
SIZE = 10 * MOST


class Boom(Exception):
    """What a failing body raises."""


class Marks:
    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), SIZE)

    @classmethod
    def create(cls) -> "Marks":
        """Make new marks and name them in the environment, where `given` finds them."""
        path = Path(f"/dev/shm/mulligan-bench-{os.getpid()}")
        path.write_bytes(bytes(SIZE))
        os.environ[VARIABLE] = str(path)
        return cls(path)

    def remove(self) -> None:
        self._memory.close()
        self.path.unlink(missing_ok=True)

    # For bodies

    def succeed(self, number: int) -> None:
        self._begin(number)
        self._memory[number] = 1

    def fail_twice(self, number: int) -> None:
        if self._begin(number) < 3:
            raise Boom(number)
        self._memory[number] = 1

    def _begin(self, number: int) -> int:
        tries = self._memory[TRIES + number] + 1
        if tries == 1:
            struct.pack_into("d", self._memory, BEGINNINGS + 8 * number, time.monotonic())
        self._memory[TRIES + number] = min(tries, 255)
        return tries

    # For the measurement

    def clear(self) -> None:
        self._memory[:] = bytes(SIZE)

    def is_done(self, number: int) -> bool:
        return bool(self._memory[number])

    def done(self, jobs: int) -> int:
        """How many of the first `jobs` jobs are done."""
        return self._memory[:jobs].count(1)

    def has_begun(self, jobs: int) -> bool:
        """Whether any of the first `jobs` jobs has begun."""
        return self._memory[TRIES : TRIES + jobs].count(0) < jobs

    def beginnings(self, jobs: int) -> list[float]:
        """When each of the first `jobs` jobs began; 0 for never."""
        return list(struct.unpack(f"{jobs}d", self._memory[BEGINNINGS : BEGINNINGS + 8 * jobs]))

    def tried_more_than(self, times: int, jobs: int) -> int:
        return sum(tries > times for tries in self._memory[TRIES : TRIES + jobs])


def given() -> Marks:
    """The marks that the process which started this one has made."""
    return Marks(Path(os.environ[VARIABLE]))
