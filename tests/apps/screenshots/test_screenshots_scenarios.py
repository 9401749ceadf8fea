"""The four scenarios of the document, end to end, and one breaker for each host."""

from uuid import uuid4

from app_stores import IS_SOAK
from screenshots_world import NOWHERE, World
from test_screenshots_api import claim, make_stuck

from live import eventually
from mulligan import JobFilter, State

HOSTS = 50 if IS_SOAK else 4


def test_s2_scenario_1_a_network_timeout_is_retried_by_itself(warm: World) -> None:
    """The site hangs up at the first visit; the delay is a hundredth of five seconds."""
    path = f"/recovers?name=scenario-{uuid4()}&after=1&how=503"
    shown = warm.wait(warm.submit(warm.sites.url(path, "recovers.test")))
    assert (shown["status"], shown["retryCount"], shown["retryType"]) == ("COMPLETED", 1, "AUTOMATIC")
    [retried] = [event for event in warm.app.events(job=shown["jobId"]) if event.type == "job.retried"]
    assert retried.data["delay"] == 0.05
    assert warm.acme.get(f"/screenshots/{shown['jobId']}/result").status_code == 200


def test_s3_scenario_2_a_manual_retry_is_processed_at_once(warm: World) -> None:
    with warm.as_owner("scenario-2") as user:
        job_id = user.submit(warm.sites.url(f"/recovers?name=manual-{uuid4()}&after=1&how=nothing", "manual.test"))
        assert user.wait(job_id)["status"] == "FAILED"
        eventually(lambda: user.balance() == 1_000)
        assert user.retry(job_id, requestedBy="user123").json()["message"] == "Job queued for manual retry"
        shown = user.wait(job_id)
        assert (shown["status"], shown["retryCount"], shown["retryType"]) == ("COMPLETED", 0, "MANUAL")
        assert user.balance() == 999


def test_s5_scenario_3_a_stuck_job_is_failed_and_retried_by_the_scheduler(world: World) -> None:
    """A worker that holds it for more than half an hour is not waited for."""
    job_id = world.submit(NOWHERE)
    claim(world)
    make_stuck(world, job_id)
    assert world.app.run_duty("reclaim").did == 1
    job = world.app.job(job_id)
    assert (job.state, job.last_code, job.failures, job.leased_by) == (State.WAITING, "TIMEOUT", 1, None)
    assert world.balance() == 99
    world.app.run_until_idle(retries=True, timeout="30s")
    assert world.show(job_id)["retryCount"] == 3
    world.check_ledger()


def test_s3_scenario_4_a_manual_retry_replaces_the_planned_one(patient_world: World) -> None:
    world = patient_world
    job_id = world.submit(NOWHERE)
    world.app.run_until_idle(timeout="30s")
    assert world.show(job_id)["nextRetryAt"] is not None
    assert world.retry(job_id).status_code == 200
    assert world.show(job_id)["nextRetryAt"] is None
    attempts = world.app.job(job_id).attempt
    world.app.run_until_idle(timeout="30s")
    job = world.app.job(job_id)
    assert (job.attempt, job.failures, job.manual_retries) == (attempts + 1, 1, 1)
    assert len(world.app.jobs(JobFilter(kind="screenshot")).jobs) == 1


def test_s7_one_dead_site_delays_no_other(warm: World) -> None:
    dead = [warm.submit("http://dead.nowhere.test/") for _ in range(12)]
    alive = [warm.submit(warm.sites.url("/page", f"host{number}.test")) for number in range(HOSTS)]
    for job_id in alive:
        shown = warm.wait(job_id)
        assert (shown["status"], shown["retryCount"]) == ("COMPLETED", 0)
    states = {status.name: str(status.state) for status in warm.app.services()}
    assert states["site:dead.nowhere.test"] != "closed"
    assert [states.get(f"site:host{number}.test", "closed") for number in range(HOSTS)] == ["closed"] * HOSTS
    held = warm.app.blocked_by([warm.app.job(job_id) for job_id in dead])
    assert set(held.values()) <= {"service/site:dead.nowhere.test"}
    for job_id in dead:
        warm.acme.post(f"/screenshots/{job_id}/cancel")
