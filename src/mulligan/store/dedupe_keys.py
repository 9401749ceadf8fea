"""Dedupe keys that a finished job gives up, because a person says so."""

from typing import Any

from mulligan.errors import KeyInUse
from mulligan.lifecycle import FINAL, KEY_RELEASED, State
from mulligan.records.job import Job
from mulligan.store.events import event_values, is_done
from mulligan.store.messages import JobRequest
from mulligan.store.reading import row_of
from mulligan.store.rows import Record, to_job
from mulligan.store.session import Session


class DedupeKeyOperations:
    def release(self, session: Session, request: JobRequest) -> Job[Any]:
        """Take the key from the job. One without a key does not change. Raises KeyInUse for a job that is not over."""
        row = row_of(session, "job_locked", request.job, request.owner)
        if is_done(session, request.id):
            return to_job(row)
        if row["state"] not in FINAL:
            raise KeyInUse(row["id"], State(row["state"]))
        if row["dedupe_key"] is None:
            return to_job(row)
        session.rows("key_release", id=row["id"], at=session.moment())
        session.rows("event", _event(request, row))
        return to_job(row_of(session, "job", row["id"]))


def _event(request: JobRequest, row: Record) -> dict[str, Any]:
    data = {"key": row["dedupe_key"]} | ({"reason": request.reason} if request.reason else {})
    about = (row["id"], row["kind"], row["owner"], row["attempt"])
    return event_values(KEY_RELEASED, *about, request=request.id, actor=request.actor, data=data)
