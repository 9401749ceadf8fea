"""Prune: which jobs are deleted by age and by number, and which never."""

from datetime import timedelta

import pytest

from conformance.bench import failing
from live import eventually, working
from mulligan import App
from mulligan.duties.prune import PASSES, Prune
from mulligan.errors import BadSetting
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import FINAL, Move, State
from mulligan.records.job import JobFilter, NewJob
from mulligan.records.retention import Keep
from mulligan.settings import Settings, load
from mulligan.store.messages import Claim, Outcome, Request
from mulligan.store.sqlite import SqliteStore
from mulligan.testing.virtual import VirtualClock

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class Scene:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.store = SqliteStore("sqlite:///:memory:", now=self.clock.now, threaded=False)
        self.made = 0

    def over(self, state: State, times: int = 1) -> None:
        for _ in range(times):
            self.made += 1
            name = f"{state}-{self.made:04}"
            self.store.enqueue([NewJob(id=name, kind="k", arguments="{}")])
            if state is State.CANCELLED:
                self.store.move(Request(id=name, move=Move.MANUAL_CANCEL, job=name))
            else:
                claim = Claim(incarnation="w", number=self.made, kinds=["k"], limit=1, lease=HOUR)
                decision = Succeed("1") if state is State.SUCCEEDED else failing()
                self.store.settle([Outcome(lease, decision) for lease in self.store.claim(claim).leases])
            self.clock.advance(timedelta(seconds=1))

    def prune(self, *keep: Keep, limit: int = 500) -> int:
        return Prune(self.store, keep=keep, limit=limit).step()

    def left(self) -> list[str]:
        return [job.id for job in reversed(self.store.jobs(JobFilter(), limit=1000).jobs)]


def test_by_default_failed_jobs_are_kept_and_others_for_a_week() -> None:
    scene = Scene()
    for state in FINAL:
        scene.over(state)
    keep = Settings().retention
    scene.clock.advance(7 * DAY - HOUR)
    assert scene.prune(*keep) == 0
    scene.clock.advance(HOUR)
    assert scene.prune(*keep) == 2
    scene.clock.advance(3000 * DAY)
    assert scene.prune(*keep) == 0
    assert [name.partition("-")[0] for name in scene.left()] == ["failed"]


def test_at_least_the_newest_are_kept_and_none_goes_in_its_first_hour() -> None:
    scene = Scene()
    scene.over(State.FAILED, times=10)
    rule = Keep(state=State.FAILED, count=3)
    assert scene.prune(rule) == 0
    scene.clock.advance(HOUR)
    assert scene.prune(rule) == 7
    assert scene.left() == ["failed-0008", "failed-0009", "failed-0010"]


def test_the_stricter_of_age_and_number_counts() -> None:
    scene = Scene()
    scene.over(State.FAILED, times=4)
    scene.clock.advance(DAY)
    assert scene.prune(Keep(state=State.FAILED, age=10 * DAY, count=3)) == 1
    assert scene.prune(Keep(state=State.FAILED, age=HOUR, count=3)) == 3


def test_a_run_is_bounded_and_the_next_continues() -> None:
    scene = Scene()
    scene.over(State.CANCELLED, times=PASSES + 5)
    scene.clock.advance(DAY)
    rule = Keep(state=State.CANCELLED, age=HOUR)
    assert [scene.prune(rule, limit=1) for _ in range(3)] == [PASSES, 5, 0]


def test_a_worker_prunes_by_itself(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.store.enqueue([NewJob(id="old", kind="k", arguments="{}"), NewJob(id="young", kind="k", arguments="{}")])
    for name in ("old", "young"):
        app.cancel(name)
    app.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_jobs SET finished_at = 1 WHERE id = 'old'")
    )
    app.settings = load(environment={"MULLIGAN_DUTY_PRUNE_INTERVAL_SEC": "1"}, code={"database_url": "unused"})
    with working(app):
        eventually(lambda: [job.id for job in app.jobs().jobs] == ["young"])
        eventually(lambda: next(duty for duty in app.duties() if duty.name == "prune").last is not None)


def test_a_manual_run_returns_how_many(app: App) -> None:
    app.store.enqueue([NewJob(id="old", kind="k", arguments="{}")])
    app.cancel("old")
    assert app.run_duty("OLD_JOBS").did == 0
    app.store._database.write(  # type: ignore[attr-defined]
        lambda db: db.execute("UPDATE mulligan_jobs SET finished_at = 1")
    )
    assert app.run_duty("prune", actor="ann").did == 1


def test_retention_is_a_setting_of_each_state() -> None:
    settings = load(
        environment={
            "MULLIGAN_RETENTION_SUCCEEDED": "1d12h",
            "MULLIGAN_RETENTION_CANCELLED": "Keep",
            "MULLIGAN_RETENTION_FAILED": "90d",
            "MULLIGAN_RETENTION_FAILED_COUNT": "1000",
        }
    )
    assert settings.retention == [
        Keep(state=State.SUCCEEDED, age=1.5 * DAY),
        Keep(state=State.FAILED, age=90 * DAY, count=1000),
        Keep(state=State.CANCELLED),
    ]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        (
            "MULLIGAN_RETENTION_FAILED",
            "soon",
            "a duration between 1h and 3650d such as '7d', or 'keep' to keep them forever",
        ),
        ("MULLIGAN_RETENTION_SUCCEEDED", "5m", "between 1h and 3650d"),
        ("MULLIGAN_RETENTION_FAILED_COUNT", "0", "an integer from 1 to 1,000,000,000, or 'keep' to keep all"),
    ],
)
def test_a_bad_rule_stops_the_start(name: str, value: str, allowed: str) -> None:
    with pytest.raises(BadSetting) as raised:
        load(environment={name: value})
    assert allowed in str(raised.value)
    assert name in str(raised.value)
