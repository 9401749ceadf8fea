"""The work of the jobs: mark a video for one recipient, and look for a mark in a video."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from apps.watermark import mark
from apps.watermark.campaigns import Campaign, Campaigns, Token
from apps.watermark.detections import Detections
from apps.watermark.ffmpeg import mark_command, progress_reader, read_command
from apps.watermark.files import Files
from mulligan import FinalError, RetryableError, attempt

VARIANTS = ("visible", "invisible", "visible+invisible")
MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Score:
    token: str
    score: float


@dataclass(frozen=True, slots=True)
class Finding:
    """`token` is whose mark is in the video; None: no one's. `scores` are the best ones."""

    token: str | None
    candidates: int
    scores: list[Score]


@dataclass(frozen=True, slots=True)
class Marking:
    campaigns: Campaigns
    detections: Detections
    files: Files
    font: Path
    timeout: str

    def mark(self, token: str, variant: str) -> int:
        """Write the recipient's video. Its size in bytes."""
        if variant not in VARIANTS:
            raise FinalError(f"unknown job variant {variant!r:.100}", code="UNKNOWN_VARIANT")
        found = self.campaigns.token(token)
        campaign = None if found is None else self.campaigns.get(found.campaign)
        if found is None or campaign is None:
            raise FinalError("its campaign was deleted", code="SOURCE_MISSING")
        return self._mark(campaign, found, variant)

    def _mark(self, campaign: Campaign, token: Token, variant: str) -> int:
        source = self.files.source(campaign.account, campaign.id)
        target = self.files.marked(campaign.account, campaign.id, token.id)
        _require_source(source)
        with _written_whole(target) as part, TemporaryDirectory(prefix="watermark-") as folder:
            invisible, text = Path(folder, "mark"), Path(folder, "text")
            invisible.write_bytes(mark.to_frame(token.id))
            text.write_text(token.recipient, "utf-8")
            marks = variant.split("+")
            if "visible" in marks:
                self._require_font()
            command = mark_command(
                source,
                part,
                invisible=invisible if "invisible" in marks else None,
                text=text if "visible" in marks else None,
                font=self.font,
            )
            attempt().run(command, timeout=self.timeout, progress=progress_reader())
            return part.stat().st_size

    def _require_font(self) -> None:
        # FFmpeg would take another font, or none, and succeed.
        if not self.font.is_file():
            raise RetryableError(f"there is no font {self.font.name}", code="FONT_MISSING")

    def detect(self, detection: str) -> Finding:
        """Whose mark is in a video? Only the video and the ids of the recipients are looked at."""
        found = self.detections.get(detection)
        if found is None:
            raise FinalError("it was deleted", code="SOURCE_MISSING")
        tokens = [token.id for token in self.campaigns.marked_tokens(found.account, found.campaign)]
        return self.look(self.files.suspect(found.account, found.id), tokens)

    def look(self, video: Path, tokens: list[str]) -> Finding:
        _require_source(video)
        frames = attempt().run(read_command(video), timeout=self.timeout, progress=progress_reader()).stdout
        scores = sorted(mark.score(frames, tokens).items(), key=lambda item: -item[1])
        best = scores[0] if scores and scores[0][1] >= mark.THRESHOLD else None
        shown = [Score(token, round(score, 1) + 0.0) for token, score in scores[:MOST_SHOWN]]
        return Finding(best[0] if best else None, len(scores), shown)


def _require_source(source: Path) -> None:
    if not source.is_file():
        raise FinalError("the uploaded video is gone", code="SOURCE_MISSING")


@contextmanager
def _written_whole(target: Path) -> Iterator[Path]:
    """A file that takes its place when it is complete. Two attempts never write into the same one."""
    part = target.with_name(f"{target.name}.{attempt().number}.part")
    try:
        yield part
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
