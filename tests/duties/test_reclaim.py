"""Reclaim: leases that only look expired, and leases that are."""

import random
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from mulligan.console.stuck import StuckJobs
from mulligan.duties.reclaim import Reclaim
from mulligan.failure.decision import Succeed
from mulligan.failure.error_codes import Catalogue
from mulligan.failure.policy import RetryPolicy
from mulligan.judge import Judge
from mulligan.lifecycle import State
from mulligan.records.job import MAX_LOSSES, ONCE, Job, Lease, NewJob
from mulligan.store.messages import Beat, Claim, Outcome, Settled, WorkerRecord
from mulligan.store.sqlite import SqliteStore
from mulligan.task.registry import Registry
from mulligan.testing.virtual import VirtualClock

LEASE = timedelta(seconds=60)
STUCK = timedelta(minutes=30)
BEAT = 20.0


class Scene:
    """A store and a reclaimer whose clocks can be moved apart."""

    def __init__(self, *, stuck: str = "report") -> None:
        self.theirs, self.ours = VirtualClock(), VirtualClock()
        self.store = SqliteStore("sqlite:///:memory:", now=self.theirs.now, threaded=False)
        judge = Judge(
            Registry(), rules=(), catalogue=Catalogue.default(), default=RetryPolicy(), draw=random.Random(1).random
        )
        jobs = StuckJobs(lambda: self.store, judge, lambda: STUCK)
        self.reclaim = Reclaim(
            self.store,
            judge=judge,
            clock=self.ours,
            incarnation="us",
            interval=1.0,
            beat=BEAT,
            stuck_after=STUCK,
            take_stuck=None if stuck == "report" else partial(jobs.settle, worker="us", requeues=stuck == "requeue"),
        )
        self.claims = 0

    def pass_time(self, seconds: float, *, ours: float | None = None) -> None:
        self.theirs.advance(timedelta(seconds=seconds))
        self.ours.advance(timedelta(seconds=seconds if ours is None else ours))

    def watch(self, seconds: int) -> int:
        """A pass a second; how many leases were taken back."""
        taken = 0
        for _ in range(seconds):
            self.pass_time(1)
            taken += self.reclaim.step()
        return taken

    def run(self, incarnation: str = "other") -> list[Lease]:
        self.claims += 1
        claim = Claim(incarnation=incarnation, number=self.claims, kinds=["k"], limit=10, lease=LEASE)
        leases = self.store.claim(claim).leases
        assert leases
        return leases


@pytest.fixture
def scene() -> Scene:
    scene = Scene()
    scene.store.enqueue([NewJob(id="j", kind="k", arguments="{}")])
    scene.run()
    scene.reclaim.step()
    return scene


def test_a_lease_that_expired_is_taken_back_and_the_job_is_charged_a_loss(scene: Scene) -> None:
    assert scene.watch(60) == 0
    assert scene.watch(1) == 1
    job = scene.store.job("j")
    assert (job.state, job.losses, job.failures) == (State.QUEUED, 1, 0)


def test_a_job_that_runs_at_most_once_fails_when_its_worker_is_lost_also_where_its_kind_is_unknown() -> None:
    scene = Scene()
    scene.store.enqueue([NewJob(id="j", kind="k", arguments="{}", **ONCE)])  # type: ignore[arg-type]
    (lease,) = scene.run()
    assert scene.store.begin(lease.fence)
    assert scene.watch(70) == 1
    job = scene.store.job("j")
    assert (job.state, job.error_code, job.losses, job.attempt) == (State.FAILED, "WORKER_LOST", 1, 1)


def test_a_job_that_runs_at_most_once_and_had_not_begun_is_taken_back_like_any_other() -> None:
    scene = Scene()
    scene.store.enqueue([NewJob(id="j", kind="k", arguments="{}", **ONCE)])  # type: ignore[arg-type]
    scene.run()
    assert scene.watch(70) == 1
    job = scene.store.job("j")
    assert (job.state, job.losses, job.at_most_once) == (State.QUEUED, 1, True)
    (lease,) = scene.run()
    assert scene.store.begin(lease.fence)
    scene.watch(70)
    assert (scene.store.job("j").state, scene.store.job("j").attempt) == (State.FAILED, 2)


def test_a_lease_that_is_extended_stays(scene: Scene) -> None:
    worker = WorkerRecord(incarnation="other", host="h", pid=1, queues=None, kinds=("k",), concurrency=1)
    scene.watch(50)
    (fence,) = [lease.fence for lease in scene.store.adopt("other", before=99, held=[])]
    scene.store.beat(Beat(worker=worker, lease=LEASE, extend=[fence]))
    assert scene.watch(59) == 0


def test_its_own_leases_are_never_taken(scene: Scene) -> None:
    scene.store.enqueue([NewJob(id="own", kind="k", arguments="{}")])
    scene.run("us")
    scene.watch(100)
    assert scene.store.job("own").state is State.RUNNING


@pytest.mark.parametrize(("theirs", "ours"), [(3600.0, 1.0), (3600.0, 3600.0), (1.0, 3600.0)])
def test_after_a_clock_step_an_outage_or_a_pause_a_whole_quiet_beat_comes_first(
    scene: Scene, theirs: float, ours: float
) -> None:
    scene.watch(30)
    scene.pass_time(theirs, ours=ours)
    assert scene.reclaim.step() == 0
    assert scene.watch(19) == 0, "everything looks expired now; live workers must have time for a beat"
    scene.watch(1)
    assert scene.store.job("j").state is (State.QUEUED if theirs > 60 else State.RUNNING)


def test_a_worker_that_is_alive_keeps_its_job_when_the_clock_steps(scene: Scene) -> None:
    worker = WorkerRecord(incarnation="other", host="h", pid=1, queues=None, kinds=("k",), concurrency=1)
    (fence,) = [lease.fence for lease in scene.store.adopt("other", before=99, held=[])]
    scene.watch(30)
    scene.pass_time(3600, ours=1)
    scene.watch(15)
    scene.store.beat(Beat(worker=worker, lease=LEASE, extend=[fence]))
    assert scene.watch(50) == 0


class StoppedAfterTheLook(VirtualClock):
    """The process is stopped between its look at the store's clock and its own, and the store's clock steps."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene

    def monotonic(self) -> float:
        self._scene.theirs.advance(timedelta(minutes=2))
        return self._scene.ours.monotonic()


def test_a_clock_step_during_a_pass_takes_no_lease(scene: Scene) -> None:
    """Found by world 962212595."""
    assert scene.watch(30) == 0
    scene.pass_time(1)
    scene.reclaim.clock = StoppedAfterTheLook(scene)
    assert scene.reclaim.step() == 0
    assert scene.store.job("j").state is State.RUNNING


def test_a_job_that_loses_its_worker_every_time_fails_at_the_limit(scene: Scene) -> None:
    for _ in range(MAX_LOSSES - 1):
        assert scene.watch(62) == 1
        scene.run()
    assert scene.watch(62) == 1
    job = scene.store.job("j")
    assert (job.state, job.error_code, job.losses) == (State.FAILED, "WORKER_LOST", MAX_LOSSES)


def test_a_cancelled_job_whose_worker_died_is_cancelled_by_the_reclaimer(scene: Scene) -> None:
    from mulligan.lifecycle import Move
    from mulligan.store.messages import Request

    scene.store.move(Request(id="r", move=Move.MANUAL_CANCEL, job="j"))
    scene.watch(62)
    assert scene.store.job("j").state is State.CANCELLED


def test_a_damaged_record_does_not_block_the_reclaim_of_other_jobs(scene: Scene) -> None:
    scene.store.enqueue([NewJob(id="healthy", kind="k", arguments="{}")])
    scene.run()
    database = scene.store._database._connection
    database.execute("PRAGMA ignore_check_constraints = 1")
    database.execute("UPDATE mulligan_jobs SET code_failures = 'garbage' WHERE id = 'j'")
    database.execute("PRAGMA ignore_check_constraints = 0")
    scene.watch(65)
    assert scene.store.job("healthy").state is State.QUEUED
    assert scene.store.counts() == {"k": {"failed": 1, "queued": 1}}


def test_a_running_row_without_its_start_is_taken_back_like_any_other(scene: Scene) -> None:
    database = scene.store._database._connection
    database.execute("UPDATE mulligan_jobs SET last_attempt_at = NULL WHERE id = 'j'")
    assert scene.watch(65) == 1
    assert scene.store.job("j").state is State.QUEUED


# Stuck jobs


class Holding:
    """A worker that beats for ever, and whose attempt does not end."""

    def __init__(self, mode: str, **options: object) -> None:
        self.scene = Scene(stuck=mode)
        self.scene.store.enqueue([NewJob(id="j", kind="k", arguments="{}", **options)])  # type: ignore[arg-type]
        (self.lease,) = self.scene.run()
        if self.lease.at_most_once:
            assert self.scene.store.begin(self.lease.fence)

    def extend(self) -> None:
        worker = WorkerRecord(incarnation="other", host="h", pid=1, queues=None, kinds=("k",), concurrency=1)
        self.scene.store.beat(Beat(worker=worker, lease=LEASE, extend=[self.lease.fence]))

    def watch(self, minutes: float) -> int:
        taken = 0
        for _ in range(int(minutes * 6)):
            self.extend()
            taken += self.scene.watch(10)
        return taken

    @property
    def job(self) -> Job[Any]:
        return self.scene.store.job("j")


def test_a_stuck_job_is_only_reported_unless_something_else_is_asked_for() -> None:
    held = Holding("report")
    assert held.watch(40) == 0
    assert held.job.state is State.RUNNING


def test_stuck_process_settles_the_attempt_as_a_counted_timeout() -> None:
    held = Holding("process")
    assert held.watch(29) == 0
    assert held.watch(7) == 1, "every five minutes"
    assert (held.job.state, held.job.failures, held.job.losses, held.job.last_code) == (State.WAITING, 1, 0, "TIMEOUT")


def test_stuck_jobs_are_looked_for_every_five_minutes() -> None:
    held = Holding("process")
    assert held.watch(30) == 0
    held.extend()
    assert held.watch(4) == 0
    held.extend()
    assert held.scene.watch(59) == 0, "299 seconds after a look"
    held.extend()
    assert held.scene.watch(2) == 1, "301 seconds after it"


def test_stuck_requeue_puts_the_job_back_and_spends_no_retry() -> None:
    held = Holding("requeue")
    assert held.watch(29) == 0
    assert held.watch(7) == 1
    job = held.job
    assert (job.state, job.failures, job.losses, job.retry_count) == (State.QUEUED, 0, 1, 0)
    assert job.last_code == "TIMEOUT"
    answers = held.scene.store.settle([Outcome(held.lease, Succeed("1"))])
    assert list(answers) == [Settled.REFUSED], "the lease was taken away"
    assert held.job.state is State.QUEUED


def test_a_job_that_is_stuck_again_and_again_is_not_put_back_for_ever() -> None:
    held = Holding("requeue")
    for _ in range(MAX_LOSSES):
        held.watch(36)
        if held.job.state is State.QUEUED:
            (held.lease,) = held.scene.run()
    assert (held.job.state, held.job.error_code, held.job.failures) == (State.FAILED, "TIMEOUT", 0)


def test_a_stuck_job_that_runs_at_most_once_is_not_run_again() -> None:
    held = Holding("requeue", **ONCE)
    held.watch(36)
    assert (held.job.state, held.job.error_code) == (State.FAILED, "TIMEOUT")


@pytest.mark.parametrize("mode", ["process", "requeue"])
def test_a_job_with_a_longer_timeout_is_not_stuck_before_that(mode: str) -> None:
    held = Holding(mode, timeout=timedelta(hours=1))
    assert held.watch(55) == 0
    assert held.watch(11) == 1


def test_after_an_outage_stuck_jobs_are_taken_only_after_a_quiet_beat() -> None:
    held = Holding("requeue")
    held.scene.reclaim.step()
    held.scene.pass_time(3600)
    assert held.scene.reclaim.step() == 0
    assert held.job.state is State.RUNNING
    assert held.scene.watch(30) >= 1
