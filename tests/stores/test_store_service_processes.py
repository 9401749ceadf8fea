"""One service and many processes, on both stores: what is allowed is allowed to all of them together."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import PostgresServer
from test_store_processes import tried

# What each test begins with: the store of a process, opened after it was forked.
OPENS = {
    "sqlite": """
        from mulligan.store.sqlite import SqliteStore

        def opened():
            return SqliteStore("sqlite:///" + sys.argv[1], services=lambda: BOOK)
    """,
    "postgres": """
        from mulligan.store.postgres import PostgresStore

        def opened():
            return PostgresStore(sys.argv[1], services=lambda: BOOK)
    """,
}
WORDS = """
        from mulligan.failure.error_codes import ErrorClass
        from mulligan.service.config import Service, ServiceBook
        from mulligan.failure.verdict import Verdict

        def jobs(store, number):
            store.enqueue([new(f"{n:04}", service="gateway") for n in range(number)])

        def failed():
            verdict = Verdict(code="NETWORK", error_class=ErrorClass.RETRYABLE, message="", blames_service=True)
            return Retry(timedelta(days=9), verdict, {})

        def told(store):
            found, more = [], store.events(limit=1_000)
            while more:
                found += more
                more = store.events(after=found[-1].position, limit=1_000)
            return [[event.type, event.at.timestamp()] for event in found]
"""


@pytest.fixture(params=sorted(OPENS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Any]:
    """How a process opens the store, and where that is."""
    if request.param == "sqlite":
        return OPENS["sqlite"], tmp_path / "jobs.db"
    server: PostgresServer = request.getfixturevalue("server")
    return OPENS["postgres"], server.fresh_database("service_processes")


def run(place: tuple[str, Any], code: str) -> Any:
    return tried(place[0] + WORDS + code, place[1])


def claimed_by_epoch(place: tuple[str, Any]) -> list[tuple[int, int]]:
    connect = sqlite3.connect if isinstance(place[1], Path) else psycopg.connect
    with closing(connect(place[1])) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT service_epoch, count(*) FROM mulligan_jobs WHERE attempt > 0 GROUP BY service_epoch")
        return cursor.fetchall()


def test_processes_together_never_probe_more_than_there_are_permits(place: tuple[str, Any]) -> None:
    answers = run(
        place,
        """
        BOOK = ServiceBook([Service("gateway", window=2, cooldown="100ms", probes=2)])

        def work(place):
            store, taken, number = opened(), 0, 0
            # Five times open and half-open.
            while store.services()[0].epoch < 11:
                number += 1
                leases = claim(store, f"w{place}", number)
                taken += len(leases)
                for lease in leases:
                    store.settle([Outcome(lease, failed())])
            store.close()
            return taken

        first = opened()
        first.migrate()
        jobs(first, 2)
        first.settle([Outcome(lease, failed()) for lease in claim(first, "first", 1)])
        jobs(first, 500)
        first.close()
        tell(processes(4, work))
        """,
    )
    assert [answer for answer in answers if not isinstance(answer, int)] == []
    # Every job was claimed once, and has the epoch of its claim: a probing allows what one epoch claimed.
    probes = [number for epoch, number in claimed_by_epoch(place) if epoch > 0]
    assert sum(probes) == sum(answers)
    assert len(probes) >= 5
    assert set(probes) <= {1, 2}


def test_processes_together_ask_no_faster_than_the_rate(place: tuple[str, Any]) -> None:
    answers, events = run(
        place,
        """
        BOOK = ServiceBook([Service("gateway", rate="40/s")])

        def work(place):
            store, taken, number = opened(), 0, 0
            while store.counts()["send"].get("succeeded", 0) < 80:
                number += 1
                leases = claim(store, f"w{place}", number)
                taken += len(leases)
                store.settle([Outcome(lease, Succeed("1")) for lease in leases])
            store.close()
            return taken

        first = opened()
        first.migrate()
        jobs(first, 300)
        first.close()
        answers = processes(4, work)
        store = opened()
        tell([answers, told(store)])
        store.close()
        """,
    )
    assert [answer for answer in answers if not isinstance(answer, int)] == []
    started = [at for event, at in events if event == "job.started"]
    assert len(started) == sum(answers) >= 80
    # A tenth of a second's worth may come at once.
    assert len(started) <= 40 * (max(started) - min(started)) + 0.1 * 40 + 1
