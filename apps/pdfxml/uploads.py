"""Accepting an upload: the file, its row and its job, or a failed record that says why not."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import Connection

from apps.pdfxml.app import Converter
from apps.pdfxml.codes import too_large
from apps.pdfxml.documents import Document
from mulligan import FinalError, IntakePaused, Job, JobFilter, State, SubmitRateExceeded, TooManyJobs

logger = logging.getLogger("pdfxml.uploads")
HEADER = b"%PDF-"
# Some programs write these before the header. Anything else may be another format that contains a PDF file.
BLANKS = b"\xef\xbb\xbf \t\r\n\x00"
LONGEST_NAME, LONGEST_MAPPING = 200, 50
NAMELESS = "document.pdf"
LIVE = (State.WAITING, State.QUEUED, State.RUNNING)
REFUSALS = (TooManyJobs, IntakePaused, SubmitRateExceeded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A file that a person sent."""

    owner: str
    name: str
    mapping: str
    size: int
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The document of an upload, and its job. A twin was there already."""

    document: Document
    job: Job[int]
    is_twin: bool = False


def accept(converter: Converter, source: Source, path: Path) -> Accepted:
    """Store a file and its job. What is no PDF file, or cannot be stored, becomes a failed record.

    Raises TooManyJobs, IntakePaused or SubmitRateExceeded, and then nothing is stored.
    """
    if not is_pdf(path):
        return refuse(converter, source, "NOT_PDF")
    document = uuid4().hex
    try:
        converter.storage.keep_source(document, path)
    except OSError:
        logger.exception("an upload of %d bytes could not be stored", source.size)
        return refuse(converter, source, "IO_ERROR")
    return _submit(converter, source, document)


def refuse(converter: Converter, source: Source, code: str) -> Accepted:
    """Store an upload that cannot be converted as a failed record, which its owner sees."""
    document = uuid4().hex
    with converter.database.transaction() as connection:
        submission = converter.convert.options(owner=source.owner, connection=connection)
        message = too_large(converter.settings.upload_limit) if code == "TOO_LARGE" else ""
        job = submission.reject(FinalError(message, code=code), document, source.mapping)
        return Accepted(_add(converter, connection, source, document, job), job)


def require_room(converter: Converter, connection: Connection, owner: str) -> None:
    """Raises TooManyJobs if the owner has as many live conversions as a session may have. The engine looks at uploads
    only: a retry is a decision of its owner too."""
    converter.documents.lock(connection, owner)
    live = converter.app.counts(JobFilter(owner=owner, state=LIVE)).total
    if live >= converter.settings.live_jobs:
        raise TooManyJobs(owner, converter.settings.live_jobs, live)


def is_pdf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(1024).lstrip(BLANKS).startswith(HEADER)


def clean_name(name: str | None) -> str:
    """The last part of a path, without characters that cannot be printed."""
    last = (name or "").replace("\\", "/").rpartition("/")[2]
    return clean_line(last, LONGEST_NAME) or NAMELESS


def clean_line(text: str | None, longest: int) -> str:
    return "".join(character for character in text or "" if character.isprintable()).strip()[:longest]


def _submit(converter: Converter, source: Source, document: str) -> Accepted:
    try:
        with converter.database.transaction() as connection:
            job = _enqueue(converter, connection, source, document)
            twin = converter.documents.find(connection, job.id) if job.is_duplicate else None
            found = twin or _add(converter, connection, source, document, job)
    except REFUSALS:
        converter.storage.remove(document)
        raise
    # After any other error the file stays: the commit may have succeeded. Retention removes what was left behind.
    if found.id != document:
        converter.storage.remove(document)
    return Accepted(found, job, is_twin=job.is_duplicate)


def _enqueue(converter: Converter, connection: Connection, source: Source, document: str) -> Job[Any]:
    """Enqueue the conversion, unless the same file of the same owner is in progress or complete."""
    submission = converter.convert.options(
        owner=source.owner,
        dedupe=f"{source.sha256}:{source.size}:{source.mapping}",
        dedupe_scope="succeeded",
        connection=connection,
    )
    job: Job[Any] = submission.enqueue(document, source.mapping)
    if (
        job.is_duplicate
        and job.state is State.SUCCEEDED
        and not converter.storage.has_result(job.arguments["document"])
    ):
        converter.app.release_key(job.id, reason="its result is gone", connection=connection)
        job = submission.enqueue(document, source.mapping)
    return job


def _add(converter: Converter, connection: Connection, source: Source, document: str, job: Job[Any]) -> Document:
    added = Document(
        id=document,
        job=job.id,
        owner=source.owner,
        name=source.name,
        mapping=source.mapping,
        bytes=source.size,
        sha256=source.sha256,
        uploaded_at=job.enqueued_at,
    )
    converter.documents.add(connection, added)
    return added
