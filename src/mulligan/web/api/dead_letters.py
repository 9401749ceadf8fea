"""Export jobs, and purge those that are over."""

import csv
import io
import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Literal

import msgspec
from starlette.responses import StreamingResponse

from mulligan.console.dead_letters import ExportedJob, Purge
from mulligan.records.document import Document, document_of, document_type
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.web.access.caller import Caller
from mulligan.web.api.terms import Duration, ReasonGiven, Reveal
from mulligan.web.filters import Filter, filter_type, to_filter
from mulligan.web.route import Call, One, Response, Routes, Text
from mulligan.web.visible import visible

routes = Routes("Jobs")

LINES, CSV = "application/x-ndjson", "text/csv"
# With these a cell begins that a spreadsheet runs as a formula; some take the wide forms for the plain ones.
FORMULAS = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
# One chunk of an export has so many jobs, and ends when it has so many bytes: it is held until its client has read it.
CHUNK, CHUNK_BYTES = 50, 64 * 1024
COLUMNS = [field.name for field in msgspec.structs.fields(document_type(Job)) if field.name not in Job._shape.given]

ExportQuery = filter_type(
    "ExportQuery", format=(Literal["jsonl", "csv"], "jsonl"), events=(bool, False), reveal=(Reveal, False)
)


@routes.get("/jobs/export", scope=Scope.JOBS_READ, answer=Text((LINES, CSV)), query=ExportQuery)
def export(call: Call, query: Any) -> Response:
    """All jobs that match, newest first, as JSON lines or CSV. With `events`, JSON lines have the history of each job.

    An export that breaks off is incomplete: the connection ends without its last chunk.
    """
    with_events = query.events and query.format == "jsonl"
    found = call.console.export(to_filter(query), events=with_events)
    return stream_jobs(found, call.viewer, query.format, with_events=with_events)


def stream_jobs(found: Iterator[ExportedJob], caller: Caller, form: str, *, with_events: bool) -> Response:
    """The jobs as a file, as the caller may see them. `form` is `jsonl` or `csv`."""
    documents = (_document(each, caller, with_events=with_events) for each in found)
    chunks, kind = (_csv(documents), CSV) if form == "csv" else (_lines(documents), LINES)
    headers = {"Content-Disposition": f'attachment; filename="jobs.{form}"'}
    return StreamingResponse(chunks, media_type=kind, headers=headers)


def _document(exported: ExportedJob, caller: Caller, *, with_events: bool) -> Document:
    history = {"events": visible(exported.events, caller)} if with_events else {}
    return document_of(visible(exported.job, caller), **history)


def _lines(documents: Iterator[Document]) -> Iterator[bytes]:
    encode = msgspec.json.Encoder().encode
    return _chunks(encode(document) + b"\n" for document in documents)


def _csv(documents: Iterator[Document]) -> Iterator[bytes]:
    rows = ([_cell(document[name]) for name in COLUMNS] for document in documents)
    return _chunks(_row(each) for each in chain([COLUMNS], rows))


def _chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    size = 0
    for line in lines:
        parts.append(line)
        size += len(line)
        if len(parts) == CHUNK or size >= CHUNK_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def _row(cells: list[str]) -> bytes:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue().encode()


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return f"'{value}" if value[:1] in FORMULAS else value
        case bool() | dict() | list():
            return json.dumps(value, ensure_ascii=False)
    return str(value)


class Purged(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    older_than: Duration
    """How long the jobs must have been over."""
    filter: Filter = msgspec.field(default_factory=Filter)
    dry_run: bool = True
    """Only count them."""
    reason: ReasonGiven | None = None


@routes.post("/jobs/purge", scope=Scope.JOBS_CANCEL, answer=One(Purge))
def purge(call: Call, body: Purged) -> Any:
    """Delete jobs that are over, with their histories. By default they are only counted."""
    return call.console.purge(
        to_filter(body.filter),
        older_than=body.older_than,
        dry_run=body.dry_run,
        reason=body.reason,
        request_id=call.request_id,
    )
