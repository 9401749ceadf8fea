"""What holds in every store after every step.

Rows: what their state promises. Log: it alone determines the state of each job. Both: every unfinished job can be
reached by exactly one of claim, reclaim and expire once no pause, service or draft blocks it.
Batches: their counts are those of their members, and each generation was settled once.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from conformance.fields import check_fields
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import (
    BATCH_EVENTS,
    BATCH_EXPIRED,
    BATCH_PUBLISHED,
    BATCH_REOPENED,
    BATCH_SETTLED,
    EVENT_TYPES,
    JOB_EVENTS,
    LIVE,
    NOTES,
    TABLE,
    Move,
    State,
)
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.batch_outcome import outcome
from mulligan.records.event import Event, EventFilter
from mulligan.records.job import Job, JobFilter
from mulligan.records.pause import PauseRequest
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Claim
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock

PAGE = 500
# Of each field of a filter, so many values are tried.
STREAMS = 3
# A row may hold a time that is too far away to wait for.
NEVER = datetime.max.replace(tzinfo=UTC) - timedelta(days=1)


def check(store: Store, clock: VirtualClock) -> None:
    """Raise AssertionError if the store is not as it should be. The last thing done with a store: time moves on."""
    jobs = all_jobs(store)
    for job in jobs:
        check_row(job)
    events = all_events(store)
    check_log(events, jobs)
    check_streams(store, events)
    check_fields(events)
    check_batches(store, jobs, events)
    ended = end_pauses(store) + end_holds(store) + publish_drafts(store)
    check_reachable(store, clock, all_jobs(store) if ended else jobs)


def end_pauses(store: Store) -> int:
    pauses = store.pauses()
    for number, pause in enumerate(pauses):
        store.resume(PauseRequest(id=f"the end, {number}", what=pause.what, name=pause.name))
    return len(pauses)


def end_holds(store: Store) -> int:
    services = store.services()
    for number, service in enumerate(services):
        store.force(ServiceRequest(id=f"the last word, {number}", name=service.name, to="closed"))
    return len(services)


def publish_drafts(store: Store) -> int:
    drafts = all_batches(store, BatchState.DRAFT)
    for batch in drafts:
        store.publish(batch.id)
    return len(drafts)


def all_batches(store: Store, state: BatchState | None = None) -> list[BatchRecord]:
    batches: list[BatchRecord] = []
    while page := store.batches(state=state, limit=PAGE, cursor=batches[-1].id if batches else None):
        batches += page
    return batches


def check_batches(store: Store, jobs: Sequence[Job[Any]], events: Sequence[Event]) -> None:
    """Whatever was counted was counted in the transaction that did it. Members that were deleted are counted still."""
    members = Counter((job.batch, job.state) for job in jobs if job.batch is not None)
    told = Counter((event.type, event.data["batch"]) for event in events if event.type in BATCH_EVENTS)
    for batch in all_batches(store):
        check_batch(batch, {state: members[batch.id, state] for state in State})
        is_draft, is_open = batch.state is BatchState.DRAFT, batch.state in (BatchState.DRAFT, BatchState.PROCESSING)
        assert told[BATCH_PUBLISHED, batch.id] == (not is_draft)
        assert told[BATCH_REOPENED, batch.id] == batch.generation - 1
        assert told[BATCH_SETTLED, batch.id] == batch.generation - is_open, "once in each generation"
        assert told[BATCH_EXPIRED, batch.id] == (batch.state is BatchState.EXPIRED)


def check_batch(batch: BatchRecord, members: Mapping[State, int]) -> None:
    """Its counts are those of its members, and its state is what they say."""
    counts = {State.SUCCEEDED: batch.succeeded, State.FAILED: batch.failed, State.CANCELLED: batch.cancelled}
    found = sum(members.values())
    assert batch.left == sum(members[state] for state in LIVE), "who is not over is never deleted"
    assert found <= batch.total and all(members[state] <= number for state, number in counts.items())
    assert found < batch.total or all(members[state] == number for state, number in counts.items())
    if batch.state is BatchState.PROCESSING:
        assert batch.left > 0
    if batch.state.is_settled:
        assert batch.left == 0 and batch.state is outcome(batch)
    assert (batch.settled_at is not None) == (batch.state.is_settled or batch.state is BatchState.EXPIRED)
    assert (batch.published_at is None) == (batch.state is BatchState.DRAFT)


def all_jobs(store: Store) -> list[Job[Any]]:
    jobs: list[Job[Any]] = []
    cursor = None
    while True:
        page = store.jobs(JobFilter(), limit=PAGE, cursor=cursor)
        assert page.damaged == ()
        jobs += page.jobs
        assert page.cursor is None or page.cursor != cursor, "the next page is another one"
        cursor = page.cursor
        if cursor is None:
            return jobs


def all_events(store: Store) -> list[Event]:
    return read_stream(store, EventFilter())


def read_stream(store: Store, wanted: EventFilter, *, after: int = 0, limit: int = PAGE) -> list[Event]:
    """The events that a reader of the stream gets, to its end."""
    found: list[Event] = []
    is_end = False
    while not is_end:
        page = store.stream(wanted, after=after, limit=limit)
        assert page.position > after or (page.is_end and not page.events), "it always gets on"
        assert all(after < event.position <= page.position for event in page.events)
        found += page.events
        after, is_end = page.position, page.is_end
    return found


def fits(event: Event, wanted: EventFilter) -> bool:
    """Whether a filter lets this event pass, without asking a store."""
    fields = ((name, getattr(wanted, name)) for name in ("job", "batch", "kind", "owner"))
    is_wanted = all(value is None or getattr(event, name) == value for name, value in fields)
    return is_wanted and (wanted.types is None or event.type in wanted.types)


def check_streams(store: Store, events: Sequence[Event]) -> None:
    """A filtered stream is the filtered log."""
    for field in ("owner", "kind", "batch", "type"):
        values = sorted({str(getattr(event, field)) for event in events} - {"None"})
        for value in values[:STREAMS]:
            wanted = replace(EventFilter(), **({"types": (value,)} if field == "type" else {field: value}))
            assert read_stream(store, wanted) == [event for event in events if fits(event, wanted)]


def check_row(job: Job[Any]) -> None:
    """A result only when succeeded, an error only when failed, a lease only while running …"""
    is_running, is_failed = job.state is State.RUNNING, job.state is State.FAILED
    assert job.result is None or job.state is State.SUCCEEDED
    assert (job.error_code is not None) == (job.error_class is not None) == (job.error_message is not None) == is_failed
    assert job.group is None or is_failed
    assert (job.leased_by is not None) == (job.lease_until is not None) == is_running
    assert is_running or not job.cancel_requested
    assert (job.waiting_for is not None) == (job.state is State.WAITING)
    assert (job.finished_at is not None) == job.state.is_final
    assert job.queued_at is not None or job.state in (State.WAITING, State.FAILED, State.CANCELLED)
    assert (job.started_at is not None) == (job.last_attempt_at is not None) == (job.attempt > 0)
    assert 0 <= job.progress <= 1
    if job.state in (State.WAITING, State.QUEUED):
        assert (job.progress, job.progress_text) == (0, "")
    assert min(job.failures, job.crashes, job.losses, job.snoozes, job.manual_retries, job.attempt) >= 0
    assert sum(job.code_failures.values()) >= len(job.code_failures)
    assert job.enqueued_at <= job.updated_at
    assert job.trigger in ("automatic", "manual") and job.dedupe_scope in ("active", "succeeded")
    assert job.max_attempts >= 1
    assert not job.is_duplicate


def check_log(events: Sequence[Event], jobs: Sequence[Job[Any]]) -> None:
    """Positions rise, types are known, and the log alone leads to where each job is."""
    positions = [event.position for event in events]
    assert positions == sorted(positions)
    assert {event.type for event in events} <= set(EVENT_TYPES)
    by_job: dict[str, list[Event]] = {job.id: [] for job in jobs}
    for event in events:
        assert (event.type in JOB_EVENTS) == (event.job != ""), "it is about a job, or says what it is about"
        if event.job:
            by_job[event.job].append(event)
    for job in jobs:
        check_history(job, by_job[job.id])


def check_history(job: Job[Any], events: Sequence[Event]) -> None:
    assert replay(events) is job.state, [event.type for event in events]
    assert {(event.kind, event.owner) for event in events} == {(job.kind, job.owner)}
    attempts = [event.attempt for event in events if event.type not in NOTES]
    assert attempts == sorted(attempts), "attempts only grow"
    starts = _of(events, Move.CLAIM)
    assert [event.attempt for event in starts] == list(range(1, job.attempt + 1)), "each attempt begins once"
    assert job.started_at == (starts[0].at if starts else None)
    assert job.last_attempt_at == (starts[-1].at if starts else None)
    assert job.manual_retries == len(_of(events, Move.MANUAL_RETRY))
    changes = [event for event in events if event.type not in NOTES]
    if job.state.is_final:
        assert changes[-1].at == job.finished_at
        assert job.error_code == (changes[-1].code if job.state is State.FAILED else None)
    assert changes[-1].at <= job.updated_at


def _of(events: Sequence[Event], move: Move) -> list[Event]:
    types = _types(move)
    return [event for event in events if event.type in types]


@cache
def _types(move: Move) -> frozenset[str]:
    return frozenset(step.event for (made, _), step in TABLE.items() if made is move)


def replay(events: Sequence[Event]) -> State | None:
    """Where the log says that a job is. Each event must be a legal move from where it was."""
    state: State | None = None
    gated = False
    for event in events:
        if event.type in NOTES:
            continue
        targets = _targets(event.type, state)
        if not targets and gated:
            targets = _targets(event.type, State.QUEUED)
        assert len(targets) == 1, f"{event.type} cannot happen to a job that is {state}"
        (state,) = targets
        # A job that is due when it is enqueued may be promoted in the same step, without an event.
        is_new = event.type == TABLE[Move.ENQUEUE, None].event
        gated = is_new and not event.data.get("delay") and not {"batch", "waiting_for"} & set(event.data)
    return State.QUEUED if gated else state


@cache
def _targets(event_type: str, state: State | None) -> frozenset[State]:
    return frozenset(step.target for (_, source), step in TABLE.items() if source is state and step.event == event_type)


def check_reachable(store: Store, clock: VirtualClock, jobs: Sequence[Job[Any]]) -> None:
    """When the time has come, each live job is found by exactly one of claim, reclaim and expire."""
    live = {job.id for job in jobs if job.state in LIVE and max(_moments(job)) < NEVER}
    before = clock.now()
    latest = max((moment for job in jobs if job.id in live for moment in _moments(job)), default=before)
    clock.advance(latest - before + timedelta(seconds=1))
    overdue = [lease.fence.id for lease in store.overdue(besides="no worker", limit=len(jobs) + 1)]
    claim = Claim(
        incarnation="the-last-worker",
        number=1,
        kinds=sorted({job.kind for job in jobs}),
        limit=len(jobs) + 1,
        lease=timedelta(minutes=1),
    )
    claimed = [lease.fence.id for lease in store.claim(claim).leases]
    seen = store.last_position()
    store.expire(deadline_passed(), limit=len(jobs) + 1)
    # A failure may abort its batch, and then members that do not run are cancelled.
    ends = (TABLE[Move.EXPIRE, State.QUEUED].event, TABLE[Move.MANUAL_CANCEL, State.QUEUED].event)
    events = store.events(after=seen, limit=3 * len(jobs) + 1)
    ended = [event.job for event in events if event.type in ends]
    found = Counter([*overdue, *claimed, *ended])
    assert live <= set(found), "every live job can be reached"
    assert set(found.values()) <= {1}, "by one way only"
    assert set(found) <= {job.id for job in jobs if job.state in LIVE}, "a job that is over stays over"


def _moments(job: Job[Any]) -> Iterator[datetime]:
    yield job.due_at
    if job.lease_until is not None:
        yield job.lease_until
