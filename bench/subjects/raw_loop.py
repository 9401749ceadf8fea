"""The upper bound on PostgreSQL: mulligan's own jobs, drained by a bare loop."""

import sys

from bench.place import Place
from bench.subjects.mulligan_app import Mulligan


class RawLoop(Mulligan):
    parts = frozenset({"drain"})
    drained = 50_000

    def __init__(self, place: Place) -> None:
        super().__init__("raw-loop-pg", place)

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "bench.workers.raw_loop", self._url]
