"""The store: it executes one request after the other, and the oracle checks each of them."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from mulligan.service.config import ServiceBook
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite.database import Database
from simulator.clocks import StoreClock

if TYPE_CHECKING:
    from simulator.participants import Participant
    from simulator.world import World

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
        """Whether the job was cancelled with its batch."""
        return bool(self.job) and self.data.get("reason") == BY_ABORT

    @property
    def is_of_jobs(self) -> bool:
        """Whether the event is of a job that the operation itself is about."""
        return not self.is_swept and not self.type.startswith(("batch.", "service."))


@dataclass(slots=True)
class Call:
    """One operation of the store: the caller, the request, the time by the store's clock, and the result."""

    participant: "Participant"
    name: str
    asked: Any
    options: dict[str, Any]
    now: int
    answer: Any = None
    error: Exception | None = None


class ProcessStore(SqliteStore):
    """The store as one process has it open. Its clock is asked for the number that the rows hold, not for a date."""

    def __init__(self, clock: StoreClock, book: Callable[[], ServiceBook], database: Database) -> None:
        super().__init__("sqlite:///:memory:", now=clock.now, threaded=False, services=book, database=database)
        self._clock = clock
        self._book = book
        self._sqlite.clock = lambda: clock.microseconds


class ObservedStore(ProcessStore):
    """The store with what only the oracle may read: rows, counters and the whole log."""

    def __init__(self, clock: StoreClock, book: Callable[[], ServiceBook]) -> None:
        super().__init__(clock, book, _emptied.pop() if _emptied else Database(None, threaded=False))
        self._connection = self._database._connection
        self._written = self._connection.total_changes
        self.times_changed = 0

    has_changed = False
    """Whether more was written between the last two reads of the log than an operation writes about its caller."""

    def close(self) -> None:
        """Empty the database and keep it for the next world."""
        _empty(self._connection)
        _emptied.append(self._database)

    def own_store(self) -> SqliteStore:
        """The same database, as another process has it open."""
        return ProcessStore(self._clock, self._book, self._database)

    def log(self, after: int, *, expected: int = 0) -> list[Entry]:
        """What is new in the log: nothing, unless more rows were written than expected since it was asked for last."""
        before, self._written = self._written, self._connection.total_changes
        self.has_changed = self._written - before > expected
        if not self.has_changed:
            return []
        self.times_changed += 1
        found: list[tuple[Any, ...]] = self._connection.execute(
            "SELECT position, request, type, job, attempt, at, code, data FROM mulligan_events WHERE position > ?",
            (after,),
        ).fetchall()
        return [Entry(*(*row[:7], msgspec.json.decode(row[7]))) for row in found]

    def row(self, job: str) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(
            f"SELECT {COLUMNS} FROM mulligan_jobs WHERE id = ?",
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
            f"SELECT id, {COLUMNS} FROM mulligan_jobs ORDER BY seq"
        ).fetchall()
        return found

    def arguments(self, job: str) -> str:
        (found,) = self._connection.execute("SELECT arguments FROM mulligan_jobs WHERE id = ?", (job,)).fetchone()
        return str(found)

    def job_ids(self) -> set[str]:
        return {job for (job,) in self._connection.execute("SELECT id FROM mulligan_jobs")}

    def number_of_events(self, owner: str) -> int:
        found = self._connection.execute("SELECT count(*) FROM mulligan_events WHERE owner = ?", (owner,)).fetchone()
        return int(found[0])

    def ranks(self, jobs: Sequence[str]) -> dict[str, int]:
        marks = ", ".join("?" * len(jobs))
        return dict(self._connection.execute(f"SELECT id, rank FROM mulligan_jobs WHERE id IN ({marks})", jobs))

    def parked(self) -> list[tuple[str, str, int, str]]:
        """Job, gate, when it is due, and what it waits for."""
        return self._connection.execute(
            "SELECT id, gate, due_at, waiting_for FROM mulligan_jobs WHERE state = 'waiting' AND gate IS NOT NULL"
        ).fetchall()

    def limits_set(self) -> dict[str, int]:
        """By subject, how many at once."""
        return dict(self._connection.execute("SELECT gate, most FROM mulligan_limits WHERE most IS NOT NULL"))

    def limits_in_force(self) -> dict[str, int]:
        """The limits that have also counted the jobs admitted before they were set."""
        return dict(
            self._connection.execute("SELECT gate, most FROM mulligan_limits WHERE most IS NOT NULL AND is_swept")
        )

    def submitters(self) -> set[str]:
        """The owners whose submissions are counted."""
        return {owner for (owner,) in self._connection.execute("SELECT owner FROM mulligan_submissions")}

    def spending_by_owner(self) -> dict[tuple[str, str], int]:
        """Retries by owner and period."""
        rows = self._connection.execute("SELECT owner, period, retries FROM mulligan_spending")
        return {(owner, period): retries for owner, period, retries in rows}

    def service(self, name: str) -> tuple[int, str, bool, bool, bool]:
        """Its epoch and state, whether it is restricted, whether it is paced, and whether its health check is well."""
        found: tuple[int, str, bool, bool, bool] | None = self._connection.execute(
            "SELECT epoch, coalesce(standing ->> 'state', 'closed'), is_restricted, standing ->> 'pace' IS NOT NULL, "
            "standing ->> 'is_checked' IS NOT NULL FROM mulligan_services WHERE name = ?",
            (name,),
        ).fetchone()
        return found or (0, "closed", False, False, False)

    def running_of(self, service: str, epoch: int) -> int:
        found = self._connection.execute(
            "SELECT count(*) FROM mulligan_jobs "
            "WHERE state = 'running' AND service <> '' AND service = ? AND service_epoch = ?",
            (service, epoch),
        ).fetchone()
        return int(found[0])

    def whole_log(self) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute("SELECT * FROM mulligan_events ORDER BY position").fetchall()


# Of worlds that are over. The next one begins with tables as empty as new ones, and statements that are prepared.
_emptied: list[Database] = []
# A database belongs to the process that opened it.
os.register_at_fork(after_in_child=_emptied.clear)


def _empty(connection: sqlite3.Connection) -> None:
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name <> 'mulligan_schema'")
    for (table,) in tables.fetchall():
        connection.execute(f"DELETE FROM {table}")
    connection.execute("INSERT INTO mulligan_log VALUES (0)")
    connection.execute("INSERT INTO mulligan_projection (position, at, updated_at) VALUES (0, 0, 0)")
    connection.execute("INSERT INTO mulligan_alert_evaluation (version) VALUES (0)")


class StoreServer:
    def __init__(self, world: "World", store: ObservedStore) -> None:
        self._world = world
        self.store = store

    def perform(self, participant: "Participant", name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        world = self._world
        call = Call(participant, name, args[0] if args else None, options, world.clock.microseconds)
        try:
            call.answer = getattr(participant.own_store, name)(*args, **options)
        except Exception as error:
            call.error = error
            raise
        finally:
            if not world.timeline.is_over:
                world.oracle.look(call)
        return call.answer
