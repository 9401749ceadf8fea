"""Owners in each store: their records stay few, and their open transactions delay no other owner."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import psycopg
import pytest
from postgres_server import emptied
from transactions import enqueue_on, held, meanwhile, on, until_blocked

from conformance.bench import DAY, HOUR, SECOND, Bench
from mulligan.failure.decision import Succeed
from mulligan.records.job import Lease, NewJob
from mulligan.records.rate import parse_rate
from mulligan.store.beat import EVERY
from mulligan.store.fairness import FORGOTTEN_AT_ONCE, IDLE
from mulligan.store.messages import Claim, Outcome
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore

BULK = "bulk"


class Owners(Bench):
    def rows(self, table: str) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    @property
    def known(self) -> tuple[int, int, int]:
        """How many turns, shares and buckets there are."""
        turns, shares, buckets = (len(self.rows(table)) for table in ("turns", "shares", "submissions"))
        return turns, shares, buckets

    @property
    def turn(self) -> int:
        ((*_, rank),) = self.rows("turns")
        return int(rank)

    def of(self, owner: str, **options: Any) -> NewJob:
        return self.new(**{"owner": owner, "queue": BULK, "weight": 1.0, **options})

    def take(self, limit: int, **options: Any) -> list[Lease]:
        return self.claim(queues=[BULK], fair=[BULK], limit=limit, lease=DAY, **options)

    def done(self, leases: list[Lease]) -> None:
        self.store.settle([Outcome(lease, Succeed("1")) for lease in leases])


class Small(Owners):
    def test_what_is_known_of_owners_is_forgotten_once_it_makes_no_difference(self) -> None:
        rate = parse_rate("10/s")
        self.store.enqueue([self.of(f"owner-{n}", submit_rate=rate) for n in range(50)])
        self.beat()
        assert self.known == (1, 50, 50), "they have jobs waiting"
        self.done(self.take(50))
        self.advance(EVERY)
        self.beat()
        assert self.known == (1, 0, 50)
        self.advance(IDLE + SECOND)
        self.beat()
        assert self.known == (0, 0, 0)

    def test_a_bounded_number_is_forgotten_at_once(self) -> None:
        many = FORGOTTEN_AT_ONCE + 20
        self.store.enqueue([self.of(f"owner-{n}", submit_rate=parse_rate("1/s")) for n in range(many)])
        self.done(self.take(many))
        self.advance(HOUR)
        self.beat()
        assert self.known == (1, 20, 20)
        self.advance(EVERY)
        self.beat()
        assert self.known == (0, 0, 0)

    def test_turns_that_are_ahead_of_the_clock_are_kept(self) -> None:
        self.store.enqueue([self.of("acme", weight=0.001) for _ in range(200)])
        self.done(self.take(200))
        before = self.turn
        self.advance(IDLE)
        self.beat()
        assert self.turn == before
        self.store.enqueue([self.of("other")])
        assert self.turn == before

    def test_turns_only_rise(self) -> None:
        seen = []
        for owner, weight in [("a", 1.0), ("b", 0.01), ("a", 5.0), ("c", 1.0)]:
            self.store.enqueue([self.of(owner, weight=weight) for _ in range(5)])
            self.take(3)
            seen.append(self.turn)
        assert seen == sorted(seen)
        assert seen[0] < seen[-1]

    def test_a_plain_claim_writes_no_turn(self) -> None:
        self.store.enqueue([self.of("a"), self.of("a")])
        before = self.turn
        self.claim(queues=[BULK], limit=1)
        assert self.turn == before
        self.take(1)
        assert self.turn > before

    def test_plain_jobs_leave_nothing_behind(self) -> None:
        self.enqueue(owner="acme")
        self.claim()
        assert self.known == (0, 0, 0)


class TestSmallOnSqlite(Small):
    def open_store(self, now: Callable[[], datetime]) -> SqliteStore:
        return SqliteStore("sqlite:///:memory:", now=now, threaded=False)

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        assert isinstance(self.store, SqliteStore)
        return self.store._database.read(lambda db: db.execute(f"SELECT * FROM mulligan_{table}").fetchall())


class OnPostgres(Owners):
    url: str
    store: PostgresStore

    @pytest.fixture(autouse=True)
    def _a_database(self, database: str) -> None:
        self.url = emptied(database)

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return PostgresStore(self.url + "?notify=off", now=now)

    open_twin = open_store

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(f"SELECT * FROM mulligan_{table}".encode()).fetchall()


class TestSmallOnPostgres(OnPostgres, Small):
    pass


class TestOpenTransactions(OnPostgres):
    def test_an_owners_open_transaction_holds_up_neither_claims_nor_beats_nor_other_owners(self) -> None:
        self.store.enqueue([self.of("a"), self.of("b")])
        with held(self.url) as other:
            enqueue_on(other, self.store, self.of("a", submit_rate=parse_rate("9/s")))
            assert len(self.take(1)) == 1
            self.store.enqueue([self.of("b")])
            self.beat()
            assert [lease.owner for lease in self.take(10)] == ["b", "b"]
            other.commit()
        assert [lease.owner for lease in self.take(10)] == ["a"]

    def test_an_owner_waits_for_its_own_open_transaction_and_ranks_behind_it(self) -> None:
        first, second = self.of("a"), self.of("a")
        with held(self.url) as other:
            enqueue_on(other, self.store, first)
            with meanwhile(lambda: self.store.enqueue([second])):
                until_blocked(self.url)
                other.commit()
        assert [lease.fence.id for lease in self.take(10)] == [first.id, second.id]

    def test_turns_are_kept_while_an_enqueue_uses_them(self) -> None:
        self.store.enqueue([self.of("a")])
        self.done(self.take(1))
        self.advance(HOUR)
        with held(self.url) as other:
            enqueue_on(other, self.store, *[self.of("big") for _ in range(100)])
            self.beat()
            self.advance(EVERY)
            self.beat()
            assert self.known == (1, 0, 0)
            self.store.enqueue([self.of("small")])
            other.commit()
        assert "small" in [lease.owner for lease in self.take(2)]

    def test_claims_at_once_leave_the_highest_rank(self) -> None:
        self.store.enqueue([self.of("a") for _ in range(20)])
        low, high = self.of("a", kind="low"), self.of("a", kind="high")
        self.store.enqueue([low, high])
        with held(self.url) as other:
            claim = self._wish("high")
            on(self.store, other).claim(claim)
            with meanwhile(lambda: self.store.claim(self._wish("low"))):
                until_blocked(self.url)
                other.commit()
        ranks = {row[0]: row[1] for row in self._ranks()}
        assert self.turn == ranks["high"] == ranks["low"] + 1_000

    def _wish(self, kind: str) -> Claim:
        return Claim(incarnation=kind, number=1, kinds=[kind], limit=1, lease=DAY, fair=[BULK])

    def _ranks(self) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute("SELECT kind, max(rank) FROM mulligan_jobs GROUP BY kind").fetchall()
