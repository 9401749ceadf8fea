"""Schedules as workers run them: one job a tick, missed ticks, pauses, and two versions of an app at once."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan import App, JobFilter
from mulligan.duties.schedule import RunSchedules
from mulligan.errors import StoreUnavailable
from mulligan.records.pause import PauseRequest
from mulligan.records.schedule import SEEN_EVERY, UNSEEN_AFTER, job_id_of
from mulligan.store.sqlite import SqliteStore
from mulligan.task.schedule import Timetable
from mulligan.testing.virtual import VirtualClock

SECOND, MINUTE, HOUR, DAY = (timedelta(seconds=number) for number in (1, 60, 3_600, 86_400))
# A Monday, at noon.
START = datetime(2026, 11, 16, 12, tzinfo=UTC)


def timetable(expression: str = "0 * * * *", **options: Any) -> Timetable:
    app = App("sqlite:///:memory:")

    @app.cron(expression, **{"name": "report", "args": ["eu"], **options})
    @app.task
    def report(region: str) -> None: ...

    return app.timetable


class Scene:
    """One store, and workers that run on request."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)
        self.store = SqliteStore("sqlite:///:memory:", now=self.clock.now, threaded=False)

    def worker(self, expression: str = "0 * * * *", *, limit: int = 100, **options: Any) -> RunSchedules:
        tick = RunSchedules(self.store, timetable(expression, **options), worker="w", limit=limit)
        tick.step()
        return tick

    def ticks(self) -> list[datetime]:
        return sorted(job.submitted_at for job in self.store.jobs(JobFilter(), limit=1_000).jobs)

    def types(self) -> list[str]:
        return [event.type for event in self.store.events() if event.type.startswith("schedule.")]

    def after(self, by: timedelta) -> None:
        self.clock.advance(by)

    @property
    def record(self) -> Any:
        (record,) = self.store.schedules()
        return record


@pytest.fixture
def scene() -> Scene:
    return Scene()


def hours(*numbers: int) -> list[datetime]:
    return [START + number * HOUR for number in numbers]


# One job a tick


def test_a_new_schedule_runs_at_its_next_tick_and_not_before(scene: Scene) -> None:
    worker = scene.worker()
    scene.after(HOUR - SECOND)
    assert (worker.step(), scene.ticks()) == (0, [])
    scene.after(SECOND)
    assert (worker.step(), scene.ticks()) == (1, hours(1))
    assert (worker.step(), scene.ticks()) == (0, hours(1))


def test_the_job_of_a_tick_says_which_it_is_and_has_the_arguments(scene: Scene) -> None:
    worker = scene.worker()
    scene.after(HOUR + 3 * SECOND)
    worker.step()
    (job,) = scene.store.jobs(JobFilter(tag="schedule:report")).jobs
    assert (job.kind, job.arguments, job.submitted_at) == ("report", {"region": "eu"}, START + HOUR)
    assert job.id == job_id_of("report", START + HOUR)
    assert (scene.record.last_tick, scene.record.last_job) == (START + HOUR, job.id)
    assert scene.record.next_tick == START + 2 * HOUR


def test_many_workers_make_one_job_a_tick(scene: Scene) -> None:
    workers = [scene.worker("* * * * *") for _ in range(4)]
    for _ in range(10):
        scene.after(20 * SECOND)
        for worker in workers:
            worker.step()
    assert scene.ticks() == [START + number * MINUTE for number in (1, 2, 3)]


def test_ticks_closer_than_the_interval_are_all_run(scene: Scene) -> None:
    worker = scene.worker("* * * * * *", missed="skip")
    scene.after(5 * SECOND)
    assert worker.step() == 5


def test_a_reply_that_is_lost_makes_no_second_job(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = scene.worker()
    scene.after(HOUR)
    change = scene.store.change_schedule

    def lose_the_reply(given: Any) -> bool:
        change(given)
        raise StoreUnavailable("cut off")

    with monkeypatch.context() as patch:
        patch.setattr(scene.store, "change_schedule", lose_the_reply)
        with pytest.raises(StoreUnavailable):
            worker.step()
    assert (worker.step(), scene.ticks()) == (0, hours(1))


def test_a_tick_whose_job_is_there_but_not_noted_is_not_run_again(scene: Scene) -> None:
    """As after a restore of one table or of a copy."""
    worker = scene.worker()
    scene.after(HOUR)
    old = scene.record
    worker.step()
    rewind = f"UPDATE mulligan_schedules SET next_tick = {(old.next_tick - datetime(1970, 1, 1, tzinfo=UTC)) // SECOND}"
    scene.store._database.write(lambda db: db.execute(rewind + "000000"))
    worker.step()
    assert scene.ticks() == hours(1)


# Missed


@pytest.mark.parametrize(
    ("missed", "run"),
    [("once", [5]), ("skip", []), ("all", [1, 2, 3, 4, 5])],
)
def test_ticks_missed_while_no_worker_ran(scene: Scene, missed: str, run: list[int]) -> None:
    scene.worker(missed=missed)
    scene.after(5 * HOUR + 30 * MINUTE)
    scene.worker(missed=missed).step()
    assert scene.ticks() == hours(*run)
    assert scene.record.next_tick == START + 6 * HOUR


@pytest.mark.parametrize(("missed", "run"), [("once", [5]), ("skip", [5]), ("all", [1, 2, 3, 4, 5])])
def test_a_tick_that_is_only_late_is_run_and_stands_for_those_before_it(
    scene: Scene, missed: str, run: list[int]
) -> None:
    scene.worker(missed=missed)
    scene.after(5 * HOUR + 30 * SECOND)
    scene.worker(missed=missed).step()
    assert scene.ticks() == hours(*run)


def test_of_very_many_missed_ticks_the_last_are_run_and_the_log_names_the_others(scene: Scene) -> None:
    scene.worker("* * * * * *", missed="all", limit=3)
    scene.after(400 * DAY)
    worker = scene.worker("* * * * * *", missed="all", limit=3)
    worker.step()
    late = [START + 400 * DAY - number * SECOND for number in range(60)]
    assert scene.ticks() == sorted([*late, *(late[-1] - number * SECOND for number in (1, 2, 3))])
    (skipped,) = [event for event in scene.store.events() if event.type == "schedule.skipped"]
    assert skipped.data["from"] == (START + SECOND).isoformat()
    assert skipped.data["to"] == (late[-1] - 4 * SECOND).isoformat()


@pytest.mark.parametrize(("missed", "first", "last"), [("once", 1, 4), ("skip", 1, 5)])
def test_missed_ticks_are_in_the_log(scene: Scene, missed: str, first: int, last: int) -> None:
    scene.worker(missed=missed)
    scene.after(5 * HOUR + 30 * MINUTE)
    scene.worker(missed=missed).step()
    (skipped,) = [event.data for event in scene.store.events() if event.type == "schedule.skipped"]
    said = (skipped["name"], skipped["from"], skipped["to"])
    assert said == ("report", *(moment.isoformat() for moment in hours(first, last)))


def test_nothing_is_skipped_in_a_usual_run(scene: Scene) -> None:
    worker = scene.worker()
    scene.after(HOUR)
    worker.step()
    assert scene.types() == ["schedule.planned"]


# Paused


def pause(scene: Scene, length: timedelta | None) -> None:
    scene.store.pause(PauseRequest(id=f"p{length}", what="schedule", name="report", duration=length))


@pytest.mark.parametrize(("missed", "run"), [("once", [2]), ("skip", []), ("all", [1, 2])])
def test_ticks_during_a_pause_count_as_missed_when_it_is_over(scene: Scene, missed: str, run: list[int]) -> None:
    worker = scene.worker(missed=missed)
    pause(scene, 2 * HOUR + 30 * MINUTE)
    for _ in range(5):
        scene.after(30 * MINUTE - SECOND)
        assert worker.step() == 0
    scene.after(5 * SECOND)
    worker.step()
    assert scene.ticks() == hours(*run)


def test_a_paused_schedule_is_not_taken_for_orphaned(scene: Scene) -> None:
    worker = scene.worker()
    pause(scene, None)
    scene.after(SEEN_EVERY + SECOND)
    worker.step()
    assert scene.record.seen_at == scene.clock.now()


# Versions


def test_a_changed_expression_counts_from_now_on(scene: Scene) -> None:
    scene.worker("0 * * * *")
    scene.after(3 * HOUR + 30 * MINUTE)
    worker = scene.worker("15 * * * *")
    assert scene.record.next_tick == START + 4 * HOUR + 15 * MINUTE
    worker.step()
    assert scene.ticks() == [], "ticks of the old expression are not run later"
    assert scene.types() == ["schedule.planned", "schedule.planned"]


def test_other_changes_lose_no_tick(scene: Scene) -> None:
    scene.worker(args=["eu"])
    scene.after(90 * MINUTE)
    scene.worker(args=["us"]).step()
    (job,) = scene.store.jobs(JobFilter()).jobs
    assert (job.submitted_at, job.arguments) == (START + HOUR, {"region": "us"})


def test_of_two_versions_at_once_the_one_that_started_last_wins(scene: Scene) -> None:
    old = scene.worker("0 * * * *")
    scene.after(SECOND)
    new = scene.worker("30 * * * *")
    for _ in range(4 * 60):
        scene.after(30 * SECOND)
        old.step()
        new.step()
    assert scene.ticks() == [START + half * 30 * MINUTE for half in (1, 3)]
    assert scene.types() == ["schedule.planned", "schedule.planned"], "they do not overwrite each other"


def test_a_definition_that_no_worker_has_any_more_is_replaced(scene: Scene) -> None:
    left = scene.worker("0 * * * *")
    scene.after(SECOND)
    scene.worker("30 * * * *")  # started later and gone at once
    scene.after(UNSEEN_AFTER)
    left.step()
    assert scene.record.definition.expression == "30 * * * *"
    scene.after(SECOND)
    left.step()
    assert scene.record.definition.expression == "0 * * * *"
    scene.after(HOUR)
    assert left.step() == 1


def test_a_schedule_that_is_no_longer_in_the_code_is_kept_and_not_run(scene: Scene) -> None:
    scene.worker()
    scene.after(5 * HOUR)
    other = scene.worker("0 0 * * *", name="other")
    other.step()
    assert scene.ticks() == []
    assert [record.name for record in scene.store.schedules()] == ["other", "report"]


# Trouble


def test_one_schedule_that_cannot_be_run_does_not_block_others(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    app = App("sqlite:///:memory:")
    broken = {"is": False}

    def service() -> str:
        if broken["is"]:
            raise RuntimeError("no such host")
        return "host"

    @app.cron("* * * * *")
    @app.task(service=service)
    def bad() -> None: ...

    @app.cron("* * * * *")
    @app.task
    def good() -> None: ...

    worker = RunSchedules(scene.store, app.timetable, worker="w")
    worker.step()
    broken["is"] = True
    scene.after(MINUTE)
    assert worker.step() == 1
    assert "the tick of schedule 'bad' failed" in caplog.text
    broken["is"] = False
    assert worker.step() == 1
    assert {job.kind: job.service for job in scene.store.jobs(JobFilter()).jobs} == {"bad": "host", "good": ""}


def test_an_app_without_schedules_does_not_query_the_store() -> None:
    assert RunSchedules(None, Timetable(), worker="w").step() == 0  # type: ignore[arg-type]
