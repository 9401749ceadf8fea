"""What the chaos holds at random, once more in order: one fault, one job, on both stores."""

import contextlib
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from chaos.ledger import Run, runs
from chaos.workers import CONCURRENCY, Life, Workers, environment
from live import eventually
from mulligan.lifecycle import State
from mulligan.records.event import Event
from mulligan.records.job import MAX_LOSSES, Job, JobFilter, NewJob
from mulligan.store import open_store
from mulligan.store.sqlite.lock import FileLock
from mulligan.store.store import Store

LEASE = 1.0


class Scene:
    """A store, a ledger, and workers started one by one."""

    def __init__(self, folder: Path, url: str, store: Store) -> None:
        self._file = None if url.startswith("postgresql") else folder / "jobs.db"
        self._ledger = folder / "ledger"
        self.store = store
        self.workers = Workers(0, environment(url, lease=LEASE, ledger=self._ledger), folder / "log")

    def enqueue(self, kind: str, number: int = 1, **arguments: int) -> str:
        job = NewJob(id=f"{kind}-{number}", kind=kind, arguments=json.dumps({"number": number, **arguments}))
        return self.store.enqueue([job])[0].id

    def runs(self) -> list[Run]:
        return runs(self._ledger)

    def run_of(self, job: str, attempt: int) -> Run:
        """Wait for this attempt to begin."""

        def found() -> list[Run]:
            return [run for run in self.runs() if (run.job, run.attempt) == (job, attempt)]

        eventually(found, 60.0)
        return found()[0]

    def runner_of(self, run: Run) -> Life:
        """The worker's own process, whatever process the code ran in."""

        def found() -> list[int]:
            return [record.pid for record in self.store.workers() if record.incarnation == run.worker]

        # It may claim before its first beat.
        eventually(found, 60.0)
        (pid,) = found()
        (life,) = (life for life in self.workers.lives if life.pid == pid)
        return life

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """No process writes the file meanwhile: a process that is frozen while it holds the lock blocks all others. One
        that waits for the lock gives up its place when it stops."""
        if self._file is None:
            yield
            return
        with contextlib.closing(FileLock(self._file)) as lock, lock.hold(60.0):
            yield

    def events(self, job: str, kind: str) -> list[Event]:
        return [event for event in self.store.events(job=job) if event.type == kind]

    def over(self, job: str) -> Job[Any]:
        eventually(lambda: self.store.job(job).state.is_final, 60.0)
        return self.store.job(job)


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/jobs.db"
    else:
        url = request.getfixturevalue("chaos_server").fresh_database("one_by_one")
    store = open_store(url)
    store.migrate()
    with contextlib.closing(store):
        scene = Scene(tmp_path, url, store)
        with contextlib.closing(scene.workers):
            yield scene


def test_the_late_result_of_a_frozen_worker_is_refused_and_recorded(scene: Scene) -> None:
    scene.workers.add()
    job = scene.enqueue("stubborn", milliseconds=1_000)
    first = scene.run_of(job, 1)
    with scene.lock():
        frozen = scene.workers.freeze(0)
    scene.workers.add()
    second = scene.run_of(job, 2)
    assert second.worker != first.worker
    scene.workers.thaw(frozen)
    eventually(lambda: scene.events(job, "job.refused"), 60.0)
    assert (scene.over(job).state, scene.over(job).result, scene.over(job).attempt) == (State.SUCCEEDED, 1, 2)
    (refused,), (succeeded,) = scene.events(job, "job.refused"), scene.events(job, "job.succeeded")
    assert (refused.attempt, refused.data["worker"]) == (1, first.worker)
    assert (succeeded.attempt, succeeded.data["worker"]) == (2, second.worker)
    (released,) = scene.events(job, "job.released")
    assert released.code == "WORKER_LOST"
    assert scene.over(job).failures == 0
    assert scene.workers.end() == [0, 0]


def test_a_job_whose_worker_is_killed_each_time_fails_at_the_tenth_loss(scene: Scene) -> None:
    for _ in range(3):
        scene.workers.add()
    job = scene.enqueue("slow", milliseconds=60_000)
    for attempt in range(1, MAX_LOSSES + 1):
        life = scene.runner_of(scene.run_of(job, attempt))
        if life.killed is None:
            scene.workers.kill(scene.workers.pids.index(life.pid))
    ended = scene.over(job)
    assert (ended.state, ended.error_code, ended.attempt) == (State.FAILED, "WORKER_LOST", MAX_LOSSES)
    assert (ended.losses, ended.failures, ended.crashes) == (MAX_LOSSES, 0, 0)
    assert len(scene.events(job, "job.released")) == MAX_LOSSES - 1
    assert len(scene.events(job, "job.failed")) == 1


def test_what_a_killed_worker_held_is_claimed_again_within_its_lease_and_two_seconds(scene: Scene) -> None:
    """All by the store's own times: the end of the lease stands in the row, the next claim in the log."""
    lease = {"MULLIGAN_WORKER_LEASE_TTL_SEC": "3"}
    scene.workers.add(**lease)
    jobs = [scene.enqueue("slow", number, milliseconds=60_000) for number in range(CONCURRENCY)]
    (holder,) = {scene.run_of(job, 1).worker for job in jobs}
    scene.workers.add(**lease)
    # It has looked for lost leases once, so that its quiet beat is over before the leases are.
    eventually(lambda: any(done.duty == "reclaim" and done.worker != holder for done in scene.store.duty_runs()), 60.0)
    scene.workers.lives[0].process.kill()
    killed = scene.store.now()
    ends = {job.id: job.lease_until for job in scene.store.jobs(JobFilter(state="running")).jobs}
    assert sorted(ends) == sorted(jobs)
    eventually(lambda: all(len(scene.events(job, "job.started")) == 2 for job in jobs), 60.0)
    for job, end in ends.items():
        again = scene.events(job, "job.started")[1]
        assert end is not None and end <= killed + timedelta(seconds=3)
        assert end < again.at <= end + timedelta(seconds=2)
        assert again.data["worker"] != holder


def test_workers_of_two_hosts_share_a_queue(scene: Scene) -> None:
    for host in ("alpha", "beta"):
        scene.workers.add(CHAOS_HOST=host)
    eventually(lambda: len(scene.store.workers()) == 2, 60.0)
    hosts = {record.incarnation: record.host for record in scene.store.workers()}
    jobs: list[str] = []

    def have_shared() -> bool:
        jobs.append(scene.enqueue("slow", len(jobs), milliseconds=50))
        return {hosts[run.worker] for run in scene.runs()} == {"alpha", "beta"}

    eventually(have_shared, 60.0)
    assert {scene.over(job).state for job in jobs} == {State.SUCCEEDED}
    assert len(scene.runs()) == len(jobs), "each by one of them"
