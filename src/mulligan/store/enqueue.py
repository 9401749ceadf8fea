"""What both backends share in an enqueue: the operations around the insert, the values of a new job, and the answer for
jobs that existed already."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from mulligan.errors import Conflict
from mulligan.records.job import Job, NewJob
from mulligan.service.config import ServiceBook
from mulligan.store.batches import BatchOperations
from mulligan.store.expire import ExpireOperations
from mulligan.store.fairness import SubmitOperations, rank_step
from mulligan.store.follow_up import Enqueue
from mulligan.store.limits import LimitOperations
from mulligan.store.rows import Record, to_arguments, to_duration, to_job, to_json, to_time
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Statement, Statements, Steps

# What a statement binds also where it does not apply.
NO_OPTIONS = {"own_max_attempts": None, "own_timeout": None, "is_counted": False}


class SharedOperations:
    """The operations that both backends share, constructed once. Several of them enqueue follow-up jobs."""

    def __init__(self, sql: Statements, services: Callable[[], ServiceBook], enqueue: Enqueue) -> None:
        self.services = ServiceOperations(sql, services)
        self.limits = LimitOperations(self.services)
        self.submissions = SubmitOperations(sql)
        self.batches = BatchOperations(sql, enqueue)
        self.expire = ExpireOperations(self.batches, enqueue)
        self.enqueue = enqueue


class EnqueueOperations:
    """The operations that an enqueue calls around its insert."""

    def use(self, operations: SharedOperations) -> None:
        self._submissions = operations.submissions
        self._limits = operations.limits
        self._names = operations.services.names
        self._batches = operations.batches

    def _new_rows(self, jobs: Sequence[NewJob]) -> list[dict[str, Any]]:
        return [new_values(job, is_limited=self._limits.applies_to(job)) for job in jobs]


def is_plain(job: NewJob) -> bool:
    """Whether one statement stores it. Other jobs take several, in a transaction."""
    return is_independent(job) and not job.is_id_given


def is_independent(job: NewJob) -> bool:
    """Whether one statement stores it, unless its id exists already."""
    return (
        job.dedupe_key is None
        and job.batch is None
        and job.weight is None
        and job.submit_rate is None
        and job.max_live is None
        and not job.is_counted
        and not job.is_service_computed
    )


def refuse_other_calls(sql: Statements, jobs: Sequence[NewJob]) -> Steps[None]:
    """Raise Conflict before any of several jobs is written: the caller may commit its transaction in spite of the
    error.

    `to_answers` checks again, against what was stored meanwhile.
    """
    given: dict[str, NewJob] = {}
    for job in jobs:
        if job.is_id_given and (first := given.setdefault(job.id, job)) is not job:
            _refuse_other_call(job, structs.asdict(first))
    if given and len(jobs) > 1:
        for record in (yield Statement(sql["load"], {"ids": to_json(sorted(given))})):
            _refuse_other_call(given[record["id"]], record)


def to_answers(jobs: Sequence[NewJob], records: Sequence[Record], stored: Mapping[str, Any]) -> list[Job[Any]]:
    """Return the record of each job. `stored` has the new ids. Raises Conflict if a given id belongs to a different
    call."""
    answered: list[Job[Any]] = []
    seen: set[str] = set()
    for job, record in zip(jobs, records, strict=True):
        is_repeated = job.is_id_given and (job.id not in stored or job.id in seen)
        if is_repeated and record["id"] == job.id:
            _refuse_other_call(job, record)
        answered.append(to_job(record, is_duplicate=is_repeated or record["id"] != job.id))
        seen.add(job.id)
    return answered


def _refuse_other_call(job: NewJob, record: Record) -> None:
    if differences := list(_find_differences(job, record)):
        raise Conflict(job.id, record["id"], differs=differences)


def _find_differences(job: NewJob, record: Record) -> Iterator[str]:
    """Name the differences without values: these may belong to another owner, or be secret."""
    if job.owner != record["owner"]:
        yield "its owner"
        return
    if job.kind != record["kind"]:
        yield f"its kind ({record['kind']!r}, not {job.kind!r})"
        return
    if job.batch != record["batch"]:
        yield "its batch"
    ours, theirs = to_arguments(job.arguments), to_arguments(record["arguments"])
    if not _is_same(ours, theirs):
        yield _describe_arguments(ours, theirs)


def _describe_arguments(ours: Any, theirs: Any) -> str:
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return "its arguments"
    missing = object()
    names = sorted(
        name for name in {*ours, *theirs} if not _is_same(ours.get(name, missing), theirs.get(name, missing))
    )
    return f"its arguments ({', '.join(names)})"


def _is_same(one: Any, other: Any) -> bool:
    """Compare as JSON: in Python True equals 1. Equal numbers are the same, such as 1 and 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def new_values(job: NewJob, *, is_limited: bool = False) -> dict[str, Any]:
    """Return the row. Its first values are present only where they apply, which is rare."""
    return {
        **({} if job.own_max_attempts is None else {"own_max_attempts": job.own_max_attempts}),
        **({} if job.own_timeout is None else {"own_timeout": to_duration(job.own_timeout)}),
        **({} if job.weight is None else {"step": rank_step(job.weight)}),
        **({} if job.submit_rate is None else {"rate": job.submit_rate}),
        **({} if job.max_live is None else {"max_live": job.max_live}),
        **({"is_counted": True} if job.is_counted else {}),
        **({"is_computed": True} if job.is_service_computed else {}),
        "rank": None,
        "id": job.id,
        "kind": job.kind,
        "owner": job.owner,
        "queue": job.queue,
        "service": job.service,
        "priority": job.priority,
        "arguments": job.arguments,
        "submitted_at": None if job.submitted_at is None else to_time(job.submitted_at),
        "delay": to_duration(job.delay),
        "deadline": None if job.deadline is None else to_duration(job.deadline),
        "max_attempts": job.max_attempts,
        "max_crashes": job.max_crashes,
        "max_snoozes": job.max_snoozes,
        "timeout": None if job.timeout is None else to_duration(job.timeout),
        "dedupe_key": job.dedupe_key,
        "dedupe_scope": job.dedupe_scope,
        "dedupe_for": None if job.dedupe_for is None else to_duration(job.dedupe_for),
        "tags": to_json(job.tags) if job.tags else "[]",
        "cost": job.cost,
        "on_failed": None if job.on_failed is None else to_json(job.on_failed),
        "on_cancelled": None if job.on_cancelled is None else to_json(job.on_cancelled),
        "batch": job.batch,
        "is_limited": is_limited,
        "data": to_json(_enqueue_data(job)) if job.delay or job.batch else "{}",
    }


def _enqueue_data(job: NewJob) -> dict[str, Any]:
    batch = {} if job.batch is None else {"batch": job.batch}
    return batch | {"delay": job.delay.total_seconds()} if job.delay else batch
