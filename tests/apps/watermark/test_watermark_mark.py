"""W1: the invisible mark is in the picture, and is found blindly: from the file and the ids of 50 recipients alone."""

import os
import subprocess
from pathlib import Path

import pytest
from apps.watermark.app import FONT
from apps.watermark.ffmpeg import mark_command, progress_reader, read_command
from watermark_world import QUIET, make_clip

from apps.watermark import mark
from mulligan import attempt

TOKENS = [f"{number:032x}" for number in range(50)]
RIGHT = TOKENS[17]
# Different motion and brightness. The others take longer.
CLIPS = {
    "moving": "testsrc2=s=640x360:r=10:d=3",
    "dark": "mandelbrot=s=640x360:r=10,trim=duration=3,eq=brightness=-0.3",
}
MORE = {
    "still": "smptehdbars=s=640x360:r=25:d=4",
    "black": "color=black:s=640x360:r=25:d=4",
    "bright": "testsrc=s=1280x720:r=25:d=4,eq=brightness=0.3",
    "noise": "nullsrc=s=640x360:r=25:d=4,geq=random(1)*255:128:128",
    "cells": "life=s=640x360:r=10:mold=10:ratio=0.3,trim=duration=6",
    "upright": "testsrc2=s=360x640:r=25:d=4",
}
if os.environ.get("MULLIGAN_SOAK"):
    CLIPS |= MORE


def marked(source: Path, target: Path, token: str) -> Path:
    frame, text = target.with_suffix(".mark"), target.with_suffix(".text")
    frame.write_bytes(mark.to_frame(token))
    text.write_text("Kim Park")
    attempt().run(mark_command(source, target, invisible=frame, text=text, font=Path(FONT)))
    return target


def encoded(source: Path, target: Path, *options: str) -> Path:
    subprocess.run([*QUIET, "-i", source, *options, "-c:v", "libx264", "-preset", "veryfast", target], check=True)
    return target


def scores(video: Path) -> dict[str, float]:
    return mark.score(attempt().run(read_command(video)).stdout, TOKENS)


def luminance(video: Path) -> bytes:
    """Of the upper half of the first frame, where no words are."""
    frame = ("-vf", "crop=320:90:0:0", "-frames:v", "1", "-f", "rawvideo", "-pix_fmt", "yuv420p", "-")
    return attempt().run([*QUIET, "-i", video, *frame]).stdout[: 320 * 90]


def named(found: dict[str, float]) -> str | None:
    best = max(found, key=lambda token: found[token])
    return best if found[best] >= mark.THRESHOLD else None


@pytest.mark.parametrize("name", CLIPS)
def test_w1_the_right_one_of_50_is_named_after_encoding_and_scaling_and_nobody_without_a_mark(
    name: str, tmp_path: Path
) -> None:
    original = make_clip(tmp_path / "original.mp4", CLIPS[name])
    copy = marked(original, tmp_path / "copy.mp4", RIGHT)
    half = ("-vf", "scale=trunc(iw/4)*2:trunc(ih/4)*2")
    copies = {
        "as it was made": copy,
        "CRF 28": encoded(copy, tmp_path / "crf.mp4", "-crf", "28"),
        "half the size": encoded(copy, tmp_path / "half.mp4", *half),
        "half, CRF 28": encoded(copy, tmp_path / "both.mp4", *half, "-crf", "28"),
    }
    for what, video in copies.items():
        found = scores(video)
        others = max(score for token, score in found.items() if token != RIGHT)
        print(f"{name:8} {what:15} right {found[RIGHT]:5.1f}, best of the 49 others {others:4.1f}")
        assert named(found) == RIGHT
        assert others < mark.THRESHOLD
    unmarked = {"unmarked": original, "unmarked, CRF 28": encoded(original, tmp_path / "u.mp4", "-crf", "28")}
    for what, video in unmarked.items():
        found = scores(video)
        print(f"{name:8} {what:15} best of all 50 {max(found.values()):4.1f}")
        assert named(found) is None


def test_w1_the_mark_of_another_campaign_names_nobody(tmp_path: Path) -> None:
    copy = marked(make_clip(tmp_path / "original.mp4"), tmp_path / "copy.mp4", "f" * 32)
    assert named(scores(copy)) is None


def test_w1_the_mark_is_in_the_picture_and_too_weak_to_see(tmp_path: Path) -> None:
    original = make_clip(tmp_path / "original.mp4", "color=gray:s=320x180:r=10:d=1")
    copy = marked(original, tmp_path / "copy.mp4", RIGHT)
    # Without metadata, and as raw pictures only.
    stripped = encoded(copy, tmp_path / "plain.mkv", "-map_metadata", "-1", "-map", "0:v", "-crf", "1")
    assert named(scores(stripped)) == RIGHT
    before, after = (luminance(video) for video in (original, copy))
    largest = max(abs(one - other) for one, other in zip(before, after, strict=True))
    assert 1 <= largest <= 2 * mark.STRENGTH


def test_w1_a_pattern_is_the_same_in_every_process_and_differs_between_recipients() -> None:
    first, second = (mark.pattern(token) for token in TOKENS[:2])
    assert abs(float((first * second).mean())) < 0.1
    # A change of this number would make the marks of all videos that are out there unreadable.
    assert int((first > 0).sum()) == 2549
    assert len(mark.to_frame(RIGHT)) == mark.COLUMNS * mark.ROWS * 3 // 2


def test_w1_an_empty_or_uniform_video_names_nobody() -> None:
    assert named(mark.score(b"", TOKENS)) is None
    assert named(mark.score(bytes(mark.COLUMNS * mark.ROWS * 4), TOKENS)) is None


def test_progress_is_read_from_what_ffmpeg_prints() -> None:
    read = progress_reader()
    lines = [
        "out_time_us=N/A",
        "  Duration: 00:01:40.00, start: 0.000000",
        "out_time_us=25000000",
        "out_time_us=200000000",
    ]
    assert [read(line) for line in lines] == [None, None, 0.25, 1.0]
