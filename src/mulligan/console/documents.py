"""Records as JSON documents: field names as in Python, times in ISO 8601 UTC, durations in seconds."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from mulligan.records.event import Event
from mulligan.records.job import Job

Document = dict[str, Any]


def job_document(job: Job[Any]) -> Document:
    return document_of(job) | {
        "retry_count": job.retry_count,
        "max_retries": job.max_retries,
        "at_most_once": job.at_most_once,
    }


def listed_document(job: Job[Any], blocked: Mapping[str, str]) -> Document:
    """With what keeps it from running."""
    return job_document(job) | {"blocked_by": blocked.get(job.id)}


def event_document(event: Event) -> Document:
    return document_of(event)


def document_of(record: Any) -> Document:
    """Any of our records, with the records in it. Private fields are left out."""
    names = (field.name for field in fields(record))
    return {name: _plain(getattr(record, name)) for name in names if not name.startswith("_")}


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat()
        case timedelta():
            return value.total_seconds()
        case StrEnum():
            return str(value)
        case Mapping():
            return {str(name): _plain(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case None | bool() | int() | float() | str():
            return value
        # A value with its own notation, such as a rate, is written in it.
        case _ if is_dataclass(value) and type(value).__str__ is object.__str__:
            return document_of(value)
        case _:
            return str(value)
