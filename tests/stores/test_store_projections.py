"""Projections by several processes, of which some are killed: each event is applied exactly once."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from postgres_server import emptied

from live import eventually
from mulligan import App
from mulligan.errors import TransactionEnded, UnknownProjection

PROGRAM = """
import sys, time
from mulligan import App

url, mode = sys.argv[1:]
MARK = "%s" if url.startswith("postgres") else "?"

def count(events, connection):
    for event in events:
        connection.execute(
            f"INSERT INTO mine (position, type, job) VALUES ({MARK}, {MARK}, {MARK})",
            (event.position, event.type, event.job),
        )
    connection.execute(f"UPDATE total SET number = number + {len(events)}")
    if mode == "stuck":
        print("in the middle", flush=True)
        time.sleep(100)

with App(url) as app:
    print("ready", flush=True)
    while True:
        if not app.project("totals", count, limit=20):
            time.sleep(0.002)
"""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    return emptied(request.getfixturevalue("database"))


def run(app: App, statement: str) -> list[Any]:
    """On the database of the app, as its user would."""

    def execute(session: Any) -> list[Any]:
        cursor = session.connection.execute(statement)
        return list(cursor.fetchall()) if cursor.description else []

    return app.store._backend.write(execute)


@pytest.fixture
def app(url: str) -> Any:
    with App(url) as app:
        app.migrate()
        for table in ("mine", "total"):
            run(app, f"DROP TABLE IF EXISTS {table}")
        # Not unique: an event that is applied twice is to be found.
        run(app, "CREATE TABLE mine (position bigint, type text, job text)")
        run(app, "CREATE TABLE total (number bigint)")
        run(app, "INSERT INTO total VALUES (0)")
        yield app
        for table in ("mine", "total"):
            run(app, f"DROP TABLE {table}")


def start(url: str, folder: Path, mode: str) -> "subprocess.Popen[str]":
    program = folder / "projecting.py"
    program.write_text(textwrap.dedent(PROGRAM))
    process = subprocess.Popen([sys.executable, program, url, mode], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def kill(process: "subprocess.Popen[str]") -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_processes_that_are_killed_in_the_middle_count_no_event_twice(app: App, url: str, tmp_path: Path) -> None:
    @app.task
    def step(n: int) -> None: ...

    processes = [start(url, tmp_path, "running") for _ in range(2)]
    try:
        for number in range(12):
            app.enqueue_many([step.bind(n) for n in range(40)])
            # One after the other, at any moment.
            kill(processes[number % 2])
            processes[number % 2] = start(url, tmp_path, "running")
        last = app.last_position()
        eventually(lambda: next(cursor.position for cursor in app.projections()) >= last)
    finally:
        for process in processes:
            kill(process)
    applied = sorted(tuple(row) for row in run(app, "SELECT position, type, job FROM mine"))
    everything = []
    after = 0
    while found := app.events(after=after, limit=1_000):
        everything += [(event.position, event.type, event.job) for event in found]
        after = found[-1].position
    assert applied == sorted(everything)
    assert [tuple(row) for row in run(app, "SELECT number FROM total")] == [(len(everything),)]


def test_a_process_that_dies_inside_its_projection_leaves_nothing_of_it(app: App, url: str, tmp_path: Path) -> None:
    @app.task
    def step() -> None: ...

    step.enqueue()
    process = start(url, tmp_path, "stuck")
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
        (cursor,) = app.projections()
        assert cursor.position == 0
    finally:
        kill(process)
    assert run(app, "SELECT * FROM mine") == []
    seen: list[str] = []
    began = time.monotonic()
    assert app.project("totals", lambda events, _: seen.extend(event.job for event in events)) == 1
    assert len(seen) == 1
    assert time.monotonic() - began < 20, "the lock died with it"


def test_a_projection_enqueues_jobs_through_its_connection(app: App) -> None:
    @app.task
    def step() -> None: ...

    @app.task
    def notify(job: str) -> None: ...

    job = step.enqueue()

    def tell(events: Any, connection: Any) -> None:
        for event in events:
            if event.kind == "step":
                notify.options(connection=connection).enqueue(event.job)
        if "fail" in os.environ:
            raise ValueError

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("fail", "1")
        with pytest.raises(ValueError):
            app.project("notify", tell)
    assert "notify" not in app.counts(by="kind").groups
    assert app.project("notify", tell) == 1
    assert app.counts(by="kind").groups["notify"] == 1
    app.drop_projection("notify")
    assert app.projections() == []
    with pytest.raises(UnknownProjection, match="no projection is named 'notify'"):
        app.drop_projection("notify")
    assert job.id in {event.job for event in app.events()}


def test_a_projection_may_write_through_the_app(app: App, url: str) -> None:
    """On SQLite, which has one writer, that is a part of its transaction."""

    @app.task
    def step() -> None: ...

    step.enqueue()

    def fail(_: Any, __: Any) -> None:
        step.enqueue()
        raise ValueError

    with pytest.raises(ValueError):
        app.project("all", fail)
    assert app.counts().total == (1 if url.startswith("sqlite") else 2)
    assert app.project("other", lambda *_: step.enqueue()) >= 1


def test_a_projection_that_suppresses_an_error_of_the_database_is_not_taken_for_applied(app: App) -> None:
    if app.settings.database_url.startswith("sqlite"):
        pytest.skip("SQLite goes on after a failed statement")
    app.batch("empty").publish()

    def careless(_events: object, connection: Any) -> None:
        with suppress(Exception):
            connection.execute("SELECT 1 / 0")

    app.project("careless", lambda _events, _connection: None, limit=1)
    app.batch("another").publish()
    with pytest.raises(TransactionEnded):
        app.project("careless", careless)
