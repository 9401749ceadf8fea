"""`mulligan services`, `pause`, `resume` and `pauses`, as text and as JSON."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from click.testing import Result

from mulligan import App
from mulligan.failure.decision import Succeed
from mulligan.records.job import NewJob, ReportedCall
from mulligan.store.messages import Claim, Outcome

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]
SHOP = """
from mulligan import App, Service

app = App("sqlite:///jobs.db", services=[Service("gateway", window=4, cooldown="5m", rate="10/s"), Service("ledger")])


@app.task(service="gateway", queue="money")
def pay() -> None: ...
"""
HERE = ("--database", "sqlite:///jobs.db")
THERE = ("--app", "till:app")


@pytest.fixture(autouse=True)
def till(app: App, tmp_path: Any) -> None:
    (tmp_path / "till.py").write_text(SHOP)
    app.migrate()


def open_by_calls(app: App) -> None:
    """The gateway has failed ten calls, and two jobs wait for it."""
    app.store.enqueue([NewJob(id=f"a{n}", kind="pay", arguments="{}", service="gateway") for n in range(10)])
    claim = Claim(incarnation="w", number=1, kinds=["pay"], limit=10, lease=timedelta(hours=1))
    leases = app.store.claim(claim).leases
    app.store.settle([Outcome(lease, Succeed(None), calls=(ReportedCall("gateway", False),)) for lease in leases])
    app.store.enqueue([NewJob(id=f"b{n}", kind="pay", arguments="{}", service="gateway") for n in range(2)])


def test_services_are_listed_with_their_states(invoke: Invoke, app: App, read_json: ReadJson) -> None:
    open_by_calls(app)
    lines = invoke("services", *THERE).stdout.splitlines()
    assert lines[0].split() == ["Service", "State", "Since", "Until", "Failures", "Waiting", "About"]
    assert lines[1].split()[:2] == ["gateway", "open"]
    assert lines[1].endswith("2        10 of its last 10 calls failed")
    assert lines[2].split() == ["ledger", "closed"]
    gateway, ledger = read_json(invoke("services", "list", "--json", *THERE))["services"]
    assert (gateway["state"], gateway["ready"], gateway["trouble"]["failures"]) == ("open", 2, 10)
    assert (ledger["is_known"], ledger["state"], ledger["paused"]) == (False, "closed", None)


def test_the_history_of_a_service_says_what_opened_it(invoke: Invoke, app: App, read_json: ReadJson) -> None:
    open_by_calls(app)
    assert invoke("services", "close", "gateway", "--reason", "mended", *THERE).exit_code == 0
    headings, forced, opened = invoke("history", "--service", "gateway", *THERE).stdout.splitlines()
    assert headings.split() == ["At", "Event", "About"]
    assert "service.forced" in forced and "mended" in forced
    assert "service.opened" in opened and opened.endswith("10 of its last 10 calls failed")
    (newest,) = read_json(invoke("history", "--service", "gateway", "--limit", "1", "--json", *THERE))["events"]
    assert (newest["type"], newest["data"]["to"]) == ("service.forced", "closed")
    assert invoke("history", "--service", "ledger", *THERE).stdout.startswith("Nothing happened to it")
    assert invoke("history", "--service", "legder", *THERE).exit_code == 4
    assert "one of service= and batch=" in invoke("history", *THERE).stderr


def test_an_empty_list_of_services_says_how_to_declare_one(invoke: Invoke) -> None:
    assert invoke("services", *HERE).stdout.startswith("No services. A task names its service")


def test_one_service_is_shown_with_its_figures_and_settings(invoke: Invoke, app: App, read_json: ReadJson) -> None:
    open_by_calls(app)
    shown = invoke("services", "show", "gateway", *THERE).stdout
    for words in (
        "open since",
        "10 of its last 10 calls failed",
        "2 ready, 0 more waiting for the retry budget",
        "10 times a second at most",
        "retries are at most 10% of first attempts; in force now",
        "hold; after 5m, 1 job may probe it",
    ):
        assert words in shown
    assert read_json(invoke("services", "show", "gateway", "--json", *THERE))["budget"] == 0.1


def test_a_healthy_service_is_shown_without_counts_of_calls(invoke: Invoke) -> None:
    shown = invoke("services", "show", "ledger", *THERE).stdout
    assert "closed; no failure is known" in shown
    assert "calls" not in shown


def test_a_pattern_is_shown_as_it_is_configured(invoke: Invoke, tmp_path: Any) -> None:
    (tmp_path / "sites.py").write_text(
        SHOP.replace('Service("ledger")', 'Service("site:*", mode="fail_fast", rate="3/s")')
    )
    shown = invoke("services", "show", "site:*", "--app", "sites:app").stdout
    assert "its settings apply to all names that begin with it" in shown
    assert "fail_fast; after 30s" in shown and "3 times a second at most" in shown
    for steer in (("services", "open"), ("pause", "--service")):
        refused = invoke(*steer, "site:*", "--app", "sites:app")
        assert refused.exit_code == 4 and "no service is named 'site:*'" in refused.stderr
    assert invoke("services", "show", "page:*", "--app", "sites:app").exit_code == 4


def test_a_service_is_forced_manually(invoke: Invoke, read_json: ReadJson) -> None:
    said = invoke("services", "open", "gateway", "--actor", "ann", "--reason", "maintenance", *THERE)
    assert (said.exit_code, said.stdout) == (0, 'gateway is open, forced open by ann because "maintenance".\n')
    assert 'forced open by ann because "maintenance"' in invoke("services", *THERE).stdout
    closed = read_json(invoke("services", "close", "gateway", "--actor", "bob", "--json", *THERE))
    assert (closed["state"], closed["forced"], closed["actor"]) == ("closed", "closed", "bob")
    assert invoke("services", "auto", "gateway", *THERE).stdout == "gateway is closed, set to automatic.\n"
    assert invoke("events", *HERE).stdout.count("service.forced") == 3


def test_a_service_that_is_shared_says_so(invoke: Invoke, app: App) -> None:
    app.store.enqueue([NewJob(id="a", kind="pay", arguments="{}", service="site:*")])
    assert invoke("services", *THERE).stdout.splitlines()[-1].endswith("above the limit of this pattern")
    assert "above the limit of this pattern" in invoke("services", "show", "site:*", *THERE).stdout


def test_exit_codes_distinguish_the_errors(invoke: Invoke) -> None:
    missing = invoke("services", "open", "gatway", "--json", *THERE)
    assert missing.exit_code == 4
    assert json.loads(missing.stderr)["error"]["type"] == "UnknownService"
    assert "did you mean 'gateway'? known are: " in missing.stderr
    assert invoke("services", "show", "nothing", *THERE).exit_code == 4
    assert invoke("services", "open", "gateway", *HERE).exit_code == 2, "it needs the app"
    assert invoke("services", "open", *THERE).exit_code == 2


@pytest.mark.parametrize("what", [("--queue", "money"), ("--kind", "pay"), ("--service", "gateway")])
def test_a_queue_kind_or_service_is_paused_listed_and_resumed(
    invoke: Invoke, read_json: ReadJson, what: tuple[str, str]
) -> None:
    said = invoke("pause", *what, "--for", "30m", "--actor", "ann", "--reason", "a move", *THERE)
    assert said.exit_code == 0
    assert said.stdout.startswith(f"{what[1]} is paused until ")
    (pause,) = read_json(invoke("pauses", "--json", *HERE))["pauses"]
    assert (pause["what"], pause["name"], pause["actor"]) == (what[0].strip("-"), what[1], "ann")
    assert 'by ann because "a move"' in invoke("pauses", *HERE).stdout
    assert f"{pause['what']}.paused" in invoke("events", *HERE).stdout
    assert invoke("resume", *what, *THERE).stdout == f"{what[1]} is resumed.\n"
    assert invoke("pauses", *HERE).stdout == "Nothing is paused.\n"


def test_the_intake_is_paused_and_resumed(invoke: Invoke, read_json: ReadJson) -> None:
    said = invoke("pause", "--intake", "*", "--for", "30m", *THERE)
    assert said.stdout.startswith("all intake is paused until ")
    (pause,) = read_json(invoke("pauses", "--json", *HERE))["pauses"]
    assert (pause["what"], pause["name"]) == ("intake", "*")
    assert invoke("resume", "--intake", "*", *THERE).stdout == "all intake is resumed.\n"
    assert invoke("resume", "--intake", "money", *THERE).stdout == "intake of money was not paused.\n"
    assert invoke("pause", "--intake", "nowhere", *THERE).exit_code == 4


def test_an_unknown_name_is_not_paused(invoke: Invoke) -> None:
    refused = invoke("pause", "--queue", "monney", *THERE)
    assert refused.exit_code == 4
    assert "no queue is named 'monney'; did you mean 'money'? known are: " in refused.stderr
    assert invoke("pause", *THERE).exit_code == 2
    assert invoke("pause", "--queue", "money", "--kind", "pay", *THERE).exit_code == 2
