"""S1, S3, S5: every answer of the document, word for word, and what hostile clients get."""

from datetime import timedelta
from typing import Any

import httpx
from screenshots_world import NOWHERE, PRIVATE, World

from mulligan import State
from mulligan.store.messages import Claim

NOT_RETRYABLE = "Job must be in FAILED status or stuck (>30 min processing)"

BAD: list[Any] = [
    {},
    {"url": ""},
    {"url": 7},
    {"url": NOWHERE, "format": "GIF"},
    {"url": NOWHERE, "viewport": {"width": 99, "height": 800}},
    {"url": NOWHERE, "viewport": {"width": 4001, "height": 800}},
    {"url": NOWHERE, "viewport": {"width": 10**30, "height": 800}},
    {"url": NOWHERE, "viewport": {"width": "wide", "height": 800}},
    {"url": NOWHERE, "fullPage": "yes"},
    {"url": NOWHERE, "unknown": True},
    {"url": "http://a.test/" + "a" * 2_000},
    [],
    None,
]


def claim(world: World, worker: str = "another-worker") -> None:
    """A worker that holds every job that is ready."""
    kinds = ("screenshot", "pdf_generation")
    world.app.store.claim(Claim(incarnation=worker, number=1, kinds=kinds, limit=10, lease=timedelta(hours=2)))


def make_stuck(world: World, job_id: str, minutes: int = 31) -> None:
    """As if the attempt had begun so long ago, in a worker that still holds it."""
    age = minutes * 60 * 1_000_000
    with world.all.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - {age} WHERE id = '{job_id}'"
        )


def test_s1_a_capture_is_told_with_every_field_of_the_document(world: World) -> None:
    job_id = world.submit(NOWHERE)
    fresh = world.show(job_id)
    expected = {
        "jobId": job_id,
        "status": "QUEUED",
        "url": NOWHERE,
        "format": "PNG",
        "retryCount": 0,
        "maxRetries": 3,
        "nextRetryAt": None,
        "lastFailureReason": None,
        "isRetryable": True,
        "retryType": "AUTOMATIC",
        "lockedBy": None,
        "lockedAt": None,
    }
    assert expected.items() <= fresh.items()
    claim(world)
    running = world.show(job_id)
    assert (running["status"], running["lockedBy"]) == ("PROCESSING", "another-worker")
    assert running["lockedAt"] is not None


def test_s1_the_last_failure_is_told_while_the_retry_waits(patient_world: World) -> None:
    job_id = patient_world.submit(NOWHERE)
    patient_world.app.run_until_idle(timeout="30s")
    waiting = patient_world.show(job_id)
    assert (waiting["status"], waiting["retryCount"], waiting["isRetryable"]) == ("QUEUED", 1, True)
    assert waiting["lastFailureReason"] == "Another system can’t be reached. We’ll retry."  # noqa: RUF001
    assert waiting["nextRetryAt"] is not None


def test_s1_a_result_that_is_not_there_yet_or_any_more(world: World) -> None:
    job_id = world.submit(NOWHERE)
    answer = world.acme.get(f"/screenshots/{job_id}/result")
    assert (answer.status_code, answer.json()["error"]) == (409, "NOT_READY")


def test_s1_a_bad_request_stores_nothing_and_costs_nothing(world: World) -> None:
    for body in BAD:
        answer = world.acme.post("/screenshots", json=body)
        assert (answer.status_code, answer.json()["error"]) == (400, "VALIDATION_ERROR"), body
        assert answer.headers["content-type"] == "application/problem+json"
    assert world.acme.get("/screenshots").json()["screenshots"] == []
    assert world.balance() == 100


def test_s1_requests_that_are_no_requests(world: World) -> None:
    assert world.acme.post("/screenshots", content=b"\xff{").status_code == 400
    assert world.acme.post("/screenshots", content=b"[" * 60_000).status_code == 400
    assert world.acme.post("/screenshots", content=b" " * 70_000).status_code == 413
    for limit in ("9" * 5_000, "000000001" + "9" * 5_000, "00000000010000", "0", "-1", "\N{SUPERSCRIPT TWO}"):
        assert world.acme.get("/screenshots", params={"limit": limit}).status_code == 400, limit
    assert world.acme.get("/screenshots", params={"cursor": "../../etc"}).status_code == 400
    assert (
        world.acme.post("/screenshots", json={"url": NOWHERE}, headers={"idempotency-key": "k" * 201}).status_code
        == 400
    )


def test_s3_a_failed_job_is_queued_again_and_says_its_place(world: World) -> None:
    job_id = world.fail()
    for _ in range(4):
        world.submit(NOWHERE)
    answer = world.acme.post(f"/screenshots/{job_id}/retry", json={"requestedBy": "user123"})
    assert answer.status_code == 200
    # It was submitted before the others, and keeps its rank.
    assert answer.json() == {"jobId": job_id, "message": "Job queued for manual retry", "queuePosition": 1}
    assert world.show(job_id)["retryType"] == "MANUAL"


def test_s3_the_place_in_the_queue_is_that_of_the_claim(world: World) -> None:
    earlier = [world.submit(NOWHERE) for _ in range(4)]
    world.app.pause(kind="screenshot")
    job_id = world.submit(PRIVATE, format="PDF")
    world.app.run_until_idle(timeout="30s")
    world.app.resume(kind="screenshot")
    answer = world.retry(job_id).json()
    assert answer["queuePosition"] == len(earlier) + 1 == 5


def test_s3_the_actor_comes_from_the_key_not_from_the_body(world: World) -> None:
    job_id = world.fail()
    world.retry(job_id, requestedBy="the-president")
    [retried] = [event for event in world.app.events(job=job_id) if event.actor]
    assert retried.actor is not None and retried.actor.startswith("key ")


def test_s3_no_body_is_needed(world: World) -> None:
    assert world.acme.post(f"/screenshots/{world.fail()}/retry").status_code == 200


def test_s3_a_job_that_a_worker_holds_is_409(world: World) -> None:
    job_id = world.submit(NOWHERE)
    claim(world)
    answer = world.retry(job_id)
    assert answer.status_code == 409
    expected = {
        "error": "CONCURRENT_MODIFICATION",
        "message": "Job is currently being processed by another worker",
    }
    assert expected.items() <= answer.json().items()
    assert world.show(job_id)["lockedBy"] == "another-worker"


def test_s3_too_few_credits_are_402(world: World) -> None:
    job_id = world.fail()
    with world.all.database.transaction() as connection:
        world.all.credits._change(connection, "acme", -100, "reserve")
    answer = world.retry(job_id)
    assert answer.status_code == 402
    expected = {"error": "INSUFFICIENT_CREDITS", "requiredCredits": 1, "availableCredits": 0}
    assert expected.items() <= answer.json().items()


def test_s3_a_queued_a_succeeded_and_a_cancelled_job_are_400(world: World) -> None:
    queued, cancelled, done = (world.submit(NOWHERE) for _ in range(3))
    world.acme.post(f"/screenshots/{cancelled}/cancel")
    with world.all.database.transaction() as connection:
        connection.exec_driver_sql(
            f"UPDATE mulligan_jobs SET state = 'succeeded', finished_at = updated_at WHERE id = '{done}'"
        )
    for job_id in (queued, cancelled, done):
        answer = world.retry(job_id)
        assert answer.status_code == 400
        assert {"error": "VALIDATION_ERROR", "message": NOT_RETRYABLE}.items() <= answer.json().items()


# Access


def test_s3_a_foreign_job_is_answered_as_one_that_does_not_exist(world: World) -> None:
    job_id, globex = world.fail(), world.client("globex")
    unknown = "01a1ee39-4f9d-72f9-b4ae-ea3620696ba3"
    for method, path in [("GET", ""), ("GET", "/result"), ("POST", "/retry"), ("POST", "/cancel")]:
        answers = [globex.request(method, f"/screenshots/{each}{path}") for each in (job_id, unknown)]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].content == answers[1].content
    assert globex.get("/screenshots").json()["screenshots"] == []
    assert world.show(job_id)["status"] == "FAILED"


def test_s3_jobs_that_are_no_captures_are_not_found(world: World) -> None:
    world.fail()
    [returned] = [job for job in world.app.jobs(owner="acme").jobs if job.kind == "return_credits"]
    assert world.acme.get(f"/screenshots/{returned.id}").status_code == 404
    assert world.retry(returned.id).status_code == 404


def test_s3_ids_that_are_no_ids_are_not_found(world: World) -> None:
    for job_id in ("..%2f..%2fetc%2fpasswd", "%00", "x" * 3_000, "';--", "🦀"):
        for path in ("", "/result"):
            assert world.acme.get(f"/screenshots/{job_id}{path}").status_code == 404, job_id


def test_s3_without_a_valid_key_nothing_is_said(world: World) -> None:
    job_id = world.submit(NOWHERE)
    revoked = world.app.create_key(owner="acme", name="old")
    world.app.revoke_key(revoked.key.id)
    for header in ({}, {"authorization": "Bearer nothing"}, {"authorization": f"Bearer {revoked.token}"}):
        with httpx.Client(base_url=f"{world.base}/api/v1", headers=header) as client:
            answers = [
                client.get(f"/screenshots/{job_id}"),
                client.post("/screenshots", json={"url": NOWHERE}),
                client.post(f"/screenshots/{job_id}/retry"),
                client.get("/admin/jobs/stuck"),
            ]
        assert [(answer.status_code, answer.json()["error"]) for answer in answers] == [(401, "UNAUTHORIZED")] * 4


def test_s3_a_key_does_what_its_scopes_allow(world: World) -> None:
    job_id = world.fail()
    reader = world.client("acme", scopes=["jobs:read"])
    assert reader.get(f"/screenshots/{job_id}").status_code == 200
    assert reader.post(f"/screenshots/{job_id}/retry").status_code == 403
    assert reader.post("/screenshots", json={"url": NOWHERE}).status_code == 403
    assert world.operator.post("/screenshots", json={"url": NOWHERE}).status_code == 403


# Operators


def test_s5_stuck_jobs_are_listed_by_get_and_by_post_and_not_changed(world: World) -> None:
    job_id = world.submit(NOWHERE)
    claim(world)
    make_stuck(world, job_id)
    for answer in (world.operator.get("/admin/jobs/stuck"), world.operator.post("/admin/jobs/stuck")):
        [stuck] = answer.json()["jobs"]
        assert (stuck["jobId"], stuck["status"], stuck["lockedBy"]) == (job_id, "PROCESSING", "another-worker")


def test_s5_stuck_jobs_are_processed_now_by_their_policy(world: World) -> None:
    job_id = world.submit(NOWHERE)
    claim(world)
    make_stuck(world, job_id)
    assert len(world.operator.post("/admin/jobs/process-stuck").json()["jobs"]) == 1
    job = world.app.job(job_id)
    assert (job.state, job.last_code, job.failures) == (State.WAITING, "TIMEOUT", 1)
    assert world.operator.get("/admin/jobs/stuck").json()["jobs"] == []


def test_s5_the_status_tells_of_workers_and_schedulers(world: World) -> None:
    status = world.operator.get("/admin/workers/status").json()
    aliases = [duty["alias"] for duty in status["duties"]]
    assert {"STUCK_JOBS", "FAILED_JOBS", "DELAYED_JOBS"} <= set(aliases)
    assert status["workers"] == []


def test_s5_schedulers_are_paused_by_type_and_resume_by_themselves(world: World) -> None:
    body = {"duration": "30m", "types": ["STUCK_JOBS", "FAILED_JOBS"]}
    paused = world.operator.post("/admin/retry-scheduler/pause", json=body)
    assert [pause["name"] for pause in paused.json()["pauses"]] == ["reclaim", "retry"]
    pauses = {pause.name: pause for pause in world.app.pauses()}
    assert set(pauses) == {"reclaim", "retry"}
    assert all(pause.until - pause.since == timedelta(minutes=30) for pause in pauses.values() if pause.until)
    world.operator.post("/admin/retry-scheduler/resume", json={"types": ["FAILED_JOBS"]})
    assert [pause.name for pause in world.app.pauses()] == ["reclaim"]


def test_s5_while_failed_jobs_are_paused_no_retry_is_made(world: World) -> None:
    job_id = world.submit(NOWHERE)
    world.app.pause(duty="retry")
    world.app.run_until_idle(timeout="30s")
    world.app.run_until_idle(timeout="30s")
    assert world.app.job(job_id).failures == 1
    # A pause with a duration ends by itself, and the retries are made.
    world.operator.post("/admin/retry-scheduler/pause", json={"duration": "1s", "types": ["FAILED_JOBS"]})
    with world.working():
        assert world.wait(job_id)["status"] == "FAILED"


def test_s5_owners_are_no_operators(world: World) -> None:
    for method, path in [
        ("GET", "jobs/stuck"),
        ("POST", "jobs/stuck"),
        ("POST", "jobs/process-stuck"),
        ("GET", "workers/status"),
        ("POST", "retry-scheduler/pause"),
        ("POST", "retry-scheduler/resume"),
        ("POST", "credits"),
    ]:
        assert world.acme.request(method, f"/admin/{path}").status_code == 403, path
    assert not world.app.pauses()
