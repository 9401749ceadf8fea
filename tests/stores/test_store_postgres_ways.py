"""The same promises with NOTIFY off and through a proxy that pools transactions."""

from collections.abc import Callable, Iterator
from datetime import datetime
from itertools import count
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from pgbouncer import pgbouncer, proxy
from postgres_server import PostgresServer, emptied

from mulligan.store.postgres import PostgresStore
from mulligan.testing.stores.bench import Bench
from mulligan.testing.stores.claim import ClaimRules
from mulligan.testing.stores.enqueue import EnqueueRules
from mulligan.testing.stores.fence import FenceRules
from mulligan.testing.stores.moves import MoveRules
from mulligan.testing.stores.settle import SettleRules


class _WithoutNotify(Bench):
    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        self.url = emptied(database) + "?notify=off"

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url, now=now)

    open_twin = open_store


class TestWithoutNotify(_WithoutNotify, ClaimRules):
    def test_nothing_is_sent_to_anybody_who_listens(self) -> None:
        with psycopg.connect(self.url.partition("?")[0], autocommit=True) as listener:
            listener.execute("LISTEN mulligan")
            self.enqueue()
            assert list(listener.notifies(timeout=0.2)) == []


@pytest.fixture(scope="session")
def proxied(server: PostgresServer, database: str) -> Iterator[str]:
    """The suite's database, seen through pgbouncer."""
    if pgbouncer() is None:
        pytest.skip("pgbouncer is not installed: 'apt-get install pgbouncer'")
    with proxy(server) as port:
        parts = urlsplit(database)
        yield urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{port}", query="proxy=transaction"))


class _ThroughPgbouncer(Bench):
    @pytest.fixture(autouse=True)
    def _a_database(self, database: str, proxied: str) -> None:
        emptied(database)
        self.url = proxied

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url, now=now)

    open_twin = open_store


class TestThroughPgbouncer(_ThroughPgbouncer, EnqueueRules, ClaimRules, FenceRules, SettleRules, MoveRules):
    def test_the_proxy_gives_consecutive_transactions_different_sessions(self, proxied: str) -> None:
        """Else this class would show nothing."""
        with psycopg.connect(proxied.partition("?")[0], prepare_threshold=None) as holder:
            holder.execute("SELECT 1")
            with psycopg.connect(proxied.partition("?")[0], prepare_threshold=None, autocommit=True) as other:
                held, before = self.session(holder), self.session(other)
                holder.rollback()
                after = {self.session(other) for _ in range(20)}
        assert before != held
        assert held in after

    def session(self, connection: psycopg.Connection) -> int:
        row = connection.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        return int(row[0])

    def test_no_setting_of_a_claim_is_left_behind_in_a_session(self, proxied: str) -> None:
        numbers = count(1)
        for _ in range(12):
            self.enqueue()
            self.claim(number=next(numbers))
        with psycopg.connect(proxied.partition("?")[0], prepare_threshold=None, autocommit=True) as connection:
            for _ in range(12):
                for name in ("synchronous_commit", "jit"):
                    assert connection.execute(f"SHOW {name}".encode()).fetchone() == ("on",)

    def test_many_calls_leave_no_prepared_statement_in_any_session(self, proxied: str) -> None:
        for _ in range(12):
            self.enqueue()
        with psycopg.connect(proxied.partition("?")[0], prepare_threshold=None, autocommit=True) as connection:
            assert connection.execute("SELECT name FROM pg_prepared_statements").fetchall() == []

    def test_the_log_is_read_whole(self) -> None:
        jobs = [self.enqueue().id for _ in range(20)]
        assert [event.job for event in self.events()] == jobs
