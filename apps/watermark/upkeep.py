"""Remove files of no more use: uploads that broke off, videos of killed attempts, videos that were looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from apps.watermark.detections import Detections
from apps.watermark.files import Files
from mulligan import App, JobNotFound

# No upload, no attempt and no look at a video takes as long.
OLD = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Upkeep:
    app: App
    files: Files
    detections: Detections

    def remove_leftovers(self) -> int:
        """How many files were removed."""
        before = datetime.now(UTC) - OLD
        found = [path for path in (*self.files.unfinished(), *self._looked_at()) if _is_older(path, before)]
        for path in found:
            path.unlink(missing_ok=True)
        return len(found)

    def _looked_at(self) -> Iterator[Path]:
        return (path for path in self.files.suspects() if self._is_over(path.name))

    def _is_over(self, detection_id: str) -> bool:
        detection = self.detections.get(detection_id)
        try:
            return detection is None or self.app.job(detection.job).state.is_final
        except JobNotFound:
            return True


def _is_older(path: Path, moment: datetime) -> bool:
    try:
        return path.lstat().st_mtime < moment.timestamp()
    except FileNotFoundError:
        return False
