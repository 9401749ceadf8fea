"""An Idempotency-Key makes a change repeatable."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from starlette.testclient import TestClient
from world import API, World

from mulligan.values.clock import SystemClock
from mulligan.values.ids import uuid7
from mulligan.web.server import asgi

BODY = {"kind": "convert", "arguments": {"path": "a"}}


def key(value: str) -> dict[str, Any]:
    return {"headers": {"Idempotency-Key": value}}


def test_the_same_enqueue_is_one_job(world: World) -> None:
    first = world.acme.post("jobs", json=BODY, **key("one"))
    second = world.acme.post("jobs", json=BODY, **key("one"))
    assert first.status_code == second.status_code == 201
    assert first.json()["id"] == second.json()["id"]
    assert world.acme.post("jobs", json=BODY, **key("two")).json()["id"] != first.json()["id"]


def test_enqueues_at_the_same_time_are_one_job(world: World) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: world.acme.post("jobs", json=BODY, **key("at once")), range(16)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_key_for_another_body_is_refused(world: World) -> None:
    world.acme.post("jobs", json=BODY, **key("mine"))
    for other in ({**BODY, "arguments": {"path": "b"}}, {"kind": "reject"}):
        answer = world.acme.post("jobs", json=other, **key("mine"))
        assert answer.status_code == 422 and answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


@pytest.fixture
def acme(world: World) -> Iterator[TestClient]:
    """A client with a stored key."""
    token = world.app.create_key(owner="acme", name="acme").token
    with world.client(token, asgi(world.app), base_url=f"http://localhost{API}") as client:
        yield client


@pytest.mark.parametrize(
    "other", [{"delay": "1h"}, {"tags": ["eu"]}, {"priority": 5}, {"deadline": "2h"}, {"queue": "bulk"}], ids=repr
)
def test_a_key_for_the_same_job_with_other_options_is_refused(acme: TestClient, other: dict[str, Any]) -> None:
    first = acme.post("jobs", json=BODY, **key(f"options {other}")).json()
    answer = acme.post("jobs", json={**BODY, **other}, **key(f"options {other}"))
    assert answer.status_code == 422 and answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    reordered = dict(reversed(BODY.items()))
    assert acme.post("jobs", json=reordered, **key(f"options {other}")).json()["id"] == first["id"]


def test_a_key_of_a_request_that_was_refused_may_be_used_for_one_that_is_right(acme: TestClient) -> None:
    assert acme.post("jobs", json={**BODY, "delay": "soon"}, **key("right")).status_code == 400
    assert acme.post("jobs", json={**BODY, "delay": "1h"}, **key("right")).status_code == 201


def test_a_key_belongs_to_one_address(acme: TestClient) -> None:
    first, second = (acme.post("batches", json={"name": name}).json()["id"] for name in "ab")
    assert acme.post(f"batches/{first}/jobs", json={"jobs": [BODY]}, **key("one address")).status_code == 201
    answer = acme.post(f"batches/{second}/jobs", json={"jobs": [BODY]}, **key("one address"))
    assert answer.json()["code"] == "IDEMPOTENCY_KEY_REUSED"
    more = acme.post(f"batches/{first}/jobs", json={"jobs": [BODY, BODY]}, **key("one address"))
    assert more.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_keys_of_two_owners_are_different(world: World) -> None:
    uuid = uuid7(int(SystemClock().now().timestamp() * 1000), 1, 1)
    for value in ("shared", uuid):
        one = world.acme.post("jobs", json=BODY, **key(value)).json()
        two = world.other.post("jobs", json={"kind": "reject"}, **key(value)).json()
        assert one["id"] != two["id"] and (one["owner"], two["owner"]) == ("acme", "other")
        assert one["id"] != value


def test_members_are_added_once(world: World) -> None:
    draft = world.acme.post("batches", json={"name": "import"}, **key("draft")).json()
    assert world.acme.post("batches", json={"name": "import"}, **key("draft")).json()["id"] == draft["id"]
    body = {"jobs": [BODY, BODY]}
    answers = [world.acme.post(f"batches/{draft['id']}/jobs", json=body, **key("add")).json() for _ in range(2)]
    first, second = ([job["id"] for job in answer["jobs"]] for answer in answers)
    assert first == second and len(set(first)) == 2
    other = world.acme.post(f"batches/{draft['id']}/jobs", json={"jobs": [{"kind": "reject"}]}, **key("add"))
    assert other.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_a_move_is_made_once(world: World) -> None:
    job = world.failed()
    first = world.acme.post(f"jobs/{job.id}/retry", **key("again"))
    assert world.acme.post(f"jobs/{job.id}/cancel").status_code == 200
    assert world.acme.post(f"jobs/{job.id}/retry", **key("again")).json() == first.json()
    assert world.app.job(job.id).state == "cancelled"
    other = world.acme.post(f"jobs/{job.id}/run-now", **key("again"))
    assert other.status_code == 422 and other.json()["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_a_key_keeps_the_order_of_jobs(world: World) -> None:
    """Jobs are listed in the order of their ids, newest first. Ids of one millisecond have no order."""
    made = []
    for given in ({}, key("first"), key(uuid7(2**47, 0, 0)), {}, key("last")):
        made.append(world.acme.post("jobs", json=BODY, **given).json()["id"])
        wait_for_the_next_millisecond()
    listed = [job["id"] for job in world.acme.get("jobs", params={"limit": 5}).json()["jobs"]]
    assert listed == made[::-1]


def wait_for_the_next_millisecond() -> None:
    began = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 == began:
        pass
