"""Jobs to decide about: everything as it is right after the first claim, unless said otherwise."""

from datetime import UTC, datetime
from typing import Any

from mulligan.lifecycle import State
from mulligan.records.job import Job

NOW = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)

FIRST_CLAIM: dict[str, Any] = {
    "id": "0190a2b3-0000-7000-8000-000000000001",
    "kind": "convert",
    "owner": "acme",
    "queue": "default",
    "service": "",
    "priority": 0,
    "state": State.RUNNING,
    "arguments": {},
    "attempt": 1,
    "failures": 0,
    "crashes": 0,
    "losses": 0,
    "snoozes": 0,
    "manual_retries": 0,
    "max_attempts": 4,
    "max_crashes": 3,
    "max_snoozes": 100,
    "code_failures": {},
    "previous_delay": None,
    "trigger": "automatic",
    "submitted_at": NOW,
    "enqueued_at": NOW,
    "queued_at": NOW,
    "due_at": NOW,
    "deadline": None,
    "started_at": NOW,
    "last_attempt_at": NOW,
    "finished_at": None,
    "updated_at": NOW,
    "progress": 0.0,
    "progress_text": "",
    "result": None,
    "error_code": None,
    "error_class": None,
    "error_message": None,
    "group": None,
    "batch": None,
    "dedupe_key": None,
    "dedupe_scope": "active",
    "dedupe_until": None,
    "tags": (),
    "cost": 0,
    "leased_by": "worker",
    "lease_until": NOW,
    "cancel_requested": False,
    "waiting_for": None,
}


def a_job(**changes: Any) -> Job[Any]:
    return Job(**{**FIRST_CLAIM, **changes})
