"""What a key allows, how often, and what is recorded of a change."""

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import partial, wraps
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from access_client import PREFIX, Web, bearer

from mulligan import App, FinalError, JobFilter, RetryPolicy, Service
from mulligan.errors import StoreUnavailable
from mulligan.records.key import Scope
from mulligan.records.token import new_token
from mulligan.values.clock import system_secrets
from mulligan.web.access import access as access_module

LONG_GATE = 20


class Gate:
    """Holds a verb of an app up until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()

    def hold(self, app: App, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
        real = getattr(app, verb)

        @wraps(real)
        def call(*args: Any, **kwargs: Any) -> Any:
            self.entered.set()
            assert self.opened.wait(LONG_GATE)
            return real(*args, **kwargs)

        monkeypatch.setattr(app, verb, call)


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Web]:
    with App(f"sqlite:///{tmp_path}/web.db", services=[Service("gateway")]) as app:

        @app.cron("0 3 * * *")
        @app.task
        def nightly() -> None: ...

        @app.task("fails", retry=RetryPolicy(1))
        def fails() -> None:
            raise FinalError("no")

        yield Web(app)


async def lost(*_: object) -> None:
    """The end of a change whose server died before it."""


def expire_marks(web: Web) -> None:
    """As if two minutes had passed."""
    with sqlite3.connect(web.app.settings.database_url.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE mulligan_in_flight SET until = at")
    connection.close()


def failed(web: Web, owner: str = "acme") -> str:
    job = web.app.tasks["fails"].options(owner=owner).enqueue()
    web.app.run_until_idle(timeout="30s")
    return job.id


# Keys


def test_a_key_reaches_the_jobs_of_its_owner(web: Web) -> None:
    job = failed(web)
    assert web.request("GET", f"/jobs/{job}", web.key("acme")).status_code == 200
    assert web.request("GET", f"/jobs/{job}", web.key()).status_code == 200
    assert web.request("GET", f"/jobs/{job}", web.key("other")).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer nothing"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Cookie": "session=mk_a"},
    ],
    ids=str,
)
def test_without_a_valid_key_nothing_is_said(web: Web, headers: dict[str, str]) -> None:
    answer = web.request("GET", "/jobs", headers=headers)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.json()["code"] == "UNAUTHORIZED"


def test_a_key_is_read_from_its_header_only(web: Web) -> None:
    key = web.key()
    assert web.request("GET", "/jobs", headers={"Cookie": f"key={key}"}).status_code == 401
    assert web.request("GET", "/jobs", params={"key": key}).status_code == 401
    assert web.request("GET", "/jobs", headers={"X-Api-Key": key}).status_code == 401
    assert web.request("GET", "/jobs", headers={"Authorization": f"bearer  {key}"}).status_code == 200
    twice = [("Authorization", f"Bearer {key}")] * 2
    assert web.run(lambda client: client.get(f"{PREFIX}/jobs", headers=twice)).status_code == 401


def test_an_unknown_a_revoked_and_an_expired_key_are_answered_alike(web: Web) -> None:
    revoked = web.app.create_key(owner="acme", name="a")
    web.app.revoke_key(revoked.key.id)
    expired = web.key("acme", expires_in="1ms")
    unknown = new_token(system_secrets).text
    answers = [web.request("GET", "/jobs", key) for key in (unknown, revoked.token, expired)]
    assert {(answer.status_code, answer.text) for answer in answers} == {(401, answers[0].text)}


def test_a_key_is_remembered_for_less_than_a_second(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, now = [], [100.0]
    authentication = web.access._authentication
    monkeypatch.setattr(authentication, "find_key", lambda token: asked.append(token) or web.app.find_key(token))
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: now[0])})()
    monkeypatch.setattr(authentication, "clock", lambda: clock)
    created = web.app.create_key(owner="acme", name="a")
    for _ in range(3):
        assert web.request("GET", "/jobs", created.token).status_code == 200
    assert len(asked) == 1
    web.app.revoke_key(created.key.id)
    now[0] += 0.99
    assert web.request("GET", "/jobs", created.token).status_code == 401


def test_requests_with_one_key_at_once_ask_the_store_once(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = count_questions(web, monkeypatch)
    key = web.key()
    answers = web.run(lambda client: gather(client, *[("GET", "/jobs", key)] * 20))
    assert [answer.status_code for answer in answers] == [200] * 20
    assert len(asked) == 1


def test_a_scope_that_is_missing_is_named(web: Web) -> None:
    job = failed(web)
    answer = web.request("POST", f"/jobs/{job}/retry", web.key("acme", Scope.JOBS_READ), json={})
    assert (answer.status_code, answer.json()["code"], answer.json()["scope"]) == (403, "FORBIDDEN", "jobs:retry")
    assert web.app.job(job).state == "failed"
    assert actions(web) == []


@pytest.mark.parametrize(
    ("what", "scope"),
    [
        ("subscription", Scope.WEBHOOKS_MANAGE),
        ("delivery", Scope.WEBHOOKS_MANAGE),
        ("hook", Scope.WEBHOOKS_MANAGE),
        ("key", Scope.KEYS_MANAGE),
    ],
)
def test_ids_of_what_a_key_may_not_read_are_not_completed(web: Web, what: str, scope: Scope) -> None:
    refused = web.request("GET", f"/ids/{what}/123xyz", web.key("acme", Scope.JOBS_READ))
    assert (refused.status_code, refused.json()["scope"]) == (403, scope)
    assert web.request("GET", f"/ids/{what}/123xyz", web.key("acme", Scope.JOBS_READ, scope)).status_code == 404


def test_the_last_use_of_a_key_is_kept_to_the_minute(web: Web) -> None:
    key = web.key("acme")
    assert web.app.keys()[0].last_used_at is None
    web.request("GET", "/jobs", key)
    used = web.app.keys()[0].last_used_at
    assert used is not None and used.second == used.microsecond == 0


# Rates


def test_a_key_beyond_its_rate_is_told_when_to_come_again(web: Web) -> None:
    limited = Web(web.app, requests="3/m")
    key, other = web.key("acme"), web.key("other")
    answers = [limited.request("GET", "/jobs", key) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200] * 3 + [429] * 2
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 20
    assert answers[-1].json()["code"] == "RATE_LIMITED"
    assert limited.request("GET", "/jobs", other).status_code == 200, "one owner does not affect another"


def test_requests_that_are_refused_count_too(web: Web) -> None:
    limited = Web(web.app, requests="3/m")
    key = web.key("acme", Scope.KEYS_MANAGE)
    assert [limited.request("GET", "/jobs", key).status_code for _ in range(4)] == [403, 403, 403, 429]


def test_an_address_with_many_failures_is_refused_and_a_valid_key_from_there_is_not(web: Web) -> None:
    limited = Web(web.app, failures="3/m")
    answers = [limited.request("GET", "/jobs", "wrong") for _ in range(5)]
    assert [answer.status_code for answer in answers] == [401] * 3 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1
    assert limited.request("GET", "/jobs", address="192.0.2.2").status_code == 401
    assert limited.request("GET", "/jobs", web.key()).status_code == 200


def count_questions(web: Web, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The tokens about which the store is asked from now on."""
    asked: list[str] = []
    monkeypatch.setattr(
        web.access._authentication, "find_key", lambda token: asked.append(token) or web.app.find_key(token)
    )
    return asked


def test_an_address_that_is_blocked_costs_the_store_nothing(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = Web(web.app, failures="1/h")
    assert [limited.request("GET", "/jobs").status_code for _ in range(2)] == [401, 429]
    asked = count_questions(limited, monkeypatch)
    monkeypatch.setattr(limited.access._admissions, "_store", lambda: pytest.fail("the store was asked"))
    unknown = [new_token(system_secrets).text for _ in range(6)]
    assert {limited.request("GET", "/jobs", each).status_code for each in unknown} == {429}
    assert asked == unknown[:1], "one an hour, which may be a valid key"


def test_a_key_that_was_valid_is_not_refused_with_its_address(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    limited, now = Web(web.app, failures="1/h"), [100.0]
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: now[0])})()
    monkeypatch.setattr(limited.access._authentication, "clock", lambda: clock)
    created = web.app.create_key(owner="acme", name="a")
    assert limited.request("GET", "/jobs", created.token).status_code == 200
    for _ in range(4):
        limited.request("GET", "/jobs", new_token(system_secrets).text)
    asked = count_questions(limited, monkeypatch)
    now[0] += 10
    assert limited.request("GET", "/jobs", created.token).status_code == 200
    assert asked == [created.token], "it may have been revoked meanwhile"
    web.app.revoke_key(created.key.id)
    now[0] += 10
    assert [limited.request("GET", "/jobs", created.token).status_code for _ in range(2)] == [429, 429]
    assert len(asked) == 2


def test_the_store_is_asked_at_most_once_a_second_whether_it_is_ready(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, now = [], [100.0]
    clock = type("Clock", (), {"monotonic": staticmethod(lambda: now[0])})()
    monkeypatch.setattr(web.application.state.store_check, "clock", lambda: clock)

    def check() -> None:
        asked.append(now[0])
        if now[0] > 101:
            raise StoreUnavailable("it is away")

    monkeypatch.setattr(web.app, "check_store", check)
    found = []
    for _ in range(3):
        found += [answer.status_code for answer in web.run(lambda client: gather_ready(client, 5))]
        now[0] += 0.75
    assert (found, asked) == ([200] * 10 + [503] * 5, [100.0, 101.5])


async def gather_ready(client: httpx.AsyncClient, number: int) -> list[httpx.Response]:
    return await asyncio.gather(*(client.get("/readyz") for _ in range(number)))


def test_addresses_of_one_ipv6_network_are_one(web: Web) -> None:
    limited = Web(web.app, failures="1/h")
    assert limited.request("GET", "/jobs", address="2001:db8::1").status_code == 401
    assert limited.request("GET", "/jobs", address="2001:db8::2").status_code == 429
    assert limited.request("GET", "/jobs", address="2001:db8:0:1::2").status_code == 401


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("a" * 20_000, "unknown"),
        ("192.0.2.7\x1b[2J", "unknown"),
        ("'; DROP TABLE mulligan_jobs --", "unknown"),
        ("", "unknown"),
    ],
    ids=lambda value: value[:20],
)
def test_an_address_is_an_address_whatever_a_proxy_names(web: Web, given: str, stored: str) -> None:
    limited = Web(web.app, failures="1/h")
    limited.request("POST", "/keys", web.key("acme"), json={"name": "a"}, address=given)
    assert [entry.ip for entry in web.app.audit() if entry.key is not None] == [stored]
    # The failures of one client count together, however its address is written.
    assert [limited.request("GET", "/jobs", address=each).status_code for each in (given, stored)] == [401, 429]


def test_requests_that_come_together_are_admitted_together(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, admit = [], web.app.store.admit
    monkeypatch.setattr(web.app.store, "admit", lambda wanted, ended: sizes.append(len(wanted)) or admit(wanted, ended))
    key = web.key()
    answers = web.run(lambda client: gather(client, *[("GET", "/jobs", key)] * 50))
    assert [answer.status_code for answer in answers] == [200] * 50
    assert sum(sizes) == 50
    assert len(sizes) < 25


# Idempotency


def test_a_repeated_change_is_made_once(web: Web) -> None:
    job, key = failed(web), web.key("acme")
    headers = {"Idempotency-Key": "again"}
    answers = [web.request("POST", f"/jobs/{job}/retry", key, json={}, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert answers[0].json()["id"] == answers[1].json()["id"] == job
    assert web.app.job(job).manual_retries == 1
    other = web.request("POST", f"/jobs/{job}/retry", key, json={"reason": "other"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_the_same_key_of_another_owner_is_another_request(web: Web) -> None:
    headers = {"Idempotency-Key": "again"}
    for owner in ("acme", "other"):
        job = failed(web, owner)
        assert web.request("POST", f"/jobs/{job}/retry", web.key(owner), json={}, headers=headers).status_code == 200


def test_while_the_first_is_under_way_the_second_is_refused(
    web: Web, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, key = failed(web), web.key("acme")
    gate.hold(web.app, "retry", monkeypatch)

    async def both(client: httpx.AsyncClient) -> tuple[httpx.Response, httpx.Response, httpx.Response]:
        headers = bearer(key) | {"Idempotency-Key": "again"}
        retry = lambda: client.post(f"{PREFIX}/jobs/{job}/retry", json={}, headers=headers)  # noqa: E731
        first = asyncio.ensure_future(retry())
        await asyncio.to_thread(gate.entered.wait, LONG_GATE)
        second = await retry()
        gate.opened.set()
        return await first, second, await retry()

    first, second, third = web.run(both)
    assert (first.status_code, third.status_code) == (200, 200)
    assert (second.status_code, second.json()["code"]) == (409, "REQUEST_IN_FLIGHT")
    assert second.headers["retry-after"] == "1"
    assert web.app.job(job).manual_retries == 1


@pytest.mark.parametrize("wrong", ["", "a" * 201, "a\tb", "caf\xe9"])
def test_an_idempotency_key_is_1_to_200_printable_characters(web: Web, wrong: str) -> None:
    job = failed(web)
    headers = {
        b"idempotency-key": wrong.encode("latin-1"),
        **{k.encode(): v.encode() for k, v in bearer(web.key()).items()},
    }
    answer = web.run(lambda client: client.post(f"{PREFIX}/jobs/{job}/retry", json={}, headers=headers))
    assert (answer.status_code, answer.json()["code"]) == (400, "VALIDATION_ERROR")
    assert web.app.job(job).state == "failed"


# The audit


def actions(web: Web) -> list[tuple[str, str | None, int | None]]:
    """Of requests, the oldest first."""
    entries = [entry for entry in web.app.audit(limit=1_000) if entry.key is not None]
    return [(entry.action, entry.target, entry.status) for entry in reversed(entries)]


def test_every_change_leaves_one_entry_and_a_read_none(web: Web) -> None:
    job = failed(web)
    key = web.app.create_key(owner="acme", name="ci", scopes=[Scope.JOBS_READ, Scope.JOBS_RETRY])
    web.request("GET", "/jobs", key.token)
    web.request("POST", f"/jobs/{job}/retry", key.token, json={}, headers={"Idempotency-Key": "a"})
    web.request("POST", f"/jobs/{job}/retry", key.token, json={})
    web.request("POST", "/jobs/nothing/retry", key.token, json={})
    web.request("POST", "/jobs/nothing/retry", key.token, json={"wrong": 1})
    web.request("POST", "/jobs/nothing/retry", "wrong", json={})
    route = "POST /jobs/{job_id}/retry"
    assert actions(web) == [
        (route, job, 200),
        (route, job, 400),
        (route, "nothing", 404),
        (route, "nothing", 400),
    ]
    first = web.app.audit(owner="acme", limit=50)[3]
    assert (first.key, first.owner, first.ip) == (key.key.id, "acme", "192.0.2.1")
    assert first.actor == f"ci (key {key.key.id})"
    assert first.request_id is not None and first.ended_at is not None
    assert any(event.actor == first.actor for event in web.app.events(job))


def test_an_entry_is_there_before_the_change(web: Web, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    job, key = failed(web), web.key("acme")
    gate.hold(web.app, "retry", monkeypatch)

    async def look_meanwhile(client: httpx.AsyncClient) -> tuple[list[Any], int]:
        change = asyncio.ensure_future(client.post(f"{PREFIX}/jobs/{job}/retry", json={}, headers=bearer(key)))
        await asyncio.to_thread(gate.entered.wait, LONG_GATE)
        seen = actions(web)
        gate.opened.set()
        return seen, (await change).status_code

    assert web.run(look_meanwhile) == ([("POST /jobs/{job_id}/retry", job, None)], 200)
    assert actions(web) == [("POST /jobs/{job_id}/retry", job, 200)]


def test_a_key_that_is_created_or_revoked_leaves_one_entry(web: Web) -> None:
    admin = web.key()
    before = len(web.app.audit())
    made = web.request("POST", "/keys", admin, json={"owner": "acme", "name": "a"}).json()["key"]["id"]
    web.request("DELETE", f"/keys/{made}", admin)
    assert actions(web) == [("POST /keys", made, 201), ("DELETE /keys/{key_id}", made, 200)]
    assert len(web.app.audit()) == before + 2
    key = web.app.create_key(owner="acme", name="b", actor="ann").key.id
    web.app.revoke_key(key, actor="ben")
    ours = [(entry.actor, entry.action, entry.target) for entry in web.app.audit()[:2]]
    assert ours == [("ben", "revoke key", key), ("ann", "create key", key)]


def test_a_key_that_was_put_into_a_path_is_not_stored(web: Web) -> None:
    token = web.key("acme")
    web.request("POST", f"/jobs/{token}/retry", token, json={})
    (target,) = (entry.target for entry in web.app.audit() if entry.key is not None)
    assert target is not None and token.split("_")[2] not in target


def test_an_owner_sees_its_own_entries(web: Web) -> None:
    acme, other = web.key("acme"), web.key("other")
    for key in (acme, other):
        web.request("POST", "/keys", key, json={"name": "a"})
    entries = web.request("GET", "/audit", acme).json()["audit"]
    assert {entry["owner"] for entry in entries} == {"acme"}
    assert len(web.request("GET", "/audit", web.key()).json()["audit"]) > len(entries)
    page = web.request("GET", "/audit", acme, params={"limit": 1}).json()
    more = web.request("GET", "/audit", acme, params={"cursor": page["cursor"]}).json()
    assert page["audit"] + more["audit"] == entries


def test_an_entry_has_hashes_of_the_target_before_and_of_the_answer(web: Web) -> None:
    job, key = failed(web), web.key("acme")
    answers = [web.request("POST", f"/jobs/{job}/{verb}", key, json={}) for verb in ("retry", "cancel", "cancel")]
    assert [answer.status_code for answer in answers] == [200, 200, 400]
    refused, cancelled, retried = web.app.audit(limit=3)
    assert retried.after_hash == sha256(answers[0].content).hexdigest()
    assert retried.before_hash not in (None, retried.after_hash)
    assert cancelled.before_hash == retried.after_hash, "nothing changed it in between"
    assert (refused.before_hash, refused.after_hash) == (cancelled.after_hash, None), "it changed nothing"


def test_every_kind_of_target_has_a_hash(web: Web) -> None:
    admin = web.key()
    batch = web.request("POST", "/batches", admin, json={"name": "b"}).json()["id"]
    assert web.app.audit(limit=1)[0].before_hash is None, "there was none before"
    made = web.request("POST", "/keys", admin, json={"owner": "acme", "name": "a"}).json()["key"]["id"]
    failed(web)
    redrive = web.request("POST", "/redrives", admin, json={"filter": {"state": "failed"}}).json()["id"]
    wanted = {"name": "mails", "types": ["job.failed"], "channel": "email", "to": "ann@example.org"}
    subscription = web.request("POST", "/subscriptions", admin, json=wanted).json()["subscription"]["id"]
    web.app.run_duty("project")
    group = web.app.failures().groups[0].id
    hook = web.request("POST", "/hooks", admin, json={"name": "h", "group": group}).json()["hook"]["id"]
    for method, path in (
        ("POST", f"/subscriptions/{subscription}/disable"),
        ("POST", f"/failures/{group}/resolve"),
        ("DELETE", f"/hooks/{hook}"),
        ("POST", f"/batches/{batch}/publish"),
        ("DELETE", f"/keys/{made}"),
        ("DELETE", f"/redrives/{redrive}"),
        ("POST", "/services/gateway/open"),
        ("POST", "/schedules/nightly/run"),
    ):
        body = {"json": {}} if method == "POST" else {}
        assert web.request(method, path, admin, **body).is_success, path
        entry = web.app.audit(limit=1)[0]
        assert entry.before_hash and entry.after_hash, path
        # A hook that is removed is answered as it was.
        assert (entry.before_hash == entry.after_hash) is path.startswith("/hooks"), path


def test_an_enqueue_is_the_same_job_also_after_a_crash_and_on_another_server(web: Web) -> None:
    """A server that dies after the enqueue ends nothing: its mark expires, and the time of the first request stays."""
    web.app.tasks["fails"].public = True
    key, twin = web.key("acme"), Web(web.app)
    send = partial(web.request, "POST", "/jobs", key, json={"kind": "fails"}, headers={"Idempotency-Key": "one"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(web.access, "_end", lost)
        first = send()
    assert send().json()["code"] == "REQUEST_IN_FLIGHT"
    expire_marks(web)
    again = twin.request("POST", "/jobs", key, json={"kind": "fails"}, headers={"Idempotency-Key": "one"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert len(web.app.jobs(JobFilter(kind="fails")).jobs) == 1


def test_no_verb_deletes_an_entry(web: Web) -> None:
    web.request("POST", "/keys", web.key("acme"), json={"name": "a"})
    before = web.app.audit(limit=100)
    web.app.forget_owner("acme", actor="ann")
    for _ in range(5):
        web.app.tick()
        web.app.run_duty("prune")
    assert web.app.audit(limit=100) == before
    assert web.app.keys(owner="acme") == []


def test_an_answer_is_not_lost_because_its_end_cannot_be_recorded(
    web: Web, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    job, key, admit = failed(web), web.key("acme"), web.app.store.admit

    def fail_at_the_end(wanted: Any, ended: Any) -> Any:
        if ended:
            raise StoreUnavailable("gone")
        return admit(wanted, ended)

    monkeypatch.setattr(web.app.store, "admit", fail_at_the_end)
    assert web.request("POST", f"/jobs/{job}/retry", key, json={}).status_code == 200
    assert "was not recorded in the audit" in caplog.text
    assert actions(web) == [("POST /jobs/{job_id}/retry", job, None)]


def test_no_change_is_made_that_cannot_be_recorded(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    job, key = failed(web), web.key("acme")

    def refuse(wanted: Any, ended: Any) -> Any:
        raise StoreUnavailable("gone")

    monkeypatch.setattr(web.app.store, "admit", refuse)
    assert web.request("POST", f"/jobs/{job}/retry", key, json={}).status_code == 503
    assert web.app.job(job).state == "failed"


def test_a_client_that_goes_away_before_its_admission_leaves_no_mark(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    job, key, admit = failed(web), web.key("acme"), web.app.store.admit
    entered, go_on = threading.Event(), threading.Event()

    def slowly(wanted: Any, ended: Any) -> Any:
        entered.set()
        assert go_on.wait(LONG_GATE)
        return admit(wanted, ended)

    monkeypatch.setattr(web.app.store, "admit", slowly)

    async def leave(client: httpx.AsyncClient) -> int:
        headers = bearer(key) | {"Idempotency-Key": "a"}
        send = lambda: client.post(f"{PREFIX}/jobs/{job}/retry", json={}, headers=headers)  # noqa: E731
        first = asyncio.ensure_future(send())
        await asyncio.to_thread(entered.wait, LONG_GATE)
        first.cancel()
        await asyncio.wait([first])
        go_on.set()
        # The next admission may come before the release.
        answers = [(await send()).status_code for _ in range(5)]
        return answers[-1]

    assert web.run(leave) == 200


def test_each_request_that_reveals_secrets_leaves_one_entry(web: Web) -> None:
    job, key = failed(web), web.key("acme")
    for path in ("/jobs", f"/jobs/{job}", "/jobs/export"):
        web.request("GET", path, key)
    before = len(web.app.audit())
    for path in (f"/jobs/{job}?reveal=true", "/jobs?state=failed&reveal=1", "/jobs/export?reveal=True"):
        assert web.request("GET", path, key).status_code == 200
    assert web.request("GET", "/jobs?reveal=perhaps", key).status_code == 400
    blind = web.key("acme", Scope.JOBS_READ)
    refused = web.request("GET", f"/jobs/{job}?reveal=true", blind)
    assert (refused.status_code, refused.json()["scope"]) == (403, "args:reveal")
    entries = [entry for entry in web.app.audit() if entry.action == "reveal"]
    assert [(entry.target, entry.status, entry.owner, entry.ip) for entry in reversed(entries)] == [
        (job, 200, "acme", "192.0.2.1"),
        ("/jobs?state=failed&reveal=1", 200, "acme", "192.0.2.1"),
        ("/jobs/export?reveal=True", 200, "acme", "192.0.2.1"),
    ]
    # One more for the key without the scope.
    assert len(web.app.audit()) == before + len(entries) + 1


# Foreign ids


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/jobs/{}"), ("POST", "/jobs/{}/retry"), ("DELETE", "/keys/{}")], ids=str
)
def test_a_foreign_id_is_answered_as_a_missing_one(web: Web, method: str, path: str) -> None:
    if "keys" in path:
        foreign = web.app.create_key(owner="other", name="a").key.id
        missing = "0" * len(foreign)
    else:
        foreign = failed(web, "other")
        missing = "0" * 8 + foreign[8:]
    key = web.key("acme")
    body = {"json": {}} if method == "POST" else {}
    answers = [web.request(method, path.format(target), key, **body) for target in (foreign, missing)]
    shown = [
        (answer.status_code, answer.text.replace(target, "ID"), sorted(answer.headers.items()))
        for answer, target in zip(answers, (foreign, missing), strict=True)
    ]
    assert shown[0] == shown[1]
    assert shown[0][0] == 404


# Keys over HTTP


def test_a_key_creates_keys_of_its_own_owner_with_at_most_its_own_scopes(web: Web) -> None:
    own = web.key("acme", Scope.JOBS_READ, Scope.KEYS_MANAGE)
    made = web.request("POST", "/keys", own, json={"name": "a"})
    assert made.status_code == 201
    assert (made.json()["key"]["owner"], made.json()["key"]["scopes"]) == ("acme", ["jobs:read"])
    assert web.request("GET", "/jobs", made.json()["token"]).status_code == 200
    refused = {
        "scopes": web.request("POST", "/keys", own, json={"name": "a", "scopes": ["jobs:retry"]}),
        "operate": web.request("POST", "/keys", web.key("acme"), json={"name": "a", "scopes": ["operate"]}),
        "owner": web.request("POST", "/keys", own, json={"name": "a", "owner": "other"}),
        "admin": web.request("POST", "/keys", own, json={"name": "a", "owner": None}),
    }
    assert {name: answer.status_code for name, answer in refused.items()} == dict.fromkeys(refused, 403)


def test_a_key_that_expires_makes_no_key_that_outlives_it(web: Web) -> None:
    own = web.app.create_key(owner="acme", name="a", scopes=[Scope.KEYS_MANAGE, Scope.JOBS_READ], expires_in="1h")
    made = [
        web.request("POST", "/keys", own.token, json={"name": "b", **life}).json()["key"]["expires_at"]
        for life in ({}, {"expires_in": "90d"}, {"expires_in": "1m"})
    ]
    assert all(expires is not None for expires in made)
    ends = [datetime.fromisoformat(expires) for expires in made]
    latest = own.key.expires_at
    assert (
        latest is not None and max(ends) <= latest + timedelta(seconds=1) and ends[2] < latest - timedelta(minutes=50)
    )


def test_an_administrator_says_whose_key_it_is(web: Web) -> None:
    admin = web.key()
    assert web.request("POST", "/keys", admin, json={"name": "a"}).status_code == 400
    for owner in ("acme", None):
        made = web.request("POST", "/keys", admin, json={"name": "a", "owner": owner})
        assert (made.status_code, made.json()["key"]["owner"]) == (201, owner)


def test_an_administrators_key_cannot_give_what_it_lacks(web: Web) -> None:
    admin = web.key(None, Scope.KEYS_MANAGE, Scope.JOBS_READ)
    answer = web.request("POST", "/keys", admin, json={"name": "a", "owner": None, "scopes": ["operate"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "KEY_NOT_ALLOWED")


def test_a_key_cannot_revoke_one_that_is_stronger(web: Web) -> None:
    few, more = [Scope.KEYS_MANAGE, Scope.JOBS_READ], [Scope.KEYS_MANAGE, Scope.JOBS_READ, Scope.JOBS_RETRY]
    own = web.app.create_key(owner="acme", name="own", scopes=few)
    weaker = web.app.create_key(owner="acme", name="weaker", scopes=[Scope.JOBS_READ]).key.id
    stronger = web.app.create_key(owner="acme", name="stronger", scopes=more).key.id
    foreign = web.app.create_key(owner="other", name="foreign", scopes=more).key.id
    answers = {key: web.request("DELETE", f"/keys/{key}", own.token) for key in (weaker, stronger, foreign, own.key.id)}
    assert [answer.status_code for answer in answers.values()] == [200, 403, 404, 200]
    assert answers[stronger].json()["code"] == "KEY_NOT_ALLOWED"
    assert "cannot be revoked: it has jobs:retry" in answers[stronger].json()["message"]


def test_a_repeated_creation_creates_no_second_key(web: Web) -> None:
    own, headers = web.key("acme"), {"Idempotency-Key": "a"}
    first, second = (web.request("POST", "/keys", own, json={"name": "a"}, headers=headers) for _ in range(2))
    assert (first.status_code, second.status_code, second.json()["code"]) == (201, 409, "KEY_EXISTS")
    assert len(web.app.keys(owner="acme")) == 2


def test_keys_are_listed_in_pages_without_their_secrets(web: Web) -> None:
    own = web.key("acme")
    tokens = [own, web.key("acme"), web.key("acme")]
    web.key("other")
    first = web.request("GET", "/keys", own, params={"limit": 2})
    rest = web.request("GET", "/keys", own, params={"limit": 2, "cursor": first.json()["cursor"]})
    found = first.json()["keys"] + rest.json()["keys"]
    assert sorted(key["id"] for key in found) == sorted(token.split("_")[1] for token in tokens)
    assert all(token.split("_")[2] not in first.text + rest.text for token in tokens)


async def gather(client: httpx.AsyncClient, *calls: tuple[str, str, str]) -> list[httpx.Response]:
    return await asyncio.gather(
        *(client.request(method, PREFIX + path, headers=bearer(key)) for method, path, key in calls)
    )


def test_the_module_remembers_a_bounded_number_of_addresses() -> None:
    known: dict[str, float] = {}
    for number in range(access_module.MOST_REMEMBERED + 5):
        access_module._remember(known, str(number), 0.0)
    assert len(known) == 5
