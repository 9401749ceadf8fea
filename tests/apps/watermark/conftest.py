import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from app_stores import usual_url as usual_url
from watermark_world import QUIET, World, make_clip, watermark_world


@pytest.fixture(scope="session", autouse=True)
def _programs() -> None:
    if shutil.which("ffmpeg") is None:
        pytest.skip("FFmpeg is not installed: sudo apt-get install ffmpeg")


@pytest.fixture(scope="session")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second of a small picture."""
    return make_clip(tmp_path_factory.mktemp("clips") / "small.mp4")


@pytest.fixture(scope="session")
def long_clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four minutes, long enough to be stopped in the middle: the same seconds again and again."""
    folder = tmp_path_factory.mktemp("long")
    once = make_clip(folder / "once.mp4", "testsrc2=s=640x360:r=25:d=2")
    again = ("-stream_loop", "120", "-i", once, "-c", "copy", folder / "long.mp4")
    subprocess.run([*QUIET, *again], check=True)
    return folder / "long.mp4"


@pytest.fixture
def world(store_url: str, tmp_path: Path, clip: Path) -> Iterator[World]:
    with watermark_world(store_url, tmp_path, clip) as found:
        yield found


@pytest.fixture
def small_world(usual_url: str, tmp_path: Path, clip: Path) -> Iterator[World]:
    """For what no store decides."""
    with watermark_world(usual_url, tmp_path, clip) as found:
        yield found
