"""A server that does not answer: the network is silent, or another session holds a lock. Every call ends."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer

from chaos.proxy import Proxy
from live import eventually
from mulligan import App
from mulligan.errors import StoreUnavailable
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.batch import NewBatch
from mulligan.records.job import JobFilter, Lease, NewJob
from mulligan.settings import Settings
from mulligan.store.messages import Beat, Claim, Outcome, Request, Settled, WorkerRecord
from mulligan.store.postgres import PostgresStore

LIMIT = timedelta(milliseconds=150)
# The limit, a request to cancel and a slow machine.
SOON = 5.0
HOUR = timedelta(hours=1)
WORKER = WorkerRecord(incarnation="w", host="here", pid=7, queues=None, kinds=("send",), concurrency=1)


@pytest.fixture(scope="module")
def url(server: PostgresServer) -> str:
    url = server.fresh_database("silence")
    with closing(PostgresStore(url)) as store:
        store.migrate()
    return url


@pytest.fixture
def proxy(server: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(server.port)
    yield proxy
    proxy.speak()
    proxy.close()


@pytest.fixture
def address(server: PostgresServer, proxy: Proxy, url: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM mulligan_jobs; DELETE FROM mulligan_events")
    return url.replace(str(server.port), str(proxy.port))


@pytest.fixture
def store(address: str) -> Iterator[PostgresStore]:
    """Without hints, which would use its one connection meanwhile."""
    with closing(PostgresStore(address + "?notify=off", timeout=LIMIT)) as store:
        yield store


def new(job_id: str) -> NewJob:
    return NewJob(id=job_id, kind="send", arguments="{}")


def claim(store: PostgresStore, *, limit: int = 1) -> list[Lease]:
    return store.claim(Claim(incarnation="w", number=1, kinds=["send"], limit=limit, lease=HOUR)).leases


def retry(store: PostgresStore) -> object:
    return store.move(Request(id="r", move=Move.MANUAL_CANCEL, job="job"))


CALLS: list[Callable[[PostgresStore], object]] = [
    lambda store: store.enqueue([new("other")]),
    claim,
    lambda store: store.beat(Beat(worker=WORKER, lease=HOUR)),
    retry,
    lambda store: store.jobs(JobFilter()),
    lambda store: store.pauses(),
    lambda store: store.publish("batch"),
    lambda store: store.migrate(),
]


@pytest.mark.parametrize("call", CALLS, ids=["enqueue", "claim", "beat", "move", "list", "read", "batch", "migrate"])
def test_a_call_into_silence_ends_and_the_next_one_works(
    store: PostgresStore, proxy: Proxy, call: Callable[[PostgresStore], object]
) -> None:
    store.enqueue([new("job")])
    store.create_batch(NewBatch(id="batch", name="batch"))
    proxy.silence()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=r"cannot be reached now: no answer for 0.15\d? s"):
        call(store)
    assert time.monotonic() - began < SOON
    proxy.speak()
    call(store)


def test_a_settle_whose_reply_is_not_forwarded_is_repeated_and_written_once(store: PostgresStore, proxy: Proxy) -> None:
    store.enqueue([new("before"), new("job")])
    before, lease = claim(store, limit=2)
    # Once it is prepared, a settle is one request.
    store.settle([Outcome(before, Succeed("1"))])
    proxy.silence(requests=False)
    with pytest.raises(StoreUnavailable):
        store.settle([Outcome(lease, Succeed("1"))])
    proxy.speak()
    assert store.settle([Outcome(lease, Succeed("1"))]) == [Settled.REPEATED]
    assert [event.type for event in store.events(job="job")].count("job.succeeded") == 1


def test_connecting_and_listening_are_not_delayed(address: str, proxy: Proxy) -> None:
    with (
        closing(PostgresStore(address, timeout=LIMIT)) as store,
        closing(store.changes()) as changes,
        closing(PostgresStore(address, timeout=LIMIT)) as other,
    ):
        store.enqueue([new("job")])
        eventually(lambda: changes.wait(1))
        proxy.silence()
        began = time.monotonic()
        assert changes.wait(60) is False
        with pytest.raises(StoreUnavailable, match="cannot be reached now: "):
            other.now()
        assert time.monotonic() - began < SOON
        proxy.speak()


def test_a_locked_row_ends_the_wait_and_leaves_no_session_waiting(store: PostgresStore, url: str) -> None:
    store.enqueue([new("job")])
    (lease,) = claim(store)
    outcome = Outcome(lease, Succeed("1"))
    with psycopg.connect(url) as holder, psycopg.connect(url, autocommit=True) as observer:
        holder.execute("SELECT 1 FROM mulligan_jobs FOR UPDATE")
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="the call waits for a lock"):
                store.settle([outcome])
        waiting = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        eventually(lambda: not observer.execute(waiting).fetchall())
    assert store.settle([outcome]) == [Settled.ACCEPTED]
    assert store.job("job").state is State.SUCCEEDED


def test_a_migration_is_not_cut_short(address: str, url: str) -> None:
    late = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'advisory' AND clock_timestamp() - query_start > '0.5 s'"
    with (
        closing(PostgresStore(address, timeout=LIMIT)) as store,
        psycopg.connect(url, autocommit=True) as holder,
        ThreadPoolExecutor(1) as pool,
    ):
        holder.execute("SELECT pg_advisory_lock(7216104371)")
        migrating = pool.submit(store.migrate)
        eventually(lambda: holder.execute(late).fetchall())
        holder.execute("SELECT pg_advisory_unlock(7216104371)")
        assert migrating.result(60) == []


def test_a_transaction_that_the_server_ended_because_it_stood_still_may_be_tried_again(
    store: PostgresStore, url: str
) -> None:
    """As after a freeze of the process."""

    def stand_still(db: Any) -> None:
        db.execute("BEGIN; SET LOCAL idle_in_transaction_session_timeout = '1ms'")
        gone = "SELECT 1 FROM pg_stat_activity WHERE pid = %s"
        with psycopg.connect(url, autocommit=True) as observer:
            eventually(lambda: not observer.execute(gone, [db.info.backend_pid]).fetchall())
        db.execute("COMMIT")

    with pytest.raises(StoreUnavailable, match=r"idle-in-transaction timeout|closed the connection"):
        store._connections.run(stand_still)


def app_on(address: str) -> App:
    return App(settings=Settings(database_url=address, store_timeout=LIMIT, worker_lease_ttl=HOUR))


def test_an_asynchronous_enqueue_ends_by_the_setting(address: str, proxy: Proxy) -> None:
    with app_on(address + "?notify=off") as app:
        task = app.task("task")(lambda: None)
        task.enqueue()
        proxy.silence()

        async def enqueue() -> None:
            async with asyncio.timeout(SOON):
                await task.enqueue_async()

        with pytest.raises(StoreUnavailable, match="no answer for"):
            asyncio.run(enqueue())
        proxy.speak()


class Listener(logging.Handler):
    """Ends the silence when a worker tells of it."""

    def __init__(self, proxy: Proxy) -> None:
        super().__init__()
        self._proxy = proxy
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())
        threading.Thread(target=self._proxy.speak).start()


def test_a_worker_logs_that_the_store_does_not_answer_and_continues_when_it_does(address: str, proxy: Proxy) -> None:
    ran: list[Any] = []
    listener = Listener(proxy)
    logger = logging.getLogger("mulligan.worker")
    logger.addHandler(listener)
    try:
        with app_on(address) as app:

            @app.task
            def quiet(number: int) -> None:
                ran.append(number)
                if number == 0:
                    proxy.silence()

            for number in range(3):
                quiet.enqueue(number)
            app.run_until_idle(timeout="60s", concurrency=1)
            # A call that another test gave up may still be stored.
            assert [job.attempt for job in app.jobs(JobFilter(kind="quiet")).jobs] == [1, 1, 1]
    finally:
        logger.removeHandler(listener)
    assert ran == [0, 1, 2]
    assert any("the store does not answer" in line for line in listener.heard)
