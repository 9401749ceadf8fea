"""An owner is forgotten on each store: nothing about it is left, whatever happens to the workers meanwhile."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

from conformance.bench import HOUR
from live import eventually
from mulligan import App, JobFilter, State
from mulligan.duties import redrive
from mulligan.duties.redrive import RunRedrives
from mulligan.errors import BadArgument, BatchNotFound
from mulligan.failure.decision import Succeed
from mulligan.records.redrive import Redrive, RedriveState
from mulligan.store import forget
from mulligan.store.messages import Claim, Outcome
from mulligan.values.clock import SystemClock

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
        table: run(app, f"SELECT count(*) AS number FROM mulligan_{table} WHERE owner = '{owner}'")[0]["number"]
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


def test_each_step_looks_at_a_page_of_rows(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "PAGE", 3)
    for owner in ("acme", "other"):
        for number in range(4):
            app.batch("empty", owner=owner).publish()
            waiting = app.tasks["send"].options(owner=owner, delay="1d").enqueue()
            app.cancel(waiting.id, owner=owner, request_id=f"own {number}")
            app.cancel_batch(app.batch("draft", owner=owner).id, request_id=f"{owner} {number}")
    before = rows_about(app, "other")
    done = carried_out(app, app.forget_owner("acme"))
    assert (done.purged, done.because, rows_about(app, "acme")) == (4, None, {})
    assert rows_about(app, "other") == before
    assert requests(app) == [("", f"other {number}") for number in range(4)] + [
        ("/other", f"own {number}") for number in range(4)
    ]


def requests(app: App) -> list[tuple[str, str]]:
    rows = run(app, "SELECT owner, id FROM mulligan_requests ORDER BY owner, id")
    return [(row["owner"], row["id"]) for row in rows]


def run(app: App, statement: str) -> Any:
    return app.store._write(lambda session: session.execute(statement, {}))


def damage(app: App, job_id: str) -> None:
    statement = f"UPDATE mulligan_jobs SET code_failures = 'garbage' WHERE id = '{job_id}'"
    url = app.settings.database_url
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as shell:
            shell.execute("PRAGMA ignore_check_constraints = 1")
            shell.execute(statement)
    else:
        run(app, statement)


def test_jobs_are_deleted_while_another_is_running(app: App) -> None:
    fill(app, "acme")
    (lease,) = app.store.claim(Claim(incarnation="w", number=1, kinds=["send"], limit=1, lease=HOUR)).leases
    begun = app.forget_owner("acme")
    for _ in range(3):
        app.run_duty("redrive")
    found = app.redrive_status(begun.id)
    assert (found.state, found.purged, rows_about(app, "acme")["jobs"]) == (RedriveState.RUNNING, 6, 1)
    app.store.settle([Outcome(lease, Succeed("null"))])
    assert carried_out(app, begun).purged == 7


def test_jobs_that_come_while_the_other_rows_are_deleted_are_forgotten_too(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(app, "acme")
    monkeypatch.setattr(redrive, "PASSES", 1)
    begun = app.forget_owner("acme")
    while "batches" not in app.redrive_status(begun.id).course.cursors:
        app.run_duty("redrive")
    late = [app.tasks["send"].options(owner="acme", delay=delay).enqueue().id for delay in ("0s", "1d")]
    done = carried_out(app, begun)
    assert (done.purged, done.because, rows_about(app, "acme")) == (9, None, {})
    assert not {job.id for job in app.jobs().jobs} & set(late)


def test_a_live_job_that_cannot_be_read_does_not_keep_it_from_its_end(app: App) -> None:
    fill(app, "acme")
    damaged = app.tasks["send"].options(owner="acme", delay="1d").enqueue()
    damage(app, damaged.id)
    done = carried_out(app, app.forget_owner("acme"))
    assert (done.state, done.purged) == (RedriveState.DONE, 7)
    assert done.because == "1 job stayed: 1 cannot be read"
    assert rows_about(app, "acme")["jobs"] == 1
    (finished,) = app.stream(types=["redrive.finished"]).events
    assert finished.data["because"] == done.because


def test_jobs_that_keep_coming_do_not_keep_it_from_its_end(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(app, "acme")
    monkeypatch.setattr(forget, "PATIENCE", timedelta(0))
    begun = app.forget_owner("acme")
    late = app.tasks["send"].options(owner="acme", queue="late").enqueue()
    claim = Claim(incarnation="w", number=1, kinds=["send"], queues=["late"], limit=1, lease=HOUR)
    assert len(app.store.claim(claim).leases) == 1
    done = carried_out(app, begun)
    assert (done.purged, done.because) == (7, "1 job stayed: 1 came later")
    assert app.job(late.id).state is State.RUNNING


def test_jobs_enqueued_before_the_clock_was_set_back_are_reported_too(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forget, "PATIENCE", timedelta(0))
    begun = app.forget_owner("acme")
    app.tasks["send"].options(owner="acme", queue="late").enqueue()
    claim = Claim(incarnation="w", number=1, kinds=["send"], queues=["late"], limit=1, lease=HOUR)
    assert len(app.store.claim(claim).leases) == 1
    run(app, "UPDATE mulligan_jobs SET enqueued_at = enqueued_at + 3600000000")
    assert carried_out(app, begun).because == "1 job stayed: 1 came later"


def test_workers_that_know_only_redrives_leave_other_operations_alone(app: App) -> None:
    """They read no verb: for them every operation is a redrive."""
    fill(app, "acme")
    app.forget_owner("acme")
    app.forget_owner("unknown")
    app.bulk("cancel", JobFilter(owner="acme"), owner="acme")
    before = app.store.redrives(is_active=True)
    run(app, "UPDATE mulligan_operations SET verb = 'retry'")
    duty = RunRedrives(app.store, app.tasks, clock=SystemClock(), worker="w")
    assert [redrive.verb for redrive in app.store.redrives(is_active=True)] == ["retry"] * 3
    assert duty.step() == 0
    assert [redrive.course.version for redrive in app.store.redrives(is_active=True)] == [
        redrive.course.version for redrive in before
    ]
    assert rows_about(app, "acme")["jobs"] == 7


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
