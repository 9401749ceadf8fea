"""Growth by shape: a large backlog of one sort costs all other jobs nothing, whether PostgreSQL knows of it or not."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from test_store_postgres_growth import BUFFERS, ROWS, Read, reads
from test_store_sqlite_growth import STEPS, steps_of
from transactions import on

from mulligan.failure.decision import Succeed
from mulligan.records.job import NewJob
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Claim, Outcome
from mulligan.store.postgres import PostgresStore
from mulligan.store.sqlite import SqliteStore
from mulligan.store.store import Store

# `MULLIGAN_BACKLOG=1000000` makes it a million.
FEW, MANY = 500, int(os.environ.get("MULLIGAN_BACKLOG", "30000"))
FACTOR = 1.5
PLANS = ("force_custom_plan", "force_generic_plan")
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Backlog:
    """A job made by the engine, and how its copies differ from it. `n` is the number of a copy."""

    job: NewJob
    differences: dict[str, str]
    is_over: bool = False


def new(job_id: str, **options: Any) -> NewJob:
    return NewJob(id=job_id, kind=options.pop("kind", "mine"), arguments="{}", **options)


BACKLOGS = {
    "due next year": Backlog(new("seed", delay=timedelta(days=365)), {"due_at": "due_at + n"}),
    "held by an open service": Backlog(new("seed", service="down"), {"rank": "rank - n"}),
    "waiting for a round of probes": Backlog(
        new("seed", delay=timedelta(days=1), service="down"), {"gate": """'probe/["down","default","mine"]'"""}
    ),
    "of a kind no worker handles": Backlog(new("seed", kind="other"), {"rank": "rank - n"}),
    "with a deadline next year": Backlog(
        new("seed", kind="other", deadline=timedelta(days=365)), {"deadline": "deadline + n"}
    ),
    "succeeded": Backlog(new("seed"), {"rank": "rank - n"}, is_over=True),
    "of many owners in a fair queue": Backlog(
        new("seed", kind="other", queue="fair", owner="one", weight=1.0), {"owner": "'owner-' || n", "rank": "rank - n"}
    ),
}


class Ours:
    """The jobs under test, and each operation on them."""

    def __init__(self, store: Store, backlog: Backlog) -> None:
        self.store = store
        store.enqueue([backlog.job])
        if backlog.is_over:
            store.settle([Outcome(lease, Succeed("1")) for lease in store.claim(self.wish(1)).leases])
        if backlog.job.service:
            store.force(ServiceRequest(id="down", name="down", to="open"))
        store.enqueue([new(f"running-{n}") for n in range(10)])
        self.leases = store.claim(self.wish(2)).leases
        assert len(self.leases) == 10
        store.enqueue([new(f"queued-{n}") for n in range(30)])

    def wish(self, number: int, *kinds: str) -> Claim:
        wanted = kinds or ("mine", "mine too")
        return Claim(incarnation="me", number=number, kinds=wanted, limit=10, lease=HOUR, fair=["fair"])

    def operations(self) -> dict[str, Callable[[Any], object]]:
        return {
            "claim": lambda db: on(self.store, db).claim(self.wish(3)),
            "claim that finds nothing": lambda db: on(self.store, db).claim(self.wish(4, "nothing")),
            "settle": lambda db: on(self.store, db).settle([Outcome(lease, Succeed("1")) for lease in self.leases]),
            "enqueue": lambda db: on(self.store, db).enqueue([new("new")]),
            "the duty promote": lambda db: on(self.store, db).promote("promote", limit=100),
            "the duty retry": lambda db: on(self.store, db).promote("retry", limit=100),
            "look for other duties": lambda db: on(self.store, db).duty_overview(),
            "find demands": lambda db: on(self.store, db).demands(limit=100),
        }


def copies(columns: list[str], backlog: Backlog, first: int, last: int) -> str:
    """The statement that makes the backlog grow. Its rows are what the engine writes, whatever columns there are."""
    values = {"id": "id || '-' || n"} | backlog.differences
    return f"""
        INSERT INTO mulligan_jobs ({", ".join(columns)})
        WITH RECURSIVE number (n) AS (
            SELECT CAST({first} AS bigint) UNION ALL SELECT n + 1 FROM number WHERE n < {last}
        )
        SELECT {", ".join(values.get(name, name) for name in columns)}
        FROM mulligan_jobs CROSS JOIN number
        WHERE id = 'seed'
    """


def names(cursor: Any) -> list[str]:
    return [column[0] for column in cursor.description if column[0] != "seq"]


@pytest.mark.parametrize("backlog", BACKLOGS)
def test_on_sqlite(backlog: str) -> None:
    store = SqliteStore("sqlite:///:memory:", threaded=False)
    ours = Ours(store, BACKLOGS[backlog])

    def measured(first: int, last: int) -> dict[str, int]:
        def grow(db: Any) -> None:
            db.execute(copies(names(db.execute("SELECT * FROM mulligan_jobs LIMIT 0")), BACKLOGS[backlog], first, last))

        store._database.write(grow)
        return {name: steps_of(store, operation) for name, operation in ours.operations().items()}

    few, many = measured(1, FEW), measured(FEW + 1, MANY)
    store.close()
    assert {name: (few[name], many[name]) for name in few if many[name] > few[name] * FACTOR + STEPS} == {}


@pytest.mark.parametrize("backlog", BACKLOGS)
def test_on_postgres(server: PostgresServer, backlog: str) -> None:
    url = server.fresh_database("backlog")
    store = PostgresStore(url + "?notify=off")
    store.migrate()
    ours = Ours(store, BACKLOGS[backlog])
    with psycopg.connect(url, autocommit=True) as connection:
        columns = names(connection.execute("SELECT * FROM mulligan_jobs LIMIT 0"))
        connection.execute("ANALYZE")
        connection.execute(copies(columns, BACKLOGS[backlog], 1, FEW).encode())
        few = measured(url, ours)
        connection.execute(copies(columns, BACKLOGS[backlog], FEW + 1, MANY).encode())
        connection.execute("VACUUM (INDEX_CLEANUP ON)")
        unknown = measured(url, ours)
        connection.execute("VACUUM (ANALYZE, INDEX_CLEANUP ON)")
        known = measured(url, ours)
    store.close()
    assert has_grown(few, unknown) == {}, "before it was counted"
    assert has_grown(few, known) == {}, "since it was counted"


def measured(url: str, ours: Ours) -> dict[tuple[str, str], Read]:
    return {(name, plan): read for plan in PLANS for name, read in reads(url, ours, plan).items()}


def has_grown(few: dict[Any, Read], many: dict[Any, Read]) -> dict[Any, tuple[Read, Read]]:
    return {
        name: (before, many[name])
        for name, before in few.items()
        if many[name].rows > before.rows * FACTOR + ROWS or many[name].buffers > before.buffers * FACTOR + BUFFERS
    }
