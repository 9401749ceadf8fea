"""Where files are kept: a small port, and the local disk behind it.

A file is whole or absent: it is written beside its place, flushed to the disk and renamed. An object store fits the
same port, because its uploads are atomic by themselves (docs/decisions/053-pdfxml.md).
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, Protocol
from uuid import uuid4

from apps.pages.clock import Now, system_time

NAME = re.compile(r"[0-9a-f]{32}")
PART = ".part"
# Files that are being uploaded, as the form reader calls them.
UPLOADING = "upload-"


class Storage(Protocol):
    """Sources and results by the id of their document. Every method raises OSError if the storage fails."""

    def keep_source(self, document: str, path: Path) -> None:
        """Take over a complete file. It is moved, or copied if it lies on another disk."""

    def open_source(self, document: str) -> BinaryIO:
        """Raises FileNotFoundError if it is gone."""

    def has_source(self, document: str) -> bool: ...

    def write_result(self, document: str, chunks: Iterable[bytes]) -> int:
        """Store a result and return its size. If `chunks` raises, nothing is stored."""

    def open_result(self, document: str) -> BinaryIO:
        """Raises FileNotFoundError if it is gone."""

    def has_result(self, document: str) -> bool: ...

    def remove(self, document: str) -> None:
        """Remove source and result, whichever are there."""

    def older_than(self, age: timedelta) -> Iterator[str]:
        """The documents that have a file which was last written that long ago, by the clock that the files have."""


class LocalStorage:
    """Two folders of the local disk."""

    def __init__(self, uploads: Path, results: Path, *, now: Now = system_time) -> None:
        self.uploads, self.results, self._now = uploads, results, now
        for folder in (uploads, results):
            folder.mkdir(parents=True, exist_ok=True)

    def keep_source(self, document: str, path: Path) -> None:
        target = self._source(document)
        part = target.with_name(f"{target.name}.{uuid4().hex}{PART}")
        with _gone_on_error(part):
            shutil.move(path, part)
            _flush(part)
            part.replace(target)
        _flush(self.uploads)

    def open_source(self, document: str) -> BinaryIO:
        return self._source(document).open("rb")

    def has_source(self, document: str) -> bool:
        return self._source(document).is_file()

    def write_result(self, document: str, chunks: Iterable[bytes]) -> int:
        target = self._result(document)
        # Each writer has a name of its own: a worker that lost its lease may still write.
        part = target.with_name(f"{target.name}.{uuid4().hex}{PART}")
        with _gone_on_error(part):
            with part.open("xb") as file:
                size = sum(file.write(chunk) for chunk in chunks)
                file.flush()
                os.fsync(file.fileno())
            part.replace(target)
        _flush(self.results)
        return size

    def open_result(self, document: str) -> BinaryIO:
        return self._result(document).open("rb")

    def has_result(self, document: str) -> bool:
        return self._result(document).is_file()

    def remove(self, document: str) -> None:
        self._source(document).unlink(missing_ok=True)
        self._result(document).unlink(missing_ok=True)

    def older_than(self, age: timedelta) -> Iterator[str]:
        moment = self._now() - age
        for folder in (self.uploads, self.results):
            for path in list(folder.iterdir()):
                if _is_old(path, moment):
                    if path.name.endswith(PART) or path.name.startswith(UPLOADING):
                        # A writer that was killed left it behind.
                        path.unlink(missing_ok=True)
                    elif NAME.fullmatch(path.stem):
                        yield path.stem

    def _source(self, document: str) -> Path:
        return self.uploads / f"{_checked(document)}.pdf"

    def _result(self, document: str) -> Path:
        return self.results / f"{_checked(document)}.xml"


def _checked(document: str) -> str:
    """Ids are our own. Anything else must never become part of a path."""
    if not NAME.fullmatch(document):
        raise ValueError("not the id of a document")
    return document


@contextlib.contextmanager
def _gone_on_error(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_old(path: Path, moment: datetime) -> bool:
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC) < moment
    except FileNotFoundError:
        return False
