"""What follows a failure for good or a batch that is settled: the job of `on_failed` or `on_settled`, part of the same
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
    """A row that failed just now. `on_failed` is as it was stored."""

    id: str
    owner: str
    attempt: int
    now: int
    on_failed: str | None


def follow_ups(rows: Iterable[FailedRow]) -> list[NewJob]:
    """The jobs to be stored along with these failures."""
    return [job for row in rows if row.on_failed is not None for job in _follow_up(row, row.on_failed)]


def _follow_up(row: FailedRow, text: str) -> Iterator[NewJob]:
    try:
        wanted = msgspec.json.decode(text, type=FollowUp)
    except (msgspec.DecodeError, RecursionError):
        # Somebody changed it by hand. The failure itself must be stored all the same.
        logger.error("the on_failed of job %s cannot be read: nothing follows its failure", row.id)
        return
    yield wanted.after(row.id, owner=row.owner, job_id=_id(row))


def callback(batch: BatchRecord, text: str | None) -> list[NewJob]:
    """The job to be stored along with the settling of a batch: one in each generation."""
    if text is None or batch.settled_at is None:
        return []
    try:
        wanted = msgspec.json.decode(text, type=FollowUp)
    except (msgspec.DecodeError, RecursionError):
        logger.error("the on_settled of batch %s cannot be read: nothing follows its settling", batch.id)
        return []
    job_id = id_from(f"{batch.id}/{batch.generation}", microseconds(batch.settled_at) // 1000)
    return [wanted.after(batch.id, owner=batch.owner, job_id=job_id)]


def _id(row: FailedRow) -> str:
    """The same for the same failure, and for no other one."""
    return id_from(f"{row.id}/{row.attempt}/{row.now}", row.now // 1000)
