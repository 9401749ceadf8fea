"""Who is measured, and what can be asked of each."""

from collections.abc import Iterable
from typing import Protocol

from bench.place import Place
from bench.subjects.huey_sqlite import HueySqlite
from bench.subjects.mulligan_app import Mulligan
from bench.subjects.pgqueuer_peer import PgQueuer
from bench.subjects.raw_loop import RawLoop


class Subject(Protocol):
    name: str
    store: str
    """"postgres" or "sqlite"."""
    parts: frozenset[str]
    """What can be measured of it."""
    drained: int
    """Jobs of a drain: some three seconds' worth."""
    failing: int

    def open(self) -> None:
        """An empty store and a client of it."""
        ...

    def close(self) -> None: ...

    def enqueue(self, kind: str, number: int) -> None: ...

    def enqueue_singly(self, numbers: Iterable[int]) -> None:
        """One call for each number, each answered before the next; `numbers` ends when the time is up."""
        ...

    def enqueue_many(self, kind: str, numbers: range) -> None:
        """One call for all of them, or the next best if there is no such call."""
        ...

    def draft(self) -> None:
        """What is enqueued from now on belongs to one batch. Asked only of who has the part `batch`."""
        ...

    def publish(self) -> None: ...

    def after_preload(self) -> None: ...

    def has_jobs_left(self) -> bool:
        """Whether the store still holds a job that is not done."""
        ...

    def worker(self) -> list[str]:
        """The command of one worker process."""
        ...


def all_subjects(place: Place) -> list[Subject]:
    """Those that are compared stand side by side."""
    return [
        Mulligan("mulligan-pg", place),
        PgQueuer(place),
        RawLoop(place),
        Mulligan("mulligan-sqlite", place),
        HueySqlite(place),
    ]
