"""More workers, and what the README says."""

import os
import re
from pathlib import Path

import pytest
from apps.watermark.app import CATALOGUE, Options
from apps.watermark.detections import Detection
from watermark_world import World

from live import eventually, started_worker
from mulligan import JobFilter

ROOT = Path(__file__).parents[3]


def test_w1_a_worker_beside_the_pages_does_the_same_work(
    small_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = small_world
    campaign = world.published(world.account(), "Kim", "Lee")
    monkeypatch.setenv("DATABASE_URL", world.url)
    monkeypatch.setenv("WATERMARK_FOLDER", str(world.watermark.files.folder))
    with started_worker("apps.watermark.worker:app", tmp_path):
        eventually(lambda: world.state(campaign) == "READY", seconds=60)
    assert world.app.counts(JobFilter(kind="watermark"), by="state").groups == {"succeeded": 2}


def test_files_that_are_of_no_use_any_more_are_removed(small_world: World) -> None:
    world, files = small_world, small_world.watermark.files
    campaign = world.published(world.account(), "Kim")
    world.work()
    (kim,) = world.tokens(campaign)
    marked, source = world.target(kim), files.source(campaign.account, campaign.id)
    pending, looked_at = (_detection(world, campaign.account, name) for name in ("pending", "over"))
    world.app.cancel(looked_at.job)
    unknown = files.suspect(campaign.account, "unknown")
    part, upload, fresh = marked.with_name("x.mp4.1.part"), files.folder / "upload-old", files.folder / "upload-new"
    suspects = [files.suspect(campaign.account, each.id) for each in (pending, looked_at)]
    for path in (part, upload, fresh, unknown, *suspects, marked, source):
        path.touch()
        if path != fresh:
            os.utime(path, (0, 0))
    world.app.pause(kind="detect")
    world.app.run_schedule("remove_leftovers")
    world.work()
    left = {path for path in files.folder.rglob("*") if path.is_file()}
    assert left == {fresh, suspects[0], marked, source}


def _detection(world: World, account: str, name: str) -> Detection:
    world.watermark.files.suspect(account, name).parent.mkdir(exist_ok=True)
    job = world.watermark.detect.options(owner=account).enqueue(name)
    return world.watermark.detections.create(
        name, account=account, campaign=None, video_name="leak.mp4", enqueue=lambda _: job.id
    )


def test_the_readme_names_every_setting_and_its_files_exist() -> None:
    text = (ROOT / "apps/watermark/README.md").read_text("utf-8")
    named = set(re.findall(r"`(WATERMARK_\w+)`", text))
    assert named == {f"WATERMARK_{name.upper()}" for name in Options.__dataclass_fields__}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / "apps/watermark" / target).exists(), target
    assert os.environ.get("WATERMARK_FOLDER") is None


def test_codes_of_its_own_promise_a_retry_only_where_there_is_one() -> None:
    assert all(("retry" in code.message) == (code.error_class == "retryable") for code in CATALOGUE)
