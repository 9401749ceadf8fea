"""The SQLite backend: one writer with group commit, and concurrent readers."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

from mulligan.errors import StoreError
from mulligan.failure.verdict import Verdict
from mulligan.records.finding import Check, Finding, Limits
from mulligan.records.job import Fence, Job, Lease, NewJob
from mulligan.service.config import ServiceBook
from mulligan.store.enqueue import SharedOperations
from mulligan.store.foreign import SQLITE, ForeignSession, recognise
from mulligan.store.messages import TIMEOUT, Answers, Changes, Claim, Claimed, Outcome
from mulligan.store.moves import MoveParts
from mulligan.store.rows import Record, fence_values, to_json, to_time
from mulligan.store.session import RoundTrips, Script, Session, Statement
from mulligan.store.sqlite import health, schema
from mulligan.store.sqlite.changes import FileChanges, MemoryChanges
from mulligan.store.sqlite.claim import SqliteClaim, SqlitePromote
from mulligan.store.sqlite.corruption import Corruption, find_left
from mulligan.store.sqlite.database import Database
from mulligan.store.sqlite.enqueue import SqliteEnqueue
from mulligan.store.sqlite.session import OLDEST_VERSION, SQL, SqliteSession, sqlite3
from mulligan.store.sqlite.settle import SqliteSettle
from mulligan.store.sqlite.url import parse_url
from mulligan.store.store import Store

T = TypeVar("T")
Work = Callable[[SqliteSession], T]


class SqliteBackend:
    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None,
        threaded: bool,
        services: Callable[[], ServiceBook],
        timeout: timedelta,
        database: Database | None,
        job: Callable[[str], Job[Any]],
    ) -> None:
        if sqlite3.sqlite_version_info < OLDEST_VERSION:
            oldest = ".".join(map(str, OLDEST_VERSION))
            raise StoreError(
                f"SQLite {sqlite3.sqlite_version} is too old, {oldest} is needed: install 'mulligan[sqlite]'"
            )
        path, synchronous = parse_url(url)
        self._synchronous = synchronous.lower()
        self.clock: Callable[[], int] | None = None if now is None else _as_number(now)
        self._enqueue = SqliteEnqueue(lambda: self.clock)
        self.parts = SharedOperations(SQL, services, self._enqueue.store_within)
        self._enqueue.use(self.parts)
        corruption = Corruption(self.parts.expire)
        self._corruption = corruption
        self._promote = SqlitePromote(self.parts, corruption)
        self._claim = SqliteClaim(self.parts.services, self._promote, corruption, job)
        self._settle = SqliteSettle(self.parts, corruption)
        self.database = database or Database(path, synchronous=synchronous, threaded=threaded, timeout=timeout)
        try:
            self.migrate()
        except BaseException:
            self.database.close()
            raise

    def read(self, work: Work[T], *, is_large: bool = False) -> T:  # noqa: ARG002
        return self.database.read(lambda db: work(SqliteSession(db, self.clock)))

    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        return self.read(lambda session: session.leases(name, values))

    def write(
        self,
        work: Work[T],
        *,
        is_durable: bool = True,  # noqa: ARG002
        is_long: bool = False,  # noqa: ARG002
        asks: bool = False,  # noqa: ARG002
    ) -> T:
        return self.database.write(lambda db: work(SqliteSession(db, self.clock)))

    write_one = write

    def write_by_key(self, trips: Callable[[], RoundTrips[T]]) -> T:
        return self.write(lambda session: session.make(trips()))

    async def write_by_key_on_loop(self, trips: Callable[[], RoundTrips[T]]) -> T | None:  # noqa: ARG002
        return None

    def join(self, connection: Any) -> Session:
        self._require_file()
        foreign = recognise(connection, SQLITE)
        # It begins the transaction, and takes the lock of the writer before anything is read.
        foreign.execute(Statement(SQL["lock"], {}))
        clock = self.clock or (lambda: int(foreign.execute(Statement(SQL["now"], {}))[0]["now"]))
        return ForeignSession(foreign, SQL, clock())

    def publish(self, batch_id: str, work: Work[T]) -> T:  # noqa: ARG002
        return self.write(work)

    def remove(self, session: Session, ids: Sequence[str]) -> int:
        rows = session.rows("removable", {"ids": to_json(ids)})
        values = {"ids": to_json([row["id"] for row in rows])}
        session.rows("remove_noted", values)
        session.rows("remove_events", values)
        session.rows("remove", values)
        session.rows("remove_failing", values)
        return len(rows)

    def confirm_log(self, session: Session, last: Record) -> None:
        """Every commit is durable."""

    def hint(self) -> None:
        """Every commit is a hint."""

    def migrate(self) -> list[str]:
        # Read first: a store opened for reading is not written to.
        if self.database.read(schema.version)[0] == schema.VERSION:
            return []
        return self.database.write(schema.migrate)

    def changes(self) -> Changes:
        return FileChanges(self.database) if self.database.path else MemoryChanges(self.database)

    def examine(self, limits: Limits, besides: Collection[Check]) -> list[Finding]:  # noqa: ARG002
        return health.examine(self.database, self._synchronous, limits)

    def permissions(self) -> Finding | None:
        return None if self.database.path is None else health.permissions(self.database.path)

    def close(self) -> None:
        self.database.close()

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        return self.write(lambda session: self._enqueue.enqueue(session, jobs))

    async def enqueue_on_loop(self, jobs: Sequence[NewJob]) -> list[Job[Any]] | None:  # noqa: ARG002
        return None

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        self._require_file()
        return Script(SQLITE, self._enqueue.enqueue_steps(jobs))

    def _require_file(self) -> None:
        if self.database.path is None:
            raise StoreError("connection= cannot be used with jobs kept in memory; use a file: 'sqlite:///jobs.db'")

    def claim(self, claim: Claim) -> Claimed:
        return self.write(lambda session: self._claim.claim(session, claim))

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        values = {"incarnation": incarnation, "before": before, "held": to_json([fence.id for fence in held])}
        return self.read(lambda session: self._claim.recall(session, "adopt", values))

    def secure(self, fence: Fence) -> bool:
        # Every commit is durable, and so is the claim: reading is enough.
        return bool(self.read(lambda session: session.rows("secure", fence_values(fence))))

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        return self.write(lambda session: self._settle.settle(session, outcomes))

    def move_parts(self, session: Session) -> MoveParts:
        return MoveParts(
            settle=lambda first: self._settle.settle_uncounted(session, [first]),
            promote=lambda changes: self._promote.promote(session, changes),
        )

    def promote(self, duty: str | None, *, limit: int, is_manual: bool) -> int:
        return self.write(lambda session: self._promote.promote_by_duty(session, duty, limit, is_manual=is_manual))

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        if not self.read(lambda session: find_left(session, "expire_damaged", 1)):
            return 0
        return self.write(lambda session: self._corruption.expire(session, verdict, limit))


def _as_number(now: Callable[[], datetime]) -> Callable[[], int]:
    """The same clock in microseconds. A virtual one returns the same moment again and again."""
    moment = now()
    last = moment, to_time(moment)

    def clock() -> int:
        nonlocal last
        moment = now()
        if moment is not last[0]:
            last = moment, to_time(moment)
        return last[1]

    return clock


class SqliteStore(Store):
    """`now` replaces the machine's clock. `threaded=False` commits in the caller's thread. `services` returns those in
    force. A write waits for other processes no longer than `timeout`. `database` is one that is already open."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        threaded: bool = True,
        services: Callable[[], ServiceBook] = ServiceBook,
        timeout: timedelta = TIMEOUT,
        database: Database | None = None,
    ) -> None:
        self._sqlite = SqliteBackend(
            url, now=now, threaded=threaded, services=services, timeout=timeout, database=database, job=self.job
        )
        super().__init__(self._sqlite)

    @property
    def _database(self) -> Database:
        return self._sqlite.database
