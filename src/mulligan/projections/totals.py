"""What a page of the log adds to the totals of metrics."""

from collections.abc import Callable, Iterable, Iterator

from mulligan.failure.error_codes import ErrorClass
from mulligan.lifecycle import SERVICE_CLOSED, SERVICE_FORCED, SERVICE_HALF_OPENED, SERVICE_OPENED
from mulligan.records.log_entry import Entry, ServiceCallFacts
from mulligan.records.metric import (
    CANCELLED,
    COMPLETED,
    CREATED,
    DURATION,
    FAILED,
    LATENCY,
    MANUAL_RETRIES,
    NON_RETRYABLE,
    RECLAIMED,
    RETRIED,
    RETRY_OUTCOMES,
    SCHEDULED,
    WAIT,
    BreakerChange,
    TotalKey,
)
from mulligan.records.statistics import LAST_ATTEMPT, Tally, add_to, new_tally

WORKER_LOST = "WORKER_LOST"
# What is added to a series: one, with a time if it is a histogram.
Addition = tuple[TotalKey, float | None]


def fold_totals(entries: Iterable[Entry]) -> dict[TotalKey, Tally]:
    """The tallies by key, in the order in which the keys come in the log."""
    found: dict[TotalKey, Tally] = {}
    for entry in entries:
        added = _ADDED.get(entry.type)
        if added is None:
            continue
        for key, seconds in added(entry):
            tally = found.get(key)
            if tally is None:
                tally = found[key] = new_tally()
            add_to(tally, seconds, 0)
    return found


def fold_breakers(entries: Iterable[Entry]) -> list[BreakerChange]:
    """What the page says about the breakers of services."""
    return [
        BreakerChange(entry.facts.service, entry.at, _is_open(entry))
        for entry in entries
        if entry.type in BREAKER_EVENTS and entry.facts.service
    ]


BREAKER_EVENTS = (SERVICE_OPENED, SERVICE_HALF_OPENED, SERVICE_CLOSED, SERVICE_FORCED)


def _is_open(entry: Entry) -> bool:
    return entry.type == SERVICE_OPENED or (entry.type == SERVICE_FORCED and entry.facts.to == "open")


def _enqueued(entry: Entry) -> Iterator[Addition]:
    yield TotalKey(CREATED.name, (entry.kind,)), None


def _started(entry: Entry) -> Iterator[Addition]:
    if entry.ready_at is not None:
        yield TotalKey(WAIT.name, (entry.kind,)), max(entry.at - entry.ready_at, 0) / 1e6


def _succeeded(entry: Entry) -> Iterator[Addition]:
    yield TotalKey(COMPLETED.name, (entry.kind,)), None
    yield from _attempt(entry, "succeeded")


def _retried(entry: Entry) -> Iterator[Addition]:
    yield TotalKey(RETRIED.name, ("automatic",)), None
    yield TotalKey(SCHEDULED.name, (entry.code or "",)), None
    yield from _attempt(entry, "retried")


def _failed(entry: Entry) -> Iterator[Addition]:
    code = entry.code or ""
    yield TotalKey(FAILED.name, (code, entry.kind)), None
    if entry.facts.error_class == ErrorClass.FINAL:
        yield TotalKey(NON_RETRYABLE.name, (code,)), None
    yield from _attempt(entry, "failed")


def _cancelled(entry: Entry) -> Iterator[Addition]:
    yield TotalKey(CANCELLED.name, (entry.kind,)), None
    yield from _calls(entry)


def _retry_requested(entry: Entry) -> Iterator[Addition]:  # noqa: ARG001
    yield TotalKey(RETRIED.name, ("manual",)), None
    yield TotalKey(MANUAL_RETRIES.name), None


def _returned(entry: Entry) -> Iterator[Addition]:
    """The attempt has ended, and nothing is decided about the job."""
    yield from _reclaimed(entry)
    yield from _calls(entry)


def _attempt(entry: Entry, outcome: str) -> Iterator[Addition]:
    """A job may also end without an attempt: then the event has no duration."""
    if entry.facts.seconds is not None:
        yield TotalKey(DURATION.name, (entry.kind,)), max(entry.facts.seconds, 0.0)
        if entry.attempt > 1:
            yield TotalKey(RETRY_OUTCOMES.name, (str(min(entry.attempt, LAST_ATTEMPT)), outcome)), None
    yield from _reclaimed(entry)
    yield from _calls(entry)


def _reclaimed(entry: Entry) -> Iterator[Addition]:
    """Another than the attempt's own worker has settled it."""
    facts = entry.facts
    if facts.worker and facts.by and not facts.by.startswith(f"{facts.worker}/"):
        cause = "worker_lost" if entry.code == WORKER_LOST else "stuck"
        yield TotalKey(RECLAIMED.name, (cause,)), None


def _calls(entry: Entry) -> Iterator[Addition]:
    calls = entry.facts.calls
    for call in calls if isinstance(calls, list) else ():
        if call.seconds is not None:
            yield _latency(call), max(call.seconds, 0.0)


def _latency(call: ServiceCallFacts) -> TotalKey:
    return TotalKey(LATENCY.name, (call.service, "ok" if call.ok else "failed"))


_ADDED: dict[str, Callable[[Entry], Iterator[Addition]]] = {
    "job.enqueued": _enqueued,
    "job.started": _started,
    "job.succeeded": _succeeded,
    "job.retried": _retried,
    "job.failed": _failed,
    "job.cancelled": _cancelled,
    "job.retry_requested": _retry_requested,
    "job.snoozed": _returned,
    "job.parked": _returned,
    "job.released": _returned,
}
