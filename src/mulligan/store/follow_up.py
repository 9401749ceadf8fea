"""The job that follows a final failure (`on_failed`), a cancellation (`on_cancelled`) or a settled batch
(`on_settled`), stored in the same transaction."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from mulligan.lifecycle import State
from mulligan.records.batch import BatchRecord
from mulligan.records.job import FollowUp, Job, NewJob
from mulligan.store.session import Session
from mulligan.values.ids import id_from
from mulligan.values.moment import microseconds

logger = logging.getLogger("mulligan.store")


Enqueue = Callable[[Session, Sequence[NewJob]], list[Job[Any]]]
"""Stores jobs on the connection of a session."""


class EndedRow(NamedTuple):
    """A job that failed or was cancelled just now. `follow_up` is the stored JSON, `request` the manual request."""

    id: str
    owner: str
    attempt: int
    now: int
    state: str
    follow_up: str | None
    request: str = ""


def store_follow_ups(session: Session, enqueue: Enqueue, rows: Iterable[EndedRow]) -> None:
    """Store the jobs that follow these."""
    if jobs := [job for row in rows if row.follow_up is not None for job in _to_follow_up(row, row.follow_up)]:
        enqueue(session, jobs)


def _to_follow_up(row: EndedRow, text: str) -> Iterator[NewJob]:
    try:
        wanted = msgspec.json.decode(text, type=FollowUp)
    except (msgspec.DecodeError, RecursionError):
        # It was changed manually. The end of the job itself must still be stored.
        logger.error("the on_%s of job %s cannot be read: no job follows", row.state, row.id)
        return
    yield wanted.after(row.id, owner=row.owner, job_id=_follow_up_id(row))


def to_callbacks(batch: BatchRecord, text: str | None) -> list[NewJob]:
    """Return the job to store when a batch is settled: one per generation."""
    if text is None or batch.settled_at is None:
        return []
    try:
        wanted = msgspec.json.decode(text, type=FollowUp)
    except (msgspec.DecodeError, RecursionError):
        logger.error("the on_settled of batch %s cannot be read: no job follows it", batch.id)
        return []
    job_id = id_from(f"{batch.id}/{batch.generation}", microseconds(batch.settled_at) // 1000)
    return [wanted.after(batch.id, owner=batch.owner, job_id=job_id)]


def _follow_up_id(row: EndedRow) -> str:
    """The same end gets the same id, any other end another. A job can be cancelled twice without an attempt between."""
    end = "" if row.state == State.FAILED else f"/{row.state}/{row.request}"
    return id_from(f"{row.id}/{row.attempt}/{row.now}{end}", row.now // 1000)
