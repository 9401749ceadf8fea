"""The file while the app runs: taken up when it changes, left alone when it is broken."""

import asyncio
import logging
import threading
from datetime import timedelta
from pathlib import Path, PosixPath
from typing import Any

import pytest

from live import SOON, eventually, working
from mulligan import App, Exponential, FinalError, Fixed, RetryPolicy, State
from mulligan.errors import BadPolicies
from mulligan.policies.file import PolicyFile
from mulligan.settings import Settings
from mulligan.store.messages import Claim
from mulligan.testing import flaky, sandbox
from mulligan.testing.virtual import VirtualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "policies.yaml"


def put(path: Path, text: str) -> None:
    """As it is to be done: a whole new file in the place of the old."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.replace(path)


class Watched:
    def __init__(self, path: Path) -> None:
        self.clock = VirtualClock()
        self.file = PolicyFile(path, lambda: self.clock)

    def attempts(self) -> object:
        default = self.file.current.default
        return default and default.max_attempts

    def later(self, seconds: float = 10) -> None:
        self.clock.advance(timedelta(seconds=seconds))


def test_a_change_is_seen_within_seconds_and_the_disk_is_not_asked_every_time(path: Path) -> None:
    put(path, "default: {max_attempts: 2}")
    watched = Watched(path)
    assert watched.attempts() == 2
    put(path, "default: {max_attempts: 3}")
    watched.later(1)
    assert watched.attempts() == 2
    watched.later(5)
    assert watched.attempts() == 3


class SlowDisk(PosixPath):
    """A file on a disk that lets its readers wait."""

    is_asked, may_answer = threading.Event(), threading.Event()

    def open(self, *args: Any, **kwargs: Any) -> Any:
        self.is_asked.set()
        assert self.may_answer.wait(SOON)
        return super().open(*args, **kwargs)


def test_a_thread_that_asks_during_the_first_read_waits_for_its_answer(path: Path) -> None:
    put(path, "default: {max_attempts: 2}")
    slow, answers = SlowDisk(path), list[object]()
    watched = Watched(slow)
    first, second = (threading.Thread(target=lambda: answers.append(watched.attempts())) for _ in range(2))
    first.start()
    assert slow.is_asked.wait(SOON)
    second.start()
    slow.may_answer.set()
    first.join(SOON)
    second.join(SOON)
    assert answers == [2, 2]


def test_a_broken_file_changes_nothing_and_is_reported_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    put(path, "default: {max_attempts: 2}")
    watched = Watched(path)
    version = watched.file.current.version
    put(path, "default: {max_attempts: none}")
    for _ in range(3):
        watched.later()
        assert watched.attempts() == 2
    reports = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(reports) == 1
    assert "default.max_attempts is 'none', but it must be an integer" in reports[0]
    assert reports[0].endswith(f"; version {version} stays in force")
    assert watched.file.problem is not None
    put(path, "default: {max_attempts: nine}")
    watched.later()
    assert watched.attempts() == 2 and len(caplog.records) == 2, "another mistake is another report"
    put(path, "default: {max_attempts: 9}")
    watched.later()
    assert watched.attempts() == 9 and watched.file.problem is None


def test_a_file_that_is_gone_changes_nothing(path: Path) -> None:
    put(path, "default: {max_attempts: 2}")
    watched = Watched(path)
    assert watched.attempts() == 2
    path.unlink()
    watched.later()
    assert watched.attempts() == 2
    assert "it cannot be read: No such file or directory" in str(watched.file.problem)
    put(path, "default: {max_attempts: 2}")
    watched.later()
    assert watched.attempts() == 2 and watched.file.problem is None


def test_a_file_that_is_just_being_written_changes_nothing(path: Path) -> None:
    """A reader may come between the two steps of a program that empties a file and then writes it."""
    put(path, "default: {max_attempts: 2}")
    watched = Watched(path)
    assert watched.attempts() == 2
    path.write_text("")
    watched.later()
    assert watched.attempts() == 2
    path.write_text("default: {max_attempts: 3}")
    watched.later()
    assert watched.attempts() == 3


def test_a_file_that_stays_empty_is_taken_up(path: Path) -> None:
    put(path, "default: {max_attempts: 2}")
    watched = Watched(path)
    assert watched.attempts() == 2
    path.write_text("\n")
    for expected in (2, None):
        watched.later()
        assert watched.attempts() == expected


def test_a_worker_does_not_start_with_a_broken_file_and_enqueue_goes_on(path: Path) -> None:
    put(path, "default: {max_attempts: 0}")
    app = App("sqlite:///jobs.db", policies=path)
    job = app.task("task", retry=RetryPolicy(7))(flaky(1)).enqueue()
    with app, pytest.raises(BadPolicies, match=r"policies\.yaml: default\.max_attempts is 0"):
        app.run_until_idle(timeout="60s")
    assert job.max_attempts == 7


def test_the_setting_names_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(path, "default: {max_attempts: 2}")
    monkeypatch.setenv("MULLIGAN_POLICIES_FILE", str(path))
    assert App("sqlite:///:memory:", policies="other.yaml").judge.in_force("any").policy.max_attempts == 2


def test_without_a_file_nothing_is_recorded_of_one() -> None:
    app = App("sqlite:///:memory:")
    task = app.task("task", retry=RetryPolicy(1))(flaky(9))
    with sandbox(app) as box:
        job = task.enqueue()
        box.run()
        assert "policies" not in app.events(job.id)[-1].data["reasons"]


# In a worker


def test_a_new_job_is_stored_with_the_limits_in_force(path: Path) -> None:
    put(path, "kinds: {task: {max_attempts: 6, timeout: 1h, deadline: 2h, owners: {acme: {max_crashes: 9}}}}")
    app = App("sqlite:///:memory:", policies=path)
    task = app.task("task")(flaky(0))
    with sandbox(app) as box:
        job = app.store.job(task.options(owner="acme").enqueue().id)
        assert (job.max_attempts, job.max_crashes, job.timeout) == (6, 9, HOUR)
        assert job.deadline == box.now + 2 * HOUR
        assert app.store.job(task.options(deadline="1h").enqueue().id).deadline == box.now + HOUR


def test_the_file_changes_the_attempts_of_jobs_that_are_enqueued_already(path: Path) -> None:
    put(path, "default: {}")
    app = App("sqlite:///:memory:", policies=path)
    task = app.task("task", retry=RetryPolicy(2, Fixed("1m")))(flaky(99))
    with sandbox(app) as box:
        job = task.enqueue()
        box.run()
        assert app.job(job.id).state is State.WAITING
        put(path, "kinds: {task: {max_attempts: 4, backoff: {type: fixed, base: 2m}}}")
        box.advance("30s")
        waiting = app.job(job.id)
        assert (waiting.retry_count, waiting.max_retries) == (1, 3), "what is shown is what is in force"
        assert "It has failed 1 time so far; 3 attempts of 4 are left." in app.explain(job.id).next
        box.advance("1h")
        found = app.store.job(job.id)
        assert (found.state, found.failures, found.max_attempts) == (State.FAILED, 4, 4)
        assert (found.retry_count, found.max_retries) == (3, 3)
        decisions = [event.data["reasons"] for event in app.events(job.id) if "reasons" in event.data]
        version = app.policies.current.version
        assert [reasons.get("delay") for reasons in decisions] == [60, 120, 120, None]
        assert [reasons["policies"] == version for reasons in decisions] == [False, True, True, True]
        assert f"failure 4 of 4, policies {version})" in " ".join(app.explain(job.id).happened)


def test_fewer_attempts_end_a_job_that_had_more(path: Path) -> None:
    put(path, "default: {}")
    app = App("sqlite:///:memory:", policies=path)
    task = app.task("task", retry=RetryPolicy(5, Fixed("1m")))(flaky(99))
    with sandbox(app) as box:
        job = task.enqueue()
        box.run()
        put(path, "default: {maxRetries: 1}")
        box.advance("10m")
        found = app.job(job.id)
        assert (found.state, found.failures, found.retry_count, found.max_retries) == (State.FAILED, 2, 1, 1)
        put(path, "default: {}")
        box.advance("1m")
        assert app.job(job.id).max_attempts == 2, "what is over is shown as it was judged"


def test_rules_of_the_file_are_asked_before_those_of_the_code_but_not_before_the_tasks_own_word(path: Path) -> None:
    put(path, "default: {rules: [{code: BROKEN, class: final, exception: [OSError, mulligan.errors.FinalError]}]}")
    app = App("sqlite:///:memory:", policies=path)

    @app.task
    def reads() -> None:
        raise ConnectionResetError("reset")

    @app.task
    def refuses() -> None:
        raise FinalError("no", code="NOT_PDF")

    with sandbox(app) as box:
        jobs = reads.enqueue(), refuses.enqueue()
        box.run()
        assert [app.job(job.id).error_code for job in jobs] == ["BROKEN", "NOT_PDF"]
        assert app.events(jobs[0].id)[-1].data["reasons"]["rule"] == "default.rules[0]"


def test_a_former_name_of_a_task_has_the_policy_of_the_new_one(path: Path) -> None:
    put(path, "kinds: {convert: {max_attempts: 9}}")
    app = App("sqlite:///:memory:", policies=path)
    app.task("convert", aliases=["old"])(flaky(0))
    assert app.judge.in_force("old").policy.max_attempts == 9


def test_a_timeout_of_the_file_is_kept_by_the_worker(path: Path) -> None:
    put(path, "kinds: {hangs: {timeout: 100ms, max_attempts: 1}}")
    app = App(f"sqlite:///{path.parent}/jobs.db", policies=path)

    @app.task(timeout="1h")
    async def hangs() -> None:
        await asyncio.Event().wait()

    with app:
        job = hangs.enqueue()
        app.run_until_idle(timeout="60s")
        found = app.job(job.id)
        assert (found.error_code, found.state) == ("TIMEOUT", State.FAILED)
        assert "no result after 100ms" in app.events(job.id)[-1].data["detail"]


def test_a_job_is_not_stuck_while_the_file_gives_it_more_time(path: Path, tmp_path: Path) -> None:
    put(path, "default: {}")
    url = f"sqlite:///{tmp_path}/jobs.db"
    app = App(settings=Settings(database_url=url, policies_file=str(path), stuck_after=timedelta(0)))
    with app:
        job = app.task("task", timeout="1ms")(flaky(0)).enqueue()
        app.store.claim(Claim(incarnation="w", number=1, kinds=["task"], limit=1, lease=HOUR))
        eventually(lambda: [stuck.id for stuck in app.stuck()] == [job.id])
        put(path, "default: {timeout: 3h}")
        app.policies.look()
        assert app.stuck() == [] and app.process_stuck() == []
        assert not any("stuck" in line for line in app.explain(job.id).next)
        put(path, "default: {timeout: 1ms}")
        app.policies.look()
        assert [stuck.id for stuck in app.process_stuck()] == [job.id]


def test_a_running_worker_takes_up_a_new_file_and_keeps_the_old_one_when_that_is_broken(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(path, "kinds: {fails: {max_attempts: 1}}")
    app = App(settings=Settings(database_url=f"sqlite:///{tmp_path}/jobs.db", policies_file=str(path)))
    app.policies.interval = 0.05

    @app.task(retry=RetryPolicy(5, Exponential("1h")))
    async def fails() -> None:
        raise ValueError("again")

    def ended() -> tuple[State, str, str]:
        job = fails.enqueue()
        eventually(lambda: app.job(job.id).failures, SOON)
        data = app.events(job.id)[-1].data
        return app.job(job.id).state, str(app.job(job.id).error_code), str(data["reasons"]["policies"])

    def is_reported() -> bool:
        return any("stays in force" in record.getMessage() for record in caplog.records)

    with app, working(app):
        first = app.policies.current.version
        assert ended() == (State.FAILED, "UNKNOWN", first)
        put(path, "kinds: {fails: {rules: [{code: AGAIN, class: final, message: again}]}}")
        eventually(lambda: app.policies.current.version != first)
        second = app.policies.current.version
        assert ended() == (State.FAILED, "AGAIN", second)
        put(path, "kinds: {fails: {rules: [{code: AGAIN, class: finale, message: again}]}}")
        eventually(is_reported)
        assert ended() == (State.FAILED, "AGAIN", second)
