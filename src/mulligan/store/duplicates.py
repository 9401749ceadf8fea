"""What an enqueue answers: the new jobs, and those that were there already. The same for every store."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mulligan.errors import Conflict
from mulligan.records.job import Job, NewJob
from mulligan.store.rows import Record, to_arguments, to_job, to_json
from mulligan.store.script import Statement, Steps
from mulligan.store.statements import Statements


def refuse_other_calls(sql: Statements, jobs: Sequence[NewJob]) -> Steps[None]:
    """Raise Conflict before any of several is written: a caller's own transaction may be committed all the same.

    `answers` looks again, at what was stored meanwhile.
    """
    given: dict[str, NewJob] = {}
    for job in jobs:
        if job.is_id_given and (first := given.setdefault(job.id, job)) is not job:
            _refuse_other_call(job, asdict(first))
    if given and len(jobs) > 1:
        for record in (yield Statement(sql["load"], {"ids": to_json(sorted(given))})):
            _refuse_other_call(given[record["id"]], record)


def answers(jobs: Sequence[NewJob], records: Sequence[Record], stored: Mapping[str, Any]) -> list[Job[Any]]:
    """The record of each job. `stored` has the ids that are new; raises Conflict for another call under a given id."""
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
    if differs := list(_differences(job, record)):
        raise Conflict(job.id, record["id"], differs=differs)


def _differences(job: NewJob, record: Record) -> Iterator[str]:
    """In words, without the values: they may be another owner's, or secret."""
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
        yield _arguments(ours, theirs)


def _arguments(ours: Any, theirs: Any) -> str:
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return "its arguments"
    missing = object()
    names = sorted(
        name for name in {*ours, *theirs} if not _is_same(ours.get(name, missing), theirs.get(name, missing))
    )
    return f"its arguments ({', '.join(names)})"


def _is_same(one: Any, other: Any) -> bool:
    """As JSON: to Python, True is 1 too. Numbers of one value are the same, as 1 and 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)
