"""The runbook's commands are run, each in the state that its case describes."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest
from msgspec import structs

from conformance.bench import failing, verdict
from live import eventually
from mulligan import App, Failure
from mulligan.explain import HoldCode
from mulligan.failure.decision import Fail, Retry, Succeed
from mulligan.records.finding import Check, Level
from mulligan.records.job import JobFilter, NewJob
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Beat, Claim, Outcome, WorkerRecord

RUNBOOK = (Path(__file__).parent.parent / "docs" / "operations" / "runbook.md").read_text("utf-8")
HOUR = timedelta(hours=1)
SHOP = """
from mulligan import App

app = App("sqlite:///jobs.db")


@app.task(service="gateway")
def convert() -> str:
    return "done"
"""


class Shop:
    """A database in a state that a case describes."""

    lock: IO[str] | None = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "shop.py").write_text(SHOP)
        self.app = App(f"sqlite:///{folder}/jobs.db")
        self.app.migrate()

    def enqueue(self, name: str = "a", kind: str = "convert") -> None:
        self.app.store.enqueue([NewJob(id=name, kind=kind, arguments="{}")])

    def claim(self, lease: timedelta = HOUR, number: int = 1) -> list[Any]:
        claim = Claim(incarnation="lost", number=number, kinds=["convert"], limit=9, lease=lease)
        return self.app.store.claim(claim).leases

    def settle(self, decision: Any) -> None:
        self.app.store.settle([Outcome(lease, decision) for lease in self.claim()])

    def beat(self) -> None:
        record = WorkerRecord(incarnation="lost", host="h", pid=1, queues=None, kinds=("convert",), concurrency=9)
        self.app.store.beat(Beat(worker=record, lease=HOUR))

    def change(self, statement: str) -> None:
        self.app.store._database.write(lambda db: db.execute(statement))  # type: ignore[attr-defined]

    def states(self) -> set[str]:
        return {str(job.state) for job in self.app.jobs(JobFilter()).jobs}


def a_worker_died(shop: Shop) -> None:
    shop.enqueue()
    shop.beat()
    shop.claim()
    shop.change("UPDATE mulligan_workers SET seen_at = seen_at - 600000000")
    shop.change("UPDATE mulligan_jobs SET lease_until = lease_until - 7200000000")


def jobs_are_stuck(shop: Shop) -> None:
    shop.enqueue()
    shop.claim(9 * HOUR)
    shop.change("UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - 3600000000")


def a_job_is_retried(shop: Shop) -> None:
    shop.enqueue()
    shop.settle(Retry(HOUR, verdict("GW_TIMEOUT"), {}))


def an_outcome_came_too_late(shop: Shop) -> None:
    shop.enqueue()
    late = shop.claim(9 * HOUR)
    shop.change("UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - 3600000000")
    shop.app.retry("a")
    shop.app.store.settle([Outcome(lease, Succeed("1")) for lease in late])


def the_database_is_down(shop: Shop) -> None:
    shop.app.close()
    (shop.folder / "jobs.db").rename(shop.folder / "away.db")


def it_is_back(shop: Shop) -> None:
    (shop.folder / "away.db").rename(shop.folder / "jobs.db")


def the_file_is_locked(shop: Shop) -> None:
    shop.enqueue()
    shop.settle(failing("BAD_DEPLOY"))
    shop.lock = (shop.folder / "jobs.db-lock").open()
    fcntl.flock(shop.lock, fcntl.LOCK_EX)


def it_is_free(shop: Shop) -> None:
    assert shop.lock is not None
    shop.lock.close()


def no_mail_arrives(shop: Shop) -> None:
    shop.app.subscribe("failures", types=["job.failed"], channel="email", to="ops@example.org")
    shop.enqueue()
    shop.settle(failing("BAD_DEPLOY"))
    shop.app.run_duty("notify")
    shop.app.run_until_idle(timeout="30s")


def the_queue_grows(shop: Shop) -> None:
    shop.enqueue("a")
    shop.enqueue("b")
    shop.change("UPDATE mulligan_jobs SET queued_at = queued_at - 1200000000")


def no_task_handles(shop: Shop) -> None:
    shop.enqueue("a", kind="resize")
    shop.enqueue("b", kind="resize")
    shop.beat()


def the_disk_is_full(shop: Shop) -> None:
    shop.enqueue("old")
    shop.settle(Succeed("1"))
    shop.change("UPDATE mulligan_jobs SET finished_at = finished_at - 172800000000")
    shop.enqueue("young")


def a_bad_deploy(shop: Shop) -> None:
    shop.enqueue("a")
    shop.enqueue("b")
    shop.settle(failing("BAD_DEPLOY"))
    shop.enqueue("judged")
    outage = Failure.of(ConnectionError("the gateway is down")).compact
    shop.settle(failing("WRONG_RULE", failure=outage))


def thousands_failed(shop: Shop) -> None:
    for name in "abcdefgh":
        shop.enqueue(name)
    shop.settle(failing("GATEWAY_DOWN"))


def requests_are_invalid(shop: Shop) -> None:
    for name in "abcd":
        shop.enqueue(name)
    shop.settle(failing("GW_4XX"))


def the_storage_is_full(shop: Shop) -> None:
    for name in "abcd":
        shop.enqueue(name)
    shop.settle(Fail(verdict("IO_ERROR"), {"because": "attempts exhausted", "of": 2}))


def retries_are_paused(shop: Shop) -> None:
    shop.app.pause(duty="retry")


def a_dependency_is_down(shop: Shop) -> None:
    record = NewJob(id="a", kind="convert", arguments="{}", service="gateway")
    shop.app.store.enqueue([structs.replace(record, id=f"x{number}") for number in range(10)])
    down = Retry(HOUR, verdict(blames_service=True), {})
    shop.app.store.settle([Outcome(lease, down) for lease in shop.claim()])
    shop.app.store.settle([Outcome(lease, down) for lease in shop.claim(number=2)])
    shop.app.store.enqueue([record])


def is_left_to_its_calls(shop: Shop) -> bool:
    service = shop.app.service("gateway").status
    return (service.state, service.forced) == ("closed", None)


def maintenance_is_planned(shop: Shop) -> None:
    shop.app.store.force(ServiceRequest(id="f", name="gateway", to="open"))


def is_being_probed(shop: Shop) -> bool:
    return shop.app.service("gateway").status.state == "half_open"


def a_backup_is_needed(shop: Shop) -> None:
    shop.enqueue()
    shop.app.close()


@dataclass(frozen=True)
class Case:
    prepare: Callable[[Shop], object]
    expect: Callable[[Shop], object]
    mend: Callable[[Shop], object] = lambda _: None
    # What cannot be brought about here: a full disk, a wrong clock; a backup is made while all is well.
    is_provoked: bool = True


CASES = {
    "A worker died": Case(a_worker_died, lambda shop: shop.states() == {"succeeded"}),
    "Jobs are stuck": Case(jobs_are_stuck, lambda shop: shop.states() == {"waiting"}),
    "Jobs are stuck in a retry loop": Case(a_job_is_retried, lambda shop: shop.states() == {"succeeded"}),
    "A retry is already scheduled": Case(a_job_is_retried, lambda shop: shop.states() == {"queued"}),
    "Changes at the same time": Case(an_outcome_came_too_late, lambda shop: shop.states() == {"succeeded"}),
    "The database is down": Case(
        the_database_is_down, lambda shop: (shop.folder / "jobs.db").exists(), mend=it_is_back
    ),
    "The SQLite file is locked": Case(
        the_file_is_locked, lambda shop: shop.states() <= {"waiting", "queued"}, mend=it_is_free
    ),
    "The queue grows": Case(the_queue_grows, lambda shop: shop.states() == {"succeeded"}),
    "Jobs that no worker handles": Case(no_task_handles, lambda shop: shop.states() == {"cancelled"}),
    "The disk is full": Case(the_disk_is_full, lambda shop: shop.states() == {"queued"}, is_provoked=False),
    "A bad deploy made many jobs fail": Case(
        a_bad_deploy,
        lambda shop: shop.states() == {"queued"} and len((shop.folder / "failed.jsonl").read_text().splitlines()) == 3,
    ),
    "Thousands failed in an outage": Case(thousands_failed, lambda shop: shop.states() == {"succeeded"}),
    "Mostly GW_4XX": Case(requests_are_invalid, lambda shop: shop.states() == {"succeeded"}),
    "IO_ERROR spikes": Case(the_storage_is_full, lambda shop: shop.states() == {"succeeded"}),
    "Duties are paused": Case(retries_are_paused, lambda shop: shop.app.store.pauses() == []),
    "A dependency is down": Case(a_dependency_is_down, is_left_to_its_calls),
    "A dependency goes into maintenance": Case(maintenance_is_planned, is_being_probed),
    "No mail arrives": Case(no_mail_arrives, lambda shop: not shop.app.deliveries(state="skipped")),
    "A clock is wrong": Case(lambda _: None, lambda shop: shop.states() == set(), is_provoked=False),
    "Restore from a backup": Case(a_backup_is_needed, lambda shop: shop.states() == {"queued"}, is_provoked=False),
}


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)\n", RUNBOOK, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def lines(text: str) -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """`mulligan` is this one, the app is the shop, and a lease is short."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "mulligan").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mulligan "$@"\n')
    (programs / "mulligan").chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MULLIGAN_APP": "shop:app",
        "MULLIGAN_WORKER_LEASE_TTL_SEC": "1",
        "ID": "a",
    }


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.app.close()


def test_every_case_of_the_runbook_is_run_here() -> None:
    assert list(sections()) == list(CASES)
    for text in sections().values():
        assert all(word in text for word in ("**Symptom.**", "**Do.**", "**Expect.**"))


@pytest.mark.parametrize("title", CASES)
def test_the_commands_of_a_case_work(title: str, shop: Shop, environment: dict[str, str]) -> None:
    case, text = CASES[title], sections()[title]
    case.prepare(shop)
    if case.is_provoked:
        check_symptom(text, shop.app)
    look, _, do = text.partition("**Do.**")
    assert not case.is_provoked or not case.expect(shop), "there is something to be done"
    shop.app.close()
    run(lines(look), environment)
    case.mend(shop)
    run(lines(do), environment, until=lambda: case.expect(shop))
    assert case.expect(shop)


def check_symptom(text: str, app: App) -> None:
    """The symptom names what doctor finds, the code that explain has, or the type of an event."""
    checks = {Check(code) for code in re.findall(r"Doctor: `([a-z.]+)`", text)}
    codes = {HoldCode(code) for code in re.findall(r"Explain:\s`(\w+)`", text)}
    events = set(re.findall(r"Events:\s`([a-z._]+)`", text))
    assert checks or codes or events
    assert checks <= {finding.code for finding in app.doctor() if finding.level is not Level.OK} if checks else True
    assert codes <= {hold.code for hold in app.explain("a").holds} if codes else True
    assert events <= {event.type for event in app.events("a")} if events else True


def run(commands: list[str], environment: dict[str, str], until: Callable[[], object] | None = None) -> None:
    for command in commands:
        if command.startswith("mulligan worker") and not command.startswith("mulligan workers"):
            assert until is not None
            work(command, environment, until)
            continue
        done = subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60)
        # A doctor that finds a problem says so.
        allowed = (0, 5) if command == "mulligan doctor" else (0,)
        assert done.returncode in allowed, (command, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr


def work(command: str, environment: dict[str, str], until: Callable[[], object]) -> None:
    """A worker, until it has done what is expected of it."""
    worker = subprocess.Popen(["sh", "-c", f"exec {command}"], env=environment, stdout=subprocess.DEVNULL)
    try:
        eventually(until)
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    finally:
        worker.kill()
        worker.wait()


def test_what_was_exported_before_the_retry_can_be_read_again(shop: Shop, environment: dict[str, str]) -> None:
    a_bad_deploy(shop)
    shop.app.close()
    run(["mulligan jobs export --state failed --events > failed.jsonl"], environment)
    kept = [json.loads(line) for line in (shop.folder / "failed.jsonl").read_text().splitlines()]
    found = {job["id"]: job["error_code"] for job in kept}
    assert found == {"a": "BAD_DEPLOY", "b": "BAD_DEPLOY", "judged": "WRONG_RULE"}
    assert [event["type"] for event in kept[0]["events"]][-1] == "job.failed"
