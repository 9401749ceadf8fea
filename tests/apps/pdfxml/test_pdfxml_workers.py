"""Workers and gateways that are stopped, killed and slow, as real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from pdfxml_files import unique_pdf
from pdfxml_world import MODULES, STARTS, World

from live import eventually

MakeWorld = Callable[..., Any]
MINUTE = timedelta(minutes=1)


def log_of(world: World) -> Path:
    return world.converter.settings.results.with_name("worker.log")


@contextmanager
def worker_process(world: World, **variables: str) -> Iterator["subprocess.Popen[bytes]"]:
    """`mulligan worker` beside the site."""
    settings = world.converter.settings
    environment = os.environ | {
        "PYTHONPATH": MODULES,
        "DATABASE_URL": settings.database_url,
        "GATEWAY_URL": settings.gateway_url,
        "GATEWAY_TIMEOUT_MS": str(round(settings.gateway_timeout.total_seconds() * 1000)),
        "UPLOADS_DIR": str(settings.uploads),
        "RESULTS_DIR": str(settings.results),
        "WORKER_LEASE_TTL_SEC": "1",
        **variables,
    }
    command = [sys.executable, "-m", "mulligan", "worker", "apps.pdfxml.worker:app"]
    with log_of(world).open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            eventually(lambda: process.pid in {each.pid for each in world.app.workers()}, STARTS)
            yield process
        finally:
            process.kill()


def test_p2_a_sigterm_lets_the_conversion_finish(make_world: MakeWorld) -> None:
    with make_world(gateway_timeout=MINUTE) as world, worker_process(world) as worker:
        person = world.person()
        world.gateway.fail("wait")
        job = person.uploaded()
        eventually(lambda: world.gateway.met == 1)
        worker.send_signal(signal.SIGTERM)
        eventually(lambda: "stopping: 1 jobs in flight" in log_of(world).read_text())
        second = person.uploaded(unique_pdf(1))
        world.gateway.heal()
        assert worker.wait(timeout=30) == 0
        assert person.job(job)["status"] == "complete"
        assert person.job(second)["status"] == "queued"
        assert world.app.job(job).attempt == 1


def test_p2_what_cannot_finish_is_put_back_and_uses_no_attempt(make_world: MakeWorld) -> None:
    with make_world(gateway_timeout=MINUTE) as world:
        person = world.person()
        with worker_process(world) as worker:
            world.gateway.fail("hang")
            job = person.uploaded()
            eventually(lambda: world.gateway.met == 1)
            worker.send_signal(signal.SIGTERM)
            # The second signal does not wait.
            eventually(lambda: _signal_again(worker, person, job))
        world.gateway.heal()
        found = world.app.job(job)
        assert (found.state, found.leased_by, found.failures) == ("queued", None, 0)
        with world.working():
            person.wait(job, "complete")


def _signal_again(worker: "subprocess.Popen[bytes]", person: Any, job: str) -> bool:
    if worker.poll() is None:
        worker.send_signal(signal.SIGTERM)
    return bool(person.job(job)["status"] == "queued")


def test_p2_the_lease_of_a_long_conversion_is_extended(make_world: MakeWorld) -> None:
    with make_world(gateway_timeout=MINUTE) as world, worker_process(world):
        person = world.person()
        world.gateway.fail("wait")
        job = person.uploaded()
        eventually(lambda: world.gateway.met == 1)
        first = world.app.job(job).lease_until
        assert first is not None
        # Twice as long as a lease.
        eventually(lambda: (world.app.job(job).lease_until or first) > first + timedelta(seconds=2))
        world.gateway.heal()
        assert person.wait(job, "complete")["attempt_count"] == 1


def test_p6_a_killed_gateway_is_waited_for(make_world: MakeWorld) -> None:
    """Killed while it converts, and started again later: every job completes, and none used up its attempts."""
    with make_world(circuit_window=4, max_attempts=20, gateway_timeout=MINUTE) as world, world.working(concurrency=4):
        person = world.person()
        world.gateway.fail("wait")
        jobs = [person.uploaded(unique_pdf(number)) for number in range(10)]
        eventually(lambda: world.gateway.met >= 4)
        world.gateway.kill()
        eventually(lambda: person.client.get("/api/jobs").json()["converter"] == "busy")
        eventually(lambda: any(job["is_held"] for job in person.jobs()))
        assert "Converter busy — jobs will resume automatically." in person.client.get("/").text
        world.gateway.start()
        for job in jobs:
            person.wait(job, "complete")
        assert sum(world.app.job(job).failures for job in jobs) <= 4
        assert "Converter busy" not in person.client.get("/").text
