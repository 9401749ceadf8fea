"""Where the files of an account are. No path ever comes from a user, and none leaves the server."""

import shutil
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Files:
    folder: Path

    def of_account(self, account: str) -> Path:
        return self.folder / account

    def source(self, account: str, campaign: str) -> Path:
        return self.of_account(account) / campaign / "source"

    def marked(self, account: str, campaign: str, token: str) -> Path:
        return self.of_account(account) / campaign / f"{token}.mp4"

    def suspect(self, account: str, detection: str) -> Path:
        return self.of_account(account) / "detections" / detection

    def suspects(self) -> list[Path]:
        """All of them. Each is named by its detection."""
        return list(self.folder.glob("*/detections/*"))

    def unfinished(self) -> list[Path]:
        """Uploads and marked videos that may still be written."""
        return [*self.folder.glob("upload-*"), *self.folder.glob("*/*/*.part")]

    def keep(self, upload: Path, target: Path) -> None:
        """Move an upload to its place."""
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(upload, target)

    def remove_account(self, account: str) -> None:
        shutil.rmtree(self.of_account(account), ignore_errors=True)
