"""The doctor: every finding about workers, jobs and duties is provoked, and goes away when its cause does."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from mulligan import App
from mulligan.console.doctor import failed
from mulligan.records.counts import Counts
from mulligan.records.duty import DUTIES, DutyRun
from mulligan.records.finding import Check, Finding, Level, Limits
from mulligan.records.job import NewJob
from mulligan.store.messages import Beat, Claim, WorkerRecord
from mulligan.values.clock import SystemClock
from mulligan.wiring import AppParts

NOTHING = timedelta(0)
EVERYTHING = Limits(lease=NOTHING, wait=NOTHING, pause=NOTHING, cursor=NOTHING)
HOUR = timedelta(hours=1)


def found(app: App, code: Check, limits: Limits | None = None) -> Finding:
    (finding,) = [finding for finding in app.doctor(limits) if finding.code is code]
    assert bool(finding.remedy) == (finding.level is not Level.OK), "whatever is wrong can be mended"
    return finding


def level(app: App, code: Check, limits: Limits | None = None) -> Level:
    return found(app, code, limits).level


def enqueue(app: App, **options: Any) -> None:
    app.store.enqueue([NewJob(**{"id": "job", "kind": "convert", "arguments": "{}", **options})])


def lease(app: App, until: timedelta) -> None:
    app.store.claim(Claim(incarnation="lost", number=1, kinds=["convert"], limit=1, lease=until))


def beat(app: App, *, kinds: tuple[str, ...] = ("convert",), queues: tuple[str, ...] | None = None) -> None:
    worker = WorkerRecord(incarnation="w", host="here", pid=7, queues=queues, kinds=kinds, concurrency=1)
    app.store.beat(Beat(worker=worker, lease=HOUR))


def change(app: App, statement: str) -> None:
    app.store._database.write(lambda db: db.execute(statement))  # type: ignore[attr-defined]


def test_a_healthy_app_has_no_problem_and_each_check_is_made_once(app: App) -> None:
    app.migrate()
    beat(app)
    findings = app.doctor()
    assert [finding for finding in findings if finding.level is Level.PROBLEM] == []
    codes = [finding.code for finding in findings]
    assert len(codes) == len(set(codes))
    others = {code for code in Check if code.startswith("postgres.")} | {Check.LOG_BASE, Check.LOG_LAG}
    assert set(codes) == set(Check) - others


def test_a_database_that_is_not_there_is_not_made(app: App, tmp_path: Any) -> None:
    (finding,) = app.doctor()
    assert (finding.code, finding.level) == (Check.REACHABLE, Level.PROBLEM)
    assert finding.remedy == "make it: mulligan migrate"
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_database_is_reported(app: App, tmp_path: Any) -> None:
    (tmp_path / "jobs.db").write_text("not a database, and long enough to be looked at " * 20)
    (finding,) = app.doctor()
    assert (finding.code, finding.level) == (Check.REACHABLE, Level.PROBLEM)
    assert "is not a healthy SQLite database" in finding.found


def test_a_damaged_file_is_reported_without_false_comfort(app: App, tmp_path: Any) -> None:
    task = app.task("task")(lambda _: None)
    app.enqueue_many([task.bind("x" * 100) for _ in range(500)])
    app.close()
    file = tmp_path / "jobs.db"
    content = bytearray(file.read_bytes())
    for page in range(4096, len(content), 4096):
        content[page : page + 100] = b"\xff" * 100
    file.write_bytes(content)
    (finding, *_) = (finding for finding in app.doctor() if finding.level is Level.PROBLEM)
    assert finding.code is Check.REACHABLE
    assert "is not a healthy SQLite database: " in finding.found
    assert "stop all workers now" in finding.remedy
    assert ".recover" in finding.remedy
    assert "nothing is lost" not in finding.found + finding.remedy


def test_a_schema_of_a_newer_version_is_reported(app: App) -> None:
    app.migrate()
    change(app, "INSERT INTO mulligan_schema VALUES (99, '099_future', 99)")
    app.close()
    reached, schema = app.doctor()
    assert (reached.level, schema.code, schema.level) == (Level.OK, Check.SCHEMA, Level.PROBLEM)
    assert "made by a newer mulligan" in schema.found


class WrongClock(SystemClock):
    def __init__(self, off: timedelta) -> None:
        self._off = off

    def now(self) -> datetime:
        return super().now() + self._off


@pytest.mark.parametrize(
    ("off", "expected", "side"),
    [(NOTHING, Level.OK, "agree"), (5, Level.WARNING, "behind"), (-90, Level.PROBLEM, "ahead of")],
)
def test_a_wrong_clock_is_reported(app: App, off: Any, expected: Level, side: str) -> None:
    app.migrate()
    with app.wiring.use(AppParts(clock=WrongClock(off if isinstance(off, timedelta) else timedelta(seconds=off)))):
        finding = found(app, Check.CLOCK)
    assert (finding.level, side in finding.found) == (expected, True)


def test_no_worker_is_a_problem_as_soon_as_a_job_waits_for_one(app: App) -> None:
    app.migrate()
    assert level(app, Check.WORKERS_ALIVE) is Level.WARNING
    enqueue(app, delay=HOUR)
    assert level(app, Check.WORKERS_ALIVE) is Level.PROBLEM
    beat(app)
    assert level(app, Check.WORKERS_ALIVE) is Level.OK


def test_a_worker_that_went_without_a_goodbye_is_named(app: App) -> None:
    beat(app)
    assert level(app, Check.WORKERS_SILENT) is Level.OK
    change(app, "UPDATE mulligan_workers SET seen_at = seen_at - 600000000")
    finding = found(app, Check.WORKERS_SILENT)
    assert (finding.level, "here, process 7, seen 10m ago" in finding.found) == (Level.WARNING, True)


def test_an_expired_lease_that_no_worker_reclaims_is_a_problem(app: App) -> None:
    enqueue(app)
    lease(app, timedelta(microseconds=1))
    assert level(app, Check.LEASES_EXPIRED) is Level.OK, "give them a minute"
    assert "1 job of lost workers not taken back: job (convert)" in found(app, Check.LEASES_EXPIRED, EVERYTHING).found


def test_a_stuck_job_is_a_problem(app: App) -> None:
    enqueue(app)
    lease(app, 9 * HOUR)
    assert level(app, Check.JOBS_STUCK) is Level.OK
    change(app, "UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - 3600000000")
    assert level(app, Check.JOBS_STUCK) is Level.PROBLEM


@pytest.mark.parametrize(
    ("worker", "expected"),
    [
        ({}, Level.OK),
        ({"kinds": ("convert", "other"), "queues": ("default",)}, Level.OK),
        ({"kinds": ("other",)}, Level.PROBLEM),
        ({"queues": ("bulk",)}, Level.PROBLEM),
    ],
)
def test_a_ready_job_that_no_worker_takes_is_a_problem(app: App, worker: dict[str, Any], expected: Level) -> None:
    enqueue(app)
    assert level(app, Check.JOBS_UNHANDLED) is Level.OK, "no worker at all is said by another check"
    beat(app, **worker)
    finding = found(app, Check.JOBS_UNHANDLED)
    assert (finding.level, "1 of 'convert' in queue 'default'" in finding.found) == (
        expected,
        expected is Level.PROBLEM,
    )


def test_a_ready_job_that_waits_for_long_is_reported(app: App) -> None:
    enqueue(app)
    assert level(app, Check.JOBS_WAITING) is Level.OK
    assert "1 ready job, the oldest ('convert') since" in found(app, Check.JOBS_WAITING, EVERYTHING).found
    assert level(app, Check.JOBS_WAITING, EVERYTHING) is Level.WARNING


def test_failed_jobs_are_counted_by_code(app: App) -> None:
    @app.task
    def convert(path: str) -> None:
        from mulligan import FinalError

        raise FinalError("no", code=path)

    app.enqueue_many([convert.bind(code) for code in ("BAD", "BAD", "WORSE")])
    app.run_until_idle(timeout="30s")
    finding = found(app, Check.JOBS_FAILED)
    assert (finding.level, finding.found) == (Level.WARNING, "3 jobs failed: 2 BAD, 1 WORSE")


def test_of_very_many_failed_jobs_only_some_are_counted() -> None:
    found = failed(Counts(by="code", groups={"BAD": 10_000}, total=10_000, at_least=True))
    assert found.found == "at least 10,000 jobs failed: 10,000 BAD"


def test_a_pause_is_reported_and_one_without_an_end_is_a_problem_after_a_day(app: App) -> None:
    app.pause("30m", duty="retry", actor="ann")
    assert level(app, Check.DUTIES_PAUSED, EVERYTHING) is Level.WARNING
    app.pause(duty="expire", actor="bob")
    assert level(app, Check.DUTIES_PAUSED) is Level.WARNING
    finding = found(app, Check.DUTIES_PAUSED, EVERYTHING)
    assert (finding.level, finding.remedy) == (Level.PROBLEM, "mulligan resume --duty expire")
    assert "by bob, without an end" in finding.found


def test_the_remedy_for_a_paused_schedule_resumes_it(app: App) -> None:
    @app.cron("@daily", name="every night")
    @app.task
    def report() -> None: ...

    app.migrate()
    app.pause(schedule="every night", actor="ann")
    assert found(app, Check.DUTIES_PAUSED).remedy == "mulligan resume --schedule 'every night'"


def test_a_policies_file_that_is_broken_or_has_unknown_names_is_reported(tmp_path: Any) -> None:
    file = tmp_path / "policies.yaml"
    with App(f"sqlite:///{tmp_path}/jobs.db", policies=file) as app:
        app.migrate()
        assert level(app, Check.POLICIES_FILE) is Level.PROBLEM, "it is not there"
        file.write_text("kinds: {convrt: {max_attempts: 2}}")
        assert level(app, Check.POLICIES_FILE) is Level.OK, "without tasks nothing can be said of kinds"
        app.task(name="convert", aliases=("Former",))(print)
        finding = found(app, Check.POLICIES_FILE)
        assert (finding.level, "'convrt'" in finding.found) == (Level.WARNING, True)
        assert finding.remedy.startswith("did you mean 'convert'?")
        file.write_text("queues: {bulk: {}, default: {}}\nservices: {'site:a': {}}")
        finding = found(app, Check.POLICIES_FILE)
        assert "queues that this app does not have: 'bulk', and services" in finding.found
        app.task(name="fetch", queue="bulk", service=str)(print)
        assert level(app, Check.POLICIES_FILE) is Level.OK, "whatever str() makes of an argument is a service"
        file.write_text("kinds: {Former: {}}\nretry: {policies: [{jobType: CONVERT}]}")
        assert level(app, Check.POLICIES_FILE) is Level.OK
        file.write_text("kinds: {convert: {max_attemps: 2}}")
        finding = found(app, Check.POLICIES_FILE)
        assert (finding.level, "kinds.convert.max_attemps" in finding.found) == (Level.PROBLEM, True)


def test_a_reader_of_the_log_that_stands_still_is_reported(app: App) -> None:
    enqueue(app)
    app.store.set_cursor("groups", app.store.last_position())
    assert level(app, Check.LOG_CURSORS, EVERYTHING) is Level.OK, "it has read all there is"
    enqueue(app, id="another")
    assert level(app, Check.LOG_CURSORS) is Level.OK, "it may come yet"
    assert "'groups'" in found(app, Check.LOG_CURSORS, EVERYTHING).found
    assert level(app, Check.LOG_CURSORS, EVERYTHING) is Level.WARNING


@pytest.mark.parametrize(
    ("code", "limits"), [(Check.DISK, lambda free: Limits(disk=free * 2)), (Check.LOG_SIZE, lambda _: Limits(log=1))]
)
def test_little_space_and_a_long_log_are_reported(app: App, code: Check, limits: Callable[[int], Limits]) -> None:
    import shutil

    enqueue(app)
    enqueue(app, id="another")
    free = shutil.disk_usage(".").free
    assert level(app, code) is Level.OK
    assert level(app, code, limits(free)) is Level.WARNING
    if code is Check.DISK:
        assert level(app, code, Limits(disk=free * 32)) is Level.PROBLEM


def run_of(app: App, duty: str, *, ago: timedelta) -> None:
    app.store.record_runs([DutyRun(duty=duty, worker="w", seconds=0.1, did=0, interval=timedelta(seconds=1), ago=ago)])


def test_a_duty_that_live_workers_have_not_done_for_long_is_late(app: App) -> None:
    app.migrate()
    assert level(app, Check.DUTIES_LATE) is Level.OK, "no worker does any"
    beat(app)
    run_of(app, "reclaim", ago=timedelta(minutes=4))
    assert level(app, Check.DUTIES_LATE) is Level.OK
    run_of(app, "retry", ago=timedelta(minutes=6))
    late = found(app, Check.DUTIES_LATE)
    assert late.level is Level.WARNING
    assert "retry ran 6m ago" in late.found and "mulligan duties run retry" in late.remedy
    app.pause(duty="retry")
    assert level(app, Check.DUTIES_LATE) is Level.OK, "another check reports pauses"
    app.resume(duty="retry")
    run_of(app, "retry", ago=NOTHING)
    assert level(app, Check.DUTIES_LATE) is Level.OK


def test_a_component_is_what_the_doctor_finds(app: App) -> None:
    app.migrate()
    beat(app)
    run_of(app, "retry", ago=timedelta(minutes=6))
    components = {each.name: each for each in app.readiness()}
    assert list(components) == [
        *("store", "schema", "workers", "projection", "notifications"),
        *(f"duty {duty.name}" for duty in DUTIES),
    ]
    findings = {finding.code: finding for finding in app.doctor()}
    for name in ("store", "schema", "workers", "projection", "notifications"):
        each = components[name]
        assert Finding(each.code, each.level, each.found, each.remedy) == findings[each.code]
    late = components["duty retry"]
    assert (late.code, late.level, late.last_run_at is not None) == (Check.DUTIES_LATE, Level.WARNING, True)
    assert components["duty reclaim"].last_run_at is None


def test_without_workers_a_component_is_a_problem_only_if_jobs_wait(app: App) -> None:
    app.migrate()
    assert {each.name: each.level for each in app.readiness()}["workers"] is Level.WARNING
    enqueue(app)
    assert {each.name: each.level for each in app.readiness()}["workers"] is Level.PROBLEM


def test_a_store_that_cannot_be_used_is_the_only_component(app: App) -> None:
    (component,) = app.readiness()
    assert (component.name, component.code, component.level) == ("store", Check.REACHABLE, Level.PROBLEM)
