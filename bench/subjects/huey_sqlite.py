"""huey on SQLite. It takes a job out of the store before it runs it: a crash loses the job in hand."""

import os
import sys
from collections.abc import Iterable

from bench.place import Place
from bench.workers.huey_sqlite import FILE, tasks


class HueySqlite:
    name, store = "huey-sqlite", "sqlite"
    parts = frozenset({"one", "drain", "fail-twice", "latency"})
    drained, failing = 4_000, 1_000

    def __init__(self, place: Place) -> None:
        self._place = place

    def open(self) -> None:
        for path in self._place.folder.glob("huey.db*"):
            path.unlink()
        os.environ[FILE] = str(self._place.folder / "huey.db")
        self._huey, self._tasks = tasks(os.environ[FILE])

    def close(self) -> None:
        self._huey.storage.close()

    def enqueue(self, kind: str, number: int) -> None:
        self._tasks[kind](number)

    def enqueue_singly(self, numbers: Iterable[int]) -> None:
        task = self._tasks["succeed"]
        for number in numbers:
            task(number)

    def enqueue_many(self, kind: str, numbers: range) -> None:
        for number in numbers:
            self._tasks[kind](number)

    def after_preload(self) -> None:
        pass

    def has_jobs_left(self) -> bool:
        return bool(self._huey.pending_count() + self._huey.scheduled_count())

    def worker(self) -> list[str]:
        options = ["-k", "thread", "-w", "1", "-q", "-n", "-d", "0.01", "-m", "0.1"]
        return [sys.executable, "-m", "huey.bin.huey_consumer", "bench.workers.huey_sqlite.consumed", *options]
