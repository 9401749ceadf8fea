"""Fair queues at their size: one owner with 100,000 jobs delays another's by one batch of claims at most."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count

import psycopg
import pytest
from postgres_server import emptied

from conformance.bench import at_once
from mulligan.records.job import Lease, NewJob
from mulligan.store.messages import Claim
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore
from mulligan.store.store import Store

CROWD = 100_000
BATCH = 100
HOUR = timedelta(hours=1)
# As many jobs like the first one, each a step behind the other; and their owner has taken all these steps.
MORE = """
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, priority, rank, state, arguments, max_attempts, max_crashes, max_snoozes,
    submitted_at, enqueued_at, queued_at, due_at, updated_at
)
WITH RECURSIVE number (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < {crowd} - 1)
SELECT id || n, kind, owner, queue, priority, rank + n * 1000, state, arguments, max_attempts, max_crashes, max_snoozes,
    submitted_at, enqueued_at, queued_at, due_at, updated_at
FROM mulligan_jobs CROSS JOIN number
WHERE owner = 'big'
"""
TAKEN = "UPDATE mulligan_shares SET rank = rank + ({crowd} - 1) * 1000 WHERE owner = 'big'"


def of(owner: str, name: str) -> NewJob:
    return NewJob(id=name, kind="send", arguments="{}", owner=owner, queue="bulk", weight=1.0)


def crowded_sqlite() -> SqliteStore:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    store.enqueue([of("big", "big")])
    for statement in (MORE, TAKEN):
        store._database.write(lambda db, text=statement: db.execute(text.format(crowd=CROWD)))  # type: ignore[misc]
    return store


def crowded_postgres(url: str) -> PostgresStore:
    store = PostgresStore(url + "?notify=off")
    store.enqueue([of("big", "big")])
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (MORE, TAKEN):
            connection.execute(statement.format(crowd=CROWD).encode())
        connection.execute("ANALYZE mulligan_jobs")
    return store


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "sqlite":
        store: Store = crowded_sqlite()
    else:
        url = emptied(request.getfixturevalue("database"))
        store = crowded_postgres(url)
    yield store
    store.close()
    if request.param == "postgres":
        emptied(url)


@pytest.fixture(scope="module")
def numbers() -> Iterator[int]:
    return count(1)


@pytest.fixture
def claim(store: Store, numbers: Iterator[int]) -> Callable[[], list[Lease]]:
    def claimed() -> list[Lease]:
        wish = Claim(incarnation="w", number=next(numbers), kinds=["send"], limit=BATCH, lease=HOUR, fair=["bulk"])
        return store.claim(wish).leases

    return claimed


def owners(leases: list[Lease]) -> list[str]:
    return [lease.owner for lease in leases]


def test_a_job_waits_for_one_batch_of_claims_at_most(store: Store, claim: Callable[[], list[Lease]]) -> None:
    assert owners(claim()) == ["big"] * BATCH
    for number in range(5):
        store.enqueue([of("small", f"small-{number}")])
        assert "small" in owners(claim()), "after more and more batches of the other's"
    assert owners(claim()) == ["big"] * BATCH, "nothing is held back for one who has nothing waiting"


def test_two_with_much_to_do_share_from_the_first_claim(store: Store, claim: Callable[[], list[Lease]]) -> None:
    claim()
    store.enqueue([of("second", f"second-{number}") for number in range(3 * BATCH)])
    for _ in range(3):
        assert abs(owners(claim()).count("second") - BATCH // 2) <= 1


def test_many_new_owners_at_once_wait_for_each_other_and_not_for_the_backlog(
    store: Store, claim: Callable[[], list[Lease]]
) -> None:
    claim()
    names = [f"newcomer-{number}" for number in range(BATCH // 2)]
    at_once([lambda name=name: store.enqueue([of(name, name)]) for name in names[:8]])  # type: ignore[misc]
    store.enqueue([of(name, name) for name in names[8:]])
    assert set(names) < set(owners(claim()))
