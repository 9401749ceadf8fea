"""Limits held by many processes: real workers on each store, and stores on one file, each with its own limits."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import emptied
from test_store_processes import tried

from mulligan import App

PROCESSES = 4
SECONDS = 100

# Each attempt notes when it began and ended: monotonic time is the same in all processes of a machine.
WORKERS = """
import asyncio, json, os, sys, time
from mulligan import App, Owner, Queue

app = App(sys.argv[1], queues=[Queue("narrow", concurrency=2)], owners=[Owner("*", concurrency=2)])
ledger = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND)

async def work(*subjects: str) -> None:
    began = time.monotonic()
    await asyncio.sleep(0.005)
    os.write(ledger, (json.dumps([subjects, began, time.monotonic()]) + "\\n").encode())

@app.task(concurrency=3)
async def limited(queue: str, owner: str) -> None:
    await work("kind", queue, owner)

@app.task
async def plain(queue: str, owner: str) -> None:
    await work(queue, owner)

if __name__ == "__main__":
    app.run_until_idle(concurrency=8)
"""
MOST = {"kind": 3, "narrow": 2, "ann": 2, "bob": 2}


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    else:
        yield emptied(request.getfixturevalue("database"))
        emptied(request.getfixturevalue("database"))


def test_worker_processes_never_run_more_at_once_than_the_limits_allow(url: str, tmp_path: Path) -> None:
    program, ledger = tmp_path / "program.py", tmp_path / "ledger"
    program.write_text(WORKERS)
    ledger.touch()
    wanted = [
        (kind, queue, owner)
        for kind in ("limited", "plain")
        for queue in ("narrow", "default")
        for owner in ("", "ann", "bob")
        for _ in range(40)
    ]
    with App(url) as app:
        app.migrate()
        # The client does not know the limits; the workers that admit jobs do.
        tasks = {kind: app.task(kind)(_call) for kind in ("limited", "plain")}
        app.enqueue_many(
            [tasks[kind].options(queue=queue, owner=owner).bind(queue, owner) for kind, queue, owner in wanted]
        )
        workers = [subprocess.Popen([sys.executable, program, url, ledger]) for _ in range(PROCESSES)]
        try:
            assert [worker.wait(SECONDS) for worker in workers] == [0] * PROCESSES
        finally:
            for worker in workers:
                worker.kill()
        done = {"succeeded": len(wanted) // 2}
        assert app.store.counts() == {"limited": done, "plain": done}
    ran = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert len(ran) == len(wanted)
    assert {subject: _most_at_once(ran, subject) for subject in MOST} == MOST, "all places are used, and none twice"


async def _call(queue: str, owner: str) -> None:
    raise NotImplementedError


def _most_at_once(ran: list[tuple[list[str], float, float]], subject: str) -> int:
    mine = [(began, ended) for subjects, began, ended in ran if subject in subjects]
    changes = sorted([(began, 1) for began, _ in mine] + [(ended, -1) for _, ended in mine])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most


def test_stores_together_never_run_more_than_the_limits_allow(tmp_path: Path) -> None:
    """Each counts what runs while it holds its own jobs: whatever the moment, no more than the limit."""
    answers, left = tried(
        """
        from mulligan.records.limit import LimitBook

        BOOK = LimitBook(kinds={"send": 3}, owners={"*": 2})

        def work(place):
            store = SqliteStore(URL)
            # One of them knows nothing of the limits.
            if place:
                store.limit_by(lambda: BOOK)
            most, done = 0, 0
            for number in range(1, 2_000):
                leases = claim(store, f"w{place}", number, limit=2)
                running = store.jobs(JobFilter(state="running"), limit=100).jobs
                owners = [job.owner for job in running]
                most = max([most, len(running), *(owners.count(owner) + 1 for owner in owners)])
                for lease in leases:
                    store.settle([Outcome(lease, Succeed("1"))])
                done += len(leases)
                if not leases and not store.is_busy(["send"]):
                    break
            store.close()
            return [most, done]

        first = SqliteStore(URL)
        first.limit_by(lambda: BOOK)
        claim(first, "first", 1)
        first.enqueue([new(f"{n:03}", owner=f"o{n % 4}") for n in range(120)])
        first.close()
        answers = processes(4, work)
        store = SqliteStore(URL)
        tell([answers, store.counts()])
        store.close()
        """,
        tmp_path / "jobs.db",
    )
    assert [answer for answer in answers if "error" in answer] == []
    assert sum(done for _, done in answers) == 120
    assert max(most for most, _ in answers) <= 3
    assert left == {"send": {"succeeded": 120}}
