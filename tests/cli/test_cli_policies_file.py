"""`mulligan policies` with a file: check it, show the source of each value, and reclassify failed jobs."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Invoke = Callable[..., Result]
ReadJson = Callable[[Result], Any]

APP = """
from mulligan import App, Exponential, FinalError, RetryPolicy

app = App("sqlite:///jobs.db", policies="policies.yaml")

class Gateway(Exception):
    status = 503

@app.task(retry=RetryPolicy(3, Exponential("5s", factor=5, jitter=None)), timeout="30s")
def convert(path: str) -> None:
    raise FinalError("not a PDF", code="NOT_PDF") if path == "bad" else Gateway("busy")

@app.task
def mark() -> None: ...
"""
SOUND = """
kinds:
  convert:
    max_attempts: 2
    timeout: 1m
    rules: [{code: GATEWAY, class: final, status: 500-599}]
    owners: {acme: {maxRetries: 4}}
  stranger: {}
"""
BROKEN = "kinds: {convert: {max_attempts: 0, backof: {}}}"


@pytest.fixture(autouse=True)
def put(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    (tmp_path / "policed.py").write_text(APP)
    monkeypatch.setenv("MULLIGAN_APP", "policed:app")
    (tmp_path / "policies.yaml").write_text(SOUND)

    def write(text: str) -> None:
        (tmp_path / "policies.yaml").write_text(text)

    return write


def test_a_valid_file_passes_the_check(invoke: Invoke, read_json: ReadJson) -> None:
    for checked in (invoke("policies", "check"), invoke("policies", "check", "policies.yaml")):
        assert checked.exit_code == 0
        assert checked.stdout.startswith("policies.yaml is valid: version ")
        assert ", 2 kinds, 0 queues, 0 services, 0 owners.\n" in checked.stdout
    found = read_json(invoke("policies", "check", "--json"))
    assert (found["file"], found["mistakes"], len(found["version"])) == ("policies.yaml", [], 12)


def test_unknown_kinds_are_named_and_are_not_a_mistake(invoke: Invoke, put: Callable[[str], None]) -> None:
    put("kinds: {stranger: {max_attempts: 2}}")
    checked = invoke("policies", "check")
    assert (checked.exit_code, checked.stdout.splitlines()[1:]) == (
        0,
        ["It names kinds that this app does not have: stranger."],
    )
    assert "stranger" in invoke("policies", "check", "policies.yaml").stdout


TYPOS = """
kinds: {convv: {}}
queues: {bulkk: {concurrency: 1}, bulk: {fair: true}, default: {}, slow: {}}
services: {gatewayy: {open_at: 0.2}, gateway: {}, "site:a": {}, "site:b*": {}, "*": {}, "si*": {}, "situ:*": {}}
owners: {acme: {weight: 2, submit_rate: 5/s, max_attempts: 7}}
"""
HAS_MORE = """
from mulligan import App, Queue, Service

services = [Service("site:*"), Service("*")]
app = App("sqlite:///jobs.db", policies="policies.yaml", queues=[Queue("slow")], services=services)

@app.task(queue="bulk", service="gateway")
def convert() -> None: ...
"""


def test_unknown_queues_and_services_are_named_too(
    invoke: Invoke, put: Callable[[str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_json: ReadJson
) -> None:
    put(TYPOS)
    (tmp_path / "having.py").write_text(HAS_MORE)
    monkeypatch.setenv("MULLIGAN_APP", "having:app")
    named = [
        "It names kinds that this app does not have: convv.",
        "It names queues that this app does not have: bulkk.",
        "It names services that this app does not have: gatewayy, situ:*.",
    ]
    for command in (("check",), ("check", "policies.yaml"), ("show",)):
        assert invoke("policies", *command).stdout.splitlines()[-3:] == named
    assert ", 1 kind, 4 queues, 7 services, 1 owner.\n" in invoke("policies", "check").stdout
    found = read_json(invoke("policies", "check", "policies.yaml", "--json"))
    assert [found[f"unknown_{what}"] for what in ("kinds", "queues", "services")] == [
        ["convv"],
        ["bulkk"],
        ["gatewayy", "situ:*"],
    ]


def test_without_an_app_no_name_is_reported_as_unknown(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, read_json: ReadJson
) -> None:
    monkeypatch.delenv("MULLIGAN_APP")
    found = read_json(invoke("policies", "check", "policies.yaml", "--json"))
    assert (found["unknown_kinds"], found["unknown_queues"], found["unknown_services"]) == (None, None, None)


def test_the_settings_of_queues_services_and_owners_are_shown(
    invoke: Invoke, put: Callable[[str], None], read_json: ReadJson
) -> None:
    put(TYPOS)
    shown = invoke("policies", "show", "convert", "--owner", "acme").stdout
    assert "It sets for queue bulkk: concurrency 1.\n" in shown
    assert "It sets for service gatewayy: open_at 0.2.\n" in shown
    assert "It sets for owner acme: weight 2, submit_rate 5/s.\n" in shown
    file = read_json(invoke("policies", "show", "--json"))["file"]
    assert (file["queues"]["bulk"], file["services"]["gatewayy"]) == ({"fair": True}, {"open_at": 0.2})
    assert file["owners"] == {"acme": {"weight": 2, "submit_rate": "5/s"}}


def test_every_mistake_is_listed_and_the_exit_code_is_2(invoke: Invoke, put: Callable[[str], None]) -> None:
    put(BROKEN)
    checked = invoke("policies", "check", "policies.yaml")
    assert (checked.exit_code, checked.stdout) == (2, "")
    unknown, wrong = checked.stderr.splitlines()
    assert unknown.startswith("policies.yaml: kinds.convert.backof is unknown; did you mean 'backoff'? known are: ")
    assert wrong == "policies.yaml: kinds.convert.max_attempts is 0, but it must be an integer from 1 to 1,000,000"
    as_json = invoke("policies", "check", "--json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["mistakes"] == [line.removeprefix("policies.yaml: ") for line in (unknown, wrong)]


def test_the_check_needs_a_file(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = invoke("policies", "check", "nowhere.yaml")
    assert missing.exit_code == 2
    assert missing.stderr == "nowhere.yaml: it cannot be read: No such file or directory\n"
    monkeypatch.delenv("MULLIGAN_APP")
    unnamed = invoke("policies", "check")
    assert (
        unnamed.exit_code == 2
        and "no policies file is configured: name it here, in MULLIGAN_POLICIES_FILE" in unnamed.stderr
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("pipe", "it is a pipe, not a file"),
        (".", "it is a folder, not a file"),
        ("/dev/zero", "it is a device, not a file"),
        ("binary", "it is not YAML: byte 1 is not valid UTF-8"),
        ("backup", "it takes more than 1,048,576 bytes, which is the limit"),
    ],
)
def test_a_file_that_cannot_hold_policies_is_refused_at_once(
    invoke: Invoke, tmp_path: Path, name: str, said: str
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00" * 100_000)
    with (tmp_path / "backup").open("wb") as file:
        file.truncate(2**30)
    checked = invoke("policies", "check", name)
    assert (checked.exit_code, checked.stderr) == (2, f"{name}: {said}\n")


def test_the_policy_in_force_is_shown_with_its_sources(invoke: Invoke, read_json: ReadJson) -> None:
    shown = invoke("policies", "show", "convert").stdout
    version = read_json(invoke("policies", "check", "--json"))["version"]
    assert shown.splitlines() == [
        "convert",
        "  It is tried at most twice.",
        "  Between attempts it waits 5s ×5.",  # noqa: RUF001
        "  An attempt may take 1m.",
        "  It fails after 3 crashes in a row, or if it is snoozed more than 100 times.",
        "  Rule kinds.convert.rules[0] is tried before those of the code: GATEWAY, final.",
        "  Set by the policies file (kinds.convert): max_attempts, timeout, rules.",
        "",
        f"Version {version} of policies.yaml is in force.",
        "It names kinds that this app does not have: stranger.",
    ]
    acme = read_json(invoke("policies", "show", "convert", "--owner", "acme", "--json"))
    (policy,) = acme["policies"]
    assert (policy["max_attempts"], policy["owner"], policy["version"]) == (5, "acme", version)
    assert policy["sources"]["max_attempts"] == "kinds.convert.owners.acme"
    assert acme["file"] == {
        "path": "policies.yaml",
        "version": version,
        "mistakes": [],
        "queues": {},
        "services": {},
        "owners": {},
        "unknown_kinds": ["stranger"],
        "unknown_queues": [],
        "unknown_services": [],
    }


def test_a_broken_file_is_reported(invoke: Invoke, put: Callable[[str], None]) -> None:
    put(BROKEN)
    shown = invoke("policies", "show", "convert")
    assert shown.exit_code == 0
    assert "It is tried at most 3 times." in shown.stdout
    assert "The policies file is not in force: policies.yaml: kinds.convert.backof is unknown" in shown.stdout
    assert "Running workers keep the previous version." in shown.stdout


def test_a_schedule_follows_the_file(invoke: Invoke, read_json: ReadJson) -> None:
    rows = read_json(invoke("policies", "schedule", "convert", "--json"))["schedule"]
    assert [row["delay"] for row in rows] == [5, None]
    rows = read_json(invoke("policies", "schedule", "convert", "--owner", "acme", "--json"))["schedule"]
    assert [row["delay"] for row in rows] == [5, 25, 125, 625, None]
    said = invoke("policies", "schedule", "convert").stdout
    assert "Set by the policies file (kinds.convert): max_attempts, timeout, rules." in said


def test_reclassify_creates_no_database(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No failed job could be classified again." in invoke("policies", "reclassify").stdout
    assert not Path("jobs.db").exists()
    monkeypatch.delenv("MULLIGAN_APP")
    assert "this needs an app" in invoke("policies", "reclassify").stderr


def test_failed_jobs_are_reclassified_and_retried(
    invoke: Invoke, read_json: ReadJson, put: Callable[[str], None]
) -> None:
    assert invoke("policies", "show").exit_code == 0, "loads the app"
    import policed  # type: ignore[import-not-found]

    with policed.app as app:
        busy, bad = app.tasks["convert"].enqueue("fine"), app.tasks["convert"].enqueue("bad")
        app.run_until_idle(timeout="60s")
    put("default: {}")
    app.policies.look()
    preview = invoke("policies", "reclassify", "--kind", "convert")
    assert preview.exit_code == 0, preview.stderr
    lines = [" ".join(line.split()) for line in preview.stdout.splitlines()]
    assert "1 convert GATEWAY (final) HTTP_5XX (retryable) http.5xx retry" in lines
    assert "1 convert NOT_PDF (final) NOT_PDF (final) raised stays failed: trying again cannot help" in lines
    assert lines[-4:] == ["Would be retried: 1 job", busy.id, "", "Nothing was changed. Retry them with: --apply"]
    applied = read_json(
        invoke("policies", "reclassify", "--apply", "--actor", "ann", "--reason", "mended", "--since", "1h", "--json")
    )
    assert (applied["retried"], applied["skipped"], applied["is_applied"]) == ([busy.id], {}, True)
    assert {count["new_code"]: count["jobs"] for count in applied["counts"]} == {"HTTP_5XX": 1, "NOT_PDF": 1}
    said = invoke("policies", "reclassify", "--code", "NOT_PDF", "--apply").stdout
    assert "0 jobs retried, 0 skipped." in said
    assert "No failed job could be classified again." in invoke("policies", "reclassify", "--code", "GATEWAY").stdout
    assert read_json(invoke("jobs", "show", bad.id, "--json"))["state"] == "failed"
