"""Each rule for FFmpeg is asked about an error that FFmpeg really reported here."""

import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mulligan.attempt import attempt
from mulligan.failure.classify import classify
from mulligan.failure.packs import BUILT_IN, PACKS
from mulligan.failure.verdict import Failure

pytestmark = pytest.mark.skipif(
    shutil.which("ffmpeg") is None, reason="FFmpeg is not installed: sudo apt-get install ffmpeg"
)

NOBODY = 65534
QUIET = ("ffmpeg", "-hide_banner", "-nostdin", "-y")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds, with its index at the beginning, so that its end can be cut off."""
    path = tmp_path_factory.mktemp("clips") / "clip.mp4"
    source = ("-f", "lavfi", "-i", "testsrc2=s=160x120:r=25:d=2", "-f", "lavfi", "-i", "sine=d=2")
    subprocess.run([*QUIET, "-v", "error", *source, "-movflags", "+faststart", "-shortest", path], check=True)
    return path


def copy(source: Path, target: Path, *options: str) -> None:
    attempt().run([*QUIET, *options, "-i", source, "-f", "mp4", target])


def empty_file(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.mp4").touch()
    copy(tmp_path / "empty.mp4", tmp_path / "out.mp4")


def text_file(clip: Path, tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("this is no video\n" * 100)
    copy(tmp_path / "text.mp4", tmp_path / "out.mp4")


def cut_file(clip: Path, tmp_path: Path) -> None:
    """Without its index, as an upload that broke off."""
    subprocess.run([*QUIET, "-v", "error", "-i", clip, "-c", "copy", tmp_path / "last.mp4"], check=True)
    whole = (tmp_path / "last.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(whole[: len(whole) // 2])
    copy(tmp_path / "cut.mp4", tmp_path / "out.mp4")


def damaged_end(clip: Path, tmp_path: Path) -> None:
    whole = clip.read_bytes()
    (tmp_path / "half.mp4").write_bytes(whole[: len(whole) * 2 // 3])
    copy(tmp_path / "half.mp4", tmp_path / "out.mp4", "-xerror")


def no_picture(clip: Path, tmp_path: Path) -> None:
    subprocess.run([*QUIET, "-v", "error", "-i", clip, "-vn", "-c", "copy", tmp_path / "sound.mp4"], check=True)
    attempt().run([*QUIET, "-i", tmp_path / "sound.mp4", "-filter_complex", "[0:v]null", tmp_path / "out.mp4"])


def playlist(clip: Path, tmp_path: Path) -> None:
    """It would make FFmpeg read other files of the worker, or call addresses in its network."""
    (tmp_path / "list.mp4").write_text(f"ffconcat version 1.0\nfile {clip}\n")
    copy(tmp_path / "list.mp4", tmp_path / "out.mp4", "-format_whitelist", "mov,matroska")


def full_disk(clip: Path, tmp_path: Path) -> None:
    copy(clip, Path("/dev/full"))


def full_disk_after_damage(clip: Path, tmp_path: Path) -> None:
    """The decoder has complained by then: the rules must not take that for the reason."""
    whole = clip.read_bytes()
    (tmp_path / "half.mp4").write_bytes(whole[: len(whole) * 2 // 3])
    copy(tmp_path / "half.mp4", Path("/dev/full"))


def forbidden_output(clip: Path, tmp_path: Path) -> None:
    """As nobody: root may write anywhere."""
    source = ("-f", "lavfi", "-i", "testsrc=d=1")
    user = NOBODY if os.geteuid() == 0 else None
    subprocess.run([*QUIET, *source, "/etc/forbidden.mp4"], check=True, capture_output=True, user=user)


def missing_input(clip: Path, tmp_path: Path) -> None:
    copy(tmp_path / "missing.mp4", tmp_path / "out.mp4")


def missing_folder(clip: Path, tmp_path: Path) -> None:
    copy(clip, tmp_path / "missing" / "out.mp4")


def unknown_option(clip: Path, tmp_path: Path) -> None:
    copy(clip, tmp_path / "out.mp4", "-no_such_option")


def killed(clip: Path, tmp_path: Path) -> None:
    """By the system, as for lack of memory."""
    script = "ffmpeg -re -f lavfi -i testsrc=d=60 -f null - & kill -9 $!; wait $!"
    attempt().run(["sh", "-c", script])


REALLY = [
    (empty_file, "MEDIA_DAMAGED", "final", "ffmpeg.damaged"),
    (text_file, "MEDIA_DAMAGED", "final", "ffmpeg.damaged"),
    (cut_file, "MEDIA_DAMAGED", "final", "ffmpeg.damaged"),
    (damaged_end, "MEDIA_DAMAGED", "final", "ffmpeg.damaged"),
    (no_picture, "MEDIA_UNSUPPORTED", "final", "ffmpeg.unsupported"),
    (playlist, "MEDIA_UNSUPPORTED", "final", "ffmpeg.unsupported"),
    (full_disk, "DISK_FULL", "retryable", "ffmpeg.disk"),
    (full_disk_after_damage, "DISK_FULL", "retryable", "ffmpeg.disk"),
    (forbidden_output, "IO_ERROR", "retryable", "ffmpeg.write"),
    (unknown_option, "PROGRAM_FAILED", "retryable", "process.exit"),
    (missing_folder, "PROGRAM_FAILED", "retryable", "process.exit"),
    (killed, "OUT_OF_MEMORY", "retryable", "process.killed"),
]


def provoke(cause: Callable[[Path, Path], None], clip: Path, tmp_path: Path) -> Failure:
    try:
        cause(clip, tmp_path)
    except Exception as error:
        return Failure.of(error)
    pytest.fail(f"{cause.__name__} did not fail")


@pytest.mark.parametrize(("cause", "code", "error_class", "rule"), REALLY, ids=[cause.__name__ for cause, *_ in REALLY])
def test_what_ffmpeg_really_reports_is_recognised(
    cause: Any, code: str, error_class: str, rule: str, clip: Any, tmp_path: Path
) -> None:
    failure = provoke(cause, clip, tmp_path)
    seen = classify(failure, kind="any", rules=PACKS)
    remembered = classify(replace(failure, exception=None), kind="any", rules=PACKS)
    assert (seen.code, seen.error_class, seen.rule) == (code, error_class, rule), failure.message
    assert (remembered.code, remembered.rule) == (code, rule)


def test_a_missing_input_is_final_only_where_ffmpeg_names_it_as_such(clip: Any, tmp_path: Path) -> None:
    """Before version 6 FFmpeg says the same of a missing folder of the output, which a mount brings back."""
    failure = provoke(missing_input, clip, tmp_path)
    verdict = classify(failure, kind="any", rules=PACKS)
    is_named = "error opening input" in failure.message.lower()
    assert verdict.error_class == ("final" if is_named else "retryable")


def test_the_words_of_other_programs_are_not_ffmpegs(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="sh") as raised:
        attempt().run(["sh", "-c", "echo 'moov atom not found' >&2; exit 1"])
    verdict = classify(Failure.of(raised.value), kind="any", rules=PACKS)
    assert (verdict.code, verdict.rule) == ("PROGRAM_FAILED", "process.exit")


def test_ffmpeg_is_asked_before_process() -> None:
    assert list(BUILT_IN).index("ffmpeg") < list(BUILT_IN).index("process")
