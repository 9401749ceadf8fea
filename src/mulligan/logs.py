"""The log, as text for people or JSON for collectors: one event a line, with the job it belongs to.

No text of others can forge a line or steer a terminal, and secrets are masked. A program with logging of its own
uses these pieces alone: `handler.addFilter(JobContext())`, `handler.setFormatter(JsonFormatter())`.
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

# What every record has; the rest was given by whoever logged it.
STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}

FIELDS = {
    "at": "when, in UTC",
    "level": "`DEBUG`, `INFO`, `WARNING` or `ERROR`",
    "logger": "who says so: `mulligan.worker`, …, or your own",
    "message": "one sentence",
    "exception": "the traceback, without the values of variables",
    "job_id": "the job this was said in or about",
    "kind": "its task's name",
    "owner": "whom it belongs to",
    "attempt": "which attempt, 1 for the first",
    "worker": "the worker that holds it",
    "event": "what happened, by the name it has in the event log",
    "status": "the state the job is in after that",
    "duration_ms": "how long the attempt ran",
    "delay_ms": "how long the job waits before its next attempt",
    "error_code": "the code of the failure",
    "error_message": "the line for people",
    "error": "what was raised, in one line: `ValueError: no such page`",
    "because": "why no retry follows, or why a service was opened",
    "service": "the service it is about",
    "succeeded": "how many attempts succeeded since the worker's last line about what it did",
    "retried": "how many failed and are retried",
    "failed": "how many failed for good",
    "snoozed": "how many were put off",
    "parked": "how many wait for their service, which their failed call is charged to",
    "released": "how many were given back, with nothing counted",
    "cancelled": "how many were cancelled",
    "refused": "how many came too late",
    "running": "how many attempts run in the worker now",
    "seconds": "the time these numbers are of",
    "actor": "who did it by hand",
    "reason": "and why",
}
"""Every field a line may have, in the order of the reference page. Your own `extra=` come beside them."""

_CONTEXT = ("job_id", "kind", "attempt")


class JobContext(logging.Filter):
    """Gives every line that is logged inside a task the fields of its attempt; belongs on a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, value in attempt().fields.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        return True


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC)
        said = safe(sanitize(_message(record), MESSAGE_LIMIT)) + _context(record)
        line = f"{moment:%Y-%m-%d %H:%M:%S}Z {record.levelname:<7} {safe(record.name)}: {said}"
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
    """What whoever logged it gave beside the message, fit to be written."""
    given = {name: value for name, value in vars(record).items() if name not in STANDARD}
    return {name: MASK if is_secret_name(name) else _plain(value) for name, value in given.items()}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    # NaN and infinity are no JSON.
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
        # A mistake in somebody's logging call costs neither the line nor its place in the log.
        return f"{_text(record.msg)} {_text(record.args)}"


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return sanitize(formatter.formatException(record.exc_info), DETAIL_LIMIT) if record.exc_info else ""


def _context(record: logging.LogRecord) -> str:
    """Our own lines about jobs name them in the sentence; those of a task do not."""
    if hasattr(record, "event") or not hasattr(record, "job_id"):
        return ""
    return " [" + " ".join(f"{name}={safe(getattr(record, name, ''))}" for name in _CONTEXT) + "]"


def configure(level: str, form: str) -> None:
    """Log to stderr as the settings say, unless the program has set up logging itself."""
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(JobContext())
    root.addHandler(handler)
    root.setLevel(level)
