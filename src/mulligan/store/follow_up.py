"""The job that follows a final failure (`on_failed`) or a settled batch (`on_settled`), stored in the same
transaction."""

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from mulligan.records.batch import BatchRecord
from mulligan.records.job import FollowUp, NewJob
from mulligan.values.ids import id_from
from mulligan.values.moment import microseconds

logger = logging.getLogger("mulligan.store")


class FailedRow(NamedTuple):
    """A job that failed just now. `on_failed` is the stored JSON."""

    id: str
    owner: str
    attempt: int
    now: int
    on_failed: str | None


def to_follow_ups(rows: Iterable[FailedRow]) -> list[NewJob]:
    """Return the jobs to store along with these failures."""
    return [job for row in rows if row.on_failed is not None for job in _to_follow_up(row, row.on_failed)]


def _to_follow_up(row: FailedRow, text: str) -> Iterator[NewJob]:
    try:
        wanted = msgspec.json.decode(text, type=FollowUp)
    except (msgspec.DecodeError, RecursionError):
        # It was changed manually. The failure itself must still be stored.
        logger.error("the on_failed of job %s cannot be read: no job follows its failure", row.id)
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


def _follow_up_id(row: FailedRow) -> str:
    """The same failure gets the same id, any other failure another."""
    return id_from(f"{row.id}/{row.attempt}/{row.now}", row.now // 1000)
