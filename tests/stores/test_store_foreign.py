"""Enqueue in the caller's own transaction, with each library it is promised for."""

import asyncio
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import django
import psycopg
import pytest
import sqlalchemy
from django.conf import settings
from django.db import connections, transaction
from postgres_server import emptied
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

from conformance.bench import failing
from mulligan import (
    App,
    Conflict,
    FinalError,
    Job,
    JobFilter,
    JobNotFound,
    MulliganError,
    NotAllowed,
    Owner,
    Queue,
    SubmitRateExceeded,
)
from mulligan.errors import BadConnection, IntakePaused
from mulligan.failure.decision import Succeed
from mulligan.policies.quotas import Quotas
from mulligan.records.job import Lease
from mulligan.records.limit import LimitBook
from mulligan.service.records import Family
from mulligan.store import foreign
from mulligan.store.messages import Claim, Outcome, Settled
from mulligan.task.task import Binding
from mulligan.testing import sandbox

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "transactions.md"


NUMBERS = count(1)


class Undone(Exception):
    """Raised inside a transaction so that its library rolls it back."""


# For the session: Django is configured once in a process.
@pytest.fixture(scope="session")
def sqlite_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("foreign") / "jobs.db"
    App(f"sqlite:///{path}?synchronous=normal").migrate()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
    return str(path)


@pytest.fixture(scope="session", autouse=True)
def _django(database: str, sqlite_file: str) -> Iterator[None]:
    place = psycopg.conninfo.conninfo_to_dict(database)
    settings.configure(
        DATABASES={
            "default": {
                "ENGINE": "django.db.backends.postgresql",
                "NAME": place["dbname"],
                "USER": place["user"],
                "HOST": place["host"],
                "PORT": place["port"],
            },
            "file": {"ENGINE": "django.db.backends.sqlite3", "NAME": sqlite_file},
        },
        USE_TZ=True,
    )
    django.setup()
    yield
    connections.close_all()


# One way per library and database: a transaction around a connection, committed at the end, rolled back by an error.


@contextmanager
def of_psycopg(place: str) -> Iterator[Any]:
    # Rows of another shape, and parameters of another kind: a connection of a user's, not of ours.
    with psycopg.connect(place, row_factory=dict_row, cursor_factory=psycopg.ClientCursor) as connection:
        yield connection


@contextmanager
def of_raw_psycopg(place: str) -> Iterator[Any]:
    with (
        psycopg.connect(place, autocommit=True, cursor_factory=psycopg.RawCursor) as connection,
        connection.transaction(),
    ):
        yield connection


@contextmanager
def of_sqlalchemy(place: str) -> Iterator[Any]:
    with sqlalchemy.create_engine(_sqlalchemy_url(place), poolclass=NullPool).begin() as connection:
        yield connection


@contextmanager
def of_session(place: str) -> Iterator[Any]:
    engine = sqlalchemy.create_engine(_sqlalchemy_url(place), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        yield session


@contextmanager
def of_sqlalchemy_that_begins_manually(place: str) -> Iterator[Any]:
    """SQLAlchemy's own recipe for real transactions on SQLite."""
    engine = sqlalchemy.create_engine(_sqlalchemy_url(place), poolclass=NullPool)

    @sqlalchemy.event.listens_for(engine, "connect")
    def no_implicit_begin(connection: Any, _record: Any) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN")

    with engine.connect() as connection:
        yield connection
        connection.commit()


@contextmanager
def of_django(place: str) -> Iterator[Any]:
    alias = "default" if place.startswith("postgresql") else "file"
    with transaction.atomic(using=alias):
        yield connections[alias]


@contextmanager
def of_sqlite3(place: str) -> Iterator[Any]:
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.row_factory = lambda _cursor, row: {"row": row}
        yield connection


@contextmanager
def of_sqlite3_by_hand(place: str) -> Iterator[Any]:
    with closing(sqlite3.connect(place, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        with connection:
            yield connection


@asynccontextmanager
async def of_async_psycopg(place: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(place, row_factory=dict_row) as connection:
        yield connection


@asynccontextmanager
async def of_async_sqlalchemy(place: str) -> AsyncIterator[Any]:
    async with create_async_engine(_sqlalchemy_url(place), poolclass=NullPool).begin() as connection:
        yield connection


@asynccontextmanager
async def of_async_session(place: str) -> AsyncIterator[Any]:
    engine = create_async_engine(_sqlalchemy_url(place), poolclass=NullPool)
    async with AsyncSession(engine) as session, session.begin():
        yield session


def _sqlalchemy_url(place: str) -> str:
    return place.replace("postgresql://", "postgresql+psycopg://") if "://" in place else f"sqlite:///{place}"


ON_POSTGRES = [of_psycopg, of_raw_psycopg, of_sqlalchemy, of_session, of_django]
ON_SQLITE = [
    of_sqlite3,
    of_sqlite3_by_hand,
    of_sqlalchemy,
    of_session,
    of_sqlalchemy_that_begins_manually,
    of_django,
]
ASYNCHRONOUS = [of_async_psycopg, of_async_sqlalchemy, of_async_session]
ALL = [(way, kind) for kind, ways in (("postgres", ON_POSTGRES + ASYNCHRONOUS), ("sqlite", ON_SQLITE)) for way in ways]


class Shop:
    """An app, and transactions of another program beside it."""

    def __init__(self, app: App, place: str, way: Callable[[str], Any]) -> None:
        self.app = app
        self.place = place
        self._way = way
        self.ship = app.tasks["ship"]

    def transact(self, *calls: dict[str, Any], then: type[Exception] | None = None) -> list[Job[Any]]:
        """One transaction with a job for each call's options."""
        if self._way in ASYNCHRONOUS:
            return asyncio.run(self._transact_async(calls, then))
        with _undoing(), self._way(self.place) as connection:
            jobs = [self.ship.options(connection=connection, **call).enqueue(1) for call in calls]
            if then is not None:
                raise then
        return jobs

    async def _transact_async(self, calls: Any, then: type[Exception] | None) -> list[Job[Any]]:
        with _undoing():
            async with self._way(self.place) as connection:
                jobs = [await self.ship.options(connection=connection, **call).enqueue_async(1) for call in calls]
                if then is not None:
                    raise then
        return jobs

    def conflict(self, *calls: Binding[Any]) -> None:
        """Calls that are refused, in a transaction that is committed all the same."""
        if self._way in ASYNCHRONOUS:
            return asyncio.run(self._conflict_async(calls))
        with self._way(self.place) as connection, pytest.raises(Conflict, match=r"its arguments \(order\)"):
            self.app.enqueue_many(calls, connection=connection)
        return None

    async def _conflict_async(self, calls: Sequence[Binding[Any]]) -> None:
        async with self._way(self.place) as connection:
            with pytest.raises(Conflict, match=r"its arguments \(order\)"):
                await self.app.enqueue_many_async(calls, connection=connection)

    def events(self, job: Job[Any]) -> list[str]:
        return [event.type for event in self.app.events(job=job.id)]


def _ship(order: int) -> None: ...


def _clean(job: str) -> None: ...


@contextmanager
def _undoing() -> Iterator[None]:
    with suppress(Undone):
        yield


@pytest.fixture
def on_postgres(database: str) -> Iterator[App]:
    with App(emptied(database)) as app:
        app.task("ship")(_ship)
        yield app


@pytest.fixture
def on_sqlite(sqlite_file: str) -> Iterator[App]:
    with closing(sqlite3.connect(sqlite_file)) as connection, connection:
        tables = ("jobs", "events", "turns", "shares", "submissions", "service_names")
        names = (*(f"mulligan_{table}" for table in tables), "orders")
        connection.executescript("; ".join(f"DELETE FROM {name}" for name in names))
    with App(f"sqlite:///{sqlite_file}?synchronous=normal") as app:
        app.task("ship")(_ship)
        yield app


@pytest.fixture(params=ALL, ids=lambda found: f"{found[1]}-{found[0].__name__}")
def shop(request: pytest.FixtureRequest, database: str, sqlite_file: str) -> Shop:
    way, kind = request.param
    app = request.getfixturevalue(f"on_{kind}")
    return Shop(app, database if kind == "postgres" else sqlite_file, way)


def test_a_rollback_leaves_no_job_and_no_event(shop: Shop) -> None:
    (job,) = shop.transact({}, then=Undone)
    with pytest.raises(JobNotFound):
        shop.app.job(job.id)
    assert shop.events(job) == []


def test_a_commit_leaves_the_job_as_it_was_returned_and_its_event(shop: Shop) -> None:
    now, later = shop.transact({"tags": ["eu"], "owner": "acme"}, {"delay": "1m", "deadline": "1h"})
    assert [shop.app.job(job.id) for job in (now, later)] == [now, later]
    assert [shop.events(job) for job in (now, later)] == [["job.enqueued"]] * 2
    assert [event.data for event in shop.app.events(job=later.id)] == [{"delay": 60}]
    assert (now.state, later.state, later.due_at - later.enqueued_at) == ("queued", "waiting", timedelta(minutes=1))
    assert abs(now.enqueued_at - shop.app.store.now()) < timedelta(minutes=1)


def test_a_duplicate_in_the_same_transaction_is_the_first_one_s_job(shop: Shop) -> None:
    first, second = shop.transact({"dedupe": "k"}, {"dedupe": "k"})
    assert (second.id, first.is_duplicate, second.is_duplicate) == (first.id, False, True)
    assert shop.events(first) == ["job.enqueued"]


def test_a_key_rolled_back_is_free_again(shop: Shop) -> None:
    (undone,) = shop.transact({"dedupe": "k"}, then=Undone)
    (job,) = shop.transact({"dedupe": "k"})
    assert (job.is_duplicate, job.id == undone.id) == (False, False)
    (twin,) = shop.transact({"dedupe": "k"})
    assert (twin.is_duplicate, twin.id) == (True, job.id)


def test_a_period_that_is_over_holds_its_key_no_longer(shop: Shop) -> None:
    (first,) = shop.transact({"dedupe": "k", "dedupe_for": "0s"})
    shop.app.cancel(first.id)
    (second,) = shop.transact({"dedupe": "k", "dedupe_for": "1d"})
    shop.app.cancel(second.id)
    (third,) = shop.transact({"dedupe": "k", "dedupe_for": "1d"})
    assert (second.is_duplicate, third.is_duplicate, third.id) == (False, True, second.id)


def test_owners_take_turns_in_the_callers_transaction_too(shop: Shop) -> None:
    shop.app.client.quotas = Quotas([Queue("bulk", fair=True)], [Owner("b", weight=2)])
    options = [{"queue": "bulk", "owner": owner} for owner in "aaaabbbb"]
    shop.transact(*options, then=Undone)
    shop.transact(*options)
    claim = Claim(incarnation="w", number=1, kinds=["ship"], limit=6, lease=timedelta(hours=1), fair=["bulk"])
    assert [lease.owner for lease in shop.app.store.claim(claim).leases] == ["b", "a", "b", "b", "a", "b"]


def test_a_paused_intake_refuses_in_the_callers_transaction_too(shop: Shop) -> None:
    shop.app.pause("1h", intake="ship", reason="maintenance")
    with pytest.raises(IntakePaused, match=r"no new jobs of 'ship' are accepted until .*, because maintenance"):
        shop.transact({}, {})
    assert shop.app.jobs().jobs == ()
    shop.app.resume(intake="ship")
    assert len(shop.transact({}, {})) == 2


def test_the_name_of_a_computed_service_comes_and_goes_with_its_job(shop: Shop) -> None:
    shop.ship = shop.app.task("fetch", service=lambda order: f"site:{order}")(_ship)
    shop.transact({}, then=Undone)
    assert shop.app.store.service_names() == []
    assert [job.service for job in shop.transact({}, {})] == ["site:1"] * 2
    assert shop.app.store.service_names() == [Family("*", 1, 1_000)]


def test_a_new_name_in_an_open_transaction_delays_no_other_job_with_it(on_postgres: App, database: str) -> None:
    fetch = on_postgres.task("fetch", service=lambda order: f"site:{order}")(_ship)
    with of_psycopg(database) as connection:
        fetch.options(connection=connection).enqueue(1)
        assert fetch.enqueue(1).service == "site:1"
        connection.commit()
    assert on_postgres.store.service_names() == [Family("*", 1, 1_000)], "two brought it, and it is one"


def test_limits_hold_for_jobs_stored_in_the_callers_transaction(shop: Shop) -> None:
    book = LimitBook(kinds={"ship": 3}, queues={"narrow": 1}, owners={"*": 2})
    numbers = count(1)

    def claimed() -> list[Lease]:
        wish = Claim(incarnation="w", number=next(numbers), kinds=["ship"], limit=9, lease=timedelta(hours=1))
        return shop.app.store.claim(wish).leases

    try:
        # Said by a worker they hold for clients that know nothing of them; known to a client, before any worker came.
        for is_said in (True, False):
            shop.app.store.limit_by(lambda: book)
            if is_said:
                claimed()
                shop.app.store.limit_by(LimitBook)
            shop.transact({"owner": "acme"}, then=Undone)
            jobs = shop.transact(*[{"owner": "acme"}] * 3, *[{"queue": "narrow"}] * 2)
            assert {(job.state, job.waiting_for) for job in jobs} == {("waiting", "limit")}
            shop.app.store.limit_by(lambda: book)
            first, second = claimed(), claimed()
            assert sorted(lease.owner for lease in first) == ["", "acme", "acme"]
            assert second == []
            shop.app.store.settle([Outcome(lease, Succeed("1")) for lease in first])
            shop.app.store.settle([Outcome(lease, Succeed("1")) for lease in claimed()])
            shop.app.store.limit_by(LimitBook)
            claimed()
    finally:
        shop.app.store.limit_by(LimitBook)
        claimed()


def test_an_owner_that_submits_too_fast_is_refused_before_anything_is_written(shop: Shop) -> None:
    shop.app.client.quotas = Quotas(owners=[Owner("acme", submit_rate="3/d")])
    shop.transact(*[{"owner": "acme"}] * 3, then=Undone)
    kept = shop.transact(*[{"owner": "acme", "dedupe": str(n)} for n in range(3)])
    with pytest.raises(SubmitRateExceeded):
        shop.transact({"owner": "acme"})
    (twin,) = shop.transact({"owner": "acme", "dedupe": "1"})
    assert (twin.id, twin.is_duplicate) == (kept[1].id, True)
    assert len(shop.app.jobs().jobs) == 3


def test_many_jobs_of_one_transaction_keep_their_order(shop: Shop) -> None:
    if shop._way in ASYNCHRONOUS:

        async def enqueue() -> list[Job[Any]]:
            async with shop._way(shop.place) as connection:
                return await shop.app.enqueue_many_async([shop.ship.bind(n) for n in range(20)], connection=connection)

        jobs = asyncio.run(enqueue())
    else:
        with shop._way(shop.place) as connection:
            jobs = shop.app.enqueue_many([shop.ship.bind(n) for n in range(20)], connection=connection)
    assert [job.arguments for job in jobs] == [{"order": n} for n in range(20)]
    assert [job.id for job in reversed(shop.app.jobs().jobs)] == [job.id for job in jobs]
    assert [event.job for event in shop.app.events()] == [job.id for job in jobs]


def test_an_id_that_is_there_already_is_the_same_job(shop: Shop) -> None:
    (job,) = shop.transact({})
    shop.app.client.ids = lambda _: [job.id]
    (again,) = shop.transact({})
    assert (again, again.is_duplicate) == (shop.app.job(job.id), False)
    assert shop.events(job) == ["job.enqueued"]


def test_a_call_with_an_id_of_its_own_can_be_repeated_in_another_transaction(shop: Shop) -> None:
    shop.transact({"id": "order 7"}, then=Undone)
    (job,) = shop.transact({"id": "order 7"})
    (again,) = shop.transact({"id": "order 7"})
    assert (job.is_duplicate, again.id, again.is_duplicate) == (False, job.id, True)
    shop.conflict(shop.ship.bind(2), shop.ship.options(id="order 7").bind(2))
    shop.conflict(shop.ship.bind(2), shop.ship.options(id="order 8").bind(8), shop.ship.options(id="order 8").bind(9))
    shop.conflict(shop.ship.options(id="order 7").bind(2), shop.ship.options(id="order 7").bind(1), shop.ship.bind(2))
    assert [found.id for found in shop.app.jobs().jobs] == [job.id], "none of the call that was refused"
    assert shop.events(job) == ["job.enqueued"]


def test_a_second_transaction_waits_for_the_first_and_gets_its_job(on_postgres: App, database: str) -> None:
    shop = Shop(on_postgres, database, of_psycopg)
    found: list[Job[Any]] = []
    second = threading.Thread(target=lambda: found.extend(shop.transact({"dedupe": "k"})))
    with psycopg.connect(database) as connection, psycopg.connect(database, autocommit=True) as watcher:
        first = shop.ship.options(connection=connection, dedupe="k").enqueue(1)
        second.start()
        while not watcher.execute("SELECT FROM pg_locks WHERE NOT granted").fetchall():
            assert second.is_alive()
        assert found == []
    second.join(10)
    assert [(job.id, job.is_duplicate) for job in found] == [(first.id, True)]


def test_a_second_transaction_waits_for_the_first_on_sqlite_too(on_sqlite: App, sqlite_file: str) -> None:
    shop = Shop(on_sqlite, sqlite_file, of_sqlite3)
    found: list[Job[Any]] = []
    second = threading.Thread(target=lambda: found.extend(shop.transact({"dedupe": "k"})))
    with closing(sqlite3.connect(sqlite_file)) as connection, connection:
        first = shop.ship.options(connection=connection, dedupe="k").enqueue(1)
        second.start()
        second.join(0.1)
        assert found == []
    second.join(10)
    assert [(job.id, job.is_duplicate) for job in found] == [(first.id, True)]


def test_an_open_transaction_holds_up_no_worker_of_a_job_whose_period_is_over(on_postgres: App, database: str) -> None:
    shop = Shop(on_postgres, database, of_psycopg)
    (live,) = shop.transact({"dedupe": "k", "dedupe_for": "0s"})
    with psycopg.connect(database) as connection:
        twin = shop.ship.options(connection=connection, dedupe="k").enqueue(1)
        assert twin.id == live.id
        with psycopg.connect(database) as worker:
            worker.execute("SELECT FROM mulligan_jobs WHERE id = %s FOR UPDATE NOWAIT", (live.id,))


def test_a_period_that_ends_with_its_job_between_two_statements_frees_the_key(on_postgres: App, database: str) -> None:
    """The clear passes over a live job; it may be final by the time of the insert."""
    shop = Shop(on_postgres, database, of_psycopg)
    (live,) = shop.transact({"dedupe": "k", "dedupe_for": "0s"})
    asked = shop.app.client.new_job(shop.ship.options(dedupe="k", dedupe_for="1d").bind(1), "new")
    steps = shop.app.store.enqueue_script([asked]).steps
    with psycopg.connect(database, row_factory=dict_row) as connection:
        rows: list[dict[str, Any]] = []
        statement = next(steps)
        connection.execute(statement.sql.encode(), statement.values)
        shop.app.cancel(live.id)
        with pytest.raises(StopIteration) as end:
            while True:
                statement = steps.send(rows)
                cursor = connection.execute(statement.sql.encode(), statement.values)
                rows = cursor.fetchall() if cursor.description else []
    (job,) = end.value.value
    assert (job.id, job.is_duplicate) == ("new", False)


def test_half_a_list_is_never_stored_even_if_the_error_is_swallowed(on_sqlite: App, sqlite_file: str) -> None:
    ship = on_sqlite.tasks["ship"]
    on_sqlite.client.ids = lambda _: ["one", None]  # type: ignore[list-item]
    with closing(sqlite3.connect(sqlite_file)) as connection, connection, pytest.raises(sqlite3.IntegrityError):
        on_sqlite.enqueue_many([ship.bind(1), ship.bind(2)], connection=connection)
    assert on_sqlite.jobs().jobs == ()


def test_a_connection_is_left_as_it_was_found(on_sqlite: App, sqlite_file: str) -> None:
    ship = on_sqlite.tasks["ship"]
    with closing(sqlite3.connect(sqlite_file, isolation_level="IMMEDIATE")) as connection:
        connection.row_factory = sqlite3.Row
        job = ship.options(connection=connection).enqueue(1)
        assert (connection.row_factory, connection.isolation_level) == (sqlite3.Row, "IMMEDIATE")
        assert connection.in_transaction
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone()[0] == 0
        connection.commit()
    assert on_sqlite.job(job.id) == job


def test_an_old_sqlite_is_warned_about_once(
    on_sqlite: App, sqlite_file: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(foreign, "SAFE_SQLITE", (99, 0, 0))
    foreign._warn_of.cache_clear()
    Shop(on_sqlite, sqlite_file, of_sqlite3).transact({}, {})
    assert [record.message for record in caplog.records if "99.0.0 or newer" in record.message] == caplog.messages
    assert len(caplog.messages) == 1


def test_what_cannot_carry_a_job_is_refused_with_what_can(on_postgres: App, database: str) -> None:
    ship = on_postgres.tasks["ship"]
    with psycopg.connect(database) as connection:
        for wrong in (object(), "postgresql://", connection.cursor(), sqlalchemy.create_engine("sqlite://")):
            with pytest.raises(BadConnection, match=r"psycopg 3.*SQLAlchemy.*Django.*sqlite3"):
                ship.options(connection=wrong).enqueue(1)
            with pytest.raises(BadConnection):
                asyncio.run(ship.options(connection=wrong).enqueue_async(1))


def test_another_kind_of_database_is_refused(on_postgres: App, on_sqlite: App, database: str, sqlite_file: str) -> None:
    wrong = [(on_postgres, way, sqlite_file) for way in ON_SQLITE] + [(on_sqlite, way, database) for way in ON_POSTGRES]
    for app, way, place in wrong:
        ship = app.tasks["ship"]
        with way(place) as connection, pytest.raises(BadConnection, match="leads to"):
            ship.options(connection=connection).enqueue(1)
    with pytest.raises(BadConnection, match="leads to PostgreSQL, but the jobs of this app are in SQLite"):
        asyncio.run(_enqueue_async(on_sqlite, of_async_psycopg(database)))


async def _enqueue_async(app: App, way: Any) -> None:
    async with way as connection:
        await app.tasks["ship"].options(connection=connection).enqueue_async(1)


def test_a_blocking_connection_is_not_awaited_and_an_asynchronous_one_does_not_block(
    on_postgres: App, database: str
) -> None:
    ship = on_postgres.tasks["ship"]

    async def the_wrong_way_round() -> None:
        with psycopg.connect(database) as blocking, pytest.raises(BadConnection, match="it blocks: call enqueue"):
            await ship.options(connection=blocking).enqueue_async(1)
        for way in ASYNCHRONOUS:
            async with way(database) as connection:
                with pytest.raises(BadConnection, match="it is asynchronous: await enqueue_async"):
                    ship.options(connection=connection).enqueue(1)

    asyncio.run(the_wrong_way_round())


def test_without_a_transaction_there_is_nothing_to_be_part_of(
    on_postgres: App, on_sqlite: App, database: str, sqlite_file: str
) -> None:
    def refused(app: App, connection: Any) -> None:
        task = app.tasks["ship"]
        with pytest.raises(BadConnection, match="no transaction is open"):
            task.options(connection=connection).enqueue(1)

    refused(on_postgres, connections["default"])
    refused(on_sqlite, connections["file"])
    with psycopg.connect(database, autocommit=True) as connection:
        refused(on_postgres, connection)
    with closing(sqlite3.connect(sqlite_file, isolation_level=None)) as connection:
        refused(on_sqlite, connection)
    for app, place in ((on_postgres, database), (on_sqlite, sqlite_file)):
        engine = sqlalchemy.create_engine(_sqlalchemy_url(place), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            refused(app, connection)
    assert on_postgres.jobs().jobs == on_sqlite.jobs().jobs == ()


def test_a_database_without_tables_is_named_before_the_transaction_is_spoiled(server: Any) -> None:
    url = server.fresh_database("without_tables")
    with App(url) as app, psycopg.connect(url) as connection:
        ship = app.task("ship")(_ship)
        with pytest.raises(MulliganError, match="mulligan migrate"):
            ship.options(connection=connection).enqueue(1)
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_one_call_has_one_transaction(on_sqlite: App, sqlite_file: str) -> None:
    ship = on_sqlite.tasks["ship"]
    with closing(sqlite3.connect(sqlite_file)) as one, closing(sqlite3.connect(sqlite_file)) as other:
        with pytest.raises(BadConnection, match="all go into one transaction"):
            on_sqlite.enqueue_many([ship.options(connection=one).bind(1)], connection=other)
        (job,) = on_sqlite.enqueue_many([ship.options(connection=one).bind(1)])
        one.rollback()
    with pytest.raises(JobNotFound):
        on_sqlite.job(job.id)


def test_jobs_in_memory_are_out_of_reach() -> None:
    with App("sqlite:///:memory:") as app, closing(sqlite3.connect(":memory:")) as connection:
        ship = app.task("ship")(_ship)
        with pytest.raises(MulliganError, match="jobs kept in memory"):
            ship.options(connection=connection).enqueue(1)


def test_the_sandbox_takes_any_connection_and_ignores_it() -> None:
    app = App("postgresql://nobody@127.0.0.1:1/nowhere")
    ran: list[int] = []
    note = app.task("note")(ran.append)
    with sandbox(app) as box:
        note.options(connection=object()).enqueue(1)
        asyncio.run(note.options(connection=object()).enqueue_async(2))
        app.enqueue_many([note.bind(3)], connection=object())
        box.run()
    assert ran == [1, 2, 3]


def examples() -> list[tuple[str, str]]:
    return re.findall(r"<!-- test: (.*?) -->\n```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize(("library", "example"), examples(), ids=[name for name, _ in examples()])
def test_the_guide_s_example_works(
    library: str, example: str, on_postgres: App, on_sqlite: App, database: str, sqlite_file: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS orders (id integer)")
    app = on_sqlite if library == "sqlite3" else on_postgres
    url = _sqlalchemy_url(database)
    names: dict[str, Any] = {
        "app": app,
        "ship": app.tasks["ship"],
        "psycopg": psycopg,
        "url": database,
        "conn": sqlite3.connect(sqlite_file),
        "Session": Session,
        "AsyncSession": AsyncSession,
        "engine": (create_async_engine if "async" in library else sqlalchemy.create_engine)(url, poolclass=NullPool),
        "text": sqlalchemy.text,
        "transaction": transaction,
        "connection": connections["default"],
    }
    indented = "".join(f"    {line}" for line in example.splitlines(keepends=True))
    exec(f"async def main():\n{indented}", names)
    asyncio.run(names["main"]()) if library != "django" else exec(example, names)
    names["conn"].close()
    assert len(app.jobs().jobs) == example.count("enqueue") + example.count("bind") - example.count("enqueue_many")


# Manual moves


BLOCKING = [(way, kind) for way, kind in ALL if way not in ASYNCHRONOUS]
EACH_BLOCKING_WAY = pytest.mark.parametrize(
    "shop", BLOCKING, ids=lambda found: f"{found[1]}-{found[0].__name__}", indirect=True
)


def _failed(shop: Shop, task: Any = None, **options: Any) -> Job[Any]:
    """A job that has failed."""
    job = (task or shop.ship).options(**options).enqueue(1)
    (lease,) = _claim_all(shop)
    shop.app.store.settle([Outcome(lease, failing())])
    return job


def _claim_all(shop: Shop) -> list[Lease]:
    claim = Claim(incarnation="w", number=next(NUMBERS), kinds=list(shop.app.tasks), limit=9, lease=timedelta(hours=1))
    return shop.app.store.claim(claim).leases


def _execute(connection: Any, sql: str) -> None:
    """On a connection of any library."""
    if hasattr(connection, "in_atomic_block"):
        with connection.cursor() as cursor:
            cursor.execute(sql)
    elif hasattr(connection, "get_bind"):
        connection.connection().exec_driver_sql(sql)
    else:
        getattr(connection, "exec_driver_sql", connection.execute)(sql)


def _orders(shop: Shop) -> int:
    with (
        psycopg.connect(shop.place) if "://" in shop.place else closing(sqlite3.connect(shop.place))  # type: ignore[attr-defined]
    ) as connection:
        return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])


@pytest.fixture
def _orders_table(shop: Shop) -> None:
    if "://" in shop.place:
        with psycopg.connect(shop.place) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS orders (id integer)")
            connection.execute("DELETE FROM orders")


VERBS_OF_ENDED = ("retry", "run_now", "release_key")
MOVES: dict[str, tuple[Callable[..., Job[Any]], str, str]] = {
    "retry": (App.retry, "waiting", "job.retry_requested"),
    "run_now": (App.run_now, "waiting", "job.run_requested"),
    "release_key": (App.release_key, "failed", "job.key_released"),
    "cancel": (App.cancel, "cancelled", "job.cancelled"),
    "snooze": (lambda app, job_id, **more: app.snooze(job_id, "1h", **more), "waiting", "job.snoozed"),
}


@EACH_BLOCKING_WAY
@pytest.mark.parametrize("verb", MOVES)
def test_a_move_comes_and_goes_with_the_callers_transaction(shop: Shop, verb: str) -> None:
    move, state, event = MOVES[verb]
    job = _failed(shop, dedupe="k") if verb in VERBS_OF_ENDED else shop.ship.enqueue(1)
    before, events = shop.app.job(job.id), shop.events(job)
    with _undoing(), shop._way(shop.place) as connection:
        assert move(shop.app, job.id, connection=connection).state == state
        raise Undone
    assert (shop.app.job(job.id), shop.events(job)) == (before, events)
    with shop._way(shop.place) as connection:
        moved = move(shop.app, job.id, connection=connection)
    assert (shop.app.job(job.id), shop.events(job)) == (moved, [*events, event])
    assert len(_claim_all(shop)) == int(verb in ("retry", "run_now")), "the next claim promotes it"


@EACH_BLOCKING_WAY
def test_a_move_and_the_callers_own_rows_are_one_transaction(shop: Shop, _orders_table: None) -> None:
    job = shop.ship.enqueue(1)
    for then, number in ((Undone, 0), (None, 1)):
        with _undoing(), shop._way(shop.place) as connection:
            _execute(connection, "INSERT INTO orders VALUES (1)")
            shop.app.cancel(job.id, connection=connection)
            if then is not None:
                raise then
        assert (_orders(shop), shop.app.job(job.id).state == "cancelled") == (number, bool(number))


@EACH_BLOCKING_WAY
def test_the_precondition_is_asked_on_the_callers_connection_and_undone_with_a_refusal(
    shop: Shop, _orders_table: None
) -> None:
    asked: list[Any] = []
    answers: list[Exception | None] = [NotAllowed("no credits", code="NO_CREDITS", status=402), None]

    def can_retry(job: Job[Any], connection: Any) -> None:
        asked.append(connection)
        _execute(connection, "INSERT INTO orders VALUES (1)")
        if (answer := answers.pop(0)) is not None:
            raise answer

    pay = shop.app.task("pay", can_retry=can_retry)(_ship)
    job = _failed(shop, pay)
    # The caller commits in spite of the refusal.
    with shop._way(shop.place) as connection, pytest.raises(NotAllowed) as refused:
        shop.app.retry(job.id, connection=connection)
    assert (refused.value.code, refused.value.status) == ("NO_CREDITS", 402)
    assert (_orders(shop), shop.app.job(job.id).state) == (0, "failed")
    with shop._way(shop.place) as connection:
        shop.app.retry(job.id, connection=connection)
        assert asked[-1] is connection
    assert (_orders(shop), shop.app.job(job.id).state, len(asked)) == (1, "waiting", 2)


@EACH_BLOCKING_WAY
def test_a_move_that_conflicts_leaves_the_callers_transaction_usable(shop: Shop, _orders_table: None) -> None:
    pay = shop.app.task(
        "pay", can_retry=lambda _job, connection: _execute(connection, "INSERT INTO orders VALUES (1)")
    )(_ship)
    job = _failed(shop, pay, dedupe="k")
    twin = pay.options(dedupe="k").enqueue(1)
    with shop._way(shop.place) as connection:
        with pytest.raises(Conflict) as refused:
            shop.app.retry(job.id, connection=connection)
        _execute(connection, "INSERT INTO orders VALUES (2)")
    assert (refused.value.twin, _orders(shop), shop.app.job(job.id).state) == (twin.id, 1, "failed")


@EACH_BLOCKING_WAY
def test_what_follows_a_cancellation_comes_and_goes_with_the_callers_transaction(shop: Shop) -> None:
    clean = shop.app.task("clean")(_clean)
    pay = shop.app.task("pay", on_cancelled=clean)(_ship)
    job = pay.enqueue(1)
    with _undoing(), shop._way(shop.place) as connection:
        shop.app.cancel(job.id, connection=connection)
        raise Undone
    assert shop.app.jobs(JobFilter(kind="clean")).jobs == ()
    with shop._way(shop.place) as connection:
        shop.app.cancel(job.id, connection=connection)
    assert [found.state for found in shop.app.jobs(JobFilter(kind="clean")).jobs] == ["queued"]


@EACH_BLOCKING_WAY
def test_a_rejected_job_comes_and_goes_with_the_callers_transaction(shop: Shop) -> None:
    batch = shop.app.batch("import")
    error = FinalError("not a PDF", code="NOT_PDF")
    for then, number in ((Undone, 0), (None, 1)):
        with _undoing(), shop._way(shop.place) as connection:
            job = shop.ship.options(connection=connection, batch=batch).reject(error)
            if then is not None:
                raise then
        assert (len(shop.app.jobs().jobs), batch.refresh().failed) == (number, number)
    assert (shop.app.job(job.id), shop.events(job)) == (job, ["job.enqueued", "job.failed"])


@EACH_BLOCKING_WAY
def test_a_stuck_job_is_taken_from_its_worker_in_the_callers_transaction(shop: Shop) -> None:
    job = shop.ship.enqueue(1)
    (lease,) = _claim_all(shop)
    with shop._way(shop.place) as connection:
        _execute(connection, "UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - 3600000000")
    for then, state in ((Undone, "running"), (None, "waiting")):
        with _undoing(), shop._way(shop.place) as connection:
            shop.app.retry(job.id, connection=connection)
            if then is not None:
                raise then
        assert shop.app.job(job.id).state == state
    assert shop.app.store.settle([Outcome(lease, Succeed("1"))]) == [Settled.REFUSED]


@pytest.mark.parametrize("way", ASYNCHRONOUS)
def test_a_move_refuses_an_asynchronous_connection(on_postgres: App, database: str, way: Any) -> None:
    job = on_postgres.tasks["ship"].enqueue(1)

    async def cancel() -> None:
        async with way(database) as connection:
            with pytest.raises(BadConnection, match="run_sync"):
                on_postgres.cancel(job.id, connection=connection)
            if hasattr(connection, "run_sync"):
                await connection.run_sync(lambda blocking: on_postgres.cancel(job.id, connection=blocking))

    asyncio.run(cancel())
    assert (on_postgres.job(job.id).state == "cancelled") == (way is not of_async_psycopg)


def test_a_move_without_a_transaction_is_refused(on_sqlite: App, on_postgres: App, database: str) -> None:
    ours, theirs = on_sqlite.tasks["ship"].enqueue(1), on_postgres.tasks["ship"].enqueue(1)
    path = on_sqlite.settings.database_url.removeprefix("sqlite:///").partition("?")[0]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection, pytest.raises(BadConnection):
        on_sqlite.cancel(ours.id, connection=connection)
    with psycopg.connect(database, autocommit=True) as connection:
        with pytest.raises(BadConnection):
            on_postgres.cancel(theirs.id, connection=connection)
        with pytest.raises(BadConnection, match="are in SQLite"):
            on_sqlite.cancel(ours.id, connection=connection)
    assert (on_sqlite.job(ours.id).state, on_postgres.job(theirs.id).state) == ("queued", "queued")


def test_the_sandbox_takes_any_connection_for_a_move(on_sqlite: App) -> None:
    with sandbox(on_sqlite):
        job = on_sqlite.tasks["ship"].enqueue(1)
        assert on_sqlite.cancel(job.id, connection=object()).state == "cancelled"
