"""Enqueue: all or none, safe to repeat, and one job for one dedupe key."""

import asyncio
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from conformance.bench import DAY, HOUR, INSTANT, KIND, MINUTE, Bench, at_once
from conformance.hooks import follow_up
from mulligan.errors import Conflict, StoreError
from mulligan.lifecycle import FINAL, LIVE, State
from mulligan.records.document import field_names
from mulligan.records.job import Job, JobFilter, NewJob
from mulligan.records.limit import LimitBook
from mulligan.store.store import Store
from mulligan.testing.virtual import START

ACTIVE: dict[str, Any] = {"dedupe_key": "k"}
SUCCEEDED: dict[str, Any] = {"dedupe_key": "k", "dedupe_scope": "succeeded"}
PERIOD: dict[str, Any] = {"dedupe_key": "k", "dedupe_for": DAY}

CALL = '{"a":1,"b":2}'
OWN_ID: dict[str, Any] = {"id": "0190a2b3-0000-7000-8000-000000000001", "is_id_given": True, "arguments": CALL}
NEXT_ID: dict[str, Any] = {**OWN_ID, "id": "0190a2b3-0000-7000-8000-000000000002"}
OTHER_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"arguments": '{"a":1,"b":3,"c":4}'}, "its arguments (b, c)"),
    ({"kind": "other"}, "its kind ('send', not 'other')"),
    ({"owner": "acme"}, "its owner"),
    ({"arguments": "[]"}, "its arguments"),
    ({"arguments": '{"a":true,"b":2}'}, "its arguments (a)"),
    ({"arguments": '{"a":1,"b":[2]}'}, "its arguments (b)"),
]

# Which holders of a key stand in the way of a new job with the same options.
HOLDERS = [
    *[("while active", ACTIVE, state, state in LIVE) for state in State],
    *[("while active or succeeded", SUCCEEDED, state, state in (*LIVE, State.SUCCEEDED)) for state in State],
    *[("for a period", PERIOD, state, True) for state in State],
]


LIMITED = "limited"
ALIKE: list[dict[str, Any]] = [
    {},
    {"delay": MINUTE},
    {"deadline": HOUR, "timeout": MINUTE},
    {"submitted_at": START - DAY, "priority": -10},
    {"owner": "acme", "queue": "bulk", "service": "gateway"},
    {"own_max_attempts": 8, "max_attempts": 8, "own_timeout": 3 * MINUTE},
    {"tags": ("eu", "prio"), "cost": 12},
    {"on_failed": follow_up(), "on_cancelled": follow_up()},
    {"owner": LIMITED},
]


class EnqueueRules(Bench):
    def test_a_job_comes_back_as_it_was_asked_for(self) -> None:
        asked = NewJob(
            id=self.ids(),
            kind="convert",
            arguments='{"text":"ünï\\u0000cödé 🎲"}',
            owner="acme",
            queue="bulk",
            service="site:example.org",
            priority=-7,
            submitted_at=self.now - DAY,
            delay=MINUTE,
            deadline=HOUR,
            max_attempts=8,
            max_crashes=2,
            max_snoozes=5,
            own_max_attempts=8,
            own_timeout=3 * MINUTE,
            timeout=3 * MINUTE,
            dedupe_key="sha256:…",
            dedupe_scope="succeeded",
            dedupe_for=DAY,
            tags=("eu", "prio"),
            cost=12,
        )
        (job,) = self.store.enqueue([asked])
        derived = {"delay", "deadline", "dedupe_for", "on_failed", "on_cancelled", "weight", "submit_rate"}
        derived |= {"is_service_computed", "is_id_given", "is_submitted", "max_live", "is_counted"}
        same = [name for name in field_names(NewJob) if name not in {*derived, "arguments"}]
        assert {name: getattr(job, name) for name in same} == {name: getattr(asked, name) for name in same}
        assert job.arguments == {"text": "ünï\x00cödé 🎲"}
        assert (job.enqueued_at, job.updated_at, job.due_at) == (self.now, self.now, self.now + MINUTE)
        assert (job.deadline, job.dedupe_until) == (self.now + HOUR, self.now + DAY)
        assert (job.state, job.waiting_for, job.queued_at) == (State.WAITING, "delay", None)
        assert self.job(job.id) == job

    def test_a_plain_job_starts_with_nothing_spent(self) -> None:
        job = self.enqueue()
        assert (job.attempt, job.failures, job.crashes, job.losses, job.snoozes, job.manual_retries) == (0,) * 6
        assert (job.owner, job.queue, job.service, job.priority, job.cost) == ("", "default", "", 0, 0)
        assert (job.submitted_at, job.due_at, job.deadline, job.started_at) == (self.now, self.now, None, None)
        assert (job.code_failures, job.previous_delay, job.progress, job.tags) == ({}, None, 0, ())
        assert (job.trigger, job.is_duplicate, job.cancel_requested) == ("automatic", False, False)

    def test_the_first_event_is_the_enqueue(self) -> None:
        job = self.enqueue(owner="acme", delay=MINUTE)
        (event,) = self.events()
        assert (event.type, event.job, event.kind, event.owner) == ("job.enqueued", job.id, KIND, "acme")
        assert (event.attempt, event.at, event.data) == (0, self.now, {"delay": 60.0})

    @pytest.mark.parametrize("options", ALIKE, ids=lambda options: " ".join(options) or "plain")
    @pytest.mark.parametrize("number", [1, 3])
    @pytest.mark.parametrize("is_async", [False, True], ids=["blocking", "async"])
    def test_jobs_that_are_alike_are_stored_as_those_that_are_not(
        self, options: dict[str, Any], number: int, is_async: bool
    ) -> None:
        book = LimitBook(owners={LIMITED: 1})
        self.store.limit_by(lambda: book)
        wanted = [self.new(**options, arguments=f'{{"n":{n}}}') for n in range(number)]
        # Whatever has an id of the caller's own takes the general way.
        general = self.enqueue(**options, id=NEXT_ID["id"], is_id_given=True)
        alike = asyncio.run(self.store.enqueue_async(wanted)) if is_async else self.store.enqueue(wanted)
        assert alike == [self.job(new.id) for new in wanted]
        assert [job.arguments for job in alike] == [{"n": n} for n in range(number)]
        same = {"id": "", "arguments": {}}
        expected = structs.replace(self.job(general.id), **same)
        assert [structs.replace(job, **same) for job in alike] == [expected] * number
        assert [self._log(job) for job in alike] == [self._log(general)] * number
        self.lift_limits()

    @pytest.mark.parametrize("options", ALIKE, ids=lambda options: " ".join(options) or "plain")
    def test_a_like_job_that_is_stored_later_has_its_own_times(self, options: dict[str, Any]) -> None:
        book = LimitBook(owners={LIMITED: 1})
        self.store.limit_by(lambda: book)
        for _ in range(2):
            self.advance(MINUTE)
            (job,) = self.store.enqueue([self.new(**options)])
            assert job == self.job(job.id)
            assert (job.enqueued_at, job.updated_at) == (self.now, self.now)
        self.lift_limits()

    def test_of_jobs_that_are_alike_none_is_stored_twice(self) -> None:
        before, *others = [self.new() for _ in range(3)]
        (first,) = self.store.enqueue([before])
        self.advance(MINUTE)
        found = self.store.enqueue([others[0], before, others[1]])
        assert found[1] == first
        assert [job.id for job in found] == [others[0].id, before.id, others[1].id]
        assert {self.types(job.id) == ["job.enqueued"] for job in found} == {True}

    def _log(self, job: Job[Any]) -> list[tuple[Any, ...]]:
        return [(event.type, event.at, event.attempt, event.data) for event in self.events(job.id)]

    def test_many_come_back_in_the_order_given(self) -> None:
        wanted = [self.new(kind) for kind in ("b", "a", "c", "a")]
        assert [job.id for job in self.store.enqueue(wanted)] == [new.id for new in wanted]

    def test_enqueuing_none_is_nothing(self) -> None:
        assert self.store.enqueue([]) == []
        assert self.events() == []

    @pytest.mark.parametrize("bad", [{"owner": "\ud800"}, {"cost": 2**80}, {"dedupe_scope": "\udfff"}], ids=str)
    def test_many_are_stored_all_or_none(self, bad: dict[str, Any]) -> None:
        before = self.enqueue()
        with pytest.raises((StoreError, ValueError, OverflowError)):
            self.store.enqueue([self.new(), self.new(**bad), self.new()])
        assert [job.id for job in self.store.jobs(JobFilter()).jobs] == [before.id]
        assert len(self.events()) == 1

    def test_the_same_id_twice_is_the_same_job(self) -> None:
        asked = self.new()
        (first,) = self.store.enqueue([asked])
        self.advance(MINUTE)
        again = self.store.enqueue([asked, asked])
        assert again == [first, first]
        assert self.types(asked.id) == ["job.enqueued"]

    def test_an_enqueue_repeated_after_the_job_ran_changes_nothing(self) -> None:
        done = self.in_state(State.SUCCEEDED)
        assert self.store.enqueue([self.new(id=done.id)]) == [done]

    def test_an_id_twice_in_one_call_is_one_job(self) -> None:
        asked = self.new()
        one, two = self.store.enqueue([asked, asked])
        assert one == two
        assert self.types(asked.id) == ["job.enqueued"]

    # An id of the caller's own

    @pytest.mark.parametrize("state", State)
    def test_the_same_call_again_is_the_same_job(self, state: State) -> None:
        first = self.in_state(state, **OWN_ID)
        written = len(self.events())
        again = self.enqueue(**OWN_ID)
        assert (again.id, again.state, again.is_duplicate) == (first.id, state, True)
        assert len(self.events()) == written

    @pytest.mark.parametrize(("other", "says"), OTHER_CALLS)
    def test_another_call_under_that_id_is_a_conflict(self, other: dict[str, Any], says: str) -> None:
        first = self.enqueue(**OWN_ID)
        with pytest.raises(Conflict) as raised:
            self.store.enqueue([self.new(**{"kind": KIND, **OWN_ID, **other}), self.new()])
        assert (raised.value.twin, raised.value.differs) == (first.id, (says,))
        assert [job.id for job in self.store.jobs(JobFilter()).jobs] == [first.id], "none of the call was stored"

    def test_an_id_twice_in_one_call_is_one_job_and_says_so(self) -> None:
        first, second = self.store.enqueue([self.new(**OWN_ID), self.new(**OWN_ID)])
        assert (first.is_duplicate, second.is_duplicate, second.id) == (False, True, first.id)
        with pytest.raises(Conflict):
            self.store.enqueue([self.new(**NEXT_ID), self.new(**{**NEXT_ID, "arguments": "[]"})])
        assert len(self.store.jobs(JobFilter()).jobs) == 1

    def test_a_key_held_by_another_job_comes_before_an_id_of_ones_own(self) -> None:
        holder = self.enqueue(**ACTIVE)
        found = self.enqueue(**OWN_ID, **ACTIVE)
        assert (found.id, found.is_duplicate) == (holder.id, True)

    def test_one_id_at_once_from_two_sides_is_one_job(self) -> None:
        self._race([self.store, self.twin()], number=20, **OWN_ID)

    def test_of_two_calls_at_once_under_one_id_one_is_a_conflict(self) -> None:
        stores = [self.store, self.twin()]
        calls = [self.new(**{**OWN_ID, "arguments": f'{{"a":{place}}}'}) for place in range(2)]
        answers = at_once([partial(store.enqueue, [call]) for store, call in zip(stores, calls, strict=True)])
        conflicts = [answer for answer in answers if isinstance(answer, Exception)]
        assert [type(conflict) for conflict in conflicts] == [Conflict]
        (job,) = self.store.jobs(JobFilter()).jobs
        assert self.types(job.id) == ["job.enqueued"]

    def test_deadlines_count_from_enqueue_not_from_the_submission(self) -> None:
        job = self.enqueue(submitted_at=self.now - 365 * DAY, deadline=MINUTE)
        assert job.deadline == self.now + MINUTE
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    # Dedupe

    @pytest.mark.parametrize(("scope", "options", "state", "holds"), HOLDERS)
    def test_a_key_is_held_as_long_as_its_scope_says(
        self, *, scope: str, options: dict[str, Any], state: State, holds: bool
    ) -> None:
        holder = self.in_state(state, **options)
        written = len(self.events())
        found = self.enqueue(**options)
        assert found.is_duplicate is holds, scope
        assert (found.id == holder.id) is holds
        assert len(self.events()) == written + (not holds)
        if holds:
            assert found.state is state

    def test_a_period_ends_to_the_instant(self) -> None:
        first = self.in_state(State.SUCCEEDED, **PERIOD)
        self.advance(DAY - INSTANT)
        assert self.enqueue(**PERIOD).id == first.id
        self.advance(INSTANT)
        second = self.enqueue(**PERIOD)
        assert (second.id != first.id, second.is_duplicate) == (True, False)

    def test_a_new_holder_holds_for_its_own_period(self) -> None:
        self.in_state(State.FAILED, **PERIOD)
        self.advance(DAY)
        second = self.in_state(State.SUCCEEDED, **PERIOD)
        self.advance(DAY - INSTANT)
        assert self.enqueue(**PERIOD).id == second.id

    @pytest.mark.parametrize("state", LIVE)
    def test_a_live_job_holds_its_key_when_its_period_is_over(self, state: State) -> None:
        holder = self.in_state(state, **PERIOD)
        self.advance(2 * DAY)
        assert self.enqueue(**PERIOD).id == holder.id

    @pytest.mark.parametrize("state", FINAL)
    def test_a_job_that_is_over_frees_its_key_when_its_period_is_over(self, state: State) -> None:
        self.in_state(state, **PERIOD)
        self.advance(DAY)
        assert not self.enqueue(**PERIOD).is_duplicate

    @pytest.mark.parametrize("options", [ACTIVE, SUCCEEDED, PERIOD], ids=["active", "succeeded", "period"])
    def test_a_key_belongs_to_one_owner_and_one_kind(self, options: dict[str, Any]) -> None:
        owners_and_kinds = [("", "a"), ("", "b"), ("acme", "a"), ("other", "a")]
        jobs = [self.enqueue(kind, owner=owner, **options) for owner, kind in owners_and_kinds]
        assert not any(job.is_duplicate for job in jobs)
        again = [self.enqueue(kind, owner=owner, queue="elsewhere", **options) for owner, kind in owners_and_kinds]
        assert [job.id for job in again] == [job.id for job in jobs]
        assert all(job.is_duplicate for job in again)

    def test_jobs_without_a_key_are_never_duplicates(self) -> None:
        jobs = [self.enqueue(dedupe_scope="succeeded", dedupe_for=DAY) for _ in range(3)]
        assert len({job.id for job in jobs}) == 3
        assert not any(job.is_duplicate for job in jobs)

    def test_one_key_many_times_in_one_call_is_one_job(self) -> None:
        first, *others = self.store.enqueue([self.new(**ACTIVE) for _ in range(4)])
        assert not first.is_duplicate
        assert [(job.id, job.is_duplicate) for job in others] == [(first.id, True)] * 3

    def test_a_duplicate_comes_back_as_the_holders_record(self) -> None:
        lease = self.leased(arguments='{"a":1}', tags=("first",), **ACTIVE)
        found = self.enqueue(arguments='{"a":2}', tags=("second",), **ACTIVE)
        assert (found.arguments, found.tags, found.state) == ({"a": 1}, ("first",), State.RUNNING)
        assert found.leased_by == lease.fence.incarnation

    def test_a_hundred_at_once_with_one_key_are_one_job(self) -> None:
        self._race([self.store])

    def test_a_hundred_at_once_from_two_sides_with_one_key_are_one_job(self) -> None:
        self._race([self.store, self.twin()])

    def _race(self, stores: list[Store], number: int = 100, **options: Any) -> None:
        wanted = [self.new(**(options or ACTIVE)) for _ in range(number)]
        answers = at_once([partial(stores[place % len(stores)].enqueue, [new]) for place, new in enumerate(wanted)])
        jobs = [_only(answer) for answer in answers]
        assert len({job.id for job in jobs}) == 1
        assert sum(not job.is_duplicate for job in jobs) == 1
        assert self.types(jobs[0].id) == ["job.enqueued"]
        assert len(self.store.jobs(JobFilter()).jobs) == 1

    # Delay

    @pytest.mark.parametrize("delay", [INSTANT, MINUTE, 400 * DAY], ids=str)
    def test_a_delayed_job_waits_until_it_is_due(self, delay: timedelta) -> None:
        job = self.enqueue(delay=delay)
        assert (job.state, job.due_at) == (State.WAITING, self.now + delay)
        self.advance(delay - INSTANT)
        assert self.claim() == []
        self.advance(INSTANT)
        assert [lease.fence.id for lease in self.claim()] == [job.id]


def _only(answer: list[Job[Any]] | Exception) -> Job[Any]:
    assert not isinstance(answer, Exception), answer
    (job,) = answer
    return job
