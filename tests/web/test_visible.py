"""What a caller sees: secrets are masked without the scope for them, and an owner sees no machines and no people."""

import json

import pytest
from local_access import ACME, ADMIN
from world import World

from mulligan.failure.redact import MASK, mask_secrets
from mulligan.records.key import Scope
from mulligan.web.access.caller import Caller
from mulligan.web.visible import mask, visible

TOKEN = "ghp_" + "a1B2" * 9


@pytest.mark.parametrize(
    ("value", "masked"),
    [
        ("in.pdf", "in.pdf"),
        ({"password": "x", "user": "ann"}, {"password": MASK, "user": "ann"}),
        ({"deep": [{"api_key": "k"}, 3, None]}, {"deep": [{"api_key": MASK}, 3, None]}),
        ({"password": ""}, {"password": ""}),
        (
            {"data": ["mysqldump", "--password", "S3cr3tValue99", "shop"]},
            {"data": ["mysqldump", "--password", MASK, "shop"]},
        ),
        ([["authorization", "S3cr3tValue99"], ("accept", "*/*")], [["authorization", MASK], ["accept", "*/*"]]),
        (["--pin", 1234, "--token", None], ["--pin", MASK, "--token", None]),
        (["password", {"new": "x"}], ["password", MASK]),
        (["curl", "-u", "ann:S3cr3t", "https://x"], ["curl", "-u", f"ann:{MASK}", "https://x"]),
        (["mysql", "-pS3cr3t", 'say "hi"\n'], ["mysql", f"-p{MASK}", 'say "hi"\n']),
        (["sshpass", "-p", "S3cr3t", 3], ["sshpass", "-p", MASK, 3]),
        (
            {"env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "HOST", "value": "db"}]},
            {"env": [{"name": "DB_PASSWORD", "value": MASK}, {"name": "HOST", "value": "db"}]},
        ),
        (
            {"ParameterValue": ["x"], "type": "s", "ParameterKey": "DBPassword"},
            {"ParameterValue": MASK, "type": "s", "ParameterKey": "DBPassword"},
        ),
        (
            {"field": "password", "old_value": "x", "new_value": "y"},
            {"field": "password", "old_value": MASK, "new_value": MASK},
        ),
        ({"type": "password", "value": "x"}, {"type": "password", "value": MASK}),
    ],
)
def test_secrets_are_masked_wherever_they_are(value: object, masked: object) -> None:
    assert mask(value) == masked


@pytest.mark.parametrize(
    "value",
    [
        {"name": "token count", "value": 3},
        {"type": "token", "value": "semicolon"},
        {"name": "password", "value": None, "required": True},
        {"name": 3, "value": "x"},
        {3: "token", "value": "x"},
        ["tokens", "words"],
        ["tool", "--password-file", "/run/secrets/db", "-v"],
        [["password"], "x"],
        ["ls", "-u", "-p", "a\\b"],
    ],
)
def test_what_only_speaks_of_secrets_is_shown(value: object) -> None:
    assert mask(value) == value


@pytest.mark.parametrize(
    "value",
    [
        {"password": "hunter2", "user": "ann"},
        {"data": ["mysqldump", "--password", "hunter2", "-v"]},
        [["authorization", "hunter2"], ["x-api-key", "abc:def"], ["accept", "*/*"]],
        {"env": [{"name": "DB_PASSWORD", "value": "hunter2"}, {"value": "hunter2", "type": "s", "key": "token"}]},
        {"args": ["curl", "-u", "ann:hunter2", "-H", "Authorization: Bearer abc", "https://ann:hunter2@x"]},
        {"fields": ["user", "password", "email"], "name": "token count", "value": "3"},
        {"type": "token", "value": "semicolon"},
    ],
)
def test_a_structure_is_masked_as_its_text_is(value: object) -> None:
    assert json.dumps(mask(value), ensure_ascii=False) == mask_secrets(json.dumps(value, ensure_ascii=False))


def test_a_command_whose_words_cannot_be_told_apart_is_masked_whole() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIE"
    assert mask(["tool", key, "-u", "ann:hunter2"]) == [MASK] * 4


def test_what_looks_like_a_secret_is_masked_too() -> None:
    assert TOKEN not in json.dumps(mask({"note": f"use {TOKEN} please"}))


def test_arguments_and_results_are_masked_without_the_scope(sqlite_world: World) -> None:
    job = sqlite_world.failed("reject", why=f"token={TOKEN}")
    blind = Caller(key="b", owner=None, actor="b", scopes=frozenset(Scope) - {Scope.ARGS_REVEAL})
    assert TOKEN in visible(job, ADMIN).arguments["why"]
    assert TOKEN not in visible(job, blind).arguments["why"]
    for path in ("jobs", f"jobs/{job.id}", f"jobs/{job.id}/explain", f"jobs/{job.id}/events", "jobs/export"):
        assert TOKEN not in sqlite_world.acme.get(path).text, path


def test_secrets_are_shown_only_if_they_are_asked_for(sqlite_world: World) -> None:
    job = sqlite_world.failed("reject", why=f"token={TOKEN}")
    for path in ("jobs", f"jobs/{job.id}", "jobs/export"):
        assert TOKEN not in sqlite_world.admin.get(path).text, path
        assert TOKEN not in sqlite_world.admin.get(path, params={"reveal": "false"}).text, path
        assert TOKEN in sqlite_world.admin.get(path, params={"reveal": "true"}).text, path
        assert sqlite_world.acme.get(path, params={"reveal": "true"}).status_code == 403, path
    assert TOKEN not in sqlite_world.admin.post(f"jobs/{job.id}/retry", json={}).text


def test_an_owner_sees_no_worker_no_person_and_no_traceback(sqlite_world: World) -> None:
    job = sqlite_world.failed()
    sqlite_world.admin.post(f"jobs/{job.id}/retry", json={"reason": "by the operator"})
    (worker,) = {event.data["worker"] for event in sqlite_world.app.events(job.id) if "worker" in event.data}
    for path in (
        f"jobs/{job.id}",
        f"jobs/{job.id}/events",
        f"jobs/{job.id}/explain",
        "jobs/export?events=true",
        "jobs",
    ):
        seen = sqlite_world.acme.get(path).text
        assert worker not in seen and "by the operator" not in seen and '"ann"' not in seen, path
        assert "Traceback" not in seen, path
    (event,) = visible(sqlite_world.app.last_failures([job.id]), ACME).values()
    assert "detail" not in event.data and event.actor is None
    assert "by the operator" in sqlite_world.admin.get(f"jobs/{job.id}/events").text
    assert visible(job, ACME).error_detail is None and visible(job, ADMIN).error_detail is not None
