"""A redrive on each store, carried out by real processes: one is killed in the middle of it, another continues."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer

from live import eventually
from mulligan import App, JobFilter
from mulligan.records.redrive import Redrive, RedriveState

JOBS = 60
# In the worker processes: how long the hold of a killed one lasts is not what is tested.
IMPATIENT = """
from datetime import timedelta

import mulligan.records.redrive
import mulligan.duties.redrive

mulligan.records.redrive.HOLD = timedelta(seconds=3)
mulligan.duties.redrive.ASKING_SECONDS = 1.0
"""
SHOP = """
from pathlib import Path

from mulligan import App, RetryPolicy

app = App()


@app.task(retry=RetryPolicy(1))
def send() -> None:
    if not Path("up").exists():
        raise ConnectionError("down")
"""


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("redrive")
    monkeypatch.setenv("MULLIGAN_DATABASE_URL", url)
    monkeypatch.setenv("MULLIGAN_WORKER_LEASE_TTL_SEC", "2")
    monkeypatch.setenv("MULLIGAN_DUTY_REDRIVE_INTERVAL_SEC", "0.1")
    (tmp_path / "shop.py").write_text(IMPATIENT + SHOP)
    space: dict[str, App] = {}
    exec(SHOP, space)
    with space["app"] as app:
        app.migrate()
        yield app


@pytest.fixture
def workers(app: App, tmp_path: Path) -> Iterator["Workers"]:
    made = Workers(tmp_path)
    yield made
    for process in made.started:
        process.kill()
        process.wait()


class Workers:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mulligan", "worker", "shop:app"]
        process = subprocess.Popen(command, cwd=self._folder, stderr=subprocess.DEVNULL, env=dict(os.environ))
        self.started.append(process)
        return process


def failed(app: App) -> list[str]:
    ids = [job.id for job in app.enqueue_many([app.tasks["send"].bind() for _ in range(JOBS)])]
    app.run_until_idle(timeout="60s")
    assert app.store.counts() == {"send": {"failed": JOBS}}
    Path("up").touch()
    return ids


def retries(app: App, ids: list[str]) -> set[int]:
    return {sum(event.type == "job.retry_requested" for event in app.events(job_id)) for job_id in ids}


def test_after_the_kill_of_the_worker_that_did_it_another_goes_on(app: App, workers: Workers) -> None:
    ids = failed(app)
    begun = app.redrive(JobFilter(code="NETWORK"), rate="15/s", canary=3)
    first = workers.start()
    eventually(lambda: app.redrive_status(begun.id).retried >= 10)
    first.send_signal(signal.SIGKILL)
    first.wait()
    assert not app.redrive_status(begun.id).state.is_over
    workers.start()
    eventually(lambda: app.redrive_status(begun.id).state is RedriveState.DONE, seconds=60)
    _is_whole(app, app.redrive_status(begun.id), ids)


def test_two_processes_carry_it_out_together(app: App, workers: Workers) -> None:
    ids = failed(app)
    begun = app.redrive(JobFilter(code="NETWORK"), rate="50/s", canary=3)
    for _ in range(2):
        workers.start()
    eventually(lambda: app.redrive_status(begun.id).state is RedriveState.DONE, seconds=60)
    _is_whole(app, app.redrive_status(begun.id), ids)
    eventually(lambda: app.store.counts() == {"send": {"succeeded": JOBS}}, seconds=60)


def _is_whole(app: App, done: Redrive, ids: list[str]) -> None:
    assert (done.matched, done.retried, done.skipped) == (JOBS, JOBS, {})
    assert retries(app, ids) == {1}
