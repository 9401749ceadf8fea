"""Killed notifiers, racing notifiers, and receivers that drop connections: nothing is lost or told twice."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from dropping_receiver import dropping
from mail_sink import Accepted, mail_server
from notify_world import convert

from live import eventually, working
from mulligan import App, RetryPolicy
from mulligan.failure.backoff import Fixed
from mulligan.notify import sending
from mulligan.notify.smtp_server import parse_smtp_url
from mulligan.records.job import Job
from mulligan.settings import Settings

HERE = Path(__file__).parent
JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
# The rule is the same for 10,000.
IS_SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
NUMBER, PATIENCE = (10_000, 900.0) if IS_SOAK else (300, 60.0)
# Longer than it takes to read the log: a digest that is due before that is followed by another.
DIGEST = "30s" if IS_SOAK else "1s"
NOTIFIERS = ("notify", "digest")
NOTICEABLE = timedelta(milliseconds=100)


def failed_jobs(app: App, number: int) -> list[Job[Any]]:
    """The worker that fails them notifies of none of them."""
    task = app.task("convert")(convert)
    for duty in NOTIFIERS:
        app.pause(duty=duty)
    jobs = app.enqueue_many([task.bind("not a PDF") for _ in range(number)])
    app.run_until_idle(timeout="10m")
    for duty in NOTIFIERS:
        app.resume(duty=duty)
    return jobs


def named(mails: list[Accepted]) -> Counter[str]:
    """How many different mails name each job. A mail that arrives twice has the same Message-ID."""
    by_id: dict[str, set[str]] = {}
    for mail in mails:
        message = mail.message
        body = message.get_body(("plain",))
        assert body is not None
        parts = [body.get_content(), *(part.get_content() for part in message.iter_attachments())]
        by_id.setdefault(message["Message-ID"], set()).update(JOB_ID.findall("\n".join(parts)))
    return Counter(job for jobs in by_id.values() for job in jobs)


@pytest.mark.parametrize(
    "place", ["before telling", "after telling", "before sending", "after closing", "before sending a digest"]
)
def test_a_notifier_that_is_killed_loses_nothing_and_tells_each_job_in_one_mail(url: str, place: str) -> None:
    with mail_server() as server:
        smtp = parse_smtp_url(f"smtp://127.0.0.1:{server.port}?from=jobs@example.org&tls=off")
        settings = Settings(database_url=url, smtp_url=smtp, worker_lease_ttl=timedelta(seconds=1))
        with App(settings=settings) as app:
            app.migrate()
            app.subscribe("all", types=["job.failed"], channel="email", to="ops@example.org", digest=DIGEST)
            jobs = failed_jobs(app, NUMBER)
            died = _run_notifier(url, server.port, place)
            assert died == -signal.SIGKILL
            with working(app):
                eventually(lambda: set(named(server.accepted)) >= {job.id for job in jobs}, PATIENCE)
                eventually(lambda: not app.deliveries(state="pending"), PATIENCE)
        assert named(server.accepted) == {job.id: 1 for job in jobs}
        mails = [str(mail.message["Subject"]).strip() for mail in server.accepted]
        print(f"{place}: {NUMBER:,} failures, {len(mails)} mails: {mails}")
        # One at once and one digest; a digest that is closed while events are still read is followed by another.
        assert len({mail.message["Message-ID"] for mail in server.accepted}) <= 3


def _run_notifier(url: str, port: int, place: str) -> int:
    places = os.pathsep.join(each for each in sys.path if each)
    command = [sys.executable, str(HERE / "notifier_process.py"), url, str(port), place]
    # The first run after the pause finds that a digest is due.
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        done = subprocess.run(command, env=os.environ | {"PYTHONPATH": places}, capture_output=True, timeout=120)
        if done.returncode:
            return done.returncode
    return 0


def test_workers_of_two_processes_tell_each_event_once(url: str) -> None:
    with dropping(0) as receiver:
        settings = _webhook_settings(url, receiver.port)
        with App(settings=settings) as app, App(settings=settings) as other:
            app.migrate()
            _subscribe(app, receiver.port)
            for each in (app, other):
                each.task("convert")(convert)
            task = app.tasks["convert"]
            with working(app), working(other):
                jobs = app.enqueue_many([task.bind("not a PDF") for _ in range(100)])
                eventually(lambda: len(receiver.bodies) >= len(jobs), 60)
                eventually(lambda: not app.deliveries(state="pending"), 60)
            assert _jobs_told(receiver.bodies) == {job.id: 1 for job in jobs}
            assert set(receiver.times.values()) == {1}


def test_a_receiver_that_drops_connections_gets_exactly_the_events_by_their_ids(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "POLICY", RetryPolicy(max_attempts=10, backoff=Fixed(NOTICEABLE)))
    with dropping(2) as receiver:
        with App(settings=_webhook_settings(url, receiver.port)) as app:
            app.migrate()
            _subscribe(app, receiver.port)
            jobs = failed_jobs(app, 5)
            with working(app):
                eventually(lambda: len(app.deliveries(state="delivered")) == len(jobs), 60)
        assert _jobs_told(receiver.bodies) == {job.id: 1 for job in jobs}
        # The same bytes each time.
        assert all(len(bodies) == 1 for bodies in receiver.bodies.values())
        assert set(receiver.times.values()) == {3}


def _webhook_settings(url: str, port: int) -> Settings:
    return Settings(
        database_url=url,
        webhook_ports=(port,),
        webhook_allowed_networks=(ip_network("127.0.0.0/8"),),
        duty_notify_interval=NOTICEABLE,
        # Not the breaker is tested here.
        circuit_fail_threshold=1.0,
        circuit_window=500,
    )


def _subscribe(app: App, port: int) -> None:
    app.subscribe("hook", types=["job.failed"], channel="webhook", to=f"http://127.0.0.1:{port}/")


def _jobs_told(bodies: dict[str, set[bytes]]) -> Counter[str]:
    return Counter(json.loads(next(iter(each)))["data"]["job"] for each in bodies.values())
