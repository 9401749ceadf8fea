"""Growth by shape: what an operation reads does not grow with the number of unrelated jobs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import psycopg
import pytest
from postgres_server import PostgresServer
from transactions import Held, held, on, promote_on

from conformance.bench import failing, worker
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.job import Fence, Lease, NewJob
from mulligan.records.pause import PauseRequest
from mulligan.records.rate import parse_rate
from mulligan.records.retention import PurgeRequest
from mulligan.store.messages import Beat, Claim, Outcome, Request
from mulligan.store.postgres import PostgresStore

FEW, MANY = 1_000, 100_000
LATE = datetime(2001, 1, 1, tzinfo=UTC)
# A btree is a level or two higher, and its pages are fuller.
FACTOR, ROWS, BUFFERS = 1.5, 20, 60

# Every state and several kinds; of the kind under test too, but never ready, due or held by the worker under test.
OTHERS = """
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, priority, rank, state, waiting_for, arguments, max_attempts, max_crashes, max_snoozes,
    submitted_at, enqueued_at, due_at, updated_at, finished_at, deadline, error_code, error_class, error_message,
    error_group, leased_by, claim, lease_until, attempt, dedupe_key, dedupe_scope, dedupe_until, gate
)
SELECT 'other-' || n, CASE WHEN state = 'queued' OR mod(n, 2) = 0 THEN 'other-' || mod(n, 5) ELSE 'mine' END,
    CASE WHEN mod(n, 3) = 0 THEN 'acme' ELSE '' END, 'default', 0, n, state,
    CASE state WHEN 'waiting' THEN 'retry' END, '{}', 5, 3, 5,
    n, n, CASE WHEN state = 'waiting' AND mod(n, 2) = 1 THEN n ELSE 4000000000000000 + n END, n,
    CASE WHEN state IN ('succeeded', 'failed', 'cancelled') THEN n END,
    CASE WHEN mod(n, 4) = 0 THEN 4000000000000000 + n END,
    CASE state WHEN 'failed' THEN 'GW_5XX' END, CASE state WHEN 'failed' THEN 'final' END,
    CASE state WHEN 'failed' THEN 'It was.' END, CASE state WHEN 'failed' THEN 'g' || mod(n, 7) END,
    CASE state WHEN 'running' THEN 'worker-' || mod(n, 50) END, CASE state WHEN 'running' THEN n END,
    CASE state WHEN 'running' THEN 4000000000000000 END, 1,
    'key-' || n, CASE WHEN mod(n, 5) = 0 THEN 'succeeded' ELSE 'active' END,
    CASE WHEN mod(n, 7) = 0 THEN 4000000000000000 END,
    CASE WHEN state = 'waiting' AND mod(n, 2) = 1 THEN 'duty/retry' END
FROM (
    SELECT n, (ARRAY['succeeded', 'failed', 'cancelled', 'queued', 'waiting', 'running'])[1 + mod(n / 2, 6)] AS state
    FROM generate_series(%(from)s::bigint, %(to)s::bigint) AS n
) AS numbered
"""
EVENTS = """
INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at)
SELECT (3 + n / 200)::text::xid8, 'job.enqueued', 'other-' || n, 'other',
    CASE WHEN mod(n, 3) = 0 THEN 'acme' ELSE '' END, 1, n
FROM generate_series(%(from)s::bigint, %(to)s::bigint) AS n
"""
# Owners who have jobs waiting, and have submitted lately.
SHARES = """
INSERT INTO mulligan_shares (queue, priority, owner, rank, taken)
SELECT 'fair', 0, 'owner-' || n, 4000000000000000 + n, 1
FROM generate_series(%(from)s::bigint, %(to)s::bigint) AS n
"""
BUCKETS = """
INSERT INTO mulligan_submissions (owner, remaining, at, full_at)
SELECT 'owner-' || n, 1, n, 4000000000000000 + n
FROM generate_series(%(from)s::bigint, %(to)s::bigint) AS n
"""


@dataclass(frozen=True)
class Read:
    rows: int
    buffers: int


class Ours:
    """The jobs under test, made before all others, and each operation on them."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url + "?notify=off")
        self.store.migrate()
        self.store.enqueue([self.new(f"running-{n}") for n in range(10)])
        self.leases = self.store.claim(self.wish(1)).leases
        self.store.enqueue([self.new(f"failed-{n}") for n in range(2)])
        for lease in self.store.claim(self.wish(2)).leases:
            self.store.settle([Outcome(lease, failing())])
        self.store.enqueue([self.new(f"queued-{n}", dedupe_key=f"held-{n}") for n in range(30)])
        self.store.enqueue([self.new(f"due-{n}", delay=timedelta(microseconds=1)) for n in range(5)])
        self.store.enqueue(self.fair(1))
        # So long ago that it would be forgotten, if no owner had jobs waiting.
        self.store._connections.run(lambda db: db.execute("UPDATE mulligan_turns SET rank = 1"))
        # Half of the others that wait are due, and held by this.
        self.store.pause(PauseRequest(id="p", what="duty", name="retry"))
        self.last = self.store.last_position(back=20)

    def new(self, job_id: str, **options: Any) -> NewJob:
        return NewJob(id=job_id, kind="mine", arguments="{}", **options)

    def fair(self, number: int) -> list[NewJob]:
        return [self.new(f"fair-{n}", owner=f"owner-{n}", queue="fair", weight=1.0) for n in range(number)]

    def limited(self) -> NewJob:
        return self.new("limited", owner="owner-7", submit_rate=parse_rate("9/s"))

    def wish(self, number: int, **options: Any) -> Claim:
        kinds = ["mine", "mine too"]
        return Claim(incarnation="me", number=number, kinds=kinds, limit=10, lease=timedelta(hours=1), **options)

    def stale(self, lease: Lease) -> Lease:
        fence = Fence(lease.fence.id, lease.fence.attempt, "another worker", 1)
        return Lease(fence, lease.kind, lease.owner, lease.arguments, lease.claimed_at, lease.until, lambda: lease.job)

    def request(self, move: Move, job_id: str) -> Request:
        return Request(id="request", move=move, job=job_id)

    def purge(self, *jobs: str) -> PurgeRequest:
        return PurgeRequest(id="request", jobs=jobs, before=datetime.now(UTC), about="these")

    def operations(self) -> dict[str, Callable[[Any], object]]:
        store, fences = self.store, [lease.fence for lease in self.leases]
        return {
            "claim": lambda db: on(store, db).claim(self.wish(3)),
            "claim of a fair queue": lambda db: on(store, db).claim(self.wish(4, queues=["fair"], fair=["fair"])),
            "enqueue in a fair queue": lambda db: on(store, db).enqueue(self.fair(20)[1:]),
            "enqueue at a rate": lambda db: on(store, db).enqueue([self.limited()]),
            "claim again": lambda db: on(store, db).claim(self.wish(1)),
            "promote": lambda db: promote_on(store, db),
            "the duty retry, paused": lambda db: on(store, db).promote("retry", limit=100, is_manual=False),
            "manual retry": lambda db: on(store, db).move(self.request(Move.MANUAL_RETRY, "failed-1")),
            "cancel": lambda db: on(store, db).move(self.request(Move.MANUAL_CANCEL, "queued-1")),
            "settle": lambda db: on(store, db).settle([Outcome(lease, Succeed("1")) for lease in self.leases]),
            "late settle": lambda db: on(store, db).settle([Outcome(self.stale(self.leases[0]), Succeed("1"))]),
            "beat": lambda db: on(store, db).beat(Beat(worker=worker("me"), lease=timedelta(hours=1), extend=fences)),
            "enqueue": lambda db: on(store, db).enqueue([self.new("new")]),
            "enqueue a twin": lambda db: on(store, db).enqueue([self.new("new", dedupe_key="held-3")]),
            "prune": lambda db: on(store, db).prune(State.SUCCEEDED, before=LATE, limit=5),
            "count the newest": lambda db: on(store, db).newest(State.FAILED, 50),
            "purge": lambda db: on(store, db).purge(self.purge("other-3", "other-4", "unknown")),
            "read the newest events": lambda db: on(store, db).events(after=self.last, limit=50),
            "scrape metrics": lambda db: self.scrape(on(store, db)),
            "read events after an old place": lambda db: on(store, db).events(after=4, limit=50),
        }

    def scrape(self, store: Any) -> None:
        """What metrics read of the store. Runs of duties and workers are as many as there are workers."""
        with pytest.MonkeyPatch.context() as patch:
            # There are always more jobs than a count reads.
            for module in ("counts", "depths"):
                patch.setattr(f"mulligan.store.{module}.MOST_READ", 50)
            store.depths()
        store.totals()
        store.open_breakers(limit=10)
        store.projection_status()

    def close(self) -> None:
        self.store.close()


# What this session's statements have read so far, with the plans the store's own connections would use.
COUNTERS = """
SELECT sum(pg_stat_get_xact_tuples_returned(oid) + pg_stat_get_xact_tuples_fetched(oid))::bigint,
    sum(pg_stat_get_xact_blocks_fetched(oid))::bigint
FROM pg_class
WHERE relname LIKE 'mulligan%'
"""


class Reading(Held):
    """A transaction that is never committed, and what its statements read."""

    def counters(self) -> tuple[int, int]:
        row = self._connection.execute(COUNTERS).fetchone()
        assert row is not None
        return row

    def read_by(self, operation: Callable[[Any], object]) -> Read:
        self.begin()
        before = self.counters()
        operation(self)
        after = self.counters()
        self.rollback()
        return Read(after[0] - before[0], after[1] - before[1])


class HasOperations(Protocol):
    def operations(self) -> Mapping[str, Callable[[Any], object]]: ...


def reads(url: str, ours: HasOperations, plan: str) -> dict[str, Read]:
    """What each operation reads."""
    connection = Reading(url)
    try:
        connection._connection.prepare_threshold = 1
        connection.execute(f"SET plan_cache_mode = {plan}")
        connection.execute("SET jit = off")
        # The third time: statements are prepared by then, the catalogue is read and hints are set.
        for _ in range(3):
            answers = {name: connection.read_by(operation) for name, operation in ours.operations().items()}
        return answers
    finally:
        connection.close()


PLANS = ("force_custom_plan", "force_generic_plan")


@pytest.fixture(scope="module")
def growth(server: PostgresServer) -> Iterator[dict[tuple[str, int], dict[str, Read]]]:
    """What each operation reads, by plan and by the number of other jobs."""
    url = server.fresh_database("growth")
    ours = Ours(url)
    found = {}
    with psycopg.connect(url, autocommit=True) as connection:
        made = 0
        for size in (FEW, MANY):
            for statement in (OTHERS, EVENTS, SHARES, BUCKETS):
                connection.execute(statement.encode(), {"from": made + 1, "to": size})
            made = size
            for plan in PLANS:
                # With the indexes: what was measured before is rolled back, and would be walked over.
                connection.execute("VACUUM (ANALYZE, INDEX_CLEANUP ON)")
                found[plan, size] = reads(url, ours, plan)
    ours.close()
    yield found


def test_a_hundred_times_as_many_other_jobs_change_nothing_for_any_operation(
    growth: dict[tuple[str, int], dict[str, Read]],
) -> None:
    grown = {}
    for plan in PLANS:
        for operation, few in growth[plan, FEW].items():
            many = growth[plan, MANY][operation]
            assert few.buffers > 0, "it was measured"
            if many.rows > few.rows * FACTOR + ROWS or many.buffers > few.buffers * FACTOR + BUFFERS:
                grown[operation, plan] = (few, many)
    assert not grown


def test_what_every_claim_asks_is_planned_once_however_many_kinds_a_worker_has(
    server: PostgresServer,
) -> None:
    """Planned at each call, it took six times as long."""
    database = server.fresh_database("planned")
    with psycopg.connect(database) as connection:
        if connection.info.server_version < 140_000:
            pytest.skip("PostgreSQL 13 does not count plans")
    store = PostgresStore(database)
    store.migrate()
    kinds = tuple(f"kind-{number}" for number in range(20))
    store.enqueue([NewJob(id=f"job-{n}", kind="kind-7", queue="a", arguments="{}") for n in range(FEW)])
    for number in range(20):
        claim = Claim(incarnation="w", number=number, kinds=kinds, queues=("a", "b"), limit=1, lease=timedelta(1))
        assert store.claim(claim).leases
    counted = """
        SELECT custom_plans, generic_plans
        FROM pg_prepared_statements
        WHERE statement LIKE '%%claim would find%%' OR statement LIKE '%%Claim from the only lane%%'
    """
    plans = store._connections.run(lambda connection: connection.execute(counted).fetchall())
    store.close()
    # PostgreSQL always plans the first five for their values.
    assert plans == [(5, 15), (5, 15)]


def test_a_claim_from_one_lane_commits_asynchronously_and_locks_no_more_than_it_takes(server: PostgresServer) -> None:
    database = server.fresh_database("lane")
    store = PostgresStore(database)
    store.migrate()
    store.enqueue([NewJob(id=f"job-{n}", kind="mine", arguments="{}") for n in range(3)])
    claim = Claim(incarnation="w", number=1, kinds=("mine",), limit=1, lease=timedelta(hours=1))
    with held(database) as connection:
        assert len(on(store, connection.begin()).claim(claim).leases) == 1
        assert connection.execute("SHOW synchronous_commit").fetchone() == ("off",)
        assert len(store.claim(replace(claim, incarnation="other", limit=9)).leases) == 2
    store.close()
