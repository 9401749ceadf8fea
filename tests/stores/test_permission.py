"""Preconditions of manual retries: asked in the transaction of the retry, so that credits are never spent twice."""

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import emptied

from conformance.bench import HOUR, at_once, failing
from mulligan import App, IllegalMove, InsufficientCredits, Job, JobFilter, JobNotFound, NotAllowed, RetryPolicy
from mulligan.records.redrive import RedriveState
from mulligan.store.messages import Claim, Outcome

SPEND = "UPDATE credits SET balance = balance - 1 WHERE balance >= 1"


class Bank:
    """Credits beside the jobs, and apps that spend them: as many processes would be."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.apps: list[App] = []
        self.app = self.open()
        self.app.migrate()
        self._numbers = iter(range(1, 1_000))

    def open(self) -> App:
        app = App(self.url)
        app.task("send", retry=RetryPolicy(1), can_retry=self.spend)(_nothing)
        self.apps.append(app)
        return app

    def spend(self, job: Job[Any], connection: Any) -> None:
        self.asked.append(job.id)
        if connection.execute(SPEND).rowcount != 1:
            raise InsufficientCredits(required=1, available=0)

    def connect(self) -> Any:
        if self.url.startswith("sqlite"):
            return closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None))
        return psycopg.connect(self.url, autocommit=True)

    def fund(self, balance: int) -> None:
        with self.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS credits")
            connection.execute(f"CREATE TABLE credits (balance integer NOT NULL DEFAULT {balance})")
            connection.execute("INSERT INTO credits DEFAULT VALUES")

    @property
    def balance(self) -> int:
        with self.connect() as connection:
            return int(connection.execute("SELECT balance FROM credits").fetchone()[0])

    def failed(self, number: int, **options: Any) -> list[Job[Any]]:
        task = self.app.tasks["send"].options(**options)
        jobs = self.app.enqueue_many([task.bind() for _ in range(number)])
        if "batch" in options:
            self.app.publish_batch(options["batch"].id)
        claim = Claim(incarnation="w", number=next(self._numbers), kinds=["send"], limit=99, lease=HOUR)
        leases = self.app.store.claim(claim).leases
        self.app.store.settle([Outcome(lease, failing()) for lease in leases])
        return jobs

    def states(self, jobs: list[Job[Any]]) -> list[str]:
        return sorted(str(self.app.job(job.id).state) for job in jobs)


def _nothing() -> None: ...


@pytest.fixture(params=["sqlite", "postgres"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bank]:
    is_file = request.param == "sqlite"
    opened = Bank(f"sqlite:///{tmp_path}/jobs.db" if is_file else emptied(request.getfixturevalue("database")))
    yield opened
    if not is_file:
        with opened.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS credits")
    for app in opened.apps:
        app.close()


@pytest.mark.parametrize("verb", [App.retry, App.run_now], ids=["retry", "run_now"])
def test_two_retries_of_two_jobs_spend_one_credit_once(bank: Bank, verb: Callable[..., Job[Any]]) -> None:
    for _ in range(5):
        bank.fund(1)
        jobs, apps = bank.failed(2), [bank.app, bank.open()]
        answers = at_once([lambda app=app, job=job: verb(app, job.id) for app, job in zip(apps, jobs, strict=True)])
        assert sum(isinstance(answer, InsufficientCredits) for answer in answers) == 1, answers
        assert (bank.balance, bank.states(jobs)) == (0, ["failed", "queued"])


RETRIER = """
import sys
from mulligan import App, InsufficientCredits

def spend(job, connection):
    if connection.execute("UPDATE credits SET balance = balance - 1 WHERE balance >= 1").rowcount != 1:
        raise InsufficientCredits(required=1, available=0)

app = App(sys.argv[1])
app.task("send", can_retry=spend)(lambda: None)
app.check_store()
print("ready", flush=True)
sys.stdin.readline()
for job in sys.argv[2:]:
    try:
        print(app.retry(job).state, flush=True)
    except InsufficientCredits:
        print("refused", flush=True)
"""


def test_processes_that_retry_at_once_spend_each_credit_once(bank: Bank) -> None:
    bank.fund(5)
    jobs = bank.failed(12)
    parts = [[job.id for job in jobs[number::4]] for number in range(4)]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RETRIER, bank.url, *part], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for part in parts
    ]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [line for process in processes for line in process.communicate(timeout=60)[0].split()]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert sorted(answers) == ["queued"] * 5 + ["refused"] * 7
    assert (bank.balance, bank.states(jobs)) == (0, ["failed"] * 7 + ["queued"] * 5)


def test_two_retries_of_one_job_spend_one_credit(bank: Bank) -> None:
    bank.fund(5)
    (job,), apps = bank.failed(1), [bank.app, bank.open()]
    answers = at_once([lambda app=app: app.retry(job.id) for app in apps])
    assert sum(isinstance(answer, IllegalMove) for answer in answers) == 1, answers
    assert (bank.balance, bank.asked) == (4, [job.id])


def test_a_precondition_that_raises_after_it_wrote_has_written_nothing(bank: Bank) -> None:
    bank.fund(3)
    (job,) = bank.failed(1)
    for error in (NotAllowed("no"), ValueError("no")):

        def can_retry(_job: Job[Any], connection: Any, error: Exception = error) -> None:
            assert connection.execute(SPEND).rowcount == 1
            raise error

        app = App(bank.url)
        bank.apps.append(app)
        app.task("send", can_retry=can_retry)(_nothing)
        with pytest.raises(NotAllowed):
            app.retry(job.id)
        assert (bank.balance, bank.states([job])) == (3, ["failed"])


def test_a_precondition_may_use_the_app_itself(bank: Bank) -> None:
    app = App(bank.url)
    bank.apps.append(app)
    (job,) = bank.failed(1)
    note = app.task("note")(_nothing)
    seen = []

    def can_retry(job: Job[Any]) -> bool:
        seen.append(app.job(job.id).state)
        note.enqueue()
        return True

    app.task("send", can_retry=can_retry)(_nothing)
    assert app.retry(job.id).state == "queued"
    assert (seen, len(app.jobs(JobFilter(kind="note")).jobs)) == (["failed"], 1)


def test_a_batch_retries_as_many_members_as_there_are_credits(bank: Bank) -> None:
    bank.fund(2)
    batch = bank.app.batch("import")
    jobs = bank.failed(4, batch=batch)
    retried = bank.app.retry_batch(batch.id)
    assert (len(retried.jobs), len(retried.skipped), bank.balance) == (2, 2, 0)
    assert set(retried.skipped.values()) == {"this needs 1 credits, 0 are available"}
    assert sorted(bank.asked) == sorted(job.id for job in jobs), "each member is asked about once"
    assert bank.states(jobs) == ["failed", "failed", "waiting", "waiting"]
    assert retried.batch.failed == 2


def test_two_batch_retries_at_once_spend_no_credit_twice(bank: Bank) -> None:
    bank.fund(3)
    batch = bank.app.batch("import")
    jobs = bank.failed(2, batch=batch)
    answers = at_once([lambda app=app: app.retry_batch(batch.id) for app in (bank.app, bank.open())])
    retried = [job for answer in answers if not isinstance(answer, Exception) for job in answer.jobs]
    assert (sorted(retried), bank.balance) == (sorted(job.id for job in jobs), 1)


def test_a_member_whose_key_another_job_holds_costs_nothing(bank: Bank) -> None:
    bank.fund(1)
    batch = bank.app.batch("import")
    (job,) = bank.failed(1, batch=batch, dedupe="k")
    bank.app.tasks["send"].options(dedupe="k").enqueue()
    retried = bank.app.retry_batch(batch.id)
    assert (retried.jobs, bank.balance) == ((), 1)
    assert "holds the same dedupe key" in retried.skipped[job.id]


def test_a_redrive_retries_as_many_jobs_as_there_are_credits(bank: Bank) -> None:
    bank.fund(2)
    jobs = bank.failed(4)
    begun = bank.app.redrive(JobFilter(state="failed"), canary=0, abort_above=1)
    while not bank.app.redrive_status(begun.id).state.is_over:
        bank.app.tick()
    done = bank.app.redrive_status(begun.id)
    assert (done.state, done.retried, dict(done.skipped)) == (RedriveState.DONE, 2, {"insufficient credits": 2})
    assert (bank.balance, sorted(bank.asked)) == (0, sorted(job.id for job in jobs))


def test_a_retry_waits_for_the_credits_that_another_transaction_holds(bank: Bank) -> None:
    """The other transaction is the caller's: it retries one job and has not committed when the other is retried."""
    bank.fund(1)
    first, second = bank.failed(2)
    entered = threading.Event()

    def retry_second() -> Job[Any]:
        entered.set()
        return bank.open().retry(second.id)

    with ThreadPoolExecutor(1) as pool, bank.connect() as connection:
        connection.execute("BEGIN IMMEDIATE" if bank.url.startswith("sqlite") else "BEGIN")
        bank.app.retry(first.id, connection=connection)
        waiting = pool.submit(retry_second)
        assert entered.wait(20)
        connection.execute("COMMIT")
        with pytest.raises(InsufficientCredits):
            waiting.result(30)
    assert (bank.balance, bank.states([first, second])) == (0, ["failed", "waiting"])


def test_a_job_of_another_owner_costs_nothing(bank: Bank) -> None:
    bank.fund(1)
    (job,) = bank.failed(1, owner="acme")
    with pytest.raises(JobNotFound):
        bank.app.retry(job.id, owner="other")
    assert (bank.balance, bank.asked) == (1, [])
