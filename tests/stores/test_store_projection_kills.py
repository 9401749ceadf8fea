"""Failure groups and statistics by several processes, of which some are killed: each event counts exactly once."""

import signal
import subprocess
import sys
import textwrap
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from postgres_server import emptied

from live import eventually
from mulligan import App, FinalError, RetryPolicy
from mulligan.records.statistics import SPANS

PROGRAM = """
import sys, time
from mulligan import App
from mulligan.duties.project import Project
from mulligan.projections.fold import fold
from mulligan.store.statistics import StatisticOperations
from mulligan.values.clock import SystemClock

url, mode = sys.argv[1:]

if mode == "stuck":
    def stuck(self, session, minutes, replay):
        print("in the middle", flush=True)
        time.sleep(100)

    StatisticOperations.apply = stuck

with App(url) as app:
    project = Project(app.store, fold, SystemClock(), interval=1.0, limit=7)
    print("ready", flush=True)
    while True:
        if not project.step():
            time.sleep(0.002)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgres":
        url = emptied(request.getfixturevalue("database"))
    with App(url) as app:
        app.migrate()

        @app.task("fails", retry=RetryPolicy(1))
        def fails(number: int) -> None:
            if number % 2:
                raise FinalError(f"number {number} is odd")

        yield app


def start(app: App, folder: Path, mode: str) -> "subprocess.Popen[str]":
    program = folder / "projecting.py"
    program.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, program, app.settings.database_url, mode]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def run_some(app: App, number: int) -> None:
    app.enqueue_many([app.tasks["fails"].options(owner=f"owner-{n % 3}").bind(n) for n in range(number)])
    app.run_until_idle(timeout="60s")


def everything(app: App) -> Any:
    now = app.store.now()
    spans = {"since": now - timedelta(days=3), "until": now + timedelta(days=3), "limit": 10_000}
    groups = [(group.id, group.failures, group.jobs, group.failed, group.owners) for group in app.failures().groups]
    rows = [
        (row.at, row.kind, row.owner, row.outcome, row.code, row.attempt, row.number, row.histogram)
        for span in SPANS.values()
        for row in app.store.statistics(span, **spans)
    ]
    totals = {key: (tally.number, tuple(tally.histogram)) for key, tally in app.store.totals().items()}
    return sorted(groups), sorted(rows), totals


def test_killed_processes_count_no_event_twice(app: App, tmp_path: Path) -> None:
    processes = [start(app, tmp_path, "running") for _ in range(2)]
    try:
        for number in range(6):
            run_some(app, 20)
            # One after the other, at any moment.
            kill(processes[number % 2])
            processes[number % 2] = start(app, tmp_path, "running")
        eventually(lambda: app.store.projection_status().lag == timedelta(0))
    finally:
        for process in processes:
            kill(process)
    app.run_duty("project")
    counted = everything(app)
    assert [group[1:4] for group in counted[0]] == [(60, 60, 60)]
    assert [number for key, (number, _) in counted[2].items() if key.name == "jobs_created_total"] == [120]
    app.rebuild_statistics()
    app.run_duty("project")
    assert everything(app) == counted


def test_a_process_that_dies_while_it_applies_a_page_leaves_nothing_of_it(app: App, tmp_path: Path) -> None:
    run_some(app, 2)
    before = app.store.projection_status().position
    app.rebuild_statistics()
    process = start(app, tmp_path, "stuck")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
    finally:
        kill(process)
    assert app.failures().groups == ()
    assert app.store.projection_status().position == 0
    app.run_duty("project")
    (group,) = app.failures().groups
    assert (group.failures, group.jobs, group.failed) == (1, 1, 1)
    assert app.store.projection_status().position >= before
