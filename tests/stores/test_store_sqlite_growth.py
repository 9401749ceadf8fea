"""Growth by shape on SQLite: the steps of its virtual machine do not grow with the number of unrelated jobs."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from transactions import on

from conformance.bench import failing, worker
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import Move, State
from mulligan.projections.fold import fold
from mulligan.records.event import EventFilter
from mulligan.records.job import JobFilter, NewJob
from mulligan.records.pause import PauseRequest
from mulligan.records.rate import parse_rate
from mulligan.records.retention import PurgeRequest
from mulligan.store.messages import Beat, Claim, Outcome, Request
from mulligan.store.sqlite import SqliteStore
from mulligan.store.sqlite.session import SQL
from mulligan.store.store import Store

FEW, MANY = 1_000, 50_000
FACTOR, STEPS = 1.5, 300
EVERY = 10

OTHERS = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
), stated AS (
    SELECT n, CASE n / 2 % 6 WHEN 0 THEN 'succeeded' WHEN 1 THEN 'failed' WHEN 2 THEN 'cancelled' WHEN 3 THEN 'queued'
        WHEN 4 THEN 'waiting' ELSE 'running' END AS state
    FROM number
)
INSERT INTO mulligan_jobs (
    id, kind, owner, queue, priority, rank, state, waiting_for, arguments, max_attempts, max_crashes, max_snoozes,
    submitted_at, enqueued_at, due_at, updated_at, finished_at, error_code, error_class, error_message, error_group,
    leased_by, claim, lease_until, attempt, dedupe_key, gate
)
SELECT 'other-' || n, CASE WHEN state = 'queued' OR n % 2 = 0 THEN 'other-' || n % 5 ELSE 'mine' END,
    CASE WHEN n % 3 = 0 THEN 'acme' ELSE '' END, 'default', 0, n, state, CASE state WHEN 'waiting' THEN 'retry' END,
    '{}', 5, 3, 5, n, n, CASE WHEN state = 'waiting' AND n % 2 THEN n ELSE 4000000000000000 + n END, n,
    CASE WHEN state IN ('succeeded', 'failed', 'cancelled') THEN n END,
    CASE state WHEN 'failed' THEN 'GW_5XX' END, CASE state WHEN 'failed' THEN 'final' END,
    CASE state WHEN 'failed' THEN 'It was.' END, CASE state WHEN 'failed' THEN 'g' || n % 7 END,
    CASE state WHEN 'running' THEN 'worker-' || n % 50 END, CASE state WHEN 'running' THEN n END,
    CASE state WHEN 'running' THEN 4000000000000000 END, 1, 'key-' || n,
    CASE WHEN state = 'waiting' AND n % 2 THEN 'duty/retry' END
FROM stated
"""
EVENTS = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
)
INSERT INTO mulligan_events (type, job, kind, owner, attempt, at)
SELECT 'job.enqueued', 'other-' || n, 'other', '', 1, n
FROM number
"""


# Owners who have jobs waiting, and have submitted lately.
SHARES = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
)
INSERT INTO mulligan_shares (queue, priority, owner, rank, taken)
SELECT 'fair', 0, 'owner-' || n, 4000000000000000 + n, 1
FROM number
"""
BUCKETS = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
)
INSERT INTO mulligan_submissions (owner, remaining, at, full_at)
SELECT 'owner-' || n, 1, n, 4000000000000000 + n
FROM number
"""


# All but some of the oldest jobs have failed.
KEPT = 240
MANY_FAILED = f"""
UPDATE mulligan_jobs
SET state = 'failed', error_code = 'OFF', error_class = 'final', error_message = 'It was.', finished_at = enqueued_at,
    waiting_for = NULL, gate = NULL, leased_by = NULL, claim = NULL, lease_until = NULL
WHERE state <> 'failed' AND rank > {KEPT}
"""


class Undone(Exception):
    """Takes back what was measured."""


def new(job_id: str, **options: Any) -> NewJob:
    return NewJob(id=job_id, kind="mine", arguments="{}", **options)


# Other failure groups, jobs in them, and other minutes.
GROUPS = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
)
INSERT INTO mulligan_groups (
    id, scope, kind, code, error_class, title, first_seen_at, last_seen_at, failures, cost, heat, document
)
SELECT 'other-' || (n / 2), CASE WHEN n % 2 THEN '' ELSE '/acme' END, 'other', 'OFF', 'final', 'Off.', n, n, 1, 0, 1,
    '{}'
FROM number
"""
FAILING = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
)
INSERT INTO mulligan_failing (job, error_group, owner, code, since, last_at, is_failed)
SELECT 'other-' || n, 'other-' || (n / 2), '', 'OFF', n, n, 1
FROM number
"""
MINUTES = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n < :last
)
INSERT INTO mulligan_statistics (
    span, at, kind, owner, service, outcome, code, attempt, is_other, number, seconds, cost, histogram
)
SELECT 60, n * 60000000, 'other', '', '', 'failed', 'OFF', 1, 0, 1, 1, 0, '[]'
FROM number
"""


def scrape(store: Store) -> None:
    """What metrics read of the store. Runs of duties and workers are as many as there are workers."""
    store.totals()
    store.open_breakers(limit=10)
    store.depths()
    store.projection_status()


def fold_page(store: SqliteStore) -> None:
    page = store.next_entries(limit=50)
    assert store.apply_folded(page, fold(page.entries))


def fair(number: int, **options: Any) -> list[NewJob]:
    return [new(f"fair-{n}", owner=f"owner-{n}", queue="fair", weight=1.0, **options) for n in range(number)]


def wish(number: int, **options: Any) -> Claim:
    kinds = ["mine", "mine too"]
    return Claim(incarnation="me", number=number, kinds=kinds, limit=10, lease=timedelta(hours=1), **options)


def steps_of(store: SqliteStore, operation: Callable[[Any], object]) -> int:
    ticks: list[None] = []

    def measured(db: Any) -> None:
        db.set_progress_handler(lambda: ticks.append(None), EVERY)
        try:
            operation(db)
        finally:
            db.set_progress_handler(None, 0)
        raise Undone

    try:
        store._database.write(measured)
    except Undone:
        return len(ticks) * EVERY
    raise AssertionError("nothing was measured")


def test_fifty_times_as_many_other_jobs_change_nothing_for_any_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    # There are always more jobs than a count reads.
    for module in ("counts", "depths"):
        monkeypatch.setattr(f"mulligan.store.{module}.MOST_READ", 50)
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    store.enqueue([new(f"running-{n}") for n in range(10)])
    leases = store.claim(wish(1)).leases
    store.enqueue([new("failed")])
    store.settle([Outcome(lease, failing()) for lease in store.claim(wish(2)).leases])
    store.enqueue([new(f"queued-{n}", dedupe_key=f"held-{n}") for n in range(30)])
    store.enqueue([new(f"due-{n}", delay=timedelta(microseconds=1)) for n in range(5)])
    store.enqueue(fair(1))
    # So long ago that it would be forgotten, if no owner had jobs waiting.
    store._database.write(lambda db: db.execute("UPDATE mulligan_turns SET rank = 1"))
    # Half of the others that wait are due, and held by this.
    store.pause(PauseRequest(id="p", what="duty", name="retry"))
    last, now = store.last_position(back=20), store.now()
    limited = new("r", owner="owner-7", submit_rate=parse_rate("9/s"))
    purge = PurgeRequest(id="p", jobs=["other-3"], before=now, about="it")
    beat = Beat(worker=worker("me"), lease=timedelta(hours=1), extend=[lease.fence for lease in leases])
    operations: dict[str, Callable[[Any], object]] = {
        "claim and promote": lambda db: on(store, db).claim(wish(3)),
        "claim of a fair queue": lambda db: on(store, db).claim(wish(4, queues=["fair"], fair=["fair"])),
        "enqueue in a fair queue": lambda db: on(store, db).enqueue(fair(20)[1:]),
        "enqueue at a rate": lambda db: on(store, db).enqueue([limited]),
        "claim again": lambda db: on(store, db).claim(wish(1)),
        "manual retry": lambda db: on(store, db).move(Request(id="r", move=Move.MANUAL_RETRY, job="failed")),
        "cancel": lambda db: on(store, db).move(Request(id="r", move=Move.MANUAL_CANCEL, job="queued-1")),
        "settle": lambda db: on(store, db).settle([Outcome(lease, Succeed("1")) for lease in leases]),
        "the duty promote": lambda db: on(store, db).promote("promote", limit=100, is_manual=True),
        "the duty retry, paused": lambda db: on(store, db).promote("retry", limit=100, is_manual=False),
        "beat": lambda db: on(store, db).beat(beat),
        "enqueue a twin": lambda db: on(store, db).enqueue([new("new", dedupe_key="held-3")]),
        "prune one": lambda db: on(store, db).prune(State.SUCCEEDED, before=now, limit=1),
        "count the newest": lambda db: db.execute(SQL["newest"], {"state": "failed", "count": 50}).fetchone(),
        "purge": lambda db: on(store, db).purge(purge),
        "read the newest events": lambda db: on(store, db).stream(EventFilter(), after=last, limit=50),
        "scrape metrics": lambda db: scrape(on(store, db)),
        "fold a page of the log": lambda db: fold_page(on(store, db)),
        "read events after an old place": lambda db: on(store, db).stream(EventFilter(), after=4, limit=50),
    }
    steps: dict[int, dict[str, int]] = {}
    made = 0
    for size in (FEW, MANY):
        for statement in (OTHERS, EVENTS, SHARES, BUCKETS, GROUPS, FAILING, MINUTES):
            values = {"first": made + 1, "last": size}
            store._database.write(lambda db, statement=statement, values=values: db.execute(statement, values))
        made = size
        steps[size] = {name: steps_of(store, operation) for name, operation in operations.items()}
    store.close()
    assert all(steps[FEW].values()), "each was measured"
    grown = {
        name: (few, steps[MANY][name]) for name, few in steps[FEW].items() if steps[MANY][name] > few * FACTOR + STEPS
    }
    assert not grown


def test_a_few_jobs_of_a_state_are_found_among_any_number_of_others() -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    states = [state for state in State if state is not State.FAILED]
    now = store.now()
    reads: dict[str, Callable[[SqliteStore, JobFilter], object]] = {
        "list": lambda store, wanted: store.jobs(wanted, limit=100),
        "plan a move of all": lambda store, wanted: store.count_candidates(wanted, before=now),
        "move some": lambda store, wanted: store.candidates(wanted, before=now, limit=10),
    }
    steps: dict[int, dict[tuple[str, State], int]] = {}
    made = 0
    for size in (FEW, MANY):
        store._database.write(lambda db, first=made + 1, last=size: db.execute(OTHERS, {"first": first, "last": last}))
        store._database.write(lambda db: db.execute(MANY_FAILED))
        made = size
        steps[size] = {
            (name, state): steps_of(
                store, lambda db, read=read, state=state: read(on(store, db), JobFilter(state=state))
            )
            for name, read in reads.items()
            for state in states
        }
    found = {state: len(store.jobs(JobFilter(state=state), limit=100).jobs) for state in states}
    store.close()
    assert set(found.values()) <= set(range(KEPT // 6 - 1, KEPT // 6 + 2))
    grown = {read: (few, steps[MANY][read]) for read, few in steps[FEW].items() if steps[MANY][read] > few * FACTOR}
    assert not grown
