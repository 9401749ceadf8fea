"""Tokens of keys: their form, their checksum, and that no part of them is stored."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from access_client import Web

from mulligan import App
from mulligan.errors import BadArgument, KeyExists, KeyNotAllowed, KeyNotFound, KeyRefused
from mulligan.failure.redact import mask_secrets
from mulligan.records.key import ADMIN_SCOPES, OWNER_SCOPES, Scope
from mulligan.records.token import new_token, read_token
from mulligan.values.clock import system_secrets


def test_a_token_says_its_public_id_and_can_be_read_again() -> None:
    token = new_token(Random(1).randbytes)
    assert re.fullmatch(r"mk_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}", token.text)
    assert read_token(token.text) == token
    assert token.text.split("_")[1] == token.id
    assert token.text.endswith(token.last_four)
    assert token.secret not in repr(token)


@pytest.mark.parametrize("bytes_drawn", [b"\0", b"\xff"])
def test_the_smallest_and_the_largest_number_have_the_same_length(bytes_drawn: bytes) -> None:
    token = new_token(lambda length: bytes_drawn * length)
    assert read_token(token.text) == token


def test_one_changed_character_is_noticed() -> None:
    token = new_token(Random(2).randbytes).text
    for place in range(3, len(token)):
        other = "x" if token[place] != "x" else "y"
        assert read_token(token[:place] + other + token[place + 1 :]) is None


@pytest.mark.parametrize("text", ["", "mk_", "mk_a_b_c", "sk_" + "a" * 59, "é" * 62, "mk_" + "a" * 10_000])
def test_anything_else_is_no_token(text: str) -> None:
    assert read_token(text) is None


def test_ten_thousand_tokens_differ_in_every_part() -> None:
    tokens = [new_token(system_secrets) for _ in range(10_000)]
    assert len({token.id for token in tokens}) == len({token.secret for token in tokens}) == 10_000


def test_a_token_in_a_text_is_masked() -> None:
    token = new_token(Random(3).randbytes)
    assert token.secret not in mask_secrets(f"could not log in with {token.text} today")


# Keys


def test_the_key_of_a_token_is_found_until_it_is_revoked(app: App) -> None:
    created = app.create_key(owner="acme", name="import")
    assert app.find_key(created.token) == created.key == app.keys()[0]
    app.revoke_key(created.key.id)
    with pytest.raises(KeyRefused, match="unknown, revoked or expired"):
        app.find_key(created.token)


def test_a_token_with_the_id_of_a_key_and_another_secret_is_refused(app: App) -> None:
    created = app.create_key(owner="acme", name="import")
    other = new_token(system_secrets)
    forged = type(other)(created.key.id, other.secret).text
    assert read_token(forged) is not None
    with pytest.raises(KeyRefused):
        app.find_key(forged)


def test_an_owners_key_is_not_for_operators_and_an_administrators_is_for_everything(app: App) -> None:
    assert app.create_key(owner=None, name="admin").key.scopes == ADMIN_SCOPES
    assert app.create_key(owner="acme", name="usual").key.scopes == OWNER_SCOPES
    with pytest.raises(KeyNotAllowed, match="only an administrator's key can have operate"):
        app.create_key(owner="acme", name="too much", scopes=["jobs:read", "operate"])


def test_a_key_has_no_scope_that_its_creator_lacks(app: App) -> None:
    within = {Scope.JOBS_READ, Scope.KEYS_MANAGE}
    assert app.create_key(owner="acme", name="usual", within=within).key.scopes == (Scope.JOBS_READ,)
    with pytest.raises(KeyNotAllowed, match="does not have jobs:retry itself") as refused:
        app.create_key(owner="acme", name="more", scopes=["jobs:retry"], within=within)
    assert refused.value.scopes == ("jobs:retry",)
    with pytest.raises(KeyNotAllowed, match="none of the usual scopes"):
        app.create_key(owner="acme", name="none", within={Scope.KEYS_MANAGE})


def test_a_repeated_request_does_not_show_the_token_again(app: App) -> None:
    created = app.create_key(owner="acme", name="import", request_id="r1")
    with pytest.raises(KeyExists, match=created.key.id):
        app.create_key(owner="acme", name="import", request_id="r1")
    assert len(app.keys()) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "two\nlines"},
        {"owner": ""},
        {"scopes": []},
        {"scopes": ["jobs:write"]},
        {"scopes": "jobs:read"},
        {"expires_in": "-1s"},
        {"request_id": ""},
    ],
    ids=str,
)
def test_a_key_that_cannot_be_is_refused(app: App, wrong: dict[str, object]) -> None:
    with pytest.raises((BadArgument, ValueError)):
        app.create_key(**{"owner": "acme", "name": "a", **wrong})  # type: ignore[arg-type]
    assert app.keys() == []


def test_a_missing_key_is_not_revoked(app: App) -> None:
    with pytest.raises(KeyNotFound, match="there is no key 'nothing'"):
        app.revoke_key("nothing")


def test_the_database_contains_no_usable_key(app: App, tmp_path: Path) -> None:
    web = Web(app)
    admin = web.key()
    headers = {"Idempotency-Key": "a"}
    created = web.request("POST", "/keys", admin, json={"owner": "acme", "name": "a"}, headers=headers).json()
    setup = app.wiring.keys
    tokens = [admin, created["token"]]
    assert setup.offer_setup() is None
    with closing(sqlite3.connect(tmp_path / "jobs.db")) as database:
        dump = "\n".join(database.iterdump())
    files = b"".join(path.read_bytes() for path in tmp_path.glob("jobs.db*"))
    for token in tokens:
        secret = token.split("_")[2]
        assert token.split("_")[1] in dump
        assert secret not in dump and token not in dump
        assert secret.encode() not in files
