"""S4: credits are reserved with the job, returned when it fails for good, and reserved again by a manual retry."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import httpx
import pytest
from screenshots_world import NOWHERE, PRIVATE, World
from test_screenshots_api import claim, make_stuck

from mulligan import InsufficientCredits, JobFilter, JobNotFound, State


@pytest.fixture
def world(make_world: Callable[..., Any]) -> Iterator[World]:
    with make_world() as found:
        yield found


def test_s4_a_capture_reserves_the_cost_of_its_kind(world: World) -> None:
    world.submit(NOWHERE)
    assert world.balance() == 99
    world.submit(NOWHERE, format="PDF")
    assert world.balance() == 97
    assert world.acme.get("/credits").json() == {"availableCredits": 97, "costs": {"PNG": 1, "PDF": 2}}
    world.check_ledger()


def test_s4_too_few_credits_store_nothing(make_world: Callable[..., Any]) -> None:
    with make_world(credits=1) as world:
        refused = world.acme.post("/screenshots", json={"url": NOWHERE, "format": "PDF"})
        assert refused.status_code == 402
        body = refused.json()
        assert (body["error"], body["requiredCredits"], body["availableCredits"]) == ("INSUFFICIENT_CREDITS", 2, 1)
        assert world.acme.get("/screenshots").json()["screenshots"] == []
        world.submit(NOWHERE)
        assert world.balance() == 0
        world.check_ledger()


def test_s4_automatic_retries_cost_nothing(world: World) -> None:
    job_id = world.submit(NOWHERE)
    world.app.run_until_idle(timeout="30s")
    assert world.app.job(job_id).failures >= 1
    assert world.balance() == 99


def test_s4_a_final_failure_returns_the_credits(world: World) -> None:
    world.fail(PRIVATE)
    assert world.balance() == 100
    world.fail(NOWHERE)
    assert world.balance() == 100
    world.check_ledger()


def test_s4_a_cancelled_capture_returns_the_credits(world: World) -> None:
    job_id = world.submit(NOWHERE)
    assert world.acme.post(f"/screenshots/{job_id}/cancel").json()["status"] == "CANCELLED"
    world.app.run_until_idle(timeout="30s")
    assert world.balance() == 100
    world.check_ledger()


def test_s4_a_manual_retry_of_a_failed_capture_reserves_again(world: World) -> None:
    job_id = world.fail()
    assert world.retry(job_id).status_code == 200
    assert world.balance() == 99
    world.app.run_until_idle(timeout="30s")
    assert world.balance() == 100
    world.check_ledger()


def test_s4_a_waiting_capture_still_holds_its_reservation(make_world: Callable[..., Any]) -> None:
    with make_world(delay="1h") as world:
        job_id = world.submit(NOWHERE)
        world.app.run_until_idle(timeout="30s")
        assert world.retry(job_id).status_code == 200
        assert world.balance() == 99


def test_s4_a_retry_that_cannot_be_paid_changes_nothing(make_world: Callable[..., Any]) -> None:
    with make_world(credits=1) as world:
        job_id = world.fail()
        world.submit(NOWHERE)
        refused = world.retry(job_id)
        assert refused.status_code == 402
        expected = {"error": "INSUFFICIENT_CREDITS", "requiredCredits": 1, "availableCredits": 0}
        assert expected.items() <= refused.json().items()
        assert world.show(job_id)["status"] == "FAILED"
        world.check_ledger()


def test_s4_a_retry_before_the_credits_were_returned_keeps_them(world: World) -> None:
    """The job that returns them finds that the capture is not over any more."""
    job_id = world.submit(PRIVATE)
    world.app.pause(queue="credits")
    world.app.run_until_idle(timeout="30s")
    [returning] = world.app.jobs(JobFilter(kind="return_credits")).jobs
    assert (world.show(job_id)["status"], world.balance()) == ("FAILED", 99)
    assert world.retry(job_id).status_code == 200
    assert world.balance() == 99
    world.app.pause(kind="screenshot")
    world.app.resume(queue="credits")
    world.app.run_until_idle(timeout="30s")
    assert (world.app.job(returning.id).result, world.balance()) == (0, 99)
    world.app.resume(kind="screenshot")
    world.app.run_until_idle(timeout="30s")
    assert world.balance() == 100
    world.check_ledger()


def test_s4_a_return_that_was_begun_before_a_retry_comes_too_late(world: World) -> None:
    job_id = world.submit(PRIVATE)
    world.app.pause(queue="credits")
    world.app.run_until_idle(timeout="30s")
    with world.all.database.read() as connection:
        begun = world.all.credits.find(connection, job_id)
    assert world.retry(job_id).status_code == 200
    with world.all.database.transaction() as connection:
        assert world.all.credits.give_back(connection, begun) == 0
    assert world.balance() == 99


def test_s4_the_same_idempotency_key_is_charged_once(world: World) -> None:
    headers = {"idempotency-key": "order 7"}
    answers = [world.acme.post("/screenshots", json={"url": NOWHERE}, headers=headers) for _ in range(2)]
    assert answers[0].json()["jobId"] == answers[1].json()["jobId"]
    assert world.balance() == 99
    other = world.acme.post("/screenshots", json={"url": PRIVATE}, headers=headers)
    assert (other.status_code, other.json()["error"]) == (409, "CONFLICT")
    world.check_ledger()


def submit_with_key(client: httpx.Client, key: str, **fields: Any) -> httpx.Response:
    return client.post("/screenshots", json={"url": NOWHERE, **fields}, headers={"idempotency-key": key})


def test_s1_an_idempotency_key_is_the_owners_own(world: World) -> None:
    """Also if it looks like the id of a job: it finds none, is none, and keeps the order of the list."""
    globex, key = world.client("globex"), str(uuid4())
    first, second = submit_with_key(world.acme, key), submit_with_key(globex, key)
    assert (first.status_code, second.status_code) == (202, 202)
    assert len({key, first.json()["jobId"], second.json()["jobId"]}) == 3
    probe = submit_with_key(globex, first.json()["jobId"])
    assert (probe.status_code, probe.json()["jobId"] != first.json()["jobId"]) == (202, True)
    ids = [submit_with_key(world.acme, str(uuid4())).json()["jobId"] for _ in range(5)]
    listed = [each["jobId"] for each in world.acme.get("/screenshots").json()["screenshots"]]
    assert listed == [*reversed(ids), first.json()["jobId"]]
    world.check_ledger()


def test_s1_an_idempotency_key_is_for_one_capture_of_either_kind(world: World) -> None:
    assert submit_with_key(world.acme, "page 7", format="PNG").status_code == 202
    for other in ({"format": "PDF"}, {"fullPage": True}, {"viewport": {"width": 1_000, "height": 800}}):
        answer = submit_with_key(world.acme, "page 7", **other)
        assert (answer.status_code, answer.json()["error"]) == (409, "CONFLICT")
    assert world.balance() == 99


def test_s1_an_idempotency_key_is_free_when_its_capture_is_gone(world: World) -> None:
    first = submit_with_key(world.acme, "page 7").json()["jobId"]
    world.acme.post(f"/screenshots/{first}/cancel")
    world.app.run_until_idle(timeout="30s")
    world.app.purge(JobFilter(state=State.CANCELLED), older_than="0s", dry_run=False)
    world.app.run_until_idle(timeout="30s")
    with pytest.raises(JobNotFound):
        world.app.job(first)
    second = submit_with_key(world.acme, "page 7", format="PDF")
    assert (second.status_code, second.json()["format"]) == (202, "PDF")


def test_s4_a_key_that_comes_many_times_at_once_is_charged_once(make_world: Callable[..., Any]) -> None:
    with make_world(credits=1) as world, ThreadPoolExecutor(8) as threads:
        # Before the threads, which would make it several times.
        client = world.acme
        answers = list(threads.map(lambda _: submit_with_key(client, "page 7"), range(8)))
        assert {answer.status_code for answer in answers} == {202}
        assert len({answer.json()["jobId"] for answer in answers}) == 1
        assert world.balance() == 0


def test_s4_many_threads_cannot_spend_more_than_there_is(make_world: Callable[..., Any]) -> None:
    with make_world(credits=5) as world:
        key = world.key()
        statuses: list[int] = []

        def submit() -> None:
            headers = {"authorization": f"Bearer {key}"}
            answer = httpx.post(f"{world.base}/api/v1/screenshots", json={"url": NOWHERE}, headers=headers, timeout=30)
            statuses.append(answer.status_code)

        threads = [threading.Thread(target=submit) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (statuses.count(202), statuses.count(402)) == (5, 7)
        assert world.balance() == 0
        world.check_ledger()


def test_s4_a_retry_from_the_dashboard_pays_too(make_world: Callable[..., Any]) -> None:
    """It takes the engine's own way, with the driver's connection."""
    with make_world(credits=1) as world:
        job_id = world.fail()
        world.app.retry(job_id, actor="ann")
        assert world.balance() == 0
        assert not world.app.jobs(JobFilter(state=State.FAILED)).jobs
        with pytest.raises(InsufficientCredits), world.all.database.transaction() as connection:
            world.all.credits.reserve(connection, "acme", "another", 1)
        world.check_ledger()


def test_s4_an_operator_grants_credits(make_world: Callable[..., Any]) -> None:
    with make_world(credits=0) as world:
        granted = world.operator.post("/admin/credits", json={"owner": "acme", "amount": 3})
        assert granted.json() == {"owner": "acme", "availableCredits": 3}
        assert world.acme.post("/admin/credits", json={"owner": "acme", "amount": 3}).status_code == 403
        world.submit(NOWHERE)
        assert world.balance() == 2
        world.check_ledger()


def test_s3_a_second_retry_finds_the_job_queued(world: World) -> None:
    job_id = world.fail()
    assert [world.retry(job_id).status_code for _ in range(2)] == [200, 400]
    assert world.balance() == 99


def test_s3_a_stuck_job_is_taken_from_its_worker(world: World) -> None:
    job_id = world.submit(PRIVATE)
    claim(world)
    make_stuck(world, job_id, minutes=29)
    assert world.retry(job_id).status_code == 409
    make_stuck(world, job_id, minutes=2)
    assert world.retry(job_id).json()["message"] == "Job queued for manual retry"
    assert (world.show(job_id)["status"], world.balance()) == ("QUEUED", 99)


def test_s3_of_many_retries_at_once_one_is_carried_out(world: World) -> None:
    job_id = world.fail(PRIVATE)
    statuses: list[int] = []
    clients = [world.client() for _ in range(8)]
    threads = [
        threading.Thread(
            target=lambda client=client: statuses.append(client.post(f"/screenshots/{job_id}/retry").status_code)
        )
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 400} and 200 in statuses
    assert world.balance() == 99
    world.app.run_until_idle(timeout="30s")
    assert world.balance() == 100
    world.check_ledger()
