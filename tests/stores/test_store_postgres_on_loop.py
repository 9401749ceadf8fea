"""Enqueue on an event loop: no thread is used, the loop never waits, and no connection is left in a bad state."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import timedelta

import psycopg
import pytest
from postgres_server import PostgresServer, emptied

from live import SOON
from mulligan.errors import Conflict, IntakePaused, StoreClosed, StoreError, StoreUnavailable
from mulligan.records.job import Job, JobFilter, NewJob
from mulligan.records.pause import PauseRequest
from mulligan.store.foreign import run
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres.backend import ENQUEUES_AT_ONCE, LARGE_TOGETHER
from mulligan.store.postgres.connections import MOST_CONNECTIONS


@pytest.fixture(params=["direct", "through pgbouncer"])
def store(request: pytest.FixtureRequest, database: str) -> Iterator[PostgresStore]:
    """It has an idle connection, as after any call."""
    url = request.getfixturevalue("proxied") if request.param == "through pgbouncer" else database
    emptied(database)
    with closing(PostgresStore(url)) as store:
        store.now()
        yield store


def new(name: str, arguments: str = "{}") -> NewJob:
    return NewJob(id=name, kind="send", arguments=arguments, is_submitted=True)


def stored(store: PostgresStore) -> set[str]:
    return {job.id for job in store.jobs(JobFilter(), limit=1_000).jobs}


@contextmanager
def locked(database: str) -> Iterator[psycopg.Connection]:
    """Nothing can be stored inside the block."""
    with psycopg.connect(database, autocommit=True) as watching, psycopg.connect(database) as other:
        other.execute("LOCK TABLE mulligan_jobs")
        yield watching


async def until_one_waits(watching: psycopg.Connection) -> None:
    waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
    async with asyncio.timeout(SOON):
        while watching.execute(waiting).fetchone() is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


def test_no_thread_is_used(store: PostgresStore) -> None:
    async def enqueue() -> None:
        before = threading.active_count()
        for number in range(3):
            await store.enqueue_async([new(f"job-{number}")])
        assert threading.active_count() == before

    asyncio.run(enqueue())
    assert stored(store) == {"job-0", "job-1", "job-2"}


@pytest.mark.parametrize(
    ("number", "arguments", "is_by_thread"),
    [(1_000, "{}", False), (1_001, "{}", True), (2, '"' + "x" * (LARGE_TOGETHER // 2) + '"', True)],
    ids=["small", "many", "large"],
)
def test_like_jobs_of_one_call_use_a_thread_only_if_they_are_many_or_large(
    store: PostgresStore, database: str, number: int, arguments: str, is_by_thread: bool
) -> None:
    jobs = [new(f"job-{n:04}", arguments) for n in range(number)]

    async def enqueue() -> None:
        before = threading.active_count()
        assert [job.id for job in await store.enqueue_async(jobs)] == [job.id for job in jobs]
        assert (threading.active_count() > before) == is_by_thread

    asyncio.run(enqueue())
    with psycopg.connect(database) as shell:
        assert shell.execute("SELECT count(*) FROM mulligan_jobs").fetchone() == (number,)


def test_other_tasks_run_while_the_server_is_asked(store: PostgresStore, database: str) -> None:
    async def enqueue() -> None:
        with locked(database) as watching:
            enqueuing = asyncio.create_task(store.enqueue_async([new("job")]))
            await until_one_waits(watching)
        await asyncio.wait_for(enqueuing, SOON)

    asyncio.run(enqueue())
    assert stored(store) == {"job"}


def test_more_calls_than_connections_are_all_stored(store: PostgresStore) -> None:
    names = {f"job-{number}" for number in range(20 * MOST_CONNECTIONS)}

    async def enqueue() -> None:
        await asyncio.gather(*[store.enqueue_async([new(name)]) for name in names])

    asyncio.run(enqueue())
    assert stored(store) == names
    assert len(store._connections._idle) <= MOST_CONNECTIONS


def test_several_loops_use_one_store(store: PostgresStore) -> None:
    async def enqueue(first: str) -> None:
        await asyncio.gather(*[store.enqueue_async([new(f"{first}-{number}")]) for number in range(30)])

    threads = [threading.Thread(target=lambda name=name: asyncio.run(enqueue(name))) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    asyncio.run(enqueue("d"))
    assert len(stored(store)) == 4 * 30
    assert len(store._postgres._enqueues._calls) == 1, "those of closed loops are forgotten"


def test_a_cancelled_call_leaves_no_connection_in_the_middle_of_an_answer(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store:
        other = store._connections.connect()
        store.now()
        store._connections._idle.insert(0, other)

        async def enqueue() -> None:
            with locked(database) as watching:
                enqueuing = asyncio.create_task(store.enqueue_async([new("cancelled")]))
                await until_one_waits(watching)
                enqueuing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await enqueuing
            assert store._connections._idle == [other], "the others are not broken"
            for number in range(2 * MOST_CONNECTIONS):
                await store.enqueue_async([new(f"job-{number}")])

        asyncio.run(enqueue())
        assert len(stored(store) - {"cancelled"}) == 2 * MOST_CONNECTIONS


def test_a_loop_that_ends_in_the_middle_of_a_call_leaves_the_others_usable(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store:
        store.now()
        loop = asyncio.new_event_loop()
        with locked(database) as watching:
            enqueuing = loop.create_task(store.enqueue_async([new("left")]))
            loop.run_until_complete(until_one_waits(watching))
            # As `asyncio.run` does with what is still running.
            enqueuing.cancel()
            loop.run_until_complete(asyncio.gather(enqueuing, return_exceptions=True))
            loop.close()
        for number in range(2 * MOST_CONNECTIONS):
            asyncio.run(store.enqueue_async([new(f"job-{number}")]))
        assert len(stored(store) - {"left"}) == 2 * MOST_CONNECTIONS


def test_a_lost_connection_is_one_error_and_replaced(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store:
        store.now()

        async def enqueue() -> None:
            await store.enqueue_async([new("before")])
            pids = [connection.info.backend_pid for connection in store._connections._idle]
            with psycopg.connect(database, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::integer[]) AS pid", [pids])
            with pytest.raises(StoreUnavailable):
                await store.enqueue_async([new("lost")])
            await store.enqueue_async([new("after")])

        asyncio.run(enqueue())
        assert {"before", "after"} <= stored(store)


def test_a_large_job_is_sent_in_parts_to_a_server_that_reads_slowly(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store:
        store.now()
        (connection,) = store._connections._idle
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as same:
            same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
        arguments = '{"text":"' + "x" * 250_000 + '"}'
        asyncio.run(store.enqueue_async([new("large", arguments)]))
        assert store.job("large").arguments["text"] == "x" * 250_000
        assert store._connections._idle == [connection]


def test_an_id_that_exists_and_a_paused_intake_are_answered_as_by_a_thread(store: PostgresStore) -> None:
    async def enqueue() -> None:
        (first,) = await store.enqueue_async([new("job")])
        assert await store.enqueue_async([new("job")]) == [first]
        store.pause(PauseRequest(id="pause", what="intake", name="send"))
        with pytest.raises(IntakePaused):
            await store.enqueue_async([new("other")])

    asyncio.run(enqueue())
    assert stored(store) == {"job"}


def test_like_jobs_of_one_call_are_stored_all_or_none(store: PostgresStore) -> None:
    async def enqueue() -> None:
        (first,) = await store.enqueue_async([new("b")])
        assert (await store.enqueue_async([new("a"), new("b"), new("c")]))[1] == first
        store.pause(PauseRequest(id="pause", what="intake", name="send"))
        with pytest.raises(IntakePaused):
            await store.enqueue_async([new("d"), new("e")])
        with pytest.raises(StoreError):
            await store.enqueue_async([new("f"), new("\0")])

    asyncio.run(enqueue())
    assert stored(store) == {"a", "b", "c"}


# Calls at once


def given(name: str, **terms: object) -> NewJob:
    """With an id of the caller, which may exist already."""
    return NewJob(**{"id": name, "kind": "send", "arguments": "{}", "is_submitted": True, "is_id_given": True, **terms})


async def at_once(store: PostgresStore, jobs: list[NewJob]) -> list[object]:
    """The record of each job, or its error. All but the first calls are stored together."""
    first = [new(f"first-{number}") for number in range(ENQUEUES_AT_ONCE)]
    found = await asyncio.gather(*[store.enqueue_async([job]) for job in [*first, *jobs]], return_exceptions=True)
    return [each if isinstance(each, BaseException) else each[0] for each in found[len(first) :]]


@pytest.fixture
def open_store(database: str) -> Iterator[PostgresStore]:
    """With an idle connection for each statement that a loop runs at once."""
    emptied(database)
    with closing(PostgresStore(database)) as store:
        store.now()
        store._connections._idle += [store._connections.connect() for _ in range(ENQUEUES_AT_ONCE)]
        yield store


def test_calls_at_once_are_stored_together_each_with_its_own_record(open_store: PostgresStore) -> None:
    jobs = [
        new("plain"),
        given("given", owner="acme", arguments='{"a":1}'),
        given("late", delay=timedelta(hours=1), tags=("x",)),
        new("other", '{"b":2}'),
    ]
    found = asyncio.run(at_once(open_store, jobs))
    assert found == [open_store.job(job.id) for job in jobs]
    events = [event for job in jobs for event in open_store.events(job=job.id)]
    assert len(events) == len(jobs)
    assert len({event.position for event in events}) == 1, "events of one transaction share a position"


def test_of_calls_at_once_each_has_its_own_answer(open_store: PostgresStore) -> None:
    open_store.enqueue([given("stored"), given("taken")])
    jobs = [
        new("good"),
        given("stored"),
        given("taken", arguments='{"other":1}'),
        given("twice"),
        given("twice"),
        given("twice", kind="other"),
    ]
    good, stored_before, taken, *twice = asyncio.run(at_once(open_store, jobs))
    assert good == open_store.job("good")
    assert isinstance(stored_before, Job) and stored_before.is_duplicate
    assert isinstance(taken, Conflict)
    assert [each.is_duplicate for each in twice if isinstance(each, Job)] == [False, True]
    assert isinstance(twice[2], Conflict)


def test_a_call_that_cannot_be_stored_does_not_fail_those_at_once_with_it(open_store: PostgresStore) -> None:
    first, good, bad = asyncio.run(at_once(open_store, [new("first"), new("good"), given("bad", owner="a\0b")]))
    assert [first, good] == [open_store.job("first"), open_store.job("good")]
    assert isinstance(bad, StoreError)


def test_a_paused_intake_refuses_only_its_own_jobs(open_store: PostgresStore) -> None:
    open_store.pause(PauseRequest(id="pause", what="intake", name="paused"))
    good, bad = asyncio.run(at_once(open_store, [given("good"), given("bad", kind="paused")]))
    assert good == open_store.job("good")
    assert isinstance(bad, IntakePaused)


def test_a_job_that_another_transaction_is_about_to_store_keeps_no_other_waiting(
    open_store: PostgresStore, database: str
) -> None:
    async def enqueue() -> None:
        with psycopg.connect(database) as other:
            run(other, open_store.enqueue_script([given("shared")]))
            tasks = [asyncio.create_task(open_store.enqueue_async([new(f"first-{n}")])) for n in range(2)]
            waiting = asyncio.create_task(open_store.enqueue_async([given("shared")]))
            async with asyncio.timeout(SOON):
                await asyncio.gather(*tasks, open_store.enqueue_async([given("free")]))
            assert not waiting.done()
            other.commit()
            (found,) = await asyncio.wait_for(waiting, SOON)
            assert found.is_duplicate

    asyncio.run(enqueue())
    assert {"shared", "free"} <= stored(open_store)


def test_a_call_that_is_cancelled_does_not_cancel_those_beside_it(open_store: PostgresStore, database: str) -> None:
    async def enqueue() -> None:
        with locked(database) as watching:
            calls = [asyncio.create_task(open_store.enqueue_async([new(f"job-{n}")])) for n in range(6)]
            await until_one_waits(watching)
            calls[-1].cancel()
            calls[0].cancel()
        found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), SOON)
        assert [number for number, each in enumerate(found) if isinstance(each, BaseException)] == [0, 5]

    asyncio.run(enqueue())
    assert {f"job-{number}" for number in range(1, 5)} <= stored(open_store)


def test_a_schema_that_changed_is_no_error(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store:

        async def enqueue() -> None:
            await store.enqueue_async([new("before")])
            await store.enqueue_async([new("prepared")])
            for connection in store._connections._idle:
                connection.execute("DEALLOCATE ALL")
            await store.enqueue_async([new("after")])

        asyncio.run(enqueue())
        assert stored(store) == {"before", "prepared", "after"}


def test_a_connection_whose_statement_was_forgotten_stays_in_use(store: PostgresStore) -> None:
    """As after a rollback: psycopg then makes the server forget all statements."""
    store.enqueue([new("before")])
    (connection,) = store._connections._idle
    with suppress(RuntimeError), connection.transaction():
        for _ in range(10):
            connection.execute("SELECT 1")
        raise RuntimeError
    assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []
    store.enqueue([new("after")])
    assert store._connections._idle == [connection]
    assert stored(store) == {"before", "after"}


def test_a_closed_store_says_so(store: PostgresStore) -> None:
    asyncio.run(store.enqueue_async([new("job")]))
    store.close()
    with pytest.raises(StoreClosed):
        asyncio.run(store.enqueue_async([new("late")]))


def test_another_process_is_notified_of_the_job(database: str) -> None:
    with closing(PostgresStore(emptied(database))) as store, psycopg.connect(database, autocommit=True) as listener:
        store.now()
        listener.execute("LISTEN mulligan")
        asyncio.run(store.enqueue_async([new("job")]))
        assert any(True for _ in listener.notifies(timeout=SOON, stop_after=1))
        assert store._postgres._notifier._thread is None, "the NOTIFY went with the job"  # type: ignore[union-attr]


def test_jobs_whose_hint_was_left_to_a_call_that_failed_are_announced(database: str) -> None:
    """Its own NOTIFY, which would have announced them too, was lost with its connection."""
    with closing(PostgresStore(emptied(database))) as store, psycopg.connect(database, autocommit=True) as listener:
        store.now()
        listener.execute("LISTEN mulligan")

        async def enqueue() -> None:
            with locked(database) as watching:
                call = asyncio.create_task(store.enqueue_async([new("job")]))
                await until_one_waits(watching)
                watching.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
                with pytest.raises(StoreError):
                    await call

        asyncio.run(enqueue())
        assert any(True for _ in listener.notifies(timeout=SOON, stop_after=1))


@pytest.mark.parametrize("field", ["owner", "queue"])
def test_what_postgres_cannot_store_is_refused_and_not_cut_off(store: PostgresStore, field: str) -> None:
    job = NewJob(id="job", kind="send", arguments="{}", **{field: "ab\0cd"})
    for enqueue in (store.enqueue, lambda jobs: asyncio.run(store.enqueue_async(jobs))):
        with pytest.raises(StoreError, match="NUL"):
            enqueue([job])
    assert stored(store) == set()


def test_a_database_in_another_encoding_stores_the_same(server: PostgresServer) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE latin ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with closing(PostgresStore(server.url("latin"))) as store:
        store.migrate()
        for name in ("first", "second"):
            asyncio.run(store.enqueue_async([NewJob(id=name, kind="send", arguments='"für"', owner="Müller")]))
            found = store.job(name)
            assert (found.owner, found.arguments) == ("Müller", "für")
