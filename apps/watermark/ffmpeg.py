"""The command lines of FFmpeg, and how far its own output says it is."""

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from apps.watermark.mark import COLUMNS, ROWS

# An uploaded playlist could name other files of this machine, or addresses in its network.
_FORMATS = "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpegts,mpeg,flv,ogg"
# Of one picture. A small file may describe one that would take all memory.
_MOST_PIXELS = str(7_680 * 4_320)
_SAFE_INPUT = ("-protocol_whitelist", "file", "-format_whitelist", _FORMATS, "-max_pixels", _MOST_PIXELS)
# A damaged packet fails the run: half a video for a recipient would look like a success.
_START = ("ffmpeg", "-hide_banner", "-nostdin", "-y", "-nostats", "-progress", "pipe:2", "-xerror")
_EVEN = "scale=trunc(iw/2)*2:trunc(ih/2)*2,format=yuv420p"
_BLEND = "blend=c0_mode=grainmerge:c1_mode=normal:c2_mode=normal"
_ENCODE = (
    "-c:v",
    "libx264",
    "-preset",
    "veryfast",
    "-crf",
    "20",
    "-c:a",
    "aac",
    "-movflags",
    "+faststart",
    "-f",
    "mp4",
)
# The first minute, twice a second, is more than enough to find a mark.
_READ = f"fps=2,scale={COLUMNS}:{ROWS}:flags=area,format=gray"
_MOST_FRAMES = "120"


def mark_command(source: Path, target: Path, *, invisible: Path | None, text: Path | None, font: Path) -> list[str]:
    """Encode a video with the frame `invisible` blended into it, and with the words of the file `text` drawn on it."""
    grid = ("-f", "rawvideo", "-pixel_format", "yuv420p", "-video_size", f"{COLUMNS}x{ROWS}")
    second = () if invisible is None else (*grid, "-i", str(invisible))
    filters = _filters(is_invisible=invisible is not None, drawn=None if text is None else _draw(text, font))
    output = ("-filter_complex", filters, "-map", "[out]", "-map", "0:a?", *_ENCODE, str(target))
    return [*_START, *_SAFE_INPUT, "-i", str(source), *second, *output]


def read_command(source: Path) -> list[str]:
    """Write the frames in which a mark is looked for, grey and as small as its grid, to stdout."""
    frames = ("-map", "0:v:0", "-vf", _READ, "-frames:v", _MOST_FRAMES, "-f", "rawvideo", "pipe:1")
    return [*_START, *_SAFE_INPUT, "-i", str(source), *frames]


def _filters(*, is_invisible: bool, drawn: str | None) -> str:
    last = "null" if drawn is None else drawn
    if not is_invisible:
        return f"[0:v:0]{_EVEN},{last}[out]"
    scaled = f"[0:v:0]{_EVEN}[even];[1:v][even]scale2ref=w=iw:h=ih:flags=neighbor[mark][video]"
    return f"{scaled};[video][mark]{_BLEND},{last}[out]"


def _draw(text: Path, font: Path) -> str:
    """The words come from a file: nothing that a recipient is called can become a part of the command."""
    look = "fontsize=h/24:fontcolor=white@0.55:borderw=1:bordercolor=black@0.35:x=w-tw-h/24:y=h-th-h/24"
    return f"drawtext=fontfile={font}:textfile={text}:expansion=none:{look}"


_DURATION = re.compile(r"Duration: (\d+):(\d\d):(\d\d(?:\.\d+)?)")
_TIME = re.compile(r"out_time_us=(\d+)")


def progress_reader() -> Callable[[str], float | None]:
    """A function of each line that FFmpeg prints: the ratio that is done, once the duration is known."""
    duration = timedelta()

    def read(line: str) -> float | None:
        nonlocal duration
        if not duration and (found := _DURATION.search(line)):
            hours, minutes, seconds = found.groups()
            duration = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds))
        time = _TIME.match(line)
        if not time or not duration:
            return None
        return min(1.0, timedelta(microseconds=int(time[1])) / duration)

    return read
