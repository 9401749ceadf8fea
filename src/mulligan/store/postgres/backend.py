"""The PostgreSQL backend: each operation runs on a pooled connection, in bounded time."""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import psycopg

from mulligan.errors import BatchBusy, StoreClosed, StoreError, StoreUnavailable, UndeclaredProxy
from mulligan.failure.verdict import Verdict
from mulligan.records.finding import Check, Finding, Limits
from mulligan.records.job import Fence, Job, Lease, NewJob
from mulligan.service.config import ServiceBook
from mulligan.store.alike import are_alike
from mulligan.store.enqueue import SharedOperations, is_independent
from mulligan.store.foreign import POSTGRESQL, ForeignSession, recognise
from mulligan.store.grouped import Grouped
from mulligan.store.messages import TIMEOUT, Answers, Changes, Claim, Claimed, Outcome
from mulligan.store.moves import MoveParts
from mulligan.store.postgres import health, proxy, schema
from mulligan.store.postgres.claim import PostgresClaim, PostgresPromote
from mulligan.store.postgres.connections import TRANSIENT, Connections
from mulligan.store.postgres.enqueue import PostgresEnqueue
from mulligan.store.postgres.events import PostgresLog
from mulligan.store.postgres.notify import NoNotifier, Notifications, Notifier, Polling
from mulligan.store.postgres.on_loop import LoopCalls, NotOnLoop
from mulligan.store.postgres.pipelined import transact
from mulligan.store.postgres.session import (
    BEGIN,
    BEGIN_ASKING,
    BEGIN_ASYNCHRONOUS,
    BEGIN_LARGE,
    BEGIN_PUBLISH,
    SQL,
    PostgresSession,
)
from mulligan.store.postgres.settle import PostgresSettle
from mulligan.store.postgres.url import parse_url
from mulligan.store.rows import Record, fence_values, to_time
from mulligan.store.session import Now, RoundTrips, Script, Session
from mulligan.store.store import Store

T = TypeVar("T")
Work = Callable[[PostgresSession], T]

# Extra time for what takes long by itself: migrations, jobs in bulk, a whole batch.
MIGRATING = timedelta(hours=1)
PER_JOB = timedelta(milliseconds=1)
WHOLE_BATCH = timedelta(minutes=5)
# Of one event loop: how many statements store jobs at once, and how many jobs each. The others wait in order.
ENQUEUES_AT_ONCE = 2
MOST_TOGETHER = 100
# Arguments of more characters are stored alone, so that a group is no large statement.
LARGE = 16_384
# Of one call on the loop: more jobs, or more characters of arguments, would keep other tasks waiting for too long.
MOST_ON_LOOP = 1_000
LARGE_TOGETHER = 65_536


class PostgresBackend:
    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None,
        services: Callable[[], ServiceBook],
        timeout: timedelta,
        job: Callable[[str], Job[Any]],
    ) -> None:
        self._address = address = parse_url(url)
        self._given_now = now
        self.connections = Connections(address.url, prepares=address.prepares, timeout=timeout)
        self._notifier = Notifier(self.connections) if address.listens else NoNotifier()
        self._loop_calls = LoopCalls(self.connections)
        self._enqueues = Grouped(self._store_each, at_once=ENQUEUES_AT_ONCE, most=MOST_TOGETHER, is_prompt=True)
        self._enqueue = PostgresEnqueue(lambda: self.now, self._notifier)
        self.parts = SharedOperations(SQL, services, self._enqueue.store_within)
        self._enqueue.use(self.parts)
        self._promote = PostgresPromote(self.parts)
        self._claim = PostgresClaim(self.parts.services, self._promote, job)
        self._settle = PostgresSettle(self.parts)
        self._log = PostgresLog()
        self._is_checked = False

    @property
    def now(self) -> Now:
        return None if self._given_now is None else to_time(self._given_now())

    def read(self, work: Work[T], *, is_large: bool = False) -> T:
        # Behind a proxy, only a transaction can have settings.
        return self._transact(work, BEGIN_LARGE) if is_large else self._run(work)

    def write_one(self, work: Work[T]) -> T:
        return self._run(work)

    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        return self.read(lambda session: session.leases(name, values))

    def write(self, work: Work[T], *, is_durable: bool = True, is_long: bool = False, asks: bool = False) -> T:
        begin = BEGIN_ASKING if asks else BEGIN if is_durable else BEGIN_ASYNCHRONOUS
        return self._transact(work, begin, WHOLE_BATCH if is_long else timedelta(0))

    def write_by_key(self, trips: Callable[[], RoundTrips[T]]) -> T:
        self._check_once()
        return self.connections.run(lambda db: db.wait(transact(db, trips(), self.now)))

    async def write_by_key_on_loop(self, trips: Callable[[], RoundTrips[T]]) -> T | None:
        if not self._is_checked:
            return None
        try:
            return await self._loop_calls.run(lambda db: transact(db, trips(), self.now))
        except (NotOnLoop, *TRANSIENT):
            return None

    def join(self, connection: Any) -> Session:
        # On the store's connection: a missing table would abort the caller's transaction.
        self._check_once()
        return ForeignSession(recognise(connection, POSTGRESQL), SQL, self.now)

    def publish(self, batch_id: str, work: Work[T]) -> T:
        def publish(session: PostgresSession) -> T:
            try:
                return work(session)
            except psycopg.errors.LockNotAvailable as error:
                raise BatchBusy(batch_id) from error

        return self._transact(publish, BEGIN_PUBLISH, WHOLE_BATCH)

    def _transact(self, work: Work[T], begin: str, extra: timedelta = timedelta(0)) -> T:
        def transact(session: PostgresSession) -> T:
            with session.transaction(begin):
                return work(session)

        return self._run(transact, extra)

    def _run(self, work: Work[T], extra: timedelta = timedelta(0)) -> T:
        self._check_once()
        return self.connections.run(lambda db: work(PostgresSession(db, self.now)), extra=extra)

    def _check_once(self) -> None:
        if self._is_checked:
            return
        # Before anything is prepared: behind a proxy the name may belong to a statement of another client.
        if self._address.prepares and proxy.detect_proxy(self.connections) is proxy.PoolMode.TRANSACTIONS:
            raise UndeclaredProxy(self._address.url)
        self.connections.run(schema.check)
        self._is_checked = True

    def remove(self, session: Session, ids: Sequence[str]) -> int:
        (row,) = session.rows("remove", {"ids": list(ids)})
        return int(row["number"])

    def confirm_log(self, session: Session, last: Record) -> None:
        self._log.confirm(session, last)

    def hint(self) -> None:
        self._notifier.hint()

    def migrate(self) -> list[str]:
        return self.connections.run(schema.migrate, extra=MIGRATING)

    def changes(self) -> Changes:
        return Notifications(self.connections) if self._address.listens else Polling()

    def examine(self, limits: Limits, besides: Collection[Check]) -> list[Finding]:
        return health.examine(self.connections, self._address, limits, besides)

    def permissions(self) -> Finding | None:
        return None

    def close(self) -> None:
        self._notifier.close()
        self.connections.close()

    # A job's life

    def enqueue(self, jobs: Sequence[NewJob]) -> list[Job[Any]]:
        if not jobs:
            return []
        return self._run(lambda session: self._enqueue.enqueue(session, jobs), len(jobs) * PER_JOB)

    async def enqueue_on_loop(self, jobs: Sequence[NewJob]) -> list[Job[Any]] | None:
        if not self._is_checked:
            return None
        if len(jobs) != 1:
            return await self._store_alike(jobs) if _is_small(jobs) and are_alike(jobs) else None
        if not is_independent(jobs[0]):
            return None
        if len(jobs[0].arguments) > LARGE:
            (stored,) = await self._store_each(jobs)
        else:
            stored = await self._enqueues.call(jobs[0])
        return None if stored is None else [stored]

    async def _store_alike(self, jobs: Sequence[NewJob]) -> list[Job[Any]] | None:
        try:
            return await self._loop_calls.run(lambda connection: self._enqueue.store_alike(connection, jobs))
        except (NotOnLoop, *TRANSIENT):
            return None

    async def _store_each(self, jobs: Sequence[NewJob]) -> Sequence[Job[Any] | None]:
        """None is for a job that a thread has to store."""
        try:
            return await self._loop_calls.run(lambda connection: self._enqueue.store_each(connection, jobs))
        except (NotOnLoop, *TRANSIENT):
            pass
        except (StoreUnavailable, StoreClosed):
            raise
        except StoreError:
            # One job that cannot be stored must not fail the others.
            if len(jobs) == 1:
                raise
        return [None] * len(jobs)

    def enqueue_script(self, jobs: Sequence[NewJob]) -> Script[list[Job[Any]]]:
        # On the store's connection: a missing table would abort the caller's transaction.
        self._check_once()
        # No NOTIFY: the caller's commit would wait for those of all others. An idle worker polls every second anyway.
        return Script(POSTGRESQL, self._enqueue.enqueue_steps(jobs))

    def claim(self, claim: Claim) -> Claimed:
        return self._run(lambda session: self._claim.claim(session, claim))

    def adopt(self, incarnation: str, *, before: int, held: Sequence[Fence]) -> list[Lease]:
        values = {"incarnation": incarnation, "before": before, "held": [fence.id for fence in held]}
        return self._run(lambda session: self._claim.recall(session, "adopt", values))

    def secure(self, fence: Fence) -> bool:
        # A synchronous commit makes everything written before durable, including the claim.
        return self._run(lambda session: session.cursor(SQL["secure"], fence_values(fence)).rowcount == 1)

    def settle(self, outcomes: Sequence[Outcome]) -> Answers:
        return self._run(lambda session: self._settle.settle(session, outcomes))

    def move_parts(self, session: Session) -> MoveParts:
        return MoveParts(
            settle=lambda first: self._settle.settle_uncounted(session, first),
            promote=lambda changes: self._promote.promote(session, changes),
        )

    def promote(self, duty: str | None, *, limit: int, is_manual: bool) -> int:
        return self._run(
            lambda session: self._promote.promote_in_transaction(session, duty, limit, is_manual=is_manual)
        )

    def expire(self, verdict: Verdict, *, limit: int) -> int:
        return self.write(lambda session: self.parts.expire.expire(session, verdict, limit))


def _is_small(jobs: Sequence[NewJob]) -> bool:
    return len(jobs) <= MOST_ON_LOOP and sum(len(job.arguments) for job in jobs) <= LARGE_TOGETHER


class PostgresStore(Store):
    """`now` replaces the server's clock. `services` returns those in force. No call waits longer than `timeout`."""

    def __init__(
        self,
        url: str,
        *,
        now: Callable[[], datetime] | None = None,
        services: Callable[[], ServiceBook] = ServiceBook,
        timeout: timedelta = TIMEOUT,
    ) -> None:
        self._postgres = PostgresBackend(url, now=now, services=services, timeout=timeout, job=self.job)
        super().__init__(self._postgres)

    @property
    def _connections(self) -> Connections:
        return self._postgres.connections
