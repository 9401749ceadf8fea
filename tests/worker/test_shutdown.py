"""However a worker is stopped: each job is settled once, or released with nothing counted."""

import asyncio
import contextlib
import fcntl
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import isolated_tasks
import pytest
import shutdown_tasks

from chaos.fork_server import WORKER, ForkServer
from live import SOON, eventually, working
from mulligan import App, RetryPolicy, State
from mulligan.errors import WornOut

KINDS = ("on_the_loop", "in_a_thread", "in_a_child")


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}


@contextlib.contextmanager
def worker_of(app: str, folder: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """A real `mulligan worker` in its own session, as in a terminal."""
    command = [sys.executable, "-m", "mulligan", "worker", app, *options]
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def written(path: Path) -> str:
    eventually(lambda: path.exists() and path.read_text())
    return path.read_text()


def is_alive(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    return False


# At any moment


@pytest.fixture
def fork_server(tmp_path: Path) -> Iterator[ForkServer]:
    fork_server = ForkServer(environment(), tmp_path / "log")
    yield fork_server
    fork_server.close()


def stop_at_random(seed: int, folder: Path, fork_server: ForkServer) -> Counter[str]:
    """Counts jobs by how they were left. Every second worker is stopped twice and has jobs that take too long. In half
    of the workers children start slowly."""
    chance = random.Random(seed)
    is_told_twice, has_quick_children = seed % 2 == 1, seed % 4 < 2
    folder.mkdir()
    with App(f"sqlite:///{folder}/jobs.db") as app:
        kinds = [app.task(kind)(getattr(shutdown_tasks, kind).function) for kind in KINDS]
        seconds = [chance.uniform(0, 0.05) for _ in range(30)] + [60.0, 60.0, 60.0] * is_told_twice
        chance.shuffle(seconds)
        jobs = app.enqueue_many([chance.choice(kinds).bind(each) for each in seconds])
        command = ["worker", "shutdown_tasks:app", "--concurrency", "2"]
        module = WORKER if has_quick_children else "shutdown_tasks"
        worker = fork_server.start(module, command, environment(), folder / "log")
        try:
            written(folder / "notes")
            time.sleep(chance.uniform(0, 0.4))
            worker.send_signal(signal.SIGTERM)
            if is_told_twice:
                time.sleep(chance.uniform(0, 0.1))
                worker.send_signal(signal.SIGTERM)
            assert worker.wait(SOON) == 0, (folder / "log").read_text()
        finally:
            worker.kill()
        left = Counter(_how_it_was_left(app, job.id, folder) for job in jobs)
        assert app.workers() == []
    return left


def _how_it_was_left(app: App, job_id: str, folder: Path) -> str:
    job = app.job(job_id)
    types = [event.type for event in app.events(job_id)]
    assert (job.failures, job.crashes, job.losses) == (0, 0, 0), types
    notes = [line.split()[0] for line in (folder / "notes").read_text().splitlines() if job_id in line]
    if job.state is State.SUCCEEDED:
        assert types == ["job.enqueued", "job.started", "job.succeeded"]
        assert notes == ["began", "ended"]
        return "succeeded"
    assert job.state is State.QUEUED
    assert types[1:] in ([], ["job.started", "job.released"])
    assert "ended" not in notes, "a finished job is settled, not released"
    return "released" if types[1:] else "untouched"


def test_a_worker_told_to_stop_at_any_instant_settles_or_releases_every_job(
    tmp_path: Path, fork_server: ForkServer
) -> None:
    with ThreadPoolExecutor(3) as pool:
        left = sum(pool.map(lambda seed: stop_at_random(seed, tmp_path / str(seed), fork_server), range(30)), Counter())
    assert min(left[how] for how in ("succeeded", "released", "untouched")) > 10, left


def test_signal_handlers_are_restored_after_a_worker_has_run(tmp_path: Path) -> None:
    told: list[int] = []
    app = App(f"sqlite:///{tmp_path}/jobs.db")

    @app.task
    def stop() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    def again(*_: object) -> None:
        told.append(1)

    before = signal.signal(signal.SIGTERM, again)
    try:
        stop.enqueue()
        app.run()
        assert signal.getsignal(signal.SIGTERM) is again
        os.kill(os.getpid(), signal.SIGTERM)
        assert told == [1]
    finally:
        signal.signal(signal.SIGTERM, before)
        app.close()


# By signals


def test_an_interrupt_at_the_terminal_lets_a_job_in_a_child_finish(tmp_path: Path) -> None:
    with isolated_tasks.app as app:
        job = isolated_tasks.finishes_soon.enqueue()
        with worker_of("isolated_tasks:app", tmp_path) as worker:
            child = int(written(tmp_path / "started"))
            assert os.getsid(child) == child, "no signal of the terminal reaches it"
            os.killpg(worker.pid, signal.SIGINT)
            # A service manager sends its signals to every process of the service.
            os.kill(child, signal.SIGTERM)
            os.kill(child, signal.SIGINT)
            assert worker.stderr is not None
            assert "stopping: 1 jobs in flight may finish" in worker.stderr.readline()
            assert is_alive(child)
            (tmp_path / "finish").touch()
            worker.communicate(timeout=SOON)
        assert worker.returncode == 0
        assert app.wait(job) == "finished"
        assert not is_alive(child)


def test_a_job_in_a_child_is_released_by_a_second_signal(tmp_path: Path) -> None:
    with isolated_tasks.app as app:
        job = isolated_tasks.stubborn_in_c.enqueue()
        with worker_of("isolated_tasks:app", tmp_path) as worker:
            child = int(written(tmp_path / "started"))
            worker.terminate()
            assert worker.stderr is not None
            assert "stopping" in worker.stderr.readline()
            worker.terminate()
            worker.communicate(timeout=SOON)
        assert worker.returncode == 0
        found = app.job(job.id)
        assert (found.state, found.failures, found.crashes, found.losses) == (State.QUEUED, 0, 0, 0)
        assert not is_alive(child)


# Without a store


@pytest.mark.parametrize("times", [1, 2])
def test_a_worker_without_its_store_ends_and_so_do_its_children(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr("mulligan.worker.slots.GRACE_SECONDS", 0.3)
    monkeypatch.setattr("mulligan.worker.worker.GRACE_SECONDS", 0.3)
    monkeypatch.setattr("mulligan.worker.worker.PATIENCE_SECONDS", 0.3)
    with isolated_tasks.app as app:
        isolated_tasks.stubborn_in_c.enqueue()

        async def scene(lock: Any) -> int:
            worker = app.wiring.build_worker(1)
            worker._options = replace(worker._options, drain=timedelta(seconds=0.3))
            running = asyncio.create_task(worker.run())
            child = int(await asyncio.to_thread(written, tmp_path / "started"))
            fcntl.flock(lock, fcntl.LOCK_EX)
            for _ in range(times):
                worker.stop()
            async with asyncio.timeout(SOON):
                await running
            return child

        with (tmp_path / "jobs.db-lock").open() as lock:
            child = asyncio.run(scene(lock))
            assert not is_alive(child)


# Code that does not stop


def test_a_worker_that_lost_half_of_its_slots_drains_and_exits_with_a_message(tmp_path: Path) -> None:
    with shutdown_tasks.app as app:
        stubborn = [shutdown_tasks.stubborn_thread.enqueue(), shutdown_tasks.stubborn_coroutine.enqueue()]
        patient = shutdown_tasks.waits_for_a_word.enqueue()
        with worker_of("shutdown_tasks:app", tmp_path, "--concurrency", "4") as worker:
            assert worker.stderr is not None
            for line in worker.stderr:
                if "stopping:" in line:
                    break
            later = shutdown_tasks.on_the_loop.enqueue(0.0)
            (tmp_path / "finish").touch()
            _, said = worker.communicate(timeout=SOON)
        assert worker.returncode == 5
        assert said.splitlines()[-1].startswith("Error: 2 of 4 slots are held by code that does not stop (tasks 'stub")
        assert [app.job(job.id).error_code for job in stubborn] == ["TIMEOUT", "TIMEOUT"]
        assert app.wait(patient) == "finished", "running jobs may finish"
        assert app.job(later.id).state is State.QUEUED, "no new job was started"


@pytest.mark.parametrize("how", ["thread", "coroutine"])
def test_code_that_ends_late_frees_its_slot_again(app: App, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr("mulligan.worker.slots.GRACE_SECONDS", 0.1)
    release, together = threading.Event(), threading.Barrier(3)

    @app.task(timeout="100ms", retry=RetryPolicy(1))
    def thread() -> None:
        while not release.is_set():
            with contextlib.suppress(BaseException):
                release.wait(0.01)

    @app.task(timeout="100ms", retry=RetryPolicy(1))
    async def coroutine() -> None:
        while not release.is_set():
            with contextlib.suppress(BaseException):
                await asyncio.sleep(0.01)

    @app.task
    def meet() -> int:
        return together.wait(SOON)

    with working(app, concurrency=3):
        job = (thread if how == "thread" else coroutine).enqueue()
        eventually(lambda: app.job(job.id).error_code == "TIMEOUT")
        release.set()
        met = app.enqueue_many([meet.bind()] * 3)
        assert sorted(app.wait(each, timeout=SOON) for each in met) == [0, 1, 2]


def test_a_worker_of_one_slot_ends_when_it_is_lost(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mulligan.worker.slots.GRACE_SECONDS", 0.1)
    release = threading.Event()

    @app.task(timeout="100ms", retry=RetryPolicy(1))
    def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(BaseException):
                release.wait(0.01)

    job = stubborn.enqueue()
    with pytest.raises(WornOut, match="1 of 1 slots"):
        app.run_until_idle(concurrency=1, timeout="60s")
    release.set()
    assert app.job(job.id).error_code == "TIMEOUT"
