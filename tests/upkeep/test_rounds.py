"""Duties as workers do them: not while paused, noted now and then, bounded."""

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from live import eventually, working
from mulligan import App, Service
from mulligan.job import NewJob
from mulligan.pause import Pause, PauseRequest
from mulligan.store.protocols import Claim
from mulligan.store.sqlite import SqliteStore
from mulligan.testing.virtual import VirtualClock
from mulligan.upkeep.rounds import NOTE_SECONDS, Rounds, Switches, whole_passes


class Sweeping:
    name, interval, limit = "expire", 1.0, 5

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> int:
        self.steps += 1
        return 2


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = SqliteStore("sqlite:///:memory:", now=self.clock.now, threaded=False)
        self.work = Sweeping()
        switches = Switches(self.store, self.clock)
        self.rounds = Rounds(self.work, store=self.store, switches=switches, clock=self.clock, worker="us")

    def step(self, times: int = 1) -> None:
        for _ in range(times):
            self.rounds.step()
            self.clock.advance(timedelta(seconds=1))


def test_a_paused_duty_is_not_done_and_goes_on_by_itself() -> None:
    scene = Scene()
    scene.store.pause(PauseRequest(id="p", what="duty", name="expire", duration=timedelta(seconds=3)))
    scene.step(3)
    assert (scene.work.steps, scene.store.rounds()) == (0, [])
    scene.step()
    assert scene.work.steps == 1


def test_one_reading_of_the_pauses_serves_all_duties_for_less_than_a_second() -> None:
    scene, read = Scene(), []

    class Reading(SqliteStore):
        def pauses(self) -> list[Pause]:
            read.append(scene.clock.monotonic())
            return super().pauses()

    switches = Switches(Reading("sqlite:///:memory:", now=scene.clock.now, threaded=False), scene.clock)
    for _ in range(4):
        assert [switches.is_paused(name) for name in ("expire", "reclaim", "prune")] == [False] * 3
        scene.clock.advance(timedelta(seconds=0.5))
    assert len(read) == 2


def test_rounds_are_noted_at_first_and_then_now_and_then_with_all_they_did() -> None:
    scene = Scene()
    scene.step()
    (first,) = scene.store.rounds()
    assert (first.did, first.worker, first.limit) == (2, "us", 5)
    scene.step(int(NOTE_SECONDS) - 1)
    assert scene.store.rounds() == [first], "not each second"
    scene.step()
    (later,) = scene.store.rounds()
    assert later.did == 2 * NOTE_SECONDS


@pytest.mark.parametrize(("moved", "passes", "total"), [([5, 5, 2], 10, 12), ([5, 5, 5], 3, 15), ([0], 3, 0)])
def test_passes_go_on_while_they_are_full_and_not_for_ever(moved: list[int], passes: int, total: int) -> None:
    left = list(moved)
    assert whole_passes(lambda _limit: left.pop(0), limit=5, passes=passes) == total
    assert left == []


def test_a_worker_does_every_duty_and_the_list_says_so(tmp_path: Path) -> None:
    app = App(f"sqlite:///{tmp_path}/jobs.db", services=[Service("gateway", probe=lambda: True)])

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
    with caplog.at_level(logging.WARNING, "mulligan.upkeep"):
        scene.reclaim.step()
        scene.pass_time(1_700)
        scene.reclaim.step()
        assert caplog.messages == []
        scene.pass_time(301)
        scene.reclaim.step()
        scene.pass_time(1)
        scene.reclaim.step()
    (said,) = caplog.messages
    assert said.startswith("1 jobs are stuck, running for longer than 30m (j); see: mulligan jobs stuck")
    assert scene.store.job("j").leased_by == "other"
