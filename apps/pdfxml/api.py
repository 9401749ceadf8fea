"""The HTTP API: uploads, conversions, their events, downloads and manual retries, in the words of this application."""

from collections.abc import Iterator
from typing import Any, BinaryIO
from urllib.parse import quote
from uuid import UUID

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from apps.pages.forms import NotStored, TooLarge, read_upload
from apps.pages.problems import Problem
from apps.pages.rates import charge
from apps.pages.session import session_id
from apps.pdfxml.access import require_reader
from apps.pdfxml.app import Converter
from apps.pdfxml.codes import CODES, message_of
from apps.pdfxml.conversions import Conversion, complete, find_conversion, list_conversions, list_events
from apps.pdfxml.metrics import write_metrics
from apps.pdfxml.settings import GATEWAY
from apps.pdfxml.uploads import Accepted, Source, accept, clean_line, clean_name, refuse, require_room
from mulligan import Conflict, IllegalMove, IntakePaused, MulliganError, NotAllowed, TooManyJobs

CHUNK = 2**16
LONGEST_MAPPING = 50
PAGE = 50


class Api:
    """Handlers that are plain functions run in a thread: they ask the database."""

    def __init__(self, converter: Converter) -> None:
        self.converter = converter

    def routes(self) -> list[Route]:
        return [
            Route("/api/upload", self.upload, methods=["POST"]),
            Route("/api/jobs", self.list_jobs),
            Route("/api/jobs/{job}", self.show),
            Route("/api/jobs/{job}/events", self.events),
            Route("/api/jobs/{job}/download", self.download),
            Route("/api/jobs/{job}/retry", self.retry, methods=["POST"]),
            Route("/metrics", self.metrics),
        ]

    async def upload(self, request: Request) -> Response:
        accepted = await self.receive(request, needs_token=False)
        return answer_upload(accepted, await run_in_threadpool(self.conversion_of, accepted))

    async def receive(self, request: Request, *, needs_token: bool) -> Accepted:
        """Store what a browser sends. Raises Problem if nothing can be stored at all."""
        owner, settings = session_id(request), self.converter.settings
        await charge(request, "upload", settings.upload_rate, what="uploads")
        try:
            upload = await read_upload(
                request, settings.uploads, limit=settings.largest_upload, needs_token=needs_token
            )
        except TooLarge as error:
            source = _source(owner, error.name, error.fields, error.size)
            return await self._stored(lambda: refuse(self.converter, source, "TOO_LARGE"))
        except OSError as error:
            fields = error if isinstance(error, NotStored) else None
            source = _source(owner, *((fields.name, fields.fields, fields.size) if fields else ("", {}, 0)))
            return await self._stored(lambda: refuse(self.converter, source, "IO_ERROR"))
        source = _source(owner, upload.name, upload.fields, upload.size, upload.sha256)
        try:
            return await self._stored(lambda: accept(self.converter, source, upload.path))
        finally:
            # It was moved away if it was accepted.
            await run_in_threadpool(upload.path.unlink, missing_ok=True)

    async def _stored(self, store: Any) -> Accepted:
        try:
            accepted: Accepted = await run_in_threadpool(store)
        except MulliganError as error:
            raise problem_of(error) from error
        return accepted

    def conversion_of(self, accepted: Accepted) -> Conversion:
        return complete(self.converter, [accepted.document])[0]

    def list_jobs(self, request: Request) -> Response:
        before = request.query_params.get("before")
        found = list_conversions(
            self.converter, session_id(request), limit=PAGE + 1, before=before if is_id(before) else None
        )
        jobs, more = found[:PAGE], found[PAGE:]
        following = jobs[-1].id if more else None
        return JSONResponse(
            {"jobs": [describe(each) for each in jobs], "next": following, "converter": self.converter_state()}
        )

    def converter_state(self) -> str:
        """`ok`, or `busy` while the breaker is not closed."""
        return "ok" if self.converter.app.service(GATEWAY).status.state == "closed" else "busy"

    def show(self, request: Request) -> Response:
        return JSONResponse(describe(self.find_own(request)))

    def events(self, request: Request) -> Response:
        events = list_events(self.converter, self.find_own(request))
        return JSONResponse({"events": [event | {"at": event["at"].isoformat()} for event in events]})

    def download(self, request: Request) -> Response:
        conversion = self.find_own(request)
        if conversion.status == "expired":
            raise _problem("EXPIRED")
        if conversion.status != "complete":
            raise _problem("NOT_READY")
        try:
            file = self.converter.storage.open_result(conversion.document.id)
        except FileNotFoundError:
            raise _problem("EXPIRED") from None
        except OSError:
            raise _problem("IO_ERROR") from None
        name = quote(conversion.document.name.removesuffix(".pdf") + ".xml", safe="")
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}", "Cache-Control": "private, no-store"}
        return StreamingResponse(_read(file), media_type="application/xml", headers=headers)

    async def retry(self, request: Request) -> Response:
        return JSONResponse(describe(await self.retry_own(request)), 202)

    async def retry_own(self, request: Request) -> Conversion:
        """Start a failed conversion again. Raises Problem if it is not failed, not theirs, or without its source, and
        if they have too many conversions, or retry too often."""
        await charge(request, "retry", self.converter.settings.upload_rate, what="retries")
        return await run_in_threadpool(self._retry, request)

    def _retry(self, request: Request) -> Conversion:
        conversion, owner = self.find_own(request), session_id(request)
        if conversion.status != "failed":
            raise Problem(409, "NOT_READY", "Only a failed conversion can be retried.")
        try:
            with self.converter.database.transaction() as connection:
                require_room(self.converter, connection, owner)
                self.converter.app.retry(
                    conversion.id, owner=owner, actor="owner", reason="retried on the page", connection=connection
                )
        except MulliganError as error:
            raise problem_of(error) from error
        return complete(self.converter, [conversion.document])[0]

    def find_own(self, request: Request) -> Conversion:
        job = request.path_params["job"]
        conversion = find_conversion(self.converter, job) if is_id(job) else None
        if conversion is None:
            raise Problem(404, "UNKNOWN", "There is no such conversion.")
        if conversion.document.owner != session_id(request):
            raise _problem("FORBIDDEN")
        return conversion

    def metrics(self, request: Request) -> Response:
        require_reader(self.converter.app, request)
        return Response(write_metrics(self.converter.app), media_type="text/plain; version=0.0.4")


def answer_upload(accepted: Accepted, conversion: Conversion) -> Response:
    """Raises Problem for what was refused. A conversion that has failed by now was accepted all the same."""
    body = describe(conversion) | {"is_duplicate": accepted.is_twin}
    if accepted.job.was_rejected and conversion.error_code is not None:
        entry = CODES[conversion.error_code]
        raise Problem(entry.status, entry.code, conversion.error_message or entry.last_message, job=body)
    return JSONResponse(body, 200 if accepted.is_twin else 201, {"Location": f"/api/jobs/{conversion.id}"})


def describe(conversion: Conversion) -> dict[str, Any]:
    """A conversion for programs. Paths of files never leave the server."""
    document, job = conversion.document, conversion.job
    times = ("queued_at", "started_at", "last_attempt_at", "updated_at")
    finished = None if job is None else job.finished_at
    moments = {
        "created_at": document.uploaded_at,
        **{name: getattr(job, name, None) for name in times},
        "retry_after": conversion.retry_at,
        "completed_at": finished if conversion.status in ("complete", "expired") else None,
        "failed_at": finished if conversion.status == "failed" else None,
        "expired_at": document.removed_at or getattr(job, "result_expired_at", None),
    }
    return {
        "id": conversion.id,
        "status": conversion.status,
        "file_name": document.name,
        "mapping": document.mapping,
        "bytes": document.bytes,
        "sha256": document.sha256 or None,
        "attempt_count": getattr(job, "attempt", 0),
        "max_attempts": getattr(job, "max_attempts", 0),
        "manual_retry_count": getattr(job, "manual_retries", 0),
        "error_code": conversion.error_code,
        "error_message": conversion.error_message,
        "note": conversion.note,
        "is_held": conversion.is_held,
        "can_retry": conversion.can_retry,
        "can_download": conversion.can_download,
        **{name: None if moment is None else moment.isoformat() for name, moment in moments.items()},
    }


def problem_of(error: MulliganError) -> Problem:
    """What the engine refused, in the words of this application."""
    match error:
        case TooManyJobs():
            return Problem(
                429, "TOO_MANY_JOBS", f"At most {error.limit} conversions at once. Wait until some are done."
            )
        case IntakePaused():
            until = None if error.until is None else error.until.isoformat()
            return Problem(503, "UPLOADS_PAUSED", "Uploads are paused. Please come back later.", until=until)
        case NotAllowed():
            return Problem(410, "EXPIRED", message_of("EXPIRED", is_final=True))
        case Conflict():
            return Problem(409, "NOT_READY", "The same file was uploaded again. Use that conversion.", twin=error.twin)
        case IllegalMove():
            return Problem(409, "NOT_READY", "Only a failed conversion can be retried.")
        case _:
            return Problem(503, "UNKNOWN", message_of("UNKNOWN", is_final=True))


def _problem(code: str) -> Problem:
    entry = CODES[code]
    return Problem(entry.status, code, entry.last_message)


def _source(owner: str, name: str, fields: dict[str, str], size: int, sha256: str = "") -> Source:
    mapping = clean_line(fields.get("mapping"), LONGEST_MAPPING) or "text"
    return Source(owner=owner, name=clean_name(name), mapping=mapping, size=size, sha256=sha256)


def is_id(text: str | None) -> bool:
    try:
        return text is not None and str(UUID(text)) == text
    except ValueError:
        return False


def _read(file: BinaryIO) -> Iterator[bytes]:
    with file:
        yield from iter(lambda: file.read(CHUNK), b"")
