"""The files of finished captures. A file appears with all its contents, under a name that no other attempt has."""

import os
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

_NAME = re.compile(r"(?P<job>[0-9a-f-]{36})-\d+\.(png|pdf)")
# No attempt takes as long.
UNFINISHED = timedelta(hours=1)


class Results:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, job: str, attempt: int, ending: str, contents: bytes) -> str:
        """The name of the file. A lost worker that writes late has another attempt, so another name."""
        name = f"{job}-{attempt}.{ending}"
        self._folder.mkdir(parents=True, exist_ok=True)
        part = self._folder / f"unfinished-{name}"
        try:
            with part.open("wb") as file:
                file.write(contents)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._folder / name)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        return name

    def find(self, name: str) -> Path | None:
        """None for a file that is gone, and for a name that `write` would not give."""
        path = self._folder / name
        return path if _NAME.fullmatch(name) and path.is_file() else None

    def of_jobs(self) -> dict[str, list[Path]]:
        """The files that are old enough to be over, by their jobs; those of no job under an empty string."""
        found: dict[str, list[Path]] = {}
        before = (datetime.now(UTC) - UNFINISHED).timestamp()
        for path in self._folder.glob("*") if self._folder.is_dir() else ():
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < before:
                    match = _NAME.fullmatch(path.name)
                    found.setdefault(match["job"] if match else "", []).append(path)
        return found
