"""Queues and owners: what may be said of them, in code and in the file, and whose word counts."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from mulligan import App, Owner, Queue, SubmitRateExceeded
from mulligan.errors import BadPolicies, BadPolicy
from mulligan.policies.file import PolicyFile
from mulligan.policies.quotas import Quotas
from mulligan.policies.reading import Policies, read
from mulligan.records.job import FollowUp, NewJob
from mulligan.records.rate import parse_rate
from mulligan.testing.virtual import VirtualClock


def policies(text: str) -> Policies:
    return read(text.encode(), "policies.yaml")


def quotas(text: str, *, queues: list[Queue] | None = None, owners: list[Owner] | None = None) -> Quotas:
    file = PolicyFile(None)
    file.follow(text.encode())
    return Quotas(queues or [], owners or [], file=file)


def job(**options: Any) -> NewJob:
    return NewJob(**{"id": "j", "kind": "send", "arguments": "{}", "queue": "bulk", **options})


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: Queue(""), "the name of a queue is '', but it must be one line of 1 to 200 printable characters"),
        (lambda: Queue("a\nb"), "one line of 1 to 200"),
        (lambda: Queue(3), "one line of 1 to 200"),  # type: ignore[arg-type]
        (lambda: Queue("q", fair=1), "fair of queue 'q' is 1, but it must be true"),  # type: ignore[arg-type]
        (lambda: Queue("q", concurrency=0), "concurrency of queue 'q' is 0, but it must be an integer from 1"),
        (lambda: Queue("b*"), "is 'b*', but it must be the name of one queue, without '*'; patterns are not possible"),
        (lambda: Queue("*"), "it must be the name of one queue"),
        (lambda: Owner("c*"), "is 'c*', but it must be the name of one owner, or '*' for every owner"),
        (lambda: Owner("**"), "it must be the name of one owner"),
        (lambda: Owner(" "), "the name of an owner"),
        (lambda: Owner("a", weight=0), "weight of owner 'a' is 0, but it must be a number from 0.001 to 1,000"),
        (lambda: Owner("a", weight=float("nan")), "weight of owner 'a'"),
        (lambda: Owner("a", concurrency=-1), "concurrency of owner 'a'"),
        (lambda: Owner("a", submit_rate="10"), "submit_rate of owner 'a' is '10', but it must be a rate such as"),
        (lambda: Owner("a", submit_rate="0/s"), "submit_rate of owner 'a'"),
        (lambda: Owner("a", submit_rate=True), "submit_rate of owner 'a'"),
        (lambda: Owner("a", retries_per_day=-1), "retries_per_day of owner 'a'"),
        (lambda: Owner("a", retries_per_month=1.5), "retries_per_month of owner 'a'"),  # type: ignore[arg-type]
        (lambda: Owner("a", cost_per_month="x"), "cost_per_month of owner 'a'"),  # type: ignore[arg-type]
        (lambda: Owner("a", over_budget="stop"), "over_budget of owner 'a' is 'stop', but it must be one of 'wait',"),
        (lambda: Quotas(queues=[Queue("q"), Queue("q")]), "queues names 'q' twice"),
        (lambda: Quotas(owners=[Queue("q")]), "owners must be a list of Owner"),  # type: ignore[list-item]
        (lambda: App("sqlite:///:memory:", queues="bulk"), "queues must be a list of Queue"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_can(make: Any, problem: str) -> None:
    with pytest.raises(BadPolicy) as raised:
        make()
    assert problem in str(raised.value)


def test_an_owner_has_its_own_values_then_the_defaults() -> None:
    in_force = Quotas(
        [Queue("bulk", fair=True)],
        [Owner("*", weight=2, submit_rate="10/s"), Owner("acme", weight=5), Owner("big", submit_rate="99/s")],
    ).in_force
    assert [in_force.weight("bulk", owner) for owner in ("acme", "big", "small", "")] == [5, 2, 2, 1]
    assert [str(in_force.owner(owner).rate) for owner in ("acme", "big", "small", "")] == [
        "10/s",
        "99/s",
        "10/s",
        "None",
    ]
    assert in_force.weight("plain", "acme") is None
    assert in_force.fair_queues == ("bulk",)


def test_a_job_gets_what_is_its_owners_and_a_plain_one_is_left_as_it_is() -> None:
    found = Quotas([Queue("bulk", fair=True)], [Owner("acme", weight=3, submit_rate="5/m")])
    limited = found.apply_to(job(owner="acme"))
    assert (limited.weight, limited.submit_rate) == (3, parse_rate("5/m"))
    plain = job(queue="plain", owner="other")
    assert found.apply_to(plain) is plain
    assert Quotas().apply_to(plain) is plain


def test_what_follows_a_failure_has_its_owners_weight_too() -> None:
    options: dict[str, Any] = {"deadline": None, "max_attempts": 1, "max_crashes": 1, "max_snoozes": 1, "timeout": None}
    last = FollowUp(kind="b", arguments="{}", queue="bulk", service="", priority=0, cost=0, **options)
    first = FollowUp(kind="a", arguments="{}", queue="plain", service="", priority=0, cost=0, on_failed=last, **options)
    found = Quotas([Queue("bulk", fair=True)], [Owner("acme", weight=3)]).apply_to(
        job(queue="plain", owner="acme", on_failed=first)
    )
    assert found.weight is None
    assert found.on_failed is not None
    assert found.on_failed.on_failed is not None
    assert (found.on_failed.weight, found.on_failed.on_failed.weight) == (None, 3)


def test_the_file_goes_over_the_code_key_by_key() -> None:
    text = "queues: {bulk: {fair: false}, new: {fair: true}}\nowners: {acme: {weight: 7}, '*': {submit_rate: 1/s}}"
    in_force = quotas(
        text, queues=[Queue("bulk", fair=True, concurrency=5)], owners=[Owner("acme", submit_rate="9/s", weight=2)]
    ).in_force
    assert in_force.fair_queues == ("new",)
    assert in_force.queues["bulk"].concurrency == 5
    assert (in_force.owner("acme").weight, str(in_force.owner("acme").rate)) == (7, "9/s")
    assert str(in_force.owner("other").rate) == "1/s"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("queues: {'b*': {}}", "queues.b* is 'b*', but it must be the name of one queue"),
        ("queues: {'*': {}}", "queues.* is '*', but it must be the name of one queue"),
        ("owners: {'c*': {}}", "owners.c* is 'c*', but it must be the name of one owner"),
        ("kinds: {send: {owners: {'c*': {}}}}", "kinds.send.owners.c* is 'c*', but it must be the name of one owner"),
    ],
)
def test_there_are_no_patterns_of_queues_and_owners(text: str, said: str) -> None:
    with pytest.raises(BadPolicies, match=re.escape(said)):
        policies(text)
    assert policies("owners: {'*': {weight: 2}}\nkinds: {send: {owners: {'*': {}}}}").quotas == {"*": {"weight": 2}}


def test_every_mistake_is_named_by_its_path() -> None:
    text = """
queues:
  bulk: {fair: perhaps, speed: 3}
  other: 7
owners:
  acme: {weight: -1, max_attempts: 3, submit_rate: fast, over_budget: cry, colour: red}
  trial: {weight: null}
"""
    with pytest.raises(BadPolicies) as raised:
        policies(text)
    found = [mistake.partition(" is ") for mistake in raised.value.mistakes]
    assert sorted(path for path, _, _ in found) == [
        "owners.acme.colour",
        "owners.acme.over_budget",
        "owners.acme.submit_rate",
        "owners.acme.weight",
        "owners.trial.weight",
        "queues.bulk.fair",
        "queues.bulk.speed",
        "queues.other",
    ]
    problems = {path: problem for path, _, problem in found}
    assert problems["owners.acme.submit_rate"].startswith("'fast', but it must be a rate such as '50/s'")
    assert problems["owners.trial.weight"] == "empty; leave it out"


def test_an_owner_in_the_file_has_retries_and_a_weight_side_by_side() -> None:
    found = policies("owners: {acme: {weight: 3, max_attempts: 9}, '*': {max_attempts: 2}}")
    assert [section.max_attempts for section in found.sections("send", "acme")] == [2, 9]
    assert [section.max_attempts for section in found.sections("send", "other")] == [2]
    assert found.sections("send", "") == []
    assert found.quotas == {"acme": {"weight": 3}}


def test_a_change_of_the_file_counts_without_a_restart(tmp_path: Path) -> None:
    path, clock = tmp_path / "policies.yaml", VirtualClock()
    path.write_text("queues: {bulk: {fair: true}}")
    found = Quotas(file=PolicyFile(path, lambda: clock))
    assert found.fair_queues() == ("bulk",)
    path.write_text("owners: {acme: {submit_rate: 3/s}}")
    clock.advance(timedelta(seconds=10))
    assert found.fair_queues() == ()
    assert found.apply_to(job(owner="acme")).submit_rate == parse_rate("3/s")


def test_an_app_takes_turns_from_enqueue_to_run(tmp_path: Path) -> None:
    ran: list[str] = []
    url = f"sqlite:///{tmp_path}/jobs.db?synchronous=normal"
    with App(url, queues=[Queue("bulk", fair=True)], owners=[Owner("small", weight=2)]) as app:

        @app.task(queue="bulk")
        def work(owner: str) -> None:
            ran.append(owner)

        bound = {owner: work.options(owner=owner).bind(owner) for owner in ("big", "small", "late")}
        app.enqueue_many([bound["big"]] * 20 + [bound["small"]] * 4)
        app.run_until_idle(timeout=60, concurrency=1)
        # The worker wrote down how far turns have come: an owner that comes now starts from there, like the others.
        app.enqueue_many([bound["big"]] * 3 + [bound["late"]] * 3)
        app.run_until_idle(timeout=60, concurrency=1)
    assert ran[:6].count("small") == 4
    assert sorted(ran[24:28]) == ["big", "big", "late", "late"]


def test_an_app_refuses_an_owner_that_submits_too_fast(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db", owners=[Owner("*", submit_rate="2/h")]) as app:

        @app.task
        def work() -> None: ...

        work.options(owner="acme").enqueue()
        with pytest.raises(SubmitRateExceeded, match="at most 2 can be submitted at once"):
            app.enqueue_many([work.options(owner="acme").bind()] * 3)
        work.options(owner="acme").enqueue()
        with pytest.raises(SubmitRateExceeded) as raised:
            work.options(owner="acme").enqueue()
        assert raised.value.retry_after is not None
        assert timedelta(minutes=29) < raised.value.retry_after <= timedelta(minutes=30)
        work.enqueue()
        work.options(owner="other").enqueue()
        assert len(app.jobs().jobs) == 4
