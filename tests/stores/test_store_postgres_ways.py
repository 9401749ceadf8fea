"""What only holds without NOTIFY, what only behind a proxy that pools transactions, and a worker in all three ways."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import count

import psycopg
import pytest
from postgres_server import emptied
from postgres_suite import PostgresBench

from live import SOON, eventually, working
from mulligan import App, Fixed, RetryPolicy, State, attempt


class TestWithoutNotify(PostgresBench):
    @pytest.fixture
    def address(self, database: str) -> str:
        return database + "?notify=off"

    def test_nothing_is_sent_to_a_listener(self) -> None:
        with psycopg.connect(self.url.partition("?")[0], autocommit=True) as listener:
            listener.execute("LISTEN mulligan")
            self.enqueue()
            assert list(listener.notifies(timeout=0.2)) == []


class TestThroughPgbouncer(PostgresBench):
    @pytest.fixture
    def address(self, proxied: str) -> str:
        return proxied

    @pytest.fixture
    def connection(self, proxied: str) -> Iterator[psycopg.Connection]:
        with psycopg.connect(proxied.partition("?")[0], prepare_threshold=None, autocommit=True) as connection:
            yield connection

    def test_the_proxy_gives_consecutive_transactions_different_sessions(
        self, proxied: str, connection: psycopg.Connection
    ) -> None:
        """Else this class would show nothing."""
        with psycopg.connect(proxied.partition("?")[0], prepare_threshold=None) as holder:
            holder.execute("SELECT 1")
            held, before = self.session(holder), self.session(connection)
            holder.rollback()
            after = {self.session(connection) for _ in range(20)}
        assert before != held
        assert held in after

    def session(self, connection: psycopg.Connection) -> int:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        return int(row[0])

    def test_no_setting_of_a_claim_is_left_behind_in_a_session(self, connection: psycopg.Connection) -> None:
        numbers = count(1)
        for _ in range(12):
            self.enqueue()
            self.claim(number=next(numbers))
        for _ in range(12):
            for name in ("synchronous_commit", "jit"):
                assert connection.execute(f"SHOW {name}".encode()).fetchone() == ("on",)

    def test_many_calls_leave_no_prepared_statement_in_any_session(self, connection: psycopg.Connection) -> None:
        for _ in range(12):
            self.enqueue()
        assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []

    def test_the_log_is_read_whole(self) -> None:
        jobs = [self.enqueue().id for _ in range(20)]
        assert [event.job for event in self.events()] == jobs


# A worker


@pytest.fixture(params=["direct", "without notify", "through pgbouncer"])
def address(request: pytest.FixtureRequest, database: str) -> str:
    emptied(database)
    if request.param == "through pgbouncer":
        return str(request.getfixturevalue("proxied"))
    return database + ("?notify=off" if request.param == "without notify" else "")


def test_a_worker_drains_the_queue_and_tries_again_what_failed(address: str) -> None:
    with App(address) as app:

        @app.task(retry=RetryPolicy(2, Fixed(0)))
        async def convert(number: int) -> int:
            if number % 5 == 0 and attempt().number == 1:
                raise RuntimeError("the first time")
            return number

        @app.task(retry=RetryPolicy(2, Fixed(0)))
        def reject() -> None:
            raise RuntimeError("every time")

        jobs = app.enqueue_many([convert.bind(number) for number in range(20)])
        rejected = reject.enqueue()
        app.run_until_idle(retries=True, timeout="60s")
        found = [app.job(job.id) for job in jobs]
        assert [(job.result, job.attempt) for job in found] == [(n, 1 if n % 5 else 2) for n in range(20)]
        assert (app.job(rejected.id).state, app.job(rejected.id).attempt) == (State.FAILED, 2)


def test_an_idle_worker_finds_a_job_within_two_seconds(address: str) -> None:
    with App(address) as app, App(address) as client:

        @app.task
        async def note() -> int:
            return 7

        note_elsewhere = client.task(name="note")(note.function)
        with working(app):
            eventually(lambda: app.store.workers())
            job = note_elsewhere.enqueue()
            assert client.wait(job, timeout=SOON) == 7
            found = client.job(job.id)
            assert found.started_at is not None
            assert found.started_at - found.enqueued_at < timedelta(seconds=2)
