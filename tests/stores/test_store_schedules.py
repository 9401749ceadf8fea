"""Real workers, two at a time, one of them killed: every tick of a schedule is one job, and none is left out."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from postgres_server import PostgresServer

from live import eventually
from mulligan import App, JobFilter

APP = """
from mulligan import App

app = App()


@app.task
def beat() -> None: ...


# Many, so that workers are in the middle of the same round when others begin theirs.
for number in range(20):
    app.cron("* * * * * *", name=f"beat-{number}", missed="all")(beat)
"""
SECOND = timedelta(seconds=1)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    server: PostgresServer = request.getfixturevalue("server")
    return server.fresh_database("schedules")


@pytest.fixture
def start(url: str, tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Begin a worker process on the database."""
    (tmp_path / "clockwork.py").write_text(APP)
    workers: list[subprocess.Popen[bytes]] = []

    def begin() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mulligan", "worker", "clockwork:app"]
        environment = {**os.environ, "MULLIGAN_DATABASE_URL": url, "MULLIGAN_DUTY_SCHEDULE_INTERVAL_SEC": "0.1"}
        with (tmp_path / "log").open("ab") as log:
            workers.append(subprocess.Popen(command, env=environment, cwd=tmp_path, stdout=log, stderr=log))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.kill()
        worker.wait()


def test_every_tick_is_one_job_while_workers_come_and_are_killed(
    url: str, start: Callable[[], subprocess.Popen[bytes]]
) -> None:
    with App(url) as app:
        app.migrate()

        def ticks(name: str) -> list[datetime]:
            return sorted(job.submitted_at for job in app.jobs(JobFilter(tag=f"schedule:{name}"), limit=1_000).jobs)

        def more(number: int) -> None:
            enough = len(ticks("beat-0")) + number
            eventually(lambda: len(ticks("beat-0")) >= enough)

        first, second = start(), start()
        more(3)
        first.kill()
        more(2)
        third = start()
        more(3)
        for worker in (second, third):
            worker.terminate()
            worker.wait()
        records = app.store.schedules()
        assert len(records) == 20
        for record in records:
            found = ticks(record.name)
            assert found == [found[0] + number * SECOND for number in range(len(found))], "none twice, none left out"
            assert found[-1] == record.last_tick
