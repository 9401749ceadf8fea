"""Duties as workers run them: not while paused, recorded every ten seconds, bounded."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from live import eventually, working
from mulligan import App, Service
from mulligan.duties.runner import RECORD_SECONDS, DutyRunner, PendingDuties, RunRecorder, repeat_while_full
from mulligan.errors import StoreUnavailable
from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.job import NewJob
from mulligan.records.pause import PauseRequest
from mulligan.settings import Settings
from mulligan.store.messages import Claim
from mulligan.store.sqlite import SqliteStore
from mulligan.testing.virtual import VirtualClock


class Sweeping:
    interval, limit = 1.0, 5

    def __init__(self, name: str = "prune") -> None:
        self.name = name
        self.steps = 0

    def step(self) -> int:
        self.steps += 1
        return 2


class Counting(SqliteStore):
    """Counts reads and writes."""

    looks = notes = 0

    def duty_overview(self) -> DutyOverview:
        self.looks += 1
        return super().duty_overview()

    def record_runs(self, runs: Sequence[DutyRun]) -> None:
        self.notes += 1
        super().record_runs(runs)


class Scene:
    def __init__(self, *names: str) -> None:
        self.clock = VirtualClock()
        self.store = Counting("sqlite:///:memory:", now=self.clock.now, threaded=False)
        self.works = [Sweeping(name) for name in names or ("prune",)]
        self.work = self.works[0]
        pending, recorder = PendingDuties(self.store, self.clock), RunRecorder(self.store, worker="us")
        self.runners = [DutyRunner(work, pending=pending, recorder=recorder, clock=self.clock) for work in self.works]

    def step(self, times: int = 1, seconds: float = 1) -> None:
        for _ in range(times):
            for runner in self.runners:
                runner.step()
            self.clock.advance(timedelta(seconds=seconds))


def test_a_paused_duty_does_not_run_until_the_pause_ends() -> None:
    scene = Scene()
    scene.store.pause(PauseRequest(id="p", what="duty", name="prune", duration=timedelta(seconds=3)))
    scene.step(3)
    assert (scene.work.steps, scene.store.duty_runs()) == (0, [])
    scene.step()
    assert scene.work.steps == 1


def test_one_read_serves_all_duties_for_less_than_a_second() -> None:
    scene = Scene("reclaim", "retry", "prune")
    scene.step(4, seconds=0.5)
    assert (scene.store.looks, [work.steps for work in scene.works]) == (2, [4, 4, 4])


def test_a_duty_with_nothing_to_do_does_not_query_the_store() -> None:
    scene = Scene("expire")
    scene.step(3)
    assert scene.work.steps == 0
    assert [done.did for done in scene.store.duty_runs()] == [0]
    scene.store.enqueue([NewJob(id="late", kind="k", arguments="{}", deadline=timedelta(seconds=1))])
    scene.step(3)
    assert scene.work.steps > 0


def test_runs_of_all_duties_are_recorded_together_soon_and_then_every_ten_seconds() -> None:
    scene = Scene("retry", "prune")
    scene.step(2)
    noted = {done.duty: done for done in scene.store.duty_runs()}
    # The second run of the first duty records the first runs of both.
    assert {name: (done.did, done.worker, done.limit) for name, done in noted.items()} == {
        "retry": (4, "us", 5),
        "prune": (2, "us", 5),
    }
    assert noted["retry"].at - noted["prune"].at == timedelta(seconds=1)
    assert scene.store.notes == 1
    scene.step(int(RECORD_SECONDS) - 1)
    assert scene.store.notes == 1, "not every second"
    scene.step()
    assert scene.store.notes == 2
    assert {done.duty: done.did for done in scene.store.duty_runs()} == {
        "retry": 2 * RECORD_SECONDS,
        "prune": 2 * RECORD_SECONDS,
    }


def test_runs_that_could_not_be_recorded_are_recorded_later() -> None:
    scene = Scene()
    scene.step()
    with pytest.MonkeyPatch.context() as patched, pytest.raises(StoreUnavailable):
        patched.setattr(SqliteStore, "record_runs", _unavailable)
        scene.step()
    assert scene.store.duty_runs() == []
    scene.clock.advance(timedelta(seconds=RECORD_SECONDS))
    scene.step()
    assert [done.did for done in scene.store.duty_runs()] == [6]


def _unavailable(*_: object) -> None:
    raise StoreUnavailable("not now")


@pytest.mark.parametrize(("moved", "passes", "total"), [([5, 5, 2], 10, 12), ([5, 5, 5], 3, 15), ([0], 3, 0)])
def test_passes_repeat_while_they_are_full_up_to_a_bound(moved: list[int], passes: int, total: int) -> None:
    left = list(moved)
    assert repeat_while_full(lambda _limit: left.pop(0), limit=5, passes=passes) == total
    assert left == []


def test_a_worker_runs_every_duty_and_the_list_shows_it(tmp_path: Path) -> None:
    soon = timedelta(seconds=1)
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/jobs.db",
        duty_retry_interval=soon,
        duty_promote_interval=soon,
        duty_prune_interval=soon,
    )
    app = App(settings=settings, services=[Service("gateway", probe=lambda: True)])

    @app.cron("0 3 * * *")
    @app.task
    def plain() -> None: ...

    with working(app):
        eventually(lambda: all(duty.last for duty in app.duties()))
        assert {duty.workers for duty in app.duties()} == {1}
        assert all(duty.next is not None for duty in app.duties())
    app.close()


def test_stuck_jobs_are_reported_but_left_with_their_worker(app: App, caplog: pytest.LogCaptureFixture) -> None:
    from test_reclaim import Scene as Reclaiming

    scene = Reclaiming()
    scene.store.enqueue([NewJob(id="j", kind="k", arguments="{}")])
    scene.store.claim(Claim(incarnation="other", number=1, kinds=["k"], limit=1, lease=timedelta(days=9)))
    with caplog.at_level(logging.WARNING, "mulligan.duties"):
        scene.reclaim.step()
        scene.pass_time(1_700)
        scene.reclaim.step()
        assert caplog.messages == []
        scene.pass_time(301)
        scene.reclaim.step()
        scene.pass_time(1)
        scene.reclaim.step()
    (said,) = caplog.messages
    assert said.startswith("1 jobs are stuck: they have been running for longer than 30m (j); see: mulligan jobs stuck")
    assert scene.store.job("j").leased_by == "other"
