"""`mulligan limits`: the limits, their taken slots and the spent budgets, as text and as JSON."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from conformance.bench import verdict
from mulligan import App
from mulligan.failure.decision import Retry
from mulligan.records.job import Lease, NewJob
from mulligan.records.limit import LimitBook, RetryBudget
from mulligan.store.messages import Claim, Outcome

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
HERE = ("--app", "shop:app")
BOOK = LimitBook(
    kinds={"convert": 2},
    queues={"bulk": 1_000},
    owners={"*": 5, "acme": 3},
    budgets={"acme": RetryBudget(per_day=10, cost_per_month=2_000)},
)


@pytest.fixture(autouse=True)
def _a_shop(shop: str, app: App) -> None:
    """The commands load this app. The test stores its limits, as a worker does."""
    app.migrate()


@pytest.fixture
def limited(app: App) -> App:
    """Two of three jobs are running; one of them is a retry with a cost of 40."""
    app.store.limit_by(lambda: BOOK)
    claimed(app, 1)
    options: dict[str, Any] = {"kind": "convert", "arguments": "{}", "owner": "acme", "cost": 40}
    app.store.enqueue([NewJob(id=f"job-{n}", **options) for n in range(3)])
    first, _ = claimed(app, 2)
    app.store.settle([Outcome(first, Retry(timedelta(0), verdict(), {}))])
    claimed(app, 3)
    return app


def claimed(app: App, number: int) -> list[Lease]:
    wish = Claim(incarnation="w", number=number, kinds=["convert"], limit=9, lease=timedelta(hours=1))
    return app.store.claim(wish).leases


def test_each_limit_is_listed_with_its_slots(invoke: Invoke, limited: App) -> None:
    said = invoke("limits", *HERE)
    assert said.exit_code == 0
    *lines, budget = said.stdout.splitlines()
    assert budget == "Retries of owner 'acme': today 1 of 10, this month 1, cost this month 40 of 2,000."
    assert [line.split() for line in lines] == [
        ["Limit", "Name", "Taken", "Of"],
        ["kind", "convert", "2", "2"],
        ["owner", "acme", "2", "3"],
        ["queue", "bulk", "0", "1,000"],
    ]


def test_an_owner_is_shown_with_the_cost_of_its_retries(invoke: Invoke, limited: App) -> None:
    last = invoke("limits", "--owner", "acme", *HERE).stdout.splitlines()[-1]
    assert last == "Retries of owner 'acme': today 1 of 10, this month 1, cost this month 40 of 2,000."


def test_an_owner_without_its_own_limit_has_the_default_slots(
    invoke: Invoke, limited: App, read_json: ReadJson
) -> None:
    *_, places, budget = invoke("limits", "--owner", "other", *HERE).stdout.splitlines()
    assert places.split() == ["owner", "other", "0", "5"]
    assert budget == "Owner 'other' has no retry budget."
    found = read_json(invoke("limits", "--owner", "other", "--json", *HERE))
    assert found["limits"][-1] == {"what": "owner", "name": "other", "most": 5, "taken": 0}
    assert found["spending"] is None


def test_limits_are_printed_as_json(invoke: Invoke, limited: App, read_json: ReadJson) -> None:
    found = read_json(invoke("limits", "--json", *HERE))
    assert found["limits"] == [
        {"what": "kind", "name": "convert", "most": 2, "taken": 2},
        {"what": "owner", "name": "acme", "most": 3, "taken": 2},
        {"what": "queue", "name": "bulk", "most": 1_000, "taken": 0},
    ]
    assert [(budget["owner"], budget["today"]) for budget in found["budgets"]] == [("acme", 1)]
    spending = read_json(invoke("limits", "--owner", "acme", "--json", *HERE))["spending"]
    assert (spending["owner"], spending["today"], spending["this_month"]) == ("acme", 1, 1)
    assert (spending["cost_this_month"], spending["budget"]["per_day"]) == (40, 10)


def test_without_limits_it_says_where_they_come_from(invoke: Invoke, read_json: ReadJson) -> None:
    assert invoke("limits", *HERE).stdout == "No limits. Workers store the limits of their app when they claim jobs.\n"
    assert read_json(invoke("limits", "--json", *HERE)) == {"limits": [], "budgets": []}
    assert read_json(invoke("limits", "--owner", "acme", "--json", *HERE)) == {"limits": [], "spending": None}
    said = invoke("limits", "--owner", "acme", *HERE)
    assert (said.exit_code, said.stdout.splitlines()[-1]) == (0, "Owner 'acme' has no retry budget.")


def test_a_default_owner_limit_alone_is_reported(invoke: Invoke, app: App) -> None:
    book = LimitBook(owners={"*": 5})
    app.store.limit_by(lambda: book)
    claimed(app, 1)
    said = invoke("limits", *HERE).stdout
    assert said == "No named limits; each owner has 5 slots. One owner: mulligan limits --owner NAME\n"


def test_no_name_can_control_the_terminal(invoke: Invoke, app: App) -> None:
    book = LimitBook(owners={"evil\x1b[2J": 1})
    app.store.limit_by(lambda: book)
    claimed(app, 1)
    assert "\x1b" not in invoke("limits", *HERE).stdout
    assert "\x1b" not in invoke("limits", "--owner", "bad\x1b[2J", *HERE).stdout


def test_each_queue_is_listed_with_its_ready_jobs(invoke: Invoke, limited: App, read_json: ReadJson) -> None:
    limited.pause("1h", queue="default", actor="ann", reason="maintenance")
    found = {queue["name"]: queue for queue in read_json(invoke("queues", "--json", *HERE))["queues"]}
    assert (found["default"]["running"], found["default"]["paused"]["actor"]) == (2, "ann")
    headings, *lines = invoke("queues", *HERE).stdout.splitlines()
    assert headings.split() == ["Queue", "Ready", "Oldest", "Running", "Workers", "State"]
    (line,) = [line for line in lines if line.startswith("default")]
    assert line.split()[:4] == ["default", "0", "2", "0"] and 'by ann because "maintenance"' in line


@pytest.mark.parametrize("words", [("--owner",), ("--queue", "bulk"), ("bulk",)])
def test_unknown_arguments_are_wrong_usage(invoke: Invoke, words: tuple[str, ...]) -> None:
    assert invoke("limits", *HERE, *words).exit_code == 2


def test_the_budget_in_the_code_is_shown_before_the_first_worker(invoke: Invoke, tmp_path: Path) -> None:
    owners = "owners=[Owner('acme', retries_per_day=2)]"
    (tmp_path / "budgeted.py").write_text(f"from mulligan import App, Owner\napp = App('sqlite:///new.db', {owners})")
    said = invoke("limits", "--owner", "acme", "--app", "budgeted:app").stdout.splitlines()
    assert said[-1] == "Retries of owner 'acme': today 0 of 2, this month 0, cost this month 0."
