"""W2, W3: the document's delays in simulated time, and which errors of FFmpeg are retried: each really provoked."""

import os
import signal
import stat
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apps.watermark.app import DETECTING, FONT, MARKING, Watermark
from apps.watermark.ffmpeg import mark_command
from no_one import run_as_no_one
from watermark_world import QUIET, World, make_clip, watermark_world

from live import eventually
from mulligan import Job, State, attempt
from mulligan.testing import sandbox

MINUTES = (1, 5, 15)


def publish_one(world: World, *, video: Path | None = None, **choice: Any) -> str:
    campaign = world.published(world.account(), "Kim", video=video, **choice)
    return str(world.tokens(campaign)[0].job)


@pytest.fixture
def no_ffmpeg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a container that came up without its volume."""
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))


def test_w2_three_retries_after_1_5_and_15_minutes_then_final(small_world: World, no_ffmpeg: None) -> None:
    world = small_world
    with sandbox(world.app) as box:
        job_id = publish_one(world)
        box.run()
        for failures, minutes in enumerate(MINUTES, 1):
            job = world.app.job(job_id)
            assert (job.state, job.failures, job.retry_count, job.max_retries) == (State.WAITING, failures, failures, 3)
            assert job.due_at - job.updated_at == timedelta(minutes=minutes)
            box.advance(timedelta(minutes=minutes) - timedelta(seconds=1))
            assert world.app.job(job_id).failures == failures, "not a second before its time"
            box.advance("1s")
        job = world.app.job(job_id)
    assert (job.state, job.failures, job.retry_count, job.error_code) == (State.FAILED, 4, 3, "PROGRAM_MISSING")


def test_w2_the_delays_have_no_jitter(tmp_path: Path, clip: Path, no_ffmpeg: None) -> None:
    dues = []
    with watermark_world(f"sqlite:///{tmp_path}/app.db", tmp_path, clip) as world:
        for seed in range(3):
            with sandbox(world.app, seed=seed) as box:
                job_id = publish_one(world)
                box.run()
                job = world.app.job(job_id)
                dues.append(job.due_at - job.updated_at)
    assert dues == [timedelta(minutes=1)] * 3 and MARKING.max_attempts == 4


def test_w2_detect_jobs_never_retry(small_world: World, no_ffmpeg: None) -> None:
    world, ann = small_world, small_world.account()
    suspect = world.watermark.files.suspect(ann.id, "d1")
    suspect.parent.mkdir(parents=True)
    suspect.write_bytes(world.clip.read_bytes())
    with sandbox(world.app) as box:
        job = world.watermark.detect.options(owner=ann.id).enqueue("d1")
        world.watermark.detections.create(
            "d1", account=ann.id, campaign=None, video_name="leak.mp4", enqueue=lambda _: job.id
        )
        box.run()
        job = world.app.job(job.id)
    assert (job.state, job.attempt, job.error_code) == (State.FAILED, 1, "PROGRAM_MISSING")
    assert DETECTING.max_attempts == 1


def run_once(world: World, video: Path | None = None, **choice: Any) -> Job[Any]:
    job_id = publish_one(world, video=video, **choice)
    world.work()
    found: Job[Any] = world.app.job(job_id)
    return found


def truncated(world: World, folder: Path) -> Job[Any]:
    video = folder / "cut.mp4"
    video.write_bytes(world.clip.read_bytes()[: world.clip.stat().st_size // 2])
    return run_once(world, video)


def damaged_inside(world: World, folder: Path) -> Job[Any]:
    """Its index is there, its end is not: FFmpeg would succeed with half a video."""
    whole = make_clip(folder / "long.mp4", "testsrc2=s=160x90:r=25:d=4")
    moved = folder / "moved.mp4"
    subprocess.run([*QUIET, "-i", whole, "-c", "copy", "-movflags", "+faststart", moved], check=True)
    video = folder / "half.mp4"
    video.write_bytes(moved.read_bytes()[: moved.stat().st_size * 2 // 3])
    return run_once(world, video)


def empty(world: World, folder: Path) -> Job[Any]:
    (folder / "empty.mp4").touch()
    return run_once(world, folder / "empty.mp4")


def no_video(world: World, folder: Path) -> Job[Any]:
    sound = folder / "sound.mp4"
    subprocess.run([*QUIET, "-f", "lavfi", "-i", "sine=d=1", sound], check=True)
    return run_once(world, sound)


def playlist(world: World, folder: Path) -> Job[Any]:
    """It names another file of the server."""
    (folder / "list.mp4").write_text(f"ffconcat version 1.0\nfile '{world.clip}'\n")
    return run_once(world, folder / "list.mp4")


def enormous(world: World, folder: Path) -> Job[Any]:
    """A small file whose pictures would take gigabytes."""
    return run_once(world, make_clip(folder / "enormous.mp4", "color=red:s=8192x4352:r=1:d=1"))


def missing(world: World, folder: Path) -> Job[Any]:
    campaign = world.published(world.account(), "Kim")
    world.watermark.files.source(campaign.account, campaign.id).unlink()
    world.work()
    found: Job[Any] = world.app.job(world.tokens(campaign)[0].job)
    return found


def unknown_variant(world: World, folder: Path) -> Job[Any]:
    campaign = world.published(world.account(), "Kim")
    (token,) = world.tokens(campaign)
    job = world.watermark.mark.enqueue(token.id, "holographic")
    world.work()
    found: Job[Any] = world.app.job(job.id)
    return found


FINAL = [
    (truncated, "MEDIA_DAMAGED"),
    (damaged_inside, "MEDIA_DAMAGED"),
    (empty, "MEDIA_DAMAGED"),
    (no_video, "MEDIA_UNSUPPORTED"),
    (playlist, "MEDIA_UNSUPPORTED"),
    (enormous, "PICTURE_TOO_LARGE"),
    (missing, "SOURCE_MISSING"),
    (unknown_variant, "UNKNOWN_VARIANT"),
]


@pytest.mark.parametrize(("cause", "code"), FINAL, ids=[cause.__name__ for cause, _ in FINAL])
def test_w3_final_at_once(cause: Callable[..., Job[Any]], code: str, small_world: World, tmp_path: Path) -> None:
    job = cause(small_world, tmp_path)
    assert (job.state, job.failures, job.error_code, job.error_class) == (State.FAILED, 1, code, "final")
    assert "/" not in (job.error_message or ""), "no path for people"
    assert not list(small_world.watermark.files.folder.rglob("*.part")), "nothing is left behind"


def test_w3_ffmpeg_tells_a_missing_input_from_a_missing_folder_of_the_output(small_world: World) -> None:
    """The input vanished after it was looked for: final. The folder of the output may be a mount that comes back."""
    world, folder = small_world, small_world.folder

    @world.app.task(retry=MARKING)
    def encode(source: Path, target: Path) -> None:
        attempt().run(mark_command(source, target, invisible=None, text=None, font=Path(FONT)))

    gone = encode.enqueue(folder / "missing.mp4", folder / "out.mp4")
    unmounted = encode.enqueue(world.clip, folder / "missing" / "out.mp4")
    world.work()
    job = world.app.job(gone.id)
    assert (job.state, job.failures, job.error_code) == (State.FAILED, 1, "SOURCE_MISSING")
    assert world.app.job(unmounted.id).state == State.WAITING


def full_disk(world: World) -> Job[Any]:
    campaign = world.campaign(world.account(), "Kim")
    world.break_token(world.tokens(campaign)[0])
    campaign = world.publish(campaign)
    world.work()
    found: Job[Any] = world.app.job(world.tokens(campaign)[0].job)
    return found


def kill_while_marking(world: World, video: Path) -> Job[Any]:
    job_id = publish_one(world, video=video)
    killer = threading.Thread(target=lambda: eventually(kill_ffmpeg))
    killer.start()
    world.work()
    killer.join()
    found: Job[Any] = world.app.job(job_id)
    return found


def kill_ffmpeg() -> bool:
    """The FFmpeg that this process started, if it runs by now."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    for pid in {pid for each in children for pid in each.read_text().split()}:
        if b"blend" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(int(pid), signal.SIGKILL)
            return True
    return False


def test_w3_a_full_disk_is_retried(small_world: World) -> None:
    assert_waits(small_world, full_disk(small_world), "DISK_FULL")


def test_w3_exit_137_is_retried(small_world: World, long_clip: Path) -> None:
    """Killed by the system, as for lack of memory: SIGKILL, which a shell reports as 137."""
    assert_waits(small_world, kill_while_marking(small_world, long_clip), "OUT_OF_MEMORY")


def assert_waits(world: World, job: Job[Any], code: str) -> None:
    assert (job.state, job.failures, job.waiting_for) == (State.WAITING, 1, "retry")
    failure = world.app.last_failures([job.id])[job.id]
    assert (failure.type, failure.code) == ("job.retried", code)
    assert not list(world.watermark.files.folder.rglob("*.1.part"))


def test_w3_a_timeout_of_ffmpeg_is_retried(tmp_path: Path, long_clip: Path) -> None:
    with watermark_world(f"sqlite:///{tmp_path}/app.db", tmp_path, long_clip, timeout="200ms") as world:
        assert_waits(world, run_once(world), "TIMEOUT")


def test_a_job_may_take_longer_than_its_ffmpeg(tmp_path: Path, clip: Path) -> None:
    with watermark_world(f"sqlite:///{tmp_path}/app.db", tmp_path, clip, timeout="2h") as world:
        marked = world.watermark.mark.enqueue("token", "visible")
        detected = world.watermark.detect.enqueue("detection")
        assert {world.app.job(job.id).timeout for job in (marked, detected)} == {timedelta(hours=2, minutes=10)}


def test_w3_a_missing_binary_and_a_binary_that_may_not_run_are_retried(
    small_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert_waits(small_world, run_once(small_world), "PROGRAM_MISSING")
    (tmp_path / "ffmpeg").write_text("no program")
    (tmp_path / "ffmpeg").chmod(stat.S_IRUSR)
    job = run_once(small_world)
    assert (job.state, job.failures) == (State.WAITING, 1)


def test_w3_a_missing_font_is_retried_and_not_passed_over(tmp_path: Path, clip: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with watermark_world(url, tmp_path, clip, font=tmp_path / "missing.ttf") as world:
        assert_waits(world, run_once(world), "FONT_MISSING")
        # Without a visible mark no font is needed.
        assert run_once(world, visible_wm=False).state == State.SUCCEEDED
    assert Path(FONT).is_file()


# Root may write anywhere: after a first job, which loads everything, the process goes on as nobody.
FORBIDDEN = """
import os, sys
from pathlib import Path
from apps.watermark.app import CATALOGUE, RULES
from mulligan import App, attempt
app = App("sqlite:///:memory:", rules=RULES, catalogue=CATALOGUE)
@app.task
def encode(target):
    attempt().run(["ffmpeg", "-hide_banner", "-y", "-f", "lavfi", "-i", "testsrc=d=1", "-f", "mp4", target])
@app.task
def touch(target):
    Path(target).touch()
def run(task, target):
    job = task.enqueue(target)
    app.run_until_idle()
    failures = app.last_failures([job.id])
    return failures[job.id] if failures else None
run(encode, "/dev/full"), run(touch, "/dev/null")
if os.geteuid() == 0:
    os.setresuid(65534, 65534, 65534)
for task in (encode, touch):
    failure = run(task, "/etc/forbidden.mp4")
    print(failure.type, failure.code, failure.data["class"])
"""


def test_w3_an_output_without_permission_is_retried() -> None:
    assert run_as_no_one(FORBIDDEN) == ["job.retried IO_ERROR retryable"] * 2


# The account's folder belongs to root, and the worker does not.
FORBIDDEN_VIDEO = """
import os, sys
from pathlib import Path
from watermark_world import make_clip, watermark_world
folder = Path(sys.argv[1])
with watermark_world(f"sqlite:///{folder}/app.db", folder, make_clip(folder / "clip.mp4")) as world:
    account = world.account()
    world.published(account, "Kim")
    world.work()
    campaign = world.published(account, "Lee")
    source = world.watermark.files.source(campaign.account, campaign.id)
    for path in (folder, *folder.glob("*.db*")):
        path.chmod(0o777)
    source.parent.chmod(0o555)
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    world.work()
    (token,) = world.tokens(campaign)
    job = world.app.job(token.job)
    print(job.state, job.last_code, job.failures, [path.name for path in source.parent.iterdir()])
"""


def test_w3_a_folder_without_permission_is_retried() -> None:
    assert run_as_no_one(FORBIDDEN_VIDEO) == ["waiting IO_ERROR 1 ['source']"]


def test_w3_the_policies_file_changes_delays_without_a_deploy(
    tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch, no_ffmpeg: None
) -> None:
    policies = tmp_path / "policies.yaml"
    policies.write_text("kinds: {watermark: {backoff: {type: steps, delays: [600ms, 3s, 9s]}}}")
    monkeypatch.setenv("MULLIGAN_POLICIES_FILE", str(policies))
    with watermark_world(f"sqlite:///{tmp_path}/app.db", tmp_path, clip) as world:
        job = run_once(world)
        assert job.due_at - job.updated_at == timedelta(milliseconds=600)
        assert isinstance(world.watermark, Watermark)
