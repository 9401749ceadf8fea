"""Failures of FFmpeg and ffprobe, by what they print. How the programs end otherwise is judged by the pack `process`.

A run may print several of these lines: the decoder complains of a damaged packet, then the disk is full. What a retry
can mend comes first, because a wrong final verdict loses work.
"""

import re

from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure

_NAME = re.compile(r"\bff(mpeg|probe)\b")
_COMMAND = 500
# Beyond it a signal ended the program, whatever it had printed.
_EXIT = range(1, 128)


def _by_ffmpeg(failure: Failure) -> bool:
    """of ffmpeg or ffprobe"""
    return _NAME.search(failure.message[:_COMMAND]) is not None


RULES: tuple[Rule, ...] = (
    Rule("DISK_FULL", "retryable", when=_by_ffmpeg, exit=_EXIT, message="no space left on device", name="ffmpeg.disk"),
    # A volume mounted with another owner, or read-only. FFmpeg says the same of an input it may not read.
    Rule(
        "IO_ERROR",
        "retryable",
        when=_by_ffmpeg,
        exit=_EXIT,
        message="permission denied|read-only file system|input/output error",
        name="ffmpeg.write",
    ),
    # Since FFmpeg 6. Earlier versions say the same of an input and of the folder of an output.
    Rule(
        "MEDIA_MISSING",
        "final",
        when=_by_ffmpeg,
        exit=_EXIT,
        message=r"error opening input[^\n]{0,500}no such file or directory",
        name="ffmpeg.missing",
    ),
    Rule(
        "MEDIA_DAMAGED",
        "final",
        when=_by_ffmpeg,
        exit=_EXIT,
        message="moov atom not found|invalid data found when processing input|corrupt input packet in stream",
        name="ffmpeg.damaged",
    ),
    Rule(
        "MEDIA_UNSUPPORTED",
        "final",
        when=_by_ffmpeg,
        exit=_EXIT,
        message="matches no streams|does not contain any stream|format not on whitelist",
        name="ffmpeg.unsupported",
    ),
)
