"""Limits and retry budgets as users write them: on tasks, queues and owners, in the code and in the policies file."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mulligan import App, Fixed, Owner, Queue, RetryableError, RetryPolicy
from mulligan.errors import BadPolicies, BadTask
from mulligan.lifecycle import State
from mulligan.policies.file import load
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.testing import sandbox


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def test_no_more_of_a_task_run_at_once_than_its_concurrency(url: str) -> None:
    app = App(url)
    lock, both = threading.Lock(), threading.Barrier(2, timeout=20)
    at_once = [0]
    seen: list[int] = []

    @app.task(concurrency=2)
    def convert() -> None:
        with lock:
            at_once[0] += 1
            seen.append(at_once[0])
        # Two do meet here, so the limit is reached.
        both.wait()
        with lock:
            at_once[0] -= 1

    with app:
        app.enqueue_many([convert.bind() for _ in range(8)])
        app.run_until_idle()
        assert app.store.counts() == {"convert": {"succeeded": 8}}
    assert max(seen) == 2


def test_code_and_policies_file_together_are_the_limits_in_force(url: str, tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text(
        "kinds: {convert: {concurrency: 3}}\nqueues: {bulk: {concurrency: 7}}\nowners: {acme: {retries_per_day: 10}}\n",
        "utf-8",
    )
    app = App(
        url,
        queues=[Queue("bulk", concurrency=50), Queue("plain")],
        owners=[Owner("*", concurrency=2, cost_per_month=100, over_budget="fail")],
        policies=file,
    )

    @app.task(concurrency=9)
    def convert() -> None: ...

    @app.task(concurrency=4)
    def send() -> None: ...

    assert app.limits_in_force() == LimitBook(
        kinds={"convert": 3, "send": 4},
        queues={"bulk": 7},
        owners={"*": 2, "acme": 2},
        budgets={
            "*": RetryBudget(None, None, 100, "fail"),
            "acme": RetryBudget(10, None, 100, "fail"),
        },
    )
    assert app.limits_in_force() is app.limits_in_force(), "the store compares"


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "3", 10**9])
def test_a_concurrency_that_is_none_is_refused(url: str, number: object) -> None:
    app = App(url)
    with pytest.raises(BadTask, match="an integer from 1"):
        app.task(concurrency=number)(lambda: None)  # type: ignore[call-overload]


def test_a_concurrency_of_the_file_is_checked(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("kinds: {convert: {concurrency: none}}", "utf-8")
    with pytest.raises(BadPolicies, match=r"kinds\.convert\.concurrency"):
        load(file)


def test_explain_says_which_limit_is_reached() -> None:
    app = App()

    @app.task(concurrency=1)
    def convert() -> None: ...

    with sandbox(app):
        convert.enqueue()
        job = convert.enqueue()
        app.store.promote("promote", limit=10)
        told = " ".join(app.explain(job.id).next)
        assert "limit of kind 'convert' reached: 1 of 1 running or ready" in told
        assert "when a slot is free" in app.explain(job.id).happened[0]
        (limit,) = app.limits()
        assert (limit.what, limit.name, limit.taken, limit.most) == ("kind", "convert", 1, 1)


def test_explain_says_what_holds_a_job_back_that_has_a_place() -> None:
    app = App("sqlite:///:memory:", queues=[Queue("bulk", concurrency=3)])

    @app.task(queue="bulk", service="gateway")
    def convert() -> None: ...

    def told() -> str:
        box.run()
        return "\n".join(app.explain(job.id).next)

    with sandbox(app) as box:
        app.pause("1h", kind="convert", actor="ann", reason="a bad release")
        job = convert.enqueue()
        assert "Its kind 'convert' is paused until" in told()
        app.resume(kind="convert")
        app.service("gateway").open(actor="ann", reason="maintenance")
        again = job = convert.enqueue()
        assert "maintenance" in told()
        app.service("gateway").auto()
        box.advance("1m")
        assert app.job(again.id).state == "succeeded"


@pytest.mark.parametrize(
    ("budget", "priority", "used", "is_kept"),
    [(0, 0, 0, False), (1, 0, 1, False), (20, 0, 19, True), (20, -10, 20, False)],
)
def test_it_says_that_a_part_of_the_budget_is_kept_where_one_is(
    budget: int, priority: int, used: int, is_kept: bool
) -> None:
    app = App(owners=[Owner("acme", retries_per_day=budget)])

    @app.task(retry=RetryPolicy(max_attempts=30, backoff=Fixed("1m")))
    def convert() -> None:
        raise RetryableError("not yet")

    with sandbox(app) as box:
        job = convert.options(owner="acme", priority=priority).enqueue()
        box.advance("30m")
        told = " ".join(app.explain(job.id).next)
        assert f"are used up: {used} of {budget} today" in told
        assert ("The rest is reserved for jobs of higher priority." in told) == is_kept


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"retries_per_day": 2}, "had used 2 of 2 retries on {day} (UTC)"),
        ({"retries_per_month": 1}, "had used 1 of 1 retries in {month} (UTC)"),
        (
            {"retries_per_day": 20},
            "had used 19 of 20 retries on {day} (UTC); the rest is reserved for jobs of higher priority",
        ),
        ({"cost_per_month": 100}, "had used 90 of 100 of the cost of retries in {month} (UTC); this one costs 30"),
    ],
)
def test_a_job_that_failed_for_lack_of_budget_says_whose_which_and_how_much(budget: dict[str, Any], why: str) -> None:
    app = App(owners=[Owner("acme", over_budget="fail", **budget)])

    @app.task(retry=RetryPolicy(max_attempts=30, backoff=Fixed("1s")), cost=30)
    def convert() -> None:
        raise RetryableError("not yet")

    with sandbox(app) as box:
        day = f"{box.now:%Y-%m-%d}"
        job = convert.options(owner="acme").enqueue()
        box.advance("1m")
        assert app.job(job.id).error_code == "BUDGET_EXHAUSTED"
        told = app.explain(job.id).next
        assert f"No retry follows, because owner 'acme' {why.format(day=day, month=day[:7])}." in told


def test_retries_beyond_the_budget_wait_for_tomorrow_and_say_so() -> None:
    app = App(owners=[Owner("acme", retries_per_day=2)])

    @app.task(retry=RetryPolicy(max_attempts=5, backoff=Fixed("1m")))
    def convert() -> None:
        raise RetryableError("not yet")

    with sandbox(app) as box:
        job = convert.options(owner="acme", priority="high").enqueue()
        box.advance("10m")
        found = app.job(job.id)
        assert (found.state, found.attempt, found.waiting_for) == (State.WAITING, 3, "budget")
        assert found.due_at.hour == 0
        told = " ".join(app.explain(job.id).next)
        assert "retries of owner 'acme' are used up: 2 of 2 today" in told
        spent = app.spending("acme")
        assert spent is not None
        assert spent.today == 2
        box.advance(found.due_at - box.now + timedelta(minutes=1))
        assert app.job(job.id).attempt == 4
