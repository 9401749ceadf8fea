"""An owner is forgotten on each store: nothing about it is left, whatever happens to the workers meanwhile."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import PostgresServer

from live import eventually
from mulligan import App, State
from mulligan.errors import BadArgument, BatchNotFound
from mulligan.records.redrive import Redrive, RedriveState

SHOP = """
import time
from datetime import timedelta

import mulligan.records.redrive
from mulligan import App, FinalError, Owner, Queue, RetryPolicy

app = App(queues=[Queue("fair", fair=True)], owners=[Owner("acme", concurrency=50, submit_rate="1000/s")])


@app.task(retry=RetryPolicy(1))
def send(number: int = 0) -> None:
    if number < 0:
        raise FinalError("no")


@app.task
def stubborn() -> None:
    time.sleep(60)
"""
# The hold of a killed worker is shorter than by default.
IMPATIENT = "mulligan.records.redrive.HOLD = timedelta(seconds=3)\n"


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[App]:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("forget")
    monkeypatch.setenv("MULLIGAN_DATABASE_URL", url)
    monkeypatch.setenv("MULLIGAN_WORKER_LEASE_TTL_SEC", "2")
    monkeypatch.setenv("MULLIGAN_DUTY_REDRIVE_INTERVAL_SEC", "0.1")
    (tmp_path / "shop.py").write_text(SHOP + IMPATIENT)
    space: dict[str, App] = {}
    exec(SHOP, space)
    with space["app"] as app:
        app.migrate()
        yield app


def fill(app: App, owner: str) -> str:
    """Jobs of every state, and two batches: a draft and one that is settled. Return the id of the settled one."""
    send = app.tasks["send"]
    done = app.batch("done", owner=owner)
    done.add(send.bind(1), send.bind(2))
    done.publish()
    send.options(owner=owner).enqueue(-1)
    send.options(owner=owner, dedupe="a", dedupe_scope="succeeded", queue="fair").enqueue(1)
    app.run_until_idle(timeout="60s")
    app.batch("draft", owner=owner).add(send.bind(3))
    send.options(owner=owner, delay="1d").enqueue(4)
    send.options(owner=owner).enqueue(5)
    return done.id


def carried_out(app: App, begun: Redrive) -> Redrive:
    for _ in range(20):
        app.run_duty("redrive")
        found = app.redrive_status(begun.id)
        if found.state.is_over:
            return found
    raise AssertionError(f"it is still {found}")


def rows_about(app: App, owner: str) -> dict[str, int]:
    owned = ("jobs", "events", "batches", "spending", "submissions", "shares")
    counts = {
        table: app.store._read(
            lambda session, table=table: session.execute(  # type: ignore[misc]
                f"SELECT count(*) AS number FROM mulligan_{table} WHERE owner = '{owner}'", {}
            )[0]["number"]
        )
        for table in owned
    }
    return {table: number for table, number in counts.items() if number}


def test_a_reader_of_the_log_is_told_that_events_without_a_job_were_deleted(app: App) -> None:
    app.batch("empty", owner="acme").publish()
    after = app.last_position(back=1)
    assert "batch.settled" in [event.type for event in app.stream(after=after).events]
    assert not app.stream(after=after).is_pruned
    carried_out(app, app.forget_owner("acme"))
    assert app.stream(after=after).is_pruned


def test_nothing_about_the_owner_is_left_and_others_stay(app: App) -> None:
    other, batch = fill(app, "other"), fill(app, "acme")
    before = rows_about(app, "other")
    assert rows_about(app, "acme").keys() >= {"jobs", "events", "batches", "submissions", "shares"}
    planned = app.forget_owner("acme", dry_run=True)
    assert (planned.matched, planned.id) == (7, "")
    begun = app.forget_owner("acme", actor="ann", reason="closed")
    done = carried_out(app, begun)
    assert (done.verb, done.state, done.retried, done.purged) == ("forget", RedriveState.DONE, 3, 7)
    assert rows_about(app, "acme") == {}
    with pytest.raises(BatchNotFound):
        app.find_batch(batch)
    assert (rows_about(app, "other"), app.find_batch(other).id) == (before, other)
    events = [event for event in app.events(limit=1_000) if event.type.startswith("redrive.")]
    assert [(event.type, event.actor) for event in events] == [("redrive.started", "ann"), ("redrive.finished", None)]
    assert events[0].data["filter"] == {"owner": "acme"} and events[1].data["purged"] == 7


def test_while_it_is_under_way_a_repeated_call_returns_it(app: App) -> None:
    fill(app, "acme")
    begun = app.forget_owner("acme")
    again = app.forget_owner("acme")
    assert (again.id, again.is_repeated, begun.is_repeated) == (begun.id, True, False)
    assert app.forget_owner("other").id != begun.id
    carried_out(app, begun)
    app.tasks["send"].options(owner="acme").enqueue()
    second = app.forget_owner("acme", request_id="r1")
    assert second.id != begun.id
    assert carried_out(app, second).purged == 1
    assert app.forget_owner("acme", request_id="r1").id == second.id


def test_jobs_that_come_meanwhile_are_forgotten_too(app: App) -> None:
    fill(app, "acme")
    begun = app.forget_owner("acme")
    late = app.tasks["send"].options(owner="acme", delay="1d").enqueue()
    assert carried_out(app, begun).purged == 8
    assert late.id not in {job.id for job in app.jobs().jobs}
    stays = app.tasks["send"].options(owner="acme").enqueue()
    app.run_duty("redrive")
    assert not app.job(stays.id).state.is_final


def test_events_that_a_reader_has_not_read_are_waited_for(app: App) -> None:
    fill(app, "acme")
    app.store.set_cursor("statistics", 0)
    begun = app.forget_owner("acme")
    for _ in range(3):
        app.run_duty("redrive")
    assert app.redrive_status(begun.id).state is RedriveState.RUNNING
    app.store.set_cursor("statistics", app.last_position())
    assert carried_out(app, begun).state is RedriveState.DONE


def test_a_name_is_needed(app: App) -> None:
    for wrong in ("", "*"):
        with pytest.raises(BadArgument, match="the name of one owner"):
            app.forget_owner(wrong)


def test_after_the_kill_of_the_worker_another_goes_on(app: App, tmp_path: Path) -> None:
    send = app.tasks["send"].options(owner="acme", delay="1d")
    app.enqueue_many([send.bind(number) for number in range(250)])
    running = app.tasks["stubborn"].options(owner="acme").enqueue()
    workers = [start_worker(tmp_path)]
    try:
        eventually(lambda: app.job(running.id).state is State.RUNNING, seconds=60)
        begun = app.forget_owner("acme")
        eventually(lambda: app.redrive_status(begun.id).retried >= 100, seconds=60)
        workers[0].send_signal(signal.SIGKILL)
        workers[0].wait()
        assert not app.redrive_status(begun.id).state.is_over, "a job is running"
        workers.append(start_worker(tmp_path))
        eventually(lambda: app.redrive_status(begun.id).state is RedriveState.DONE, seconds=90)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert (app.redrive_status(begun.id).purged, rows_about(app, "acme")) == (251, {})


def start_worker(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "mulligan", "worker", "shop:app"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL, env=dict(os.environ))
