"""mulligan, on either store, with its defaults."""

import sqlite3
import sys
from collections.abc import Iterable

from bench.place import Looking, Place
from bench.workers.mulligan_app import app
from mulligan import Batch

# Each by an index of its own: the question must not cost the store more than a moment.
LEFT = " OR ".join(
    f"EXISTS (SELECT 1 FROM mulligan_jobs WHERE {condition})"
    for condition in ("state = 'waiting' AND gate IS NULL", "state = 'queued'", "state = 'running'")
)
# A batch that is published and not settled has members left.
LEFT += " OR EXISTS (SELECT 1 FROM mulligan_batches WHERE state IN ('draft', 'processing'))"


class Mulligan:
    parts = frozenset({"one", "bulk", "drain", "batch", "fail-twice", "latency"})
    drained, failing = 30_000, 3_000

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.store = "postgres" if name.endswith("pg") else "sqlite"
        self._place = place

    def open(self) -> None:
        self._url = self._fresh()
        self._app = app(self._url)
        self._app.migrate()
        self._left = self._looking()
        self._batch: Batch | None = None

    def _fresh(self) -> str:
        if self.store == "postgres":
            return self._place.fresh_database("bench_mulligan")
        self._file = self._place.folder / "mulligan.db"
        for path in self._place.folder.glob("mulligan.db*"):
            path.unlink()
        return f"sqlite:///{self._file}"

    def _looking(self) -> "Looking | LookingAtFile":
        return Looking(self._url, f"SELECT {LEFT}") if self.store == "postgres" else LookingAtFile(str(self._file))

    def close(self) -> None:
        self._left.close()
        self._app.close()

    def enqueue(self, kind: str, number: int) -> None:
        self._app.tasks[kind].enqueue(number)

    def enqueue_singly(self, numbers: Iterable[int]) -> None:
        task = self._app.tasks["succeed"]
        for number in numbers:
            task.enqueue(number)

    def enqueue_many(self, kind: str, numbers: range) -> None:
        task = self._app.tasks[kind]
        self._app.enqueue_many(task.options(batch=self._batch).bind(number) for number in numbers)

    def draft(self) -> None:
        self._batch = self._app.batch("bench")

    def publish(self) -> None:
        assert self._batch is not None
        self._batch.publish()

    def after_preload(self) -> None:
        if self.store == "postgres":
            self._place.execute(self._url, "VACUUM ANALYZE")

    def has_jobs_left(self) -> bool:
        return self._left()

    def worker(self) -> list[str]:
        return [sys.executable, "-m", "bench.workers.mulligan_app", self._url]


class LookingAtFile:
    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True, isolation_level=None)

    def __call__(self) -> bool:
        return bool(self._connection.execute(f"SELECT {LEFT}").fetchone()[0])

    def close(self) -> None:
        self._connection.close()
