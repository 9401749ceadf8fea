"""More workers, and what the README says."""

import os
import re
from pathlib import Path

import pytest
from apps.watermark.app import CATALOGUE, Options
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


def test_the_readme_names_every_setting_and_its_files_exist() -> None:
    text = (ROOT / "apps/watermark/README.md").read_text("utf-8")
    named = set(re.findall(r"`(WATERMARK_\w+)`", text))
    assert named == {f"WATERMARK_{name.upper()}" for name in Options.__dataclass_fields__}
    for target in re.findall(r"\]\(([^)]+)\)", text):
        assert (ROOT / "apps/watermark" / target).exists(), target
    assert os.environ.get("WATERMARK_FOLDER") is None


def test_codes_of_its_own_promise_a_retry_only_where_there_is_one() -> None:
    assert all(("retry" in code.message) == (code.error_class == "retryable") for code in CATALOGUE)
