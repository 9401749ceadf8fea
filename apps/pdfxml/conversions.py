"""A conversion as its owner sees it: the document and its job in the words of this application."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from apps.pdfxml.app import Converter
from apps.pdfxml.codes import message_of, public_code
from apps.pdfxml.documents import Document
from apps.pdfxml.settings import GATEWAY
from apps.pdfxml.statuses import EVENTS, STATUSES
from mulligan import Job, JobFilter, State

HELD = "Gateway busy, paused. Will retry automatically."
WAITS_FOR_RETRY = ("retry", "rate limit", "snooze")


@dataclass(frozen=True)
class Conversion:
    """`job` is None if the engine's retention deleted it before the document."""

    document: Document
    job: Job[Any] | None
    is_held: bool = False
    has_source: bool = False

    @property
    def id(self) -> str:
        return self.document.job

    @property
    def status(self) -> str:
        if self.job is None or self.job.result_expired_at is not None:
            return "expired"
        return STATUSES[self.job.state]

    @property
    def is_live(self) -> bool:
        return self.status in ("queued", "processing")

    @property
    def can_retry(self) -> bool:
        return self.status == "failed" and self.has_source

    @property
    def why_not(self) -> str | None:
        """Why a failed conversion cannot be retried."""
        if self.status != "failed" or self.has_source or self.job is None:
            return None
        return "The file was not kept." if self.job.was_rejected else "The file is gone: upload it again."

    @property
    def can_download(self) -> bool:
        return self.status == "complete"

    @cached_property
    def error_code(self) -> str | None:
        """One of the ten codes; only of a failed conversion."""
        if self.job is None or self.status != "failed":
            return None
        return public_code(self.job.error_code or "UNKNOWN")

    @property
    def error_message(self) -> str | None:
        if self.job is None or self.error_code is None:
            return None
        # The line of a refusal has what the gateway said, or the limit at that time.
        said = self.job.error_message if self.job.error_code in ("GW_4XX", "TOO_LARGE") else None
        return said or message_of(self.error_code, is_final=True)

    @property
    def retry_at(self) -> datetime | None:
        """When the next attempt is due by itself."""
        if self.job is None or self.job.state is not State.WAITING or self.is_held:
            return None
        return self.job.due_at if self.job.waiting_for in WAITS_FOR_RETRY else None

    @property
    def note(self) -> str | None:
        """One line that says what is going on, if there is more to say than the status."""
        if self.error_message is not None:
            return self.error_message
        if self.is_held:
            return HELD
        if self.status == "expired":
            return message_of("EXPIRED", is_final=True)
        if self.retry_at is not None and self.job is not None and self.job.last_code:
            return message_of(self.job.last_code, is_final=False)
        return None

    @property
    def attempts(self) -> int:
        """Attempts since the start or the last manual retry, the running one included."""
        if self.job is None:
            return 0
        return self.job.failures + (self.job.state in (State.RUNNING, State.SUCCEEDED))


def find_conversion(converter: Converter, job_id: str) -> Conversion | None:
    """One conversion of any owner."""
    with converter.database.read() as connection:
        document = converter.documents.find(connection, job_id)
    return None if document is None else complete(converter, [document])[0]


def list_conversions(
    converter: Converter, owner: str, *, limit: int = 50, before: str | None = None
) -> list[Conversion]:
    """One page, newest first. `before` is the id of the last one seen."""
    with converter.database.read() as connection:
        documents = converter.documents.list_newest(connection, owner, limit=limit, before=before)
    return complete(converter, documents)


def complete(converter: Converter, documents: Sequence[Document]) -> list[Conversion]:
    """Add the jobs, and what holds them: three queries for a whole page."""
    if not documents:
        return []
    wanted = JobFilter(ids=[document.job for document in documents])
    jobs = {job.id: job for job in converter.app.jobs(wanted, limit=len(documents)).jobs}
    blocked = converter.app.blocked_by(list(jobs.values()))
    return [_conversion(converter, document, jobs.get(document.job), blocked) for document in documents]


def _conversion(converter: Converter, document: Document, job: Job[Any] | None, blocked: dict[str, str]) -> Conversion:
    is_held = job is not None and (job.waiting_for == "service" or blocked.get(job.id) == f"service/{GATEWAY}")
    is_failed = job is not None and STATUSES[job.state] == "failed"
    return Conversion(document, job, is_held, is_failed and converter.storage.has_source(document.id))


def list_events(converter: Converter, conversion: Conversion) -> list[dict[str, Any]]:
    """What happened to a conversion, oldest first. Names no worker, no person and no path."""
    if conversion.job is None:
        return []
    events = [event for event in converter.app.events(conversion.id) if event.type in EVENTS]
    if conversion.job.was_rejected:
        # It never was in the queue.
        events = [event for event in events if event.type != "job.enqueued"]
    return [_event(event) for event in events]


def _event(event: Any) -> dict[str, Any]:
    data = event.data
    calls = [call.get("status") for call in data.get("calls", ()) if call.get("service") == GATEWAY]
    seconds = {"duration_ms": data.get("seconds"), "delay_ms": data.get("delay")}
    meta = {
        "attempt": event.attempt,
        "gateway_http_status": calls[-1] if calls else None,
        "error_code": public_code(event.code) if event.code else None,
        **{name: None if value is None else round(value * 1000) for name, value in seconds.items()},
    }
    return {"event": EVENTS[event.type], "at": event.at, "meta": meta}
