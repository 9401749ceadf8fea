"""Jobs that differ only in id and arguments: what they share is computed once and kept."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import structs

from mulligan.lifecycle import State
from mulligan.records.job import Job, NewJob
from mulligan.store.enqueue import NO_OPTIONS, is_plain, new_values
from mulligan.store.rows import Record, from_time, to_arguments, to_job

# Cache bound: there may be many owners.
MOST_CACHED = 1_000


def are_alike(jobs: Sequence[NewJob]) -> bool:
    """Whether these plain jobs differ only in id and arguments."""
    if not jobs or not is_plain(first := jobs[0]):
        return False
    return all(structs.replace(job, id=first.id, arguments=first.arguments) == first for job in jobs[1:])


class Alike:
    """What plain jobs share that differ only in id and arguments."""

    def __init__(self, job: NewJob, *, is_limited: bool) -> None:
        self.values = new_values(job, is_limited=is_limited)
        self._first = to_job({**_NEW, **self.columns(0, None)})

    def columns(self, now: int, waits_for: str | None) -> Record:
        """Return the columns of such a job that is stored at this time."""
        submitted_at, deadline = self.values["submitted_at"], self.values["deadline"]
        is_queued = waits_for is None
        return {
            **NO_OPTIONS,
            **self.values,
            "state": (State.QUEUED if is_queued else State.WAITING).value,
            "waiting_for": waits_for,
            "rank": now if submitted_at is None else submitted_at,
            "submitted_at": now if submitted_at is None else submitted_at,
            "enqueued_at": now,
            "queued_at": now if is_queued else None,
            "due_at": now + self.values["delay"],
            "deadline": None if deadline is None else now + deadline,
            "updated_at": now,
        }

    def records(self, jobs: Sequence[NewJob], now: int, waits_for: str | None) -> list[Job[Any]]:
        """Return the records of such jobs that were stored at this time."""
        first = self._stored(now, waits_for)
        return [structs.replace(first, id=job.id, arguments=to_arguments(job.arguments)) for job in jobs]

    def _stored(self, now: int, waits_for: str | None) -> Job[Any]:
        moment, delay, deadline = from_time(now), self.values["delay"], self.values["deadline"]
        submitted_at = self.values["submitted_at"]
        return structs.replace(
            self._first,
            state=State.QUEUED if waits_for is None else State.WAITING,
            waiting_for=waits_for,
            submitted_at=moment if submitted_at is None else from_time(submitted_at),
            enqueued_at=moment,
            queued_at=moment if waits_for is None else None,
            due_at=from_time(now + delay) if delay else moment,
            deadline=None if deadline is None else from_time(now + deadline),
            updated_at=moment,
        )


# What the schema gives to a new row.
_NEW: Record = {
    **dict.fromkeys(("attempt", "failures", "crashes", "losses", "snoozes", "manual_retries", "progress"), 0),
    "code_failures": "{}",
    "trigger": "automatic",
    "progress_text": "",
    "cancel_requested": False,
    **dict.fromkeys(
        (
            *("previous_delay", "started_at", "last_attempt_at", "finished_at", "result", "result_expired_at"),
            *("error_code", "error_class", "error_message", "error_group"),
            *("last_code", "last_class", "last_message", "last_detail"),
            *("dedupe_until", "leased_by", "lease_until", "version", "gate", "own_max_attempts", "own_timeout"),
        )
    ),
}

A = TypeVar("A", bound=Alike)


class AlikeCache(Generic[A]):
    """`make` is called for the first of many jobs."""

    def __init__(self, make: Callable[..., A]) -> None:
        self._make = make
        self._found: dict[tuple[NewJob, bool], A] = {}

    def find(self, job: NewJob, *, is_limited: bool) -> A:
        key = structs.replace(job, id="", arguments=""), is_limited
        alike = self._found.get(key)
        if alike is None:
            if len(self._found) >= MOST_CACHED:
                self._found = {}
            alike = self._found[key] = self._make(job, is_limited=is_limited)
        return alike
