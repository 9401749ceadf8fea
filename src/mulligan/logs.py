"""Log formats: text for people or JSON for collectors, one event a line, with the job it belongs to.

Logged values cannot forge a line or control a terminal, and secrets are masked. A program that configures logging
itself uses the parts: `handler.addFilter(JobContext())`, `handler.setFormatter(JsonFormatter())`.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from mulligan.attempt import attempt
from mulligan.failure.evidence import DETAIL_LIMIT, MESSAGE_LIMIT
from mulligan.failure.redact import MASK, is_secret_name, sanitize
from mulligan.values.text import safe, safe_lines

# The attributes of every record; the others were given with `extra=`.
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

FIELDS = {
    "at": "when, in UTC",
    "level": "`DEBUG`, `INFO`, `WARNING` or `ERROR`",
    "logger": "the logger: `mulligan.worker`, …, or your own",
    "message": "one sentence",
    "exception": "the traceback, without the values of variables",
    "job_id": "the job that the line is about, or that logged it",
    "kind": "its task's name",
    "owner": "the job's owner",
    "attempt": "which attempt, 1 for the first",
    "worker": "the worker that holds it",
    "trace_id": "the OpenTelemetry trace of the attempt, if the worker traces",
    "event": "the event's type in the event log",
    "status": "the job's state after the event",
    "duration_ms": "how long the attempt ran",
    "delay_ms": "how long the job waits before its next attempt",
    "error_code": "the code of the failure",
    "error_message": "the message for people",
    "error": "the exception in one line: `ValueError: no such page`",
    "because": "why there is no retry, or why a service was opened",
    "service": "the service that the line is about, or the job's service",
    "service_state": (
        "the state of its breaker: `closed`, `open` or `half_open`; for an attempt, the state at its claim, or after "
        "the settle of a failure of the service"
    ),
    "gateway_status": "the HTTP status of the job's service: of the task's last reported call, or of the failure",
    "succeeded": "how many attempts succeeded since the worker's last summary",
    "retried": "how many failed and are retried",
    "failed": "how many failed for good",
    "snoozed": "how many were snoozed",
    "parked": "how many wait for their service, which is charged for their failed call",
    "released": "how many were released; no attempt is used up",
    "cancelled": "how many were cancelled",
    "refused": "how many outcomes were refused because another worker held the lease",
    "running": "how many attempts run in the worker now",
    "seconds": "the time span of these numbers",
    "actor": "who made a manual change",
    "reason": "the reason given for it",
}
"""Every field that a line may have, in the order of the reference page. Your own `extra=` fields are added."""

_CONTEXT = ("job_id", "kind", "attempt")


class JobContext(logging.Filter):
    """Adds the fields of the attempt to every line that is logged inside a task. Add it to a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in attempt().fields.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        message = safe(sanitize(_message(record), MESSAGE_LIMIT)) + _context(record)
        line = f"{moment:%Y-%m-%d %H:%M:%S}Z {record.levelname:<7} {safe(record.name)}: {message}"
        return line + "".join(f"\n    | {part}" for part in safe_lines(_trace(self, record)).splitlines())


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        document: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname,
            "logger": record.name,
            "message": sanitize(_message(record), MESSAGE_LIMIT),
        }
        if trace := _trace(self, record):
            document["exception"] = trace
        return json.dumps(document | {name: value for name, value in extras(record).items() if name not in document})


def extras(record: logging.LogRecord) -> dict[str, Any]:
    """The fields given with `extra=`, as plain values with secrets masked."""
    given = {name: value for name, value in vars(record).items() if name not in STANDARD}
    return {name: MASK if is_secret_name(name) else _plain(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    # JSON has no NaN or infinity.
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    return sanitize(_text(value), MESSAGE_LIMIT)


def _text(value: Any) -> str:
    try:
        return str(value)
    except Exception:
        return f"(a {type(value).__name__} that cannot be shown)"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        # A mistake in a logging call must not lose the line.
        return f"{_text(record.msg)} {_text(record.args)}"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return sanitize(formatter.formatException(record.exc_info), DETAIL_LIMIT) if record.exc_info else ""


def _context(record: logging.LogRecord) -> str:
    """The job, for lines that a task logs. Our own lines name it in the sentence."""
    if hasattr(record, "event") or not hasattr(record, "job_id"):
        return ""
    return " [" + " ".join(f"{name}={safe(getattr(record, name, ''))}" for name in _CONTEXT) + "]"


def configure(level: str, form: str) -> None:
    """Log to stderr, unless the program has configured logging itself."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(JobContext())
    root.addHandler(handler)
    root.setLevel(level)
