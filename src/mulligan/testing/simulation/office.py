"""The store itself: everybody's requests, one after the other, each under the eyes of the oracle."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mulligan.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from mulligan.testing.simulation.party import Party
    from mulligan.testing.simulation.world import World

COLUMNS = (
    "state, attempt, failures, crashes, losses, snoozes, manual_retries, leased_by, claim, lease_until, "
    "cancel_requested, due_at, deadline, settled_attempt, settled_by"
)

BY_ABORT = "the batch was aborted"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event as it stands in the log."""

    position: int
    request: str | None
    type: str
    job: str
    attempt: int
    at: int
    code: str | None
    data: dict[str, Any]

    @property
    def is_swept(self) -> bool:
        """Of a job that went with its batch."""
        return bool(self.job) and self.data.get("reason") == BY_ABORT

    @property
    def is_of_jobs(self) -> bool:
        """And of what the operation itself is about."""
        return not self.is_swept and not self.type.startswith(("batch.", "service."))


@dataclass(slots=True)
class Call:
    """One operation of the store: who asked for what, when by the store's clock, and what came of it."""

    party: "Party"
    name: str
    asked: Any
    options: dict[str, Any]
    now: int
    answer: Any = None
    error: Exception | None = None


class ObservedStore(SqliteStore):
    """The store with its pages open: what no caller may see, an oracle must."""

    _changes = 0

    def log(self, after: int) -> list[Entry]:
        """What is new in the log: nothing, unless a row was written since it was asked for last."""
        before, self._changes = self._changes, self._connection.total_changes
        if self._changes == before:
            return []
        found: list[tuple[Any, ...]] = self._connection.execute(
            "SELECT position, request, type, job, attempt, at, code, data FROM mulligan_events WHERE position > ?",
            (after,),
        ).fetchall()
        return [Entry(*(*row[:7], msgspec.json.decode(row[7]))) for row in found]

    def row(self, job: str) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(
            f"SELECT {COLUMNS} FROM mulligan_jobs WHERE id = ?",  # noqa: S608
            (job,),
        ).fetchone()
        return found

    def batch_row(self, batch: str) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(
            "SELECT state, generation, total, succeeded, failed, cancelled FROM mulligan_batches WHERE id = ?", (batch,)
        ).fetchone()
        return found

    def rows(self) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self._connection.execute(
            f"SELECT id, {COLUMNS} FROM mulligan_jobs ORDER BY seq"  # noqa: S608
        ).fetchall()
        return found

    def service(self, name: str) -> tuple[int, str, int]:
        """Its epoch and state, and how many of its jobs run in that epoch."""
        found = self._connection.execute(
            "SELECT epoch, coalesce(standing ->> 'state', 'closed') FROM mulligan_services WHERE name = ?", (name,)
        ).fetchone()
        epoch, state = found or (0, "closed")
        (running,) = self._connection.execute(
            "SELECT count(*) FROM mulligan_jobs "
            "WHERE state = 'running' AND service <> '' AND service = ? AND service_epoch = ?",
            (name, epoch),
        ).fetchone()
        return epoch, state, running

    def whole_log(self) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute("SELECT * FROM mulligan_events ORDER BY position").fetchall()

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._database._connection


class Office:
    def __init__(self, world: "World", store: ObservedStore) -> None:
        self._world = world
        self.store = store

    def perform(self, party: "Party", name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        world = self._world
        call = Call(party, name, args[0] if args else None, options, world.clock.microseconds)
        try:
            call.answer = getattr(self.store, name)(*args, **options)
        except Exception as error:
            call.error = error
            raise
        finally:
            if not world.timeline.is_over:
                world.oracle.look(call)
        return call.answer
