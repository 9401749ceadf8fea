"""`mulligan keys` and `mulligan audit`."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from mulligan import App
from mulligan.cli.root import root
from mulligan.records.token import read_token


def mulligan(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(root, [*words, "--database", f"sqlite:///{folder}/keys.db"])


def test_the_first_key_is_created_with_its_database(tmp_path: Path) -> None:
    done = mulligan(tmp_path, "keys", "create", "--admin", "--name", "ann", "--actor", "ann")
    assert done.exit_code == 0
    token, sentence = done.stdout.strip().splitlines()
    assert read_token(token) is not None
    assert sentence.startswith(f"Key {token.split('_')[1]} of an administrator: jobs:read")
    with App(f"sqlite:///{tmp_path}/keys.db") as app:
        assert app.find_key(token).owner is None


def test_keys_are_created_listed_and_revoked(tmp_path: Path) -> None:
    created = mulligan(
        tmp_path,
        *("keys", "create", "--owner", "acme", "--name", "import", "--scope", "jobs:read", "--expires-in", "90d"),
        *("--actor", "ann", "--json"),
    )
    document = json.loads(created.stdout)
    key = document["key"]["id"]
    assert (document["key"]["owner"], document["key"]["scopes"]) == ("acme", ["jobs:read"])
    listed = mulligan(tmp_path, "keys", "list")
    assert key in listed.stdout and "import" in listed.stdout and document["token"] not in listed.stdout
    assert json.loads(mulligan(tmp_path, "keys", "list", "--json", "--owner", "acme").stdout)["keys"] == [
        document["key"]
    ]
    assert mulligan(tmp_path, "keys", "list", "--owner", "other").stdout.strip() == "No keys."
    revoked = mulligan(tmp_path, "keys", "revoke", key, "--actor", "ben")
    assert revoked.stdout.strip() == f"Key {key} (import) is revoked."
    assert "revoked" in mulligan(tmp_path, "keys", "list").stdout
    audit = json.loads(mulligan(tmp_path, "audit", "--json").stdout)["audit"]
    assert [(entry["actor"], entry["action"], entry["target"]) for entry in audit] == [
        ("ben", "revoke key", key),
        ("ann", "create key", key),
    ]
    assert "revoke key" in mulligan(tmp_path, "audit", "--limit", "1").stdout


def test_whose_key_it_is_must_be_said_once(tmp_path: Path) -> None:
    for wrong in ([], ["--admin", "--owner", "acme"]):
        done = mulligan(tmp_path, "keys", "create", "--name", "a", *wrong)
        assert (done.exit_code, done.stderr.strip()) == (2, "Error: give either --owner NAME or --admin")


def test_a_missing_key_and_a_scope_that_is_not_possible(tmp_path: Path) -> None:
    mulligan(tmp_path, "keys", "create", "--admin", "--name", "ann")
    assert mulligan(tmp_path, "keys", "revoke", "nothing").exit_code == 4
    done = mulligan(tmp_path, "keys", "create", "--owner", "acme", "--name", "a", "--scope", "operate")
    assert done.exit_code == 5
    assert "only an administrator's key can have operate" in done.stderr
