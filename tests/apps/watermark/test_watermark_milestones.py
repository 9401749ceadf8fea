"""The acceptance lines of the four milestones of the document, one after the other, with real processes."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import httpx
import psycopg
import pytest
from apps.watermark.campaigns import Campaign
from apps.watermark.live import CampaignStream
from mail_sink import mail_server
from postgres_server import PostgresServer
from sqlalchemy import text
from watermark_world import World, served, watermark_world

from live import eventually, working
from mulligan import StoreUnavailable
from mulligan.store.messages import Claim
from mulligan.testing import sandbox

# The document's delays, divided by 100.
FAST = "kinds: {watermark: {backoff: {type: steps, delays: [600ms, 3s, 9s]}}}"


def test_m1_a_transient_failure_retries_3_times_with_the_delays_and_a_corrupt_file_fails_at_once(
    small_world: World,
) -> None:
    world, ann = small_world, small_world.account()
    (world.folder / "corrupt.mp4").write_bytes(world.clip.read_bytes()[:3_000])
    with sandbox(world.app) as box:
        corrupt = world.published(ann, "Kim", video=world.folder / "corrupt.mp4")
        transient = world.campaign(ann, "Lee")
        world.break_token(world.tokens(transient)[0])
        transient = world.publish(transient)
        box.advance("1h")
        assert world.views(corrupt)[0].retry_count == 0 and world.state(corrupt) == "FAILED"
        events = world.app.events(world.tokens(transient)[0].job)
    starts = [event.at for event in events if event.type == "job.started"]
    gaps = [round((later - earlier).total_seconds()) for earlier, later in pairwise(starts)]
    assert gaps == [60, 300, 900]
    assert [event.type for event in events].count("job.retried") == 3 and events[-1].type == "job.failed"


@contextmanager
def server_process(world: World, url: str) -> Iterator["subprocess.Popen[str]"]:
    """`python -m apps.watermark`, with its worker."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(place for place in sys.path if place),
        "DATABASE_URL": url,
        "WATERMARK_FOLDER": str(world.watermark.files.folder),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "apps.watermark", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def test_m2_a_job_that_runs_for_31_minutes_with_its_worker_dead_is_pending_at_the_next_tick(
    tmp_path: Path, long_clip: Path, clip: Path
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with watermark_world(url, tmp_path, long_clip) as world:
        campaign = world.published(world.account(), "Kim")
        job_id = world.tokens(campaign)[0].job
        with server_process(world, url) as process:
            eventually(lambda: 0 < world.app.job(job_id).progress < 1, seconds=60)
            assert world.views(campaign)[0].label.startswith("PROCESSING ")
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        assert world.words(campaign) == ["PROCESSING"], "no worker has noticed yet"
        later = timedelta(minutes=31) // timedelta(microseconds=1)
        with world.watermark.database.transaction() as connection:
            connection.execute(
                text("UPDATE mulligan_jobs SET last_attempt_at = last_attempt_at - :later WHERE id = :id"),
                {"later": later, "id": job_id},
            )
        world.app.run_duty("reclaim")
        (view,) = world.views(campaign)
        assert (str(view.status), view.retry_count, view.percent) == ("PENDING", 0, 0)
        world.watermark.files.source(campaign.account, campaign.id).write_bytes(clip.read_bytes())
        world.work()
        assert (world.state(campaign), world.words(campaign)) == ("READY", ["ACTIVE"])
        assert world.app.job(job_id).failures == 0
        # The FFmpeg of the killed worker was killed with it, and what it wrote is no one's video.
        assert world.target(world.tokens(campaign)[0]).stat().st_size == world.app.job(job_id).result


@contextmanager
def events_of(base: str, path: str, cookies: httpx.Cookies) -> Iterator[list[tuple[str, str]]]:
    """What a stream says, as pairs of a name and its data, while the block runs."""
    heard: list[tuple[str, str]] = []
    client = httpx.Client(base_url=base, cookies=cookies, timeout=30)
    ready = threading.Event()
    sockets: list[socket.socket] = []

    def listen() -> None:
        try:
            with client.stream("GET", path) as answer:
                sockets.append(answer.extensions["network_stream"].get_extra_info("socket"))
                name = ""
                for line in answer.iter_lines():
                    ready.set()
                    if line.startswith("event: "):
                        name = line.removeprefix("event: ")
                    elif line.startswith("data: "):
                        heard.append((name, line.removeprefix("data: ")))
        except (httpx.HTTPError, RuntimeError):
            return

    thread = threading.Thread(target=listen)
    thread.start()
    assert ready.wait(30)
    try:
        yield heard
    finally:
        # A read that waits for the next message ends at once.
        sockets[0].shutdown(socket.SHUT_RDWR)
        thread.join()
        sockets[0].close()
        client.close()


def test_w7_progress_goes_on_after_the_database_was_away(
    server: PostgresServer, tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = server.fresh_database("away")
    monkeypatch.setattr("apps.watermark.live.LOOK_EVERY", 0.02)

    def claim(world: World, number: int) -> None:
        wanted = Claim(incarnation="w", number=number, kinds=("watermark",), limit=1, lease=timedelta(hours=1))
        assert len(world.app.store.claim(wanted).leases) == 1

    async def follow(world: World, campaign: Campaign) -> None:
        progress = CampaignStream(world.watermark, campaign)._progress()
        claim(world, 1)
        assert "token_progress" in await anext(progress)
        with psycopg.connect(server.url(), autocommit=True) as other:
            name = url.rpartition("/")[2].partition("?")[0]
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
            looking = asyncio.ensure_future(anext(progress))
            with pytest.raises(StoreUnavailable):
                await asyncio.to_thread(world.app.jobs)
            # A stream that gives up does so at its first look.
            await asyncio.wait({looking}, timeout=0.5)
            assert not looking.done(), looking.exception()
            other.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        claim(world, 2)
        assert "token_progress" in await asyncio.wait_for(looking, 30)
        await progress.aclose()

    with watermark_world(url, tmp_path, clip) as world:
        asyncio.run(follow(world, world.published(world.account(), "Kim", "Lee")))


def test_m3_m4_a_failed_token_is_told_by_sse_and_mail_and_retried_from_the_page(
    usual_url: str, tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W7: `token_failed` on the token's and the campaign's channel, and not for the retries before it."""
    (tmp_path / "policies.yaml").write_text(FAST.replace("[600ms, 3s, 9s]", "[10ms, 20ms, 30ms]"))
    monkeypatch.setenv("MULLIGAN_POLICIES_FILE", str(tmp_path / "policies.yaml"))
    with mail_server() as mails:
        monkeypatch.setenv("MULLIGAN_SMTP_URL", f"smtp://127.0.0.1:{mails.port}?from=marks@example.org&tls=off")
        with watermark_world(usual_url, tmp_path, clip) as world, served(world) as site:
            # From here on mails are sent. A worker does this when it starts, but these jobs fail as soon.
            world.app.run_duty("notify")
            account = world.account()
            ann = site.visitor(account)
            campaign = world.campaign(account, 'Lee "the" <b>', "Kim")
            world.break_token(world.tokens(campaign)[0])
            campaign = world.publish(campaign)
            lee, kim = world.tokens(campaign)
            here = f"/campaigns/{campaign.id}"
            with (
                events_of(site.base, f"{here}/events", ann.client.cookies) as of_campaign,
                events_of(site.base, f"{here}/tokens/{lee.id}/events", ann.client.cookies) as of_token,
                events_of(site.base, f"{here}/tokens/{kim.id}/events", ann.client.cookies) as of_other,
                working(world.app, concurrency=2),
            ):
                eventually(lambda: world.state(campaign) == "PARTIAL")
                eventually(lambda: of_token and [each for each in of_campaign if each[0] == "token_failed"])
                error = "There is no space left to store this."
                message = json.dumps({"token_id": lee.id, "error": error})
                assert of_token == [("token_failed", message)], "once, and not for a retry"
                assert [each for each in of_campaign if each[0] == "token_failed"] == [("token_failed", message)]
                assert of_other == []
                eventually(lambda: len(mails.accepted) == 2)
                failed = [mail.message for mail in mails.accepted if "Watermarking failed" in mail.message["Subject"]]
                assert [str(mail["To"]) for mail in failed] == [f"Ann Lee <{account.email}>"]
                page = ann.client.get(here).text
                assert re.search(r'class="retry-badge"[^>]*>3/3<', page) and "1 watermarking job(s) failed" in page
                world.mend_token(lee)
                world.app.pause(kind="watermark")
                queued = ann.post(f"{here}/tokens/{lee.id}/retry", shown=here)
                assert "PROCESSING" in queued.text and "PENDING" in queued.text
                world.app.resume(kind="watermark")
                eventually(lambda: world.state(campaign) == "READY")
