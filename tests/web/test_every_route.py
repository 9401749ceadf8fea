"""What a caller puts into any parameter of any route: no fault and no other meaning; and each change is in the audit.

The requests are made from the table of routes, so a new route, parameter or field is tested without being named here.
"""

import asyncio
import json
import os
import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import pytest
from access_client import PREFIX
from postgres_server import PostgresServer
from twins import BODIES, ROUTES, Twins, fields_of, path_of

import mulligan.store
from mulligan import JobFilter
from mulligan.records.key import Scope
from mulligan.store import forget, subscriptions
from mulligan.web.filters import Filter
from mulligan.web.reading import MOST_LEVELS
from mulligan.web.route import Route

# Read before the tests clear the environment.
IS_SOAK = bool(os.environ.get("MULLIGAN_SOAK"))
# Several attempts at once, because each value is sent in each place of each route.
INJECTIONS = [
    "%' OR '1'='1' OR \"a\"=\"a\" -- ; :owner {conditions} {{clock}} %(owner)s",
    "a\r\nX-Injected: 1\x1b[2J\0",
]
MORE_INJECTIONS = [
    "%", "_" * 8, "\\", "'", '"', "`", "$1", "*", "?", "-1", "9" * 30, "1e999", "NaN", "true", "null", "[]", "{}",
    ":owner", "../../keys", "\ud800", "\u202e", "e\u0301", "a" * 999, "%s%s%n", "${jndi:ldap://x}", "{{7*7}}",
    "__class__.__init__.__globals__", "os.system", "1; DELETE FROM mulligan_jobs; --",
    "'; SELECT pg_sleep(60); --", "' AND 1=randomblob(1000000000) --", "') OR owner <> '' --",
    "x' || (SELECT name FROM mulligan_api_keys) || '", "' UNION SELECT digest FROM mulligan_api_keys --",
]  # fmt: skip
CORPUS = [*INJECTIONS, *MORE_INJECTIONS] if IS_SOAK else INJECTIONS
# Requests under way at the same time.
AT_ONCE = 16
# Bodies of every route that takes one. A marker stands for a field of the body.
ODD_BODIES: dict[str, bytes] = {
    "deep": b'{"FIELD": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "just too deep": b'{"FIELD": ' + b'{"a":' * MOST_LEVELS + b"1" + b"}" * MOST_LEVELS + b"}",
    "a huge integer": b'{"FIELD": ' + b"9" * 10_000 + b"}",
    "twin fields": b'{"FIELD": "a", "FIELD": "b"}',
    "a lone surrogate": b'{"FIELD": "\\ud800"}',
    "not a number": b'{"FIELD": NaN}',
    "not UTF-8": b'{"FIELD": "\xff"}',
    "not JSON": b'{"FIELD": }',
    "an array": b"[]",
}
# These may also fit: then they are stored as they are.
INERT_BODIES: dict[str, Any] = {
    "a class": {"__class__": "os.system", "__reduce__": ["os.system", ["id"]]},
    "a prototype": {"__proto__": {"owner": "other"}, "constructor": {"prototype": {}}},
    "a NUL": "a\0b",
    "a number": 2**63 - 1,
    "a fraction": 1e308,
    "nothing": None,
}


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def twins(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('every_route')}/jobs.db"
    else:
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("every_route")
    with Twins(url).filled() as found:
        found.finish()
        yield found


class Sent(NamedTuple):
    route: Route
    place: str
    path: str
    body: bytes | None = None

    def __str__(self) -> str:
        return f"{self.route.method} {self.route.path} with {self.place}: {self.path} {(self.body or b'')[:200]!r}"


def key_for(twins: Twins, route: Route) -> str:
    return twins.admin if route.is_admin else twins.mine.key


async def send_all(client: httpx.AsyncClient, twins: Twins, requests: list["Sent"]) -> list[httpx.Response]:
    answers: list[httpx.Response] = []
    for first in range(0, len(requests), AT_ONCE):
        together = requests[first : first + AT_ONCE]
        answers += await asyncio.gather(*(send(client, twins, each) for each in together))
    return answers


async def send(client: httpx.AsyncClient, twins: Twins, sent: Sent) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key_for(twins, sent.route)}", "Content-Type": "application/json"}
    # The stream would not end.
    method = "HEAD" if sent.route.path == "/events/stream" else sent.route.method
    return await client.request(method, sent.route.prefix + sent.path, headers=headers, content=sent.body)


def plain_body(route: Route, **fields: Any) -> bytes | None:
    return None if route.body is None else json.dumps({**BODIES.get(route.path, {}), **fields}).encode()


def injections(route: Route, ids: dict[str, str]) -> Iterator[Sent]:
    """Each value in each place of a request, and as the name of a parameter or a field."""
    plain = path_of(route, ids)
    for value in CORPUS:
        written = value.encode("utf-8", "surrogatepass")
        for name in route.parameters:
            yield Sent(route, name, path_of(route, {**ids, name: value}), plain_body(route))
        for name in fields_of(route.query):
            yield Sent(route, f"?{name}", f"{plain}?{urlencode({name: written})}", plain_body(route))
        yield Sent(route, "?", f"{plain}?{urlencode({written: '1'})}", plain_body(route))
        for name in fields_of(route.body):
            yield Sent(route, name, plain, plain_body(route, **{name: value}))
            yield Sent(route, f"[{name}]", plain, plain_body(route, **{name: [value]}))
        if "filter" in fields_of(route.body):
            for name in fields_of(Filter):
                yield Sent(route, f"filter.{name}", plain, plain_body(route, filter={name: value}))
        if route.body is not None:
            yield Sent(route, "a field", plain, plain_body(route, **{value: value}))


def snapshot(twins: Twins) -> list[Any]:
    """Everything of the other owner."""
    app, owner = twins.app, twins.theirs.owner
    jobs = app.jobs(JobFilter(), owner=owner, limit=1_000).jobs
    events = [app.events(job.id) for job in jobs]
    listed = (app.batches, app.redrives, app.keys, app.audit, app.subscriptions, app.deliveries, app.incoming_hooks)
    return [jobs, events, *(each(owner=owner) for each in listed)]


def test_no_value_of_any_parameter_is_a_fault_or_has_another_meaning(twins: Twins) -> None:
    before, everything = snapshot(twins), [*chain(*(injections(route, twins.mine.ids) for route in ROUTES))]
    found = twins.web.run(lambda client: send_all(client, twins, everything))
    answers = list(zip(everything, found, strict=True))
    assert len(answers) > 100 * len(CORPUS)
    faults = [(str(sent), answer.text) for sent, answer in answers if answer.status_code >= 500]
    assert faults == []
    refusals = [answer for _, answer in answers if answer.status_code >= 400 and answer.request.method != "HEAD"]
    assert {answer.headers["content-type"] for answer in refusals} == {"application/problem+json"}
    assert [str(sent) for sent, answer in answers if "x-injected" in answer.headers] == []
    own = [(sent, answer) for sent, answer in answers if not sent.route.is_admin]
    leaks = [str(sent) for sent, answer in own if twins.theirs.marker in answer.text]
    assert leaks == []
    assert snapshot(twins) == before


def odd_bodies() -> Iterator[tuple[Sent, bool]]:
    """Each with whether it must be refused."""
    for route in ROUTES:
        names, path = fields_of(route.body), path_of(route, {})
        for place, body in ODD_BODIES.items() if names else ():
            yield Sent(route, place, path, body.replace(b"FIELD", names[0].encode())), True
        for name in names:
            for place, value in INERT_BODIES.items():
                yield Sent(route, place, path, plain_body(route, **{name: value})), False


def test_no_odd_body_is_a_fault_and_what_fits_is_stored_as_it_is(twins: Twins) -> None:
    everything = list(odd_bodies())
    answers = twins.web.run(lambda client: send_all(client, twins, [sent for sent, _ in everything]))
    wrong = [
        (str(sent), answer.text)
        for (sent, must_fail), answer in zip(everything, answers, strict=True)
        if answer.status_code >= 500 or (must_fail and answer.status_code < 400)
    ]
    assert wrong == []
    kept = {"text": json.dumps(INERT_BODIES["a class"])}
    made = twins.web.request("POST", "/jobs", twins.mine.key, json={"kind": "works", "arguments": kept}).json()
    assert twins.web.request("GET", f"/jobs/{made['id']}", twins.mine.key).json()["arguments"] == kept


def test_a_body_of_ten_megabytes_is_refused_by_every_route(twins: Twins) -> None:
    """Also one that does not say how large it is."""

    async def send_all(client: httpx.AsyncClient) -> list[int]:
        statuses = []
        for route in (route for route in ROUTES if route.body is not None):

            async def parts() -> Any:
                yield b'{"reason": 1'
                for _ in range(160):
                    yield b"1" * 65_536

            headers = {"Authorization": f"Bearer {key_for(twins, route)}", "Content-Type": "application/json"}
            answer = await client.request(route.method, PREFIX + path_of(route, {}), headers=headers, content=parts())
            statuses.append(answer.status_code)
        return statuses

    assert set(twins.web.run(send_all)) == {413}


# The audit


def test_every_change_leaves_one_entry_and_every_read_none(twins: Twins) -> None:
    """Whatever its answer is. A call without a key is recorded once its signature is known to be right."""
    wrong = []
    for route in ROUTES:
        sent = Sent(route, "", path_of(route, {}), plain_body(route))
        known = {entry.id for entry in twins.app.audit(limit=10)}
        answer = twins.web.run(partial(send, twins=twins, sent=sent))
        new = [entry for entry in twins.app.audit(limit=5) if entry.id not in known]
        left = [(entry.action, entry.status, entry.owner, entry.key, entry.ip) for entry in new]
        owner, key = (None if route.is_admin else twins.mine.owner), key_for(twins, route).split("_")[1]
        expected = [(f"{route.method} {route.path}", answer.status_code, owner, key, "192.0.2.1")]
        if left != (expected if route.is_change and route.scope is not None else []):
            wrong.append((str(sent), left))
    assert wrong == []


def test_a_change_that_a_key_does_not_allow_leaves_no_entry(twins: Twins) -> None:
    key = twins.web.key(twins.mine.owner, Scope.JOBS_READ)
    before = twins.app.audit(limit=5)
    changes = [route for route in ROUTES if route.is_change and route.scope is not None]
    assert {twins.web.request(route.method, path_of(route, {}), key).status_code for route in changes} == {403}
    assert {twins.web.request(route.method, path_of(route, {})).status_code for route in changes} == {401}
    assert twins.app.audit(limit=5) == before


def test_no_statement_deletes_entries_but_the_one_of_retention() -> None:
    folders = [Path(mulligan.store.__file__).parent / name for name in ("sql", "sqlite/sql", "postgres/sql")]
    deleting = {
        file.stem
        for folder in folders
        for file in folder.glob("*.sql")
        if re.search(r"(DELETE\s+FROM|UPDATE|TRUNCATE)\s+(mulligan_audit\b|\{table\})", file.read_text("utf-8"))
    }
    # The status is added; retention deletes what is old; owners and subscriptions are forgotten, but not what was done.
    assert deleting == {"audit_end", "access_forget", "forget_rows", "subscription_forget"}
    assert "mulligan_audit" not in {part.table for part in forget.PARTS}
    assert "mulligan_audit" not in subscriptions.REMEMBERED
