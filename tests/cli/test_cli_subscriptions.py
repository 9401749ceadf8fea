"""`mulligan subscriptions`, `mulligan deliveries` and `mulligan hooks`."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from mulligan import App
from mulligan.cli.root import root


def mulligan(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(root, [*words, "--database", f"sqlite:///{folder}/jobs.db"])


def read(folder: Path, *words: str) -> Any:
    done = mulligan(folder, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


ADD = ("subscriptions", "add", "--type", "job.failed", "--actor", "ann")


def test_a_subscription_is_added_shown_tested_disabled_and_removed(tmp_path: Path) -> None:
    added = read(tmp_path, *ADD, "--name", "hook", "--webhook", "https://example.org/hook", "--owner", "acme")
    subscription = added["subscription"]["id"]
    assert added["secret"].startswith("whsec_")
    shown = mulligan(tmp_path, "subscriptions", "list").stdout
    assert subscription in shown and "webhook https://example.org/hook" in shown and added["secret"] not in shown
    assert "types: ['job.failed']" in mulligan(tmp_path, "subscriptions", "show", subscription).stdout
    rotated = mulligan(tmp_path, "subscriptions", "rotate", subscription).stdout
    assert rotated.startswith("whsec_") and added["secret"] not in rotated
    sent = read(tmp_path, "subscriptions", "test", subscription)
    listed = read(tmp_path, "deliveries", "list", "--state", "pending")["deliveries"]
    assert [each["id"] for each in listed] == [sent["id"]]
    assert json.loads(read(tmp_path, "deliveries", "show", sent["id"])["body"])["type"] == "subscription.test"
    assert "is pending" in mulligan(tmp_path, "deliveries", "redeliver", sent["id"]).stdout
    disabled = mulligan(tmp_path, "subscriptions", "disable", subscription, "--reason", "holiday")
    assert "is disabled" in disabled.stdout
    assert "holiday" in mulligan(tmp_path, "subscriptions", "list").stdout
    assert "is enabled" in mulligan(tmp_path, "subscriptions", "enable", subscription).stdout
    assert "is removed" in mulligan(tmp_path, "subscriptions", "remove", subscription).stdout
    assert mulligan(tmp_path, "subscriptions", "remove", subscription).exit_code == 4
    assert read(tmp_path, "deliveries", "show", sent["id"])["state"] == "skipped"


def test_a_subscription_by_mail_has_a_digest_and_no_secret(tmp_path: Path) -> None:
    added = read(tmp_path, *ADD, "--name", "ops", "--email", "ops@example.org")
    assert (added["secret"], added["subscription"]["digest"]) == (None, 300.0)
    none = read(tmp_path, *ADD, "--name", "each", "--email", "ops@example.org", "--digest", "none")
    assert none["subscription"]["digest"] is None


def test_mistakes_are_named_with_what_is_possible(tmp_path: Path) -> None:
    assert "either --email ADDRESS or --webhook URL" in mulligan(tmp_path, *ADD, "--name", "x").output
    wrong = mulligan(tmp_path, "subscriptions", "add", "--name", "x", "--type", "job.faild", "--email", "a@example.org")
    assert wrong.exit_code == 2 and "did you mean 'job.failed'?" in wrong.output
    for to in ("http://127.0.0.1:8080/", "ftp://example.org/", "nonsense"):
        assert mulligan(tmp_path, *ADD, "--name", "x", "--webhook", to).exit_code == 2
    assert mulligan(tmp_path, *ADD, "--name", "x", "--email", "no address").exit_code == 2


def test_a_hook_is_created_listed_and_removed(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        batch = app.batch("spring").id
    created = read(tmp_path, "hooks", "create", "--name", "partner", "--batch", batch, "--actor", "ann")
    assert created["secret"].startswith("whsec_")
    listed = mulligan(tmp_path, "hooks", "list").stdout
    assert f"batch {batch}" in listed and "never" in listed
    unknown = mulligan(tmp_path, "hooks", "create", "--name", "x", "--group", "g1")
    assert unknown.exit_code == 4 and "list them with app.failures() or: mulligan failures" in unknown.output
    assert "is removed" in mulligan(tmp_path, "hooks", "remove", created["hook"]["id"]).stdout
    assert mulligan(tmp_path, "hooks", "create", "--name", "partner").exit_code == 2
