"""A large batch settled by several worker processes: right counts, one event, one callback."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from postgres_server import emptied

from mulligan import App, BatchState, JobFilter

IS_SOAK = "MULLIGAN_SOAK" in os.environ
MEMBERS, PROCESSES = (50_000, 4) if IS_SOAK else (2_000, 4)
SECONDS = 900 if IS_SOAK else 100

APP = """
import sys
from mulligan import App, FinalError, RetryPolicy

app = App(sys.argv[1])

@app.task
def after(batch_id: str) -> str:
    return str(app.find_batch(batch_id).state)

@app.task(retry=RetryPolicy(max_attempts=1))
async def member(n: int) -> None:
    if n % 100 == 0:
        raise FinalError("one of a hundred")

if __name__ == "__main__":
    app.run_until_idle(concurrency=50)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    return emptied(request.getfixturevalue("database"))


def test_a_batch_is_settled_once_by_many_worker_processes(url: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(APP))
    with App(url) as app:
        tasks = _tasks(app)
        app.migrate()
        batch = app.batch("large", on_settled=tasks["after"])
        batch.add(*(tasks["member"].bind(n) for n in range(MEMBERS)))
        assert batch.publish().total == MEMBERS
        workers = [subprocess.Popen([sys.executable, program, url]) for _ in range(PROCESSES)]
        try:
            assert [worker.wait(SECONDS) for worker in workers] == [0] * PROCESSES
        finally:
            for worker in workers:
                worker.kill()
        found = batch.refresh()
        failed = MEMBERS // 100
        assert (found.state, found.left) == (BatchState.PARTIAL, 0)
        assert (found.succeeded, found.failed, found.cancelled) == (MEMBERS - failed, failed, 0)
        assert app.store.counts()["member"] == {"succeeded": MEMBERS - failed, "failed": failed}
        (after,) = app.jobs(JobFilter(kind="after")).jobs
        assert after.result == "partial"
        assert _settled_events(app) == [1]


def _tasks(app: App) -> dict[str, Any]:
    """The tasks of the program, known here by their signatures."""

    def after(batch_id: str) -> str:
        raise NotImplementedError

    async def member(n: int) -> None:
        raise NotImplementedError

    return {"after": app.task(after), "member": app.task(member)}


def _settled_events(app: App) -> list[int]:
    settled, after = [], 0
    while page := app.events(after=after, limit=1_000):
        settled += [event.data["generation"] for event in page if event.type == "batch.settled"]
        after = page[-1].position
    return settled
