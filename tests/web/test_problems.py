"""Every mistake of a request is a problem detail that names its place, and nothing answers 5xx."""

import ast
import asyncio
import json
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from world import World

import mulligan.web
from mulligan.errors import IntakePaused, SubmitRateExceeded
from mulligan.web.filters import Filter
from mulligan.web.guard import HEADERS, LONGEST_QUERY, MOST_HEADERS
from mulligan.web.problems import ABOUT, STATUS, Problem, to_problem
from mulligan.web.reading import LARGEST_BODY, MOST_LEVELS, decode, read_body

PLAIN = '{"kind": "convert", "arguments": {"path": "a"}, '
JSON = {"content-type": "application/json"}


def deep(levels: int) -> str:
    return '{"kind": "convert", "arguments": {"path": "a", "options": ' + "[" * levels + "]" * levels + "}}"


# The body, the status, the code and the path of the mistake.
BAD: dict[str, tuple[str | bytes, int, str, str | None]] = {
    "not JSON": ("{", 400, "MALFORMED_BODY", "$"),
    "not UTF-8": (b'{"kind": "\xff"}', 400, "MALFORMED_BODY", "$"),
    "a lone surrogate": ('{"kind": "\\ud800"}', 400, "MALFORMED_BODY", "$"),
    "not a number of JSON": ('{"kind": "convert", "arguments": {"pages": NaN}}', 400, "MALFORMED_BODY", "$"),
    "an infinite number": (
        '{"kind": "convert", "arguments": {"pages": 1e999}}', 400, "VALIDATION_ERROR", "$.arguments[...]"
    ),
    "no object": ("[]", 400, "VALIDATION_ERROR", "$"),
    "null": ("null", 400, "VALIDATION_ERROR", "$"),
    "nothing": ("", 400, "VALIDATION_ERROR", "$"),
    "an unknown field": (PLAIN + '"color": "red"}', 400, "VALIDATION_ERROR", "$"),
    "a wrong type": (PLAIN + '"tags": "eu"}', 400, "VALIDATION_ERROR", "$.tags"),
    "a wrong item": (PLAIN + '"tags": ["a", 3]}', 400, "VALIDATION_ERROR", "$.tags[1]"),
    "too many tags": (PLAIN + f'"tags": {json.dumps(["a"] * 51)}}}', 400, "VALIDATION_ERROR", "$.tags"),
    "a NUL in a tag": (PLAIN + '"tags": ["a\\u0000b"]}', 400, "VALIDATION_ERROR", "$.tags"),
    "no duration": (PLAIN + '"delay": "soon"}', 400, "VALIDATION_ERROR", "$.delay"),
    "a negative duration": (PLAIN + '"delay": -5}', 400, "VALIDATION_ERROR", "$.delay"),
    "twin fields": (PLAIN + '"kind": "reject"}', 400, "VALIDATION_ERROR", "$"),
    "twin fields inside": ('{"kind": "convert", "arguments": {"x": 1, "x": 1}}', 400, "VALIDATION_ERROR", "$"),
    "a huge integer": (PLAIN + '"max_attempts": 99999999999999999999}', 400, "VALIDATION_ERROR", "$"),
    "an integer of 10 kB": (PLAIN + f'"max_attempts": {"9" * 10_000}}}', 400, "VALIDATION_ERROR", "$"),
    "too deep": (deep(MOST_LEVELS), 400, "VALIDATION_ERROR", "$"),
    "very deep": (deep(100_000), 400, "VALIDATION_ERROR", "$"),
    "brackets only": ("[" * 500_000, 400, "VALIDATION_ERROR", "$"),
    "too large": ('{"kind": "' + "a" * LARGEST_BODY + '"}', 413, "TOO_LARGE", None),
    "too large arguments": (
        '{"kind": "convert", "arguments": {"path": "' + "a" * 300_000 + '"}}', 413, "TOO_LARGE", None
    ),
    "an argument of a wrong type": (
        '{"kind": "convert", "arguments": {"path": "a", "pages": "3"}}', 400, "VALIDATION_ERROR", "$.arguments.pages"
    ),
    "a nested argument of a wrong type": (
        '{"kind": "convert", "arguments": {"path": "a", "options": {"fast": 1}}}',
        400,
        "VALIDATION_ERROR",
        "$.arguments.options[...]",
    ),
    "a missing argument": ('{"kind": "convert"}', 400, "VALIDATION_ERROR", "$.arguments"),
    "an unknown argument": (
        '{"kind": "convert", "arguments": {"path": "a", "x": 1}}', 400, "VALIDATION_ERROR", "$.arguments"
    ),
    "a class": (
        '{"kind": "convert", "arguments": {"path": {"__class__": "os"}}}', 400, "VALIDATION_ERROR", "$.arguments.path"
    ),
    "an unknown task": ('{"kind": "os.system"}', 404, "UNKNOWN_KIND", None),
    "a task that is not public": ('{"kind": "hidden"}', 404, "UNKNOWN_KIND", None),
    "a foreign batch": (PLAIN + '"batch": "x"}', 404, "BATCH_NOT_FOUND", None),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body_is_refused_with_the_path_of_the_mistake(world: World, name: str) -> None:
    body, status, code, path = BAD[name]
    jobs = world.app.counts().total
    for client in (world.acme, world.admin):
        answer = client.post("jobs", content=body, headers=JSON)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (status, code), problem
        assert problem.get("path") == path, problem
        assert answer.headers["content-type"] == "application/problem+json"
    assert world.app.counts().total == jobs


@pytest.mark.parametrize(
    ("option", "value"), [("tags", [" x"]), ("owner", " x"), ("owner", "*"), ("dedupe", "\0"), ("max_attempts", 0)]
)
def test_a_bad_option_is_told_apart_from_the_arguments(sqlite_world: World, option: str, value: object) -> None:
    body = {"kind": "convert", "arguments": {"path": "a"}, option: value}
    problem = sqlite_world.admin.post("jobs", json=body).json()
    assert (problem["status"], problem["path"]) == (400, f"$.{option}")
    assert problem["message"].startswith(f"the option {option} does not fit task 'convert': ")


WRITTEN: dict[str, tuple[str, dict[str, Any]]] = {
    "$.deadline": ("jobs", {"kind": "convert"}),
    "$.dedupe_for": ("jobs", {"kind": "convert"}),
    "$.timeout": ("jobs", {"kind": "convert"}),
    "$.jobs[1].delay": ("batches/x/jobs", {"jobs": [{"kind": "count"}, {"kind": "count", "delay": "x"}]}),
    "$.expires_in": ("batches", {"name": "a"}),
    "$.delay": ("jobs/bulk/snooze", {"filter": {"state": "waiting"}}),
    "$.older_than": ("jobs/purge", {}),
    "$.rate": ("redrives", {"filter": {"state": "failed"}}),
    "$.duration": ("admin/retry-scheduler/pause", {}),
    "$.after": ("alerts", {"check": "jobs.depth"}),
    "$.threshold": ("alerts", {"check": "jobs.waiting"}),
    "$.resolve_after": ("alerts", {"check": "jobs.depth", "resolve_after": "8d"}),
}


@pytest.mark.parametrize("path", WRITTEN)
def test_a_duration_or_a_rate_that_cannot_be_read_has_its_place(sqlite_world: World, path: str) -> None:
    route, body = WRITTEN[path]
    name = path.rpartition(".")[2]
    whole = body if name in body or "[" in path else {**body, name: "x"}
    problem = sqlite_world.admin.request("PUT" if route == "alerts" else "POST", route, json=whole).json()
    assert (problem["status"], problem["code"], problem["path"]) == (400, "VALIDATION_ERROR", path), problem


def test_a_parameter_for_administrators_has_its_place_in_the_query(sqlite_world: World) -> None:
    problem = sqlite_world.acme.get("batches", params={"owner": "bob"}).json()
    assert (problem["status"], problem["path"]) == (403, "?.owner")
    assert sqlite_world.acme.post("batches", json={"name": "a", "owner": "bob"}).json()["path"] == "$.owner"


POSSIBLE: dict[str, tuple[str, str, str]] = {
    "a field": ("jobs", '{"kind": "convert", "id": "x"}', "unknown field `id`; possible: kind, arguments, delay, "),
    "a field of a filter": ("redrives", '{"filter": {"x": []}}', "unknown field `x`; possible: ids, state, kind, "),
    "a field of a member": (
        "batches/x/jobs",
        '{"jobs": [{"id": "x"}]}',
        "unknown field `id`; possible: kind, arguments, ",
    ),
    "a choice": ("jobs", '{"kind": "a", "dedupe_scope": "x"}', "enum value 'x'; possible: 'active', 'succeeded'"),
    "a choice among others": ("jobs", '{"kind": "a", "priority": "x"}', "'x'; possible: 'high', 'normal', 'low'"),
    "a record's own choice": (
        "subscriptions",
        '{"name": "a", "types": ["job.failed"], "to": "a@example.org", "channel": "mail"}',
        "enum value 'mail'; possible: 'email', 'webhook'",
    ),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_is_possible_is_said_where_a_name_is_unknown(sqlite_world: World, name: str) -> None:
    path, body, said = POSSIBLE[name]
    problem = sqlite_world.admin.post(path, content=body, headers=JSON).json()
    assert (problem["status"], problem["code"]) == (400, "VALIDATION_ERROR")
    assert said in problem["message"] and " - at " not in problem["message"], problem


def test_what_is_possible_is_said_of_a_parameter(sqlite_world: World) -> None:
    problem = sqlite_world.admin.get("statistics", params={"span": "year"}).json()
    assert (problem["path"], problem["message"]) == (
        "?.span",
        "Invalid enum value 'year'; possible: 'minute', 'hour', 'day'",
    )


def test_a_key_is_refused_the_statistics_of_another_owner(sqlite_world: World) -> None:
    problem = sqlite_world.acme.get("statistics", params={"owner": "another"}).json()
    assert (problem["status"], problem["path"]) == (403, "?.owner")
    assert sqlite_world.acme.get("statistics", params={"owner": "acme"}).status_code == 200


def test_what_a_database_cannot_store_as_text_is_stored_in_arguments(world: World) -> None:
    body = '{"kind": "reject", "arguments": {"why": "a\\u0000b", "page": {"number": 9223372036854775807}}}'
    stored = world.acme.post("jobs", content=body, headers=JSON).json()
    assert world.acme.get(f"jobs/{stored['id']}").json()["arguments"]["why"] == "a\0b"


@pytest.mark.parametrize("option", ["owner", "queue", "priority", "cost", "max_attempts", "submitted_at", "timeout"])
def test_an_owner_cannot_get_around_its_limits(sqlite_world: World, option: str) -> None:
    value = {"cost": 0, "max_attempts": 9, "submitted_at": "2020-01-01T00:00:00Z"}.get(option, "high")
    value = "1h" if option == "timeout" else value
    body = {"kind": "convert", "arguments": {"path": "a"}, option: value}
    problem = sqlite_world.acme.post("jobs", json=body).json()
    assert (problem["status"], problem["code"], problem["path"]) == (403, "FORBIDDEN", f"$.{option}")
    assert sqlite_world.admin.post("jobs", json=body).status_code == 201


QUERIES: dict[str, tuple[str, int, str, str | None]] = {
    "a page too large": ("jobs?limit=1001", 400, "VALIDATION_ERROR", "?.limit"),
    "a page of 10⁹": ("jobs?limit=1000000000", 400, "VALIDATION_ERROR", "?.limit"),
    "a page of words": ("jobs?limit=many", 400, "VALIDATION_ERROR", "?.limit"),
    "a page of nothing": ("jobs?limit=", 400, "VALIDATION_ERROR", "?.limit"),
    "a limit with 5,000 digits": (f"jobs?limit={'9' * 5000}", 400, "VALIDATION_ERROR", "?.limit"),
    "two limits": ("jobs?limit=1&limit=2", 400, "VALIDATION_ERROR", "?.limit"),
    "an unknown parameter": ("jobs?color=red", 400, "VALIDATION_ERROR", "?.color"),
    "an unknown state": ("jobs?state=lost", 400, "VALIDATION_ERROR", "?.state[0]"),
    "no time": ("jobs?since=yesterday", 400, "VALIDATION_ERROR", "?.since"),
    "a time without a zone": ("jobs?since=2026-01-01T00:00:00", 400, "VALIDATION_ERROR", "?.since"),
    "a foreign cursor": ("jobs?cursor=1%20OR%201=1", 400, "VALIDATION_ERROR", "?.cursor"),
    "a long filter": (f"jobs?kind={'a' * 1001}", 400, "VALIDATION_ERROR", "?.kind"),
    "a NUL": ("jobs?kind=a%00b", 400, "VALIDATION_ERROR", "?.kind"),
    "a NUL in a path": ("jobs/a%00b", 400, "VALIDATION_ERROR", None),
    "a long id": (f"jobs/{'a' * 2000}", 400, "VALIDATION_ERROR", None),
    "SQL in a path": ("jobs/'%20OR%20'1'='1", 404, "JOB_NOT_FOUND", None),
    "a long query": (f"jobs?kind={'a' * (LONGEST_QUERY + 1)}", 414, "URL_TOO_LONG", None),
    "a path that is not there": ("shoes", 404, "NOT_FOUND", None),
    "a path with a slash behind": ("jobs/", 404, "NOT_FOUND", None),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_bad_parameter_is_refused_by_its_name(world: World, name: str) -> None:
    query, status, code, path = QUERIES[name]
    answer = world.acme.get(query)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["status"]) == (status, code, status), problem
    assert problem.get("path") == path, problem
    assert answer.headers["content-type"] == "application/problem+json"


def test_an_unknown_method_is_told_the_others(sqlite_world: World) -> None:
    answer = sqlite_world.acme.patch("jobs")
    assert answer.status_code == 405 and answer.json()["code"] == "METHOD_NOT_ALLOWED"
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "POST"}


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_a_body_must_be_json(sqlite_world: World, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    answer = sqlite_world.acme.post("jobs", content='{"kind": "convert"}', headers=headers)
    assert answer.status_code == 415 and answer.json()["code"] == "UNSUPPORTED_MEDIA_TYPE"


def test_too_many_or_too_large_headers_are_refused(sqlite_world: World) -> None:
    many = {f"x-{number}": "1" for number in range(MOST_HEADERS + 1)}
    for headers in (many, {"x-large": "a" * 40_000}):
        answer = sqlite_world.acme.get("jobs", headers=headers)
        assert answer.status_code == 431 and answer.json()["code"] == "HEADERS_TOO_LARGE"


def test_a_body_without_a_length_is_bounded_too(sqlite_world: World) -> None:
    def endless() -> Any:
        for _ in range(100):
            yield b"a" * 65_536

    answer = sqlite_world.acme.post("jobs", content=endless(), headers=JSON)
    assert answer.status_code == 413


def test_a_retry_that_is_refused_says_why(world: World) -> None:
    poor = world.failed("guarded", why="poor")
    problem = world.acme.post(f"jobs/{poor.id}/retry").json()
    assert (problem["status"], problem["code"]) == (402, "INSUFFICIENT_CREDITS")
    assert (problem["requiredCredits"], problem["availableCredits"]) == (5, 2)
    gone = world.failed("guarded", why="gone")
    problem = world.acme.post(f"jobs/{gone.id}/retry").json()
    assert (problem["status"], problem["code"], problem["message"]) == (410, "EXPIRED", "the source is gone")
    denied = world.failed("guarded", why="no")
    assert world.acme.post(f"jobs/{denied.id}/retry").json()["code"] == "NOT_ALLOWED"


def test_a_limit_says_when_to_come_again(world: World) -> None:
    slow = {"kind": "convert", "arguments": {"path": "a"}, "owner": "slow"}
    answers = [world.admin.post("jobs", json=slow) for _ in range(3)]
    assert answers[-1].status_code == 429 and answers[-1].json()["code"] == "SUBMIT_RATE_EXCEEDED"
    assert int(answers[-1].headers["retry-after"]) > 0
    small = {**slow, "owner": "small", "delay": "1h"}
    answers = [world.admin.post("jobs", json=small) for _ in range(2)]
    assert answers[-1].json()["code"] == "TOO_MANY_JOBS" and answers[-1].json()["limit"] == 1


def test_the_time_to_come_again_is_rounded_up() -> None:
    """Told 1 second of 1.4, the next request comes too early."""
    for error in (
        SubmitRateExceeded("acme", "1/s", 1, burst=1, retry_after=timedelta(seconds=1.4)),
        IntakePaused("*", until=None, reason=None, retry_after=timedelta(seconds=1.4)),
    ):
        assert to_problem(error).headers["Retry-After"] == "2"


def test_a_paused_intake_says_until_when(world: World) -> None:
    world.admin.post("pauses", json={"intake": "*", "duration": "10m"})
    answer = world.acme.post("jobs", json={"kind": "reject"})
    world.admin.delete("pauses", params={"intake": "*"})
    assert answer.status_code == 503 and answer.json()["code"] == "INTAKE_PAUSED"
    assert 590 <= int(answer.headers["retry-after"]) <= 600


def test_an_unexpected_error_says_nothing_of_the_server(
    sqlite_world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(type(sqlite_world.app.wiring.jobs), "find", fail)
    answer = sqlite_world.acme.get("jobs/x")
    assert answer.status_code == 500 and answer.json()["code"] == "INTERNAL_ERROR"
    assert "secret" not in answer.text and "secret of the house" in caplog.text


def test_a_store_that_is_away_is_not_named(tmp_path: Path) -> None:
    world = World(f"sqlite:///{tmp_path}/jobs.db")
    world.app.close()
    (tmp_path / "jobs.db").write_bytes(b"no database" * 1000)
    for answer in (world.acme.get("jobs"), world.anonymous.get("/readyz")):
        assert answer.status_code == 503 and answer.json()["code"] == "STORE_UNAVAILABLE"
        assert str(tmp_path) not in answer.text and "retry-after" in answer.headers
    assert world.anonymous.get("/healthz").status_code == 200


def test_every_answer_has_the_headers_of_safety(sqlite_world: World) -> None:
    for answer in (
        sqlite_world.acme.get("jobs"),
        sqlite_world.acme.get("nothing"),
        sqlite_world.anonymous.get("/healthz"),
    ):
        assert HEADERS.items() <= {name: answer.headers.get(name) for name in HEADERS}.items()


def test_every_code_is_explained() -> None:
    """Also those that only the code of a route raises."""
    used = {code for _, code in STATUS.values()}
    for path in Path(str(mulligan.web.__file__)).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Problem" and len(node.args) > 1:
                code = node.args[1]
                used |= {code.value} if isinstance(code, ast.Constant) else set()
    assert used <= ABOUT.keys()


@pytest.mark.parametrize(("sent", "read"), [(3, 3), (100, 5)], ids=["somewhat", "much"])
def test_a_body_that_is_too_large_is_read_to_its_end_unless_it_is_huge(sent: int, read: int) -> None:
    """A proxy that still sends when the connection is closed may lose the answer."""
    part = {"type": "http.request", "body": b"x" * LARGEST_BODY, "more_body": True}
    parts = iter([part] * sent)

    async def receive() -> Any:
        return next(parts, {"type": "http.request", "body": b"", "more_body": False})

    with pytest.raises(Problem, match="larger than"):
        asyncio.run(read_body(Request({"type": "http", "headers": []}, receive)))
    assert sent - len(list(parts)) == read


@pytest.mark.parametrize("piece", [b'\\"', b'"', b"\\", b'"[', b'"\\'], ids=repr)
def test_how_deep_a_body_is_takes_linear_time(piece: bytes) -> None:
    """Of quotes that are all escaped, none ends a string: looking for the end from each of them took minutes."""

    def seconds(size: int) -> float:
        body = b"[" * (MOST_LEVELS + 1) + b'"' + piece * (size // len(piece))
        start = time.thread_time()
        with pytest.raises(Problem):
            decode(body, Filter)
        return time.thread_time() - start

    small = min(seconds(2_000) for _ in range(3))
    assert min(seconds(16_000) for _ in range(3)) < 24 * small + 0.05
