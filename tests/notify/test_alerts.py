"""Alerts: each rule is fired by its fault and cleared by its end, and people are notified. On both stores."""

import os
import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from notify_world import HOUR, MINUTE, NotifyWorld, notify_world

from live import eventually, started_worker
from mulligan import Alert, App, Fixed, RetryPolicy, Service
from mulligan.records.alert import AlertState, AlertStatus
from mulligan.records.finding import Check
from mulligan.records.job import NewJob
from mulligan.store.messages import Beat, Claim, WorkerRecord

OPS = "ops@example.org"
SERVICES = [
    Service("gateway", window=5, min_calls=5, cooldown="10s"),
    Service("partner"),
    Service("notify:smtp"),
]
# Nothing here takes real minutes; a worker that happens to run for one must not evaluate in between.
SETTINGS = {"duty_alert_interval": HOUR}
# The test moves the clock of the store only, has no worker most of the time, and its server does not wait for the disk.
OFF = [Alert(check, is_on=False) for check in ("store.clock", "workers.alive", "postgres.durability")]


@pytest.fixture
def world(url: str) -> Iterator[NotifyWorld]:
    with notify_world(url, settings=SETTINGS, services=SERVICES, alerts=OFF) as world:
        yield world


class Faults:
    """The faults of a world, each with its end."""

    def __init__(self, world: NotifyWorld) -> None:
        self.world, self.app = world, world.app
        self.is_broken = True
        self.flaky = self.app.task("flaky", retry=RetryPolicy(3, Fixed(0)))(self._flaky)
        self.call = self.app.task("call", service="gateway", retry=RetryPolicy(1))(self._flaky)

    def _flaky(self) -> None:
        if self.is_broken:
            raise ConnectionRefusedError("no answer")

    def beat(self, *kinds: str) -> None:
        worker = WorkerRecord(incarnation=f"w{len(kinds)}", host="here", pid=7, queues=None, kinds=kinds, concurrency=1)
        self.app.store.beat(Beat(worker=worker, lease=HOUR))

    # Queue depth and age

    def pile_up(self) -> None:
        self.app.set_alert("jobs.depth", threshold=25)
        self.app.enqueue_many([self.world.convert.bind("") for _ in range(25)])

    def work_off(self) -> None:
        self.app.run_until_idle(timeout="60s")

    def wait_long(self) -> None:
        self.world.convert.enqueue("")
        self.world.advance(15 * MINUTE)

    # Stuck jobs

    def hang(self) -> None:
        self.world.convert.enqueue("")
        claim = Claim(incarnation="hung", number=1, kinds=["convert"], limit=1, lease=9 * HOUR)
        assert self.app.store.claim(claim).leases
        self.world.advance(31 * MINUTE)

    def process_stuck(self) -> None:
        assert len(self.app.process_stuck(actor="ann")) == 1

    # Failures

    def fail(self) -> None:
        self.world.fail(*["not a PDF"] * 20)
        self.app.run_duty("project")

    def fail_retries(self) -> None:
        self.app.enqueue_many([self.flaky.bind() for _ in range(10)])
        self.app.run_until_idle(retries=True, timeout="60s")
        self.app.run_duty("project")

    def succeed(self) -> None:
        """The window of the statistics passes."""
        self.world.advance(11 * MINUTE)

    def fail_more_often(self) -> None:
        for _ in range(6):
            self.world.fail(*["not a PDF"] * 5)
            self.world.advance(10 * MINUTE)
        self.world.fail(*["not a PDF"] * 30)
        self.app.run_duty("project")

    # Services

    def open_breaker(self) -> None:
        self.app.enqueue_many([self.call.bind() for _ in range(5)])
        self.app.run_until_idle(timeout="60s")
        assert self.app.service("gateway").status.state == "open"
        self.world.advance(15 * MINUTE)

    def close_breaker(self) -> None:
        self.is_broken = False
        self.app.service("gateway").close()

    # Workers

    def lack_a_task(self) -> None:
        self.app.store.enqueue([NewJob(id="job", kind="unknown", arguments="{}")])

    def bring_the_task(self) -> None:
        self.beat("convert", "unknown")

    def lose_workers(self) -> None:
        self.world.advance(61 * timedelta(seconds=1))

    def start_a_worker(self) -> None:
        self.beat("convert")

    # Any other problem

    def forget_a_pause(self) -> None:
        self.app.pause(duty="prune")
        self.world.advance(25 * HOUR)

    def resume(self) -> None:
        self.app.resume(duty="prune")


CASES = [
    (Check.JOBS_DEPTH, "default", Faults.pile_up, Faults.work_off, "queue 'default' has 25 ready jobs"),
    (Check.JOBS_WAITING, "", Faults.wait_long, Faults.work_off, "1 ready job, the oldest ('convert') since"),
    (Check.JOBS_STUCK, "", Faults.hang, Faults.process_stuck, "1 job stuck, running longer than 30m"),
    (Check.JOBS_FAILING, "convert", Faults.fail, Faults.succeed, "20 of 20 jobs of 'convert' failed within 10m"),
    (Check.JOBS_RETRIES, "flaky", Faults.fail_retries, Faults.succeed, "20 of 20 retries of 'flaky' were in vain"),
    (Check.JOBS_CODES, "NOT_PDF", Faults.fail_more_often, Faults.succeed, "30 failures with NOT_PDF within 10m"),
    (Check.SERVICES_TROUBLED, "gateway", Faults.open_breaker, Faults.close_breaker, "service 'gateway' is open since"),
    (Check.JOBS_UNHANDLED, "", Faults.lack_a_task, Faults.bring_the_task, "1 of 'unknown' in queue 'default'"),
    (Check.WORKERS_ALIVE, "", Faults.lose_workers, Faults.start_a_worker, "no worker is alive"),
    (Check.DUTIES_PAUSED, "", Faults.forget_a_pause, Faults.resume, "paused for long, perhaps forgotten: duty prune"),
]


def alert_of(app: App, check: Check, subject: str = "") -> AlertStatus:
    found = {alert.key: alert for alert in app.alerts().alerts}
    return found.get((check, subject)) or found[check, ""]


@pytest.mark.parametrize(("check", "subject", "fault", "end", "said"), CASES, ids=[str(case[0]) for case in CASES])
def test_each_rule_is_fired_by_its_fault_and_cleared_by_its_end(
    world: NotifyWorld,
    check: Check,
    subject: str,
    fault: Callable[[Faults], None],
    end: Callable[[Faults], None],
    said: str,
) -> None:
    app, faults = world.app, Faults(world)
    faults.beat("convert")
    app.set_alert(check, is_on=True)
    app.run_duty("alert")
    assert alert_of(app, check, subject).state is AlertState.OK
    app.subscribe("alerts", types=["alert.fired", "alert.resolved"], channel="email", to=OPS)
    fault(faults)
    rule = next(rule for rule in app.alerts().rules if rule.check is check)
    app.run_duty("alert")
    if rule.after:
        assert alert_of(app, check, subject).state is AlertState.PENDING
        world.advance(rule.after)
        if check is Check.JOBS_UNHANDLED:
            faults.beat("convert")
        app.run_duty("alert")
    alert = alert_of(app, check, subject)
    assert alert.state is AlertState.FIRING
    assert said in alert.found
    assert alert.remedy
    end(faults)
    app.run_duty("alert")
    assert alert_of(app, check, subject).state is AlertState.FIRING, "it may come back"
    assert alert_of(app, check, subject).quiet_since is not None
    world.advance(rule.resolve_after)
    if check in (Check.WORKERS_ALIVE, Check.JOBS_UNHANDLED):
        end(faults)
    app.run_duty("alert")
    assert alert_of(app, check, subject).state is AlertState.OK
    events = [
        (event.type, event.data.get("subject", ""))
        for event in app.stream(types=["alert.fired", "alert.resolved"]).events
        if event.data["name"] == check
    ]
    assert events == [("alert.fired", subject), ("alert.resolved", subject)]
    world.tell()
    subjects = [str(mail["Subject"]).strip() for mail in world.messages]
    assert len([line for line in subjects if line.startswith("Alert: ") and said[:40] in line]) == 1, subjects
    assert subjects.count(f"Over: {check}, {subject}" if subject else f"Over: {check}") == 1


# Notifications


def fire(world: NotifyWorld) -> None:
    world.app.set_alert("jobs.depth", threshold=2, after=0, resolve_after=0)
    world.app.enqueue_many([world.convert.bind("") for _ in range(2)])
    world.app.run_duty("alert")


def subscribe(world: NotifyWorld) -> None:
    world.app.subscribe("alerts", types=["alert.fired", "alert.resolved"], channel="email", to=OPS)


def test_a_mail_says_what_is_wrong_how_much_and_what_mends_it(world: NotifyWorld) -> None:
    subscribe(world)
    fire(world)
    world.tell()
    world.app.run_until_idle(timeout="60s")
    world.advance(10 * MINUTE)
    world.app.run_duty("alert")
    world.tell()
    fired, over = world.texts()
    for line in ("Queue 'default' has 2 ready jobs", "run more workers", "jobs.depth, default", "Threshold: 2 jobs"):
        assert line in fired
    for line in (
        "The alert jobs.depth, default is over",
        "Was:       queue 'default' has 2 ready jobs",
        "Lasted:    10m",
    ):
        assert line in over
    assert "https://jobs.example.org/alerts" in fired


def test_a_silenced_alert_is_mailed_when_the_silence_ends(world: NotifyWorld) -> None:
    subscribe(world)
    world.app.silence_alert("jobs.depth", "1h", actor="ann", reason="the import")
    fire(world)
    world.tell()
    assert not world.mails
    assert alert_of(world.app, Check.JOBS_DEPTH, "default").is_silenced
    world.advance(HOUR)
    world.app.run_duty("alert")
    world.tell()
    assert [str(mail["Subject"]) for mail in world.messages] == ["Alert: queue 'default' has 2 ready jobs"]


def test_alerts_about_notifications_are_shown_and_not_sent(world: NotifyWorld) -> None:
    """A mail about mails that fail would fail too."""
    app = world.app
    app.set_alert("services.troubled", level="warning", after=0)
    app.set_alert("notify.deliveries", level="warning", after=0)
    subscribe(world)
    app.service("notify:smtp").open()
    with_smtp, app.settings = app.settings, _without_smtp(app)
    app.run_duty("alert")
    app.settings = with_smtp
    firing = {alert.key for alert in app.alerts().firing}
    assert {(Check.SERVICES_TROUBLED, "notify:smtp"), (Check.DELIVERIES, "")} <= firing
    app.run_duty("notify")
    assert not world.deliveries()


def _without_smtp(app: App) -> Any:
    from dataclasses import replace

    return replace(app.settings, smtp_url=None)


def test_an_alert_of_two_services_is_two_mails(world: NotifyWorld) -> None:
    app = world.app
    app.set_alert("services.troubled", level="warning", after=0)
    subscribe(world)
    for name in ("gateway", "partner"):
        app.service(name).open()
    app.run_duty("alert")
    world.tell()
    subjects = sorted(str(mail["Subject"]) for mail in world.messages)
    assert len(subjects) == 2
    assert "gateway" in subjects[0]
    assert "partner" in subjects[1]


# Which worker evaluates


def test_the_worker_that_evaluated_goes_on_and_another_takes_over(world: NotifyWorld) -> None:
    builder = world.app.wiring.duty_builder
    one, other = (builder._alert(name) for name in ("one", "other"))
    one.interval = other.interval = 15.0
    for name in ("one", "other"):
        worker = WorkerRecord(incarnation=name, host="here", pid=7, queues=None, kinds=(), concurrency=1)
        world.app.store.beat(Beat(worker=worker, lease=HOUR))
    for work in (one, other, one, other):
        work.step()
        assert world.app.alerts().evaluated_by == "one"
    world.advance(timedelta(seconds=45))
    other.step()
    assert world.app.alerts().evaluated_by == "other"
    one.step()
    assert world.app.alerts().evaluated_by == "other"
    world.app.store.leave("other")
    one.step()
    assert world.app.alerts().evaluated_by == "one", "at once: the other has signed off"


def test_the_doctor_goes_by_the_thresholds_of_the_rules(world: NotifyWorld) -> None:
    world.convert.enqueue("")
    assert found(world.app, Check.JOBS_DEPTH).level == "ok"
    world.app.set_alert("jobs.depth", threshold=1)
    finding = found(world.app, Check.JOBS_DEPTH)
    assert (finding.level, finding.subject, finding.value, finding.threshold) == ("warning", "default", 1, 1)


def found(app: App, check: Check) -> Any:
    (finding,) = [finding for finding in app.doctor() if finding.code is check]
    return finding


SHOP = """
from mulligan import Alert, App

app = App(
    "sqlite:///jobs.db",
    alerts=[Alert("workers.alive", after="0s", resolve_after="0s"), Alert("jobs.codes", is_on=False)],
)


@app.task
def convert(path: str) -> str:
    return path
"""


def test_no_worker_is_seen_although_none_evaluates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real worker is killed. Its heartbeat is made old instead of waiting for a minute."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MULLIGAN_DUTY_ALERT_INTERVAL_SEC", "0.2")
    (tmp_path / "shop.py").write_text(SHOP)
    # Another process, without the code of the app.
    app = App("sqlite:///jobs.db")

    def is_evaluated() -> bool:
        return app.has_database and not app.alerts().is_stale

    with started_worker("shop:app", tmp_path) as worker:
        eventually(is_evaluated)
        board = app.alerts()
        assert alert_of(app, Check.WORKERS_ALIVE).state is AlertState.OK
        rules = {rule.check: rule for rule in board.rules}
        assert (rules[Check.JOBS_CODES].is_on, rules[Check.WORKERS_ALIVE].is_in_code) == (False, True)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
    age(app)
    board = app.alerts()
    assert board.is_stale
    assert [(alert.check, alert.found) for alert in board.firing] == [(Check.WORKERS_ALIVE, "no worker is alive")]
    # A manual look also records it.
    app.run_duty("alert")
    assert [event.type for event in app.stream(types=["alert.fired", "alert.resolved"]).events] == ["alert.fired"]
    with started_worker("shop:app", tmp_path):
        eventually(lambda: len(app.stream(types=["alert.fired", "alert.resolved"]).events) == 2)
        assert alert_of(app, Check.WORKERS_ALIVE).state is AlertState.OK
    app.close()


def age(app: App) -> None:
    def change(db: Any) -> None:
        db.execute("UPDATE mulligan_workers SET seen_at = seen_at - 600000000")
        db.execute("UPDATE mulligan_alert_evaluation SET at = at - 600000000")

    app.store._database.write(change)  # type: ignore[attr-defined]
