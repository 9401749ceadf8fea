"""W1, W4, W5, W6, W10: campaigns, their states, retries, and publishing again, with real FFmpeg."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from apps.watermark.publishing import EXPIRED, NOT_FAILED, Refused
from apps.watermark.status import OF_BATCH, OF_JOB
from sqlalchemy import func, select
from watermark_world import World

from live import eventually, working
from mulligan import BatchState, JobFilter, State


def test_w1_publishing_makes_one_job_a_token_and_a_video_for_each(world: World) -> None:
    ann = world.account()
    campaign = world.campaign(ann, "Kim", "Lee")
    assert (world.state(campaign), world.words(campaign)) == ("DRAFT", ["PENDING", "PENDING"])
    assert (campaign.visible_wm, campaign.invisible_wm, campaign.published_at) == (True, True, None)
    campaign = world.publish(campaign)
    assert world.state(campaign) == "PROCESSING" and campaign.published_at is not None
    assert world.app.counts(JobFilter(kind="watermark", batch=campaign.batch)).total == 2
    world.work()
    assert (world.state(campaign), world.words(campaign)) == ("READY", ["ACTIVE", "ACTIVE"])
    tokens = world.tokens(campaign)
    found = [world.watermark.marking.look(world.target(token), [each.id for each in tokens]) for token in tokens]
    assert [finding.token for finding in found] == [token.id for token in tokens]


def test_w1_a_detect_job_names_the_recipient_and_is_no_member_of_the_campaign(small_world: World) -> None:
    world, ann = small_world, small_world.account()
    campaign = world.published(ann, "Kim", "Lee")
    world.work()
    second = world.tokens(campaign)[1]
    suspect = world.watermark.files.suspect(ann.id, "d1")
    suspect.parent.mkdir()
    suspect.write_bytes(world.target(second).read_bytes())

    def enqueue(connection: object) -> str:
        return str(world.watermark.detect.options(owner=ann.id, connection=connection).enqueue("d1").id)

    detection = world.watermark.detections.create(
        "d1", account=ann.id, campaign=campaign.id, video_name="leak.mp4", enqueue=enqueue
    )
    world.work()
    job = world.app.job(detection.job)
    assert job.result["token"] == second.id and job.result["candidates"] == 2
    assert job.batch is None and world.watermark.publishing.view(campaign).completed == 2


def test_w1_a_crash_between_the_rows_and_the_publishing_loses_nothing(small_world: World) -> None:
    world = small_world
    campaign = world.campaign(world.account(), "Kim", "Lee")
    batch = world.app.batch(campaign.name, owner=campaign.account)
    assert world.watermark.publishing._store_jobs(campaign, batch, datetime.now(UTC))
    assert world.state(campaign) == "DRAFT"
    world.publish(world.read(campaign))
    world.work()
    assert world.state(campaign) == "READY"
    assert world.app.counts(JobFilter(kind="watermark")).total == 2


def test_w1_two_who_publish_at_once_make_one_job_a_token(world: World) -> None:
    campaign = world.campaign(world.account(), "Kim", "Lee", "Noor")
    threads = [
        threading.Thread(target=world.watermark.publishing.publish, args=(campaign,), kwargs={"actor": str(n)})
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.app.counts(JobFilter(kind="watermark")).total == 3
    world.work()
    assert world.state(campaign) == "READY"


def test_w1_deleting_an_account_cancels_and_purges_its_jobs_batches_and_files(world: World) -> None:
    ann, bob = world.account("Ann"), world.account("Bob")
    done = world.published(ann, "Kim")
    kept = world.published(bob, "Kim")
    world.work()
    pending = world.published(ann, "Lee", "Noor")
    folder = world.watermark.files.of_account(ann.id)
    assert folder.is_dir()
    world.watermark.delete_account(ann.id)
    assert world.watermark.campaigns.get(done.id) is None and world.watermark.campaigns.get(pending.id) is None
    with working(world.app, concurrency=2):
        eventually(lambda: not folder.exists())
    assert world.app.counts(owner=ann.id).total == 0 and world.app.batches(owner=ann.id) == []
    assert world.state(kept) == "READY" and world.target(world.tokens(kept)[0]).is_file()
    with world.watermark.database.read() as connection:
        assert connection.scalar(select(func.count()).select_from(world.watermark.tables.tokens)) == 1


def test_w4_every_state_of_the_engine_has_one_word() -> None:
    assert set(OF_BATCH) == set(BatchState) and set(OF_JOB) == set(State)


def test_w4_partial_failed_processing_and_ready(world: World) -> None:
    campaign = world.campaign(world.account(), "Kim", "Lee", max_attempts=1)
    kim, lee = world.tokens(campaign)
    world.break_token(kim)
    world.break_token(lee)
    campaign = world.publish(campaign)
    kim, lee = world.tokens(campaign)
    world.work()
    assert (world.state(campaign), world.words(campaign)) == ("FAILED", ["FAILED", "FAILED"])
    world.mend_token(kim)
    world.watermark.publishing.retry(campaign, kim, actor="ann")
    assert world.state(campaign) == "PROCESSING"
    world.work()
    assert (world.state(campaign), world.words(campaign)) == ("PARTIAL", ["ACTIVE", "FAILED"])
    world.mend_token(lee)
    world.watermark.publishing.retry(campaign, lee, actor="ann")
    assert (world.state(campaign), world.words(campaign)) == ("PROCESSING", ["ACTIVE", "PENDING"])
    world.work()
    assert (world.state(campaign), world.words(campaign)) == ("READY", ["ACTIVE", "ACTIVE"])


def test_w4_a_campaign_expires_once_it_is_settled_and_refuses_retries(small_world: World) -> None:
    world = small_world
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    campaign = world.campaign(world.account(), "Kim", "Lee", max_attempts=1, expires_at=tomorrow)
    _, lee = world.tokens(campaign)
    world.break_token(lee)
    campaign = world.publish(campaign)
    batch = world.app.find_batch(campaign.batch)
    assert abs(batch.expires_at - tomorrow) < timedelta(minutes=1), "the date of the campaign is that of its batch"
    world.expire(campaign)
    campaign = world.read(campaign)
    world.app.run_duty("expire")
    assert world.state(campaign) == "PROCESSING", "it expires when it settles"
    world.work()
    world.app.run_duty("expire")
    assert (world.state(campaign), world.words(campaign)) == ("EXPIRED", ["EXPIRED", "FAILED"])
    with pytest.raises(Refused, match=EXPIRED):
        world.watermark.publishing.retry(campaign, lee, actor="ann")
    with pytest.raises(Refused, match=EXPIRED):
        world.publish(campaign)


def test_w5_only_a_failed_token_is_retried(small_world: World) -> None:
    world = small_world
    campaign = world.published(world.account(), "Kim")
    (kim,) = world.tokens(campaign)
    for _ in ("queued", "succeeded"):
        with pytest.raises(Refused, match=NOT_FAILED):
            world.watermark.publishing.retry(campaign, kim, actor="ann")
        world.work()


def test_w5_a_token_that_waits_for_its_own_retry_is_not_failed(small_world: World) -> None:
    """The engine could replace the planned retry; the document allows it for failed tokens only."""
    world = small_world
    campaign = world.campaign(world.account(), "Kim")
    world.break_token(world.tokens(campaign)[0])
    campaign = world.publish(campaign)
    world.work()
    (kim,) = world.tokens(campaign)
    with pytest.raises(Refused, match=NOT_FAILED):
        world.watermark.publishing.retry(campaign, kim, actor="ann")
    assert (world.words(campaign), world.views(campaign)[0].retry_count) == (["PENDING"], 1)


def test_w5_a_retry_resets_the_counters_and_names_its_actor(small_world: World) -> None:
    world = small_world
    campaign = world.campaign(world.account(), "Kim", max_attempts=1)
    (kim,) = world.tokens(campaign)
    world.break_token(kim)
    campaign = world.publish(campaign)
    world.work()
    (kim,) = world.tokens(campaign)
    world.watermark.publishing.retry(campaign, kim, actor="ann@example.org")
    job = world.app.job(kim.job)
    assert (job.failures, job.manual_retries, job.error_code, job.progress) == (0, 1, None, 0)
    assert [event.actor for event in world.app.events(kim.job) if event.type == "job.retry_requested"] == [
        "ann@example.org"
    ]


def test_w6_publishing_again_requeues_failed_tokens_and_leaves_the_others_alone(small_world: World) -> None:
    world = small_world
    campaign = world.campaign(world.account(), "Kim", "Lee", max_attempts=1)
    _, lee = world.tokens(campaign)
    world.break_token(lee)
    campaign = world.publish(campaign)
    world.work()
    before = {token.recipient: token.job for token in world.tokens(campaign)}
    attempts = {job.id: job.attempt for job in world.app.jobs(JobFilter(kind="watermark")).jobs}
    world.mend_token(lee)
    world.publish(campaign)
    assert (world.state(campaign), world.words(campaign)) == ("PROCESSING", ["ACTIVE", "PENDING"])
    world.publish(campaign)
    world.work()
    assert world.words(campaign) == ["ACTIVE", "ACTIVE"]
    assert {token.recipient: token.job for token in world.tokens(campaign)} == before
    after = {job.id: job.attempt for job in world.app.jobs(JobFilter(kind="watermark")).jobs}
    assert after == {**attempts, before["Lee"]: 2}


def test_w10_a_campaign_may_set_its_own_attempt_limit(small_world: World) -> None:
    world, ann = small_world, small_world.account()
    campaigns = [world.published(ann, "Kim", max_attempts=limit) for limit in (None, 2)]
    jobs = [world.app.job(world.tokens(campaign)[0].job) for campaign in campaigns]
    assert [(job.max_attempts, job.max_retries) for job in jobs] == [(4, 3), (2, 1)]
