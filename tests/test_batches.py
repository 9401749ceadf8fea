"""Batches as an app's code makes and steers them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mulligan import (
    App,
    BatchClosed,
    BatchExpired,
    BatchNotFound,
    BatchState,
    FinalError,
    JobFilter,
    Owner,
    Queue,
    RetryPolicy,
)
from mulligan.console.batches import CHUNK
from mulligan.errors import BadBatch, BadFilter, InvalidArguments, NotAllowed
from mulligan.records.job import Job
from mulligan.testing import sandbox

app = App("sqlite:///:memory:")
broken: set[int] = set()
locked: set[str] = set()
told: list[tuple[str, str]] = []


def is_unlocked(job: Job[Any]) -> None:
    if job.id in locked:
        raise NotAllowed("the source is gone")


@app.task
def announce(batch_id: str) -> None:
    told.append((batch_id, str(app.find_batch(batch_id).state)))


@app.task(retry=RetryPolicy(max_attempts=1), can_retry=is_unlocked)
def convert(n: int) -> int:
    if n in broken:
        raise FinalError("it is broken")
    return n


@app.task(service=str)
def by_service(name: str) -> None: ...


@app.task
def of_nothing() -> None: ...


@pytest.fixture(autouse=True)
def _in_a_sandbox() -> Iterator[None]:
    for known in (broken, locked):
        known.clear()
    told.clear()
    with sandbox(app):
        yield


def test_what_is_said_about_a_batch_is_bounded() -> None:
    app = App("sqlite:///:memory:")

    @app.task(retry=RetryPolicy(max_attempts=1))
    def fail() -> None:
        raise FinalError("no")

    said = "\ud800" + "x" * 10_000
    with sandbox(app) as box:
        batch = app.batch("spring")
        batch.add(fail.bind())
        batch.publish(actor=said)
        box.run()
        batch.retry_failed(actor=said, reason=said)
        batch.cancel(actor=said, reason=said)
        texts = [text for event in app.events() for text in (event.actor or "", event.data.get("reason") or "")]
        assert 400 < max(map(len, texts)) <= 500


def test_a_batch_is_drafted_filled_published_and_settled() -> None:
    broken.add(2)
    batch = app.batch("spring", on_settled=announce)
    jobs = batch.add(*(convert.bind(n) for n in range(4)))
    assert [job.batch for job in jobs] == [batch.id] * 4
    app.run_until_idle()
    assert {app.job(job.id).state for job in jobs} == {"waiting"}
    assert batch.publish().state is BatchState.PROCESSING
    app.run_until_idle()
    found = batch.refresh()
    assert (found.state, found.succeeded, found.failed, found.left) == (BatchState.PARTIAL, 3, 1, 0)
    assert told == [(batch.id, "partial")]


def test_what_follows_a_batch_takes_its_owners_turn_in_a_fair_queue() -> None:
    app = App("sqlite:///:memory:", queues=[Queue("bulk", fair=True)], owners=[Owner("acme", weight=2)])
    ran: list[str] = []

    @app.task(queue="bulk")
    async def after(batch_id: str) -> None:
        ran.append(batch_id)

    @app.task
    async def member() -> None: ...

    with sandbox(app) as box:
        app.enqueue_many([after.options(owner="big").bind("big") for _ in range(40)])
        batch = app.batch("spring", on_settled=after, owner="acme")
        batch.add(member.options(owner="acme", delay="1h").bind())
        batch.publish()
        app.pause("2h", queue="bulk")
        # By submission it would come an hour after all of them.
        box.advance("2h")
        assert len(ran) == 41
        assert ran.index(batch.id) < 5


def test_failed_members_are_retried_and_the_batch_is_settled_again() -> None:
    broken.add(2)
    batch = app.batch("spring", on_settled=announce)
    batch.add(*(convert.bind(n) for n in range(4)))
    batch.publish()
    app.run_until_idle()
    broken.clear()
    done = batch.retry_failed(actor="ann")
    assert (len(done.jobs), done.skipped, done.batch.generation) == (1, {}, 2)
    app.run_until_idle()
    assert told == [(batch.id, "partial"), (batch.id, "ready")]
    assert batch.refresh().retry_failed().jobs == ()


def test_a_member_its_task_does_not_want_retried_is_skipped_with_the_reason() -> None:
    broken.update({0, 1})
    batch = app.batch("spring")
    first, _ = batch.add(convert.bind(0), convert.bind(1))
    batch.publish()
    app.run_until_idle()
    locked.add(first.id)
    done = batch.retry_failed()
    assert (len(done.jobs), done.skipped) == (1, {first.id: "the source is gone"})


def test_a_batch_can_be_cancelled_and_its_members_brought_back() -> None:
    batch = app.batch("spring")
    batch.add(convert.bind(1), convert.bind(2))
    batch.publish()
    assert (batch.cancel(actor="ann").state, batch.refresh().cancelled) == (BatchState.FAILED, 2)
    assert batch.retry_failed().jobs == ()
    assert len(batch.retry_failed(cancelled=True).jobs) == 2
    app.run_until_idle()
    assert batch.refresh().state is BatchState.READY


def test_options_name_the_batch_and_its_owner_comes_along() -> None:
    batch = app.batch("spring", owner="acme")
    job = convert.options(batch=batch).enqueue(1)
    other = convert.options(batch=batch.id, owner="acme").enqueue(2)
    assert [(each.batch, each.owner) for each in (job, other)] == [(batch.id, "acme")] * 2
    assert {each.id for each in app.jobs(JobFilter(batch=batch.id)).jobs} == {job.id, other.id}
    with pytest.raises(InvalidArguments, match="belongs to 'acme'"):
        convert.options(batch=batch, owner="other")
    with pytest.raises(InvalidArguments, match="another owner or another batch"):
        batch.add(convert.options(owner="other").bind(1))
    with pytest.raises(InvalidArguments, match="another owner or another batch"):
        app.batch("summer", owner="acme").add(convert.options(batch=batch).bind(1))


def test_thousands_are_added_in_chunks() -> None:
    batch = app.batch("large")
    assert len(batch.add(*(convert.bind(n) for n in range(CHUNK + 1)))) == CHUNK + 1
    assert batch.publish().total == CHUNK + 1


def test_a_batch_that_is_published_takes_no_more() -> None:
    batch = app.batch("spring").publish()
    assert batch.state is BatchState.READY
    with pytest.raises(BatchClosed, match="add members before it is published"):
        batch.add(convert.bind(1))
    with pytest.raises(BatchClosed):
        convert.options(batch=batch).enqueue(1)


def test_an_expired_batch_is_not_retried() -> None:
    with sandbox(app) as box:
        broken.add(1)
        batch = app.batch("spring", expires_in="1h")
        (job,) = batch.add(convert.bind(1))
        batch.publish()
        app.run_until_idle()
        box.advance("1h")
        app.run_duty("expire")
        assert batch.refresh().state is BatchState.EXPIRED
        for call in (lambda: batch.retry_failed(), lambda: app.retry(job.id)):
            with pytest.raises(BatchExpired, match="cannot be retried"):
                call()


def test_batches_are_listed_and_found() -> None:
    spring, summer = app.batch("spring", owner="acme"), app.batch("summer")
    assert [batch.name for batch in app.batches()] == ["summer", "spring"]
    assert [batch.name for batch in app.batches(owner="acme", state="draft")] == ["spring"]
    assert app.find_batch(summer.id) == summer
    with pytest.raises(BatchNotFound):
        app.find_batch(spring.id, owner="other")
    with pytest.raises(BadFilter, match="one of draft, processing"):
        app.batches(state="done")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": ""}, "but it must be one line"),
        ({"name": "\ud800"}, "but it must be one line"),
        ({"name": "two\nlines"}, "one line"),
        ({"owner": "x" * 201}, "the owner of a batch"),
        ({"owner": "*"}, "which stands for every owner; a batch has one owner or none"),
        ({"expires_in": "0s"}, "greater than zero, such as '7d'"),
        ({"success_at": 0}, "above 0 up to 1"),
        ({"success_at": 1.1}, "above 0 up to 1"),
        ({"success_at": True}, "above 0 up to 1"),
        ({"abort_above": -0.1}, "from 0 up to 1"),
        ({"abort_above": float("nan")}, "from 0 up to 1"),
        ({"on_settled": "announce"}, "a task of the same app"),
        ({"on_settled": of_nothing}, "one argument, the batch's id"),
        ({"on_settled": by_service}, "must be a name, not a function"),
    ],
)
def test_what_cannot_be_is_said_at_once(options: dict[str, Any], said: str) -> None:
    with pytest.raises(BadBatch, match=said):
        app.batch(**{"name": "spring", **options})


def test_only_bound_calls_are_added() -> None:
    with pytest.raises(BadBatch, match=r"task.bind\(…\)"):
        app.batch("spring").add(lambda: convert(1))  # type: ignore[arg-type]


def test_explain_says_that_the_batch_is_a_draft_and_why_members_were_cancelled() -> None:
    broken.add(0)
    batch = app.batch("spring", abort_above=0.0)
    jobs = batch.add(convert.options(priority="high").bind(0), convert.options(delay="1h").bind(1))
    explained = app.explain(jobs[0].id)
    assert explained.happened[0].endswith("It was enqueued, to run when its batch is published.")
    assert explained.next[0] == "Its batch 'spring' is a draft of 2 members: they run when it is published."
    assert explained.next[1] == f"To publish it: mulligan batches publish {batch.id}"
    batch.publish()
    app.run_until_idle()
    explained = app.explain(jobs[1].id)
    assert explained.happened[0].endswith("to run when its batch is published, but not before 1h have passed.")
    assert explained.happened[-1].endswith("It was cancelled, because the batch was aborted.")
    assert any(told.startswith("Its batch 'spring' was aborted at") for told in explained.next)


def test_what_a_rolled_back_transaction_added_was_never_there(tmp_path: Path) -> None:
    path = tmp_path / "jobs.db"
    with App(f"sqlite:///{path}") as other, closing(sqlite3.connect(path)) as connection:
        task = other.task(convert.function)
        batch = other.batch("spring")
        batch.add(task.bind(1), connection=connection)
        assert batch.refresh().total == 0, "not committed yet"
        connection.rollback()
        batch.add(task.bind(1), task.bind(2), connection=connection)
        connection.commit()
        assert batch.publish().total == 2
        with pytest.raises(BatchClosed):
            batch.add(task.bind(3), connection=connection)
        connection.rollback()
        assert other.store.counts() == {"convert": {"queued": 2}}
