"""Following the log: filters that equal a full scan, a position that always advances, and what was deleted is told."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.bench import HOUR, MINUTE, SECOND, Bench, at_once, failing, retrying, verdict
from conformance.invariants import fits, read_stream
from mulligan.errors import BadArgument
from mulligan.failure.decision import Park, Postpone, Release, Retry, Succeed
from mulligan.failure.verdict import Failure
from mulligan.lifecycle import Move, State
from mulligan.records.batch import NewBatch
from mulligan.records.event import Cursor, Event, EventFilter, EventPage
from mulligan.records.job import NewJob, ReportedCall
from mulligan.records.pause import PauseRequest
from mulligan.records.schedule import Definition, ScheduleChange, ScheduleNote, ScheduleRecord
from mulligan.service.records import ServiceRequest
from mulligan.store import events
from mulligan.store.messages import Outcome, ReportedProgress

OWNERS, KINDS = ("", "acme", "other"), ("send", "call")
ENDS = (
    Succeed("1"),
    retrying(),
    failing(),
    Postpone(MINUTE, verdict("RATE_LIMITED"), {}),
    Park(MINUTE, MINUTE, verdict(), {}),
    Release({}, None, verdict()),
)
TYPES = ("job.enqueued", "job.failed", "job.started", "batch.published", "queue.paused")


def _some(values: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from([*values, "absent"])


class StreamRules(Bench):
    # What an event says about its job

    def test_an_event_says_what_the_row_of_its_job_says(self) -> None:
        batch = self._batch(owner="acme")
        job = self.enqueue(owner="acme", queue="bulk", service="gateway", cost=7, batch=batch)
        plain = self.enqueue()
        self.store.publish(batch)
        self.store.pause(PauseRequest(id=self.ids(), what="queue", name="bulk"))
        told = {(event.batch, event.queue, event.service, event.cost) for event in self.events() if event.job == job.id}
        assert told == {(batch, "bulk", "gateway", 7)}
        for found in (self.events(job.id), self.store.histories([job.id])[job.id]):
            assert {(event.batch, event.queue, event.service, event.cost) for event in found} == told
        (enqueued,) = self.events(plain.id)
        assert (enqueued.batch, enqueued.queue, enqueued.service, enqueued.cost) == (None, "default", "", 0)
        others = {event.type: event for event in self.events() if not event.job}
        assert (others["batch.published"].batch, others["batch.published"].queue) == (batch, "")
        assert (others["queue.paused"].batch, others["queue.paused"].cost) == (None, 0)

    def test_a_success_tells_the_calls_that_its_task_reported(self) -> None:
        calls = (ReportedCall("gateway", True, 200, 0.25), ReportedCall("mail", False, 503), ReportedCall("disk", True))
        lease = self.leased()
        self.store.settle([Outcome(lease, Succeed("1"), seconds=0.5, calls=calls)])
        data = self.events(lease.fence.id)[-1].data
        assert data["calls"] == [
            {"service": "gateway", "ok": True, "status": 200, "seconds": 0.25},
            {"service": "mail", "ok": False, "status": 503},
            {"service": "disk", "ok": True},
        ]
        assert (data["seconds"], "more_calls" in data) == (0.5, False)

    def test_without_reports_the_attempt_itself_is_the_call_of_its_service(self) -> None:
        lease = self.leased(service="gateway")
        self.settle(lease, Succeed("1"))
        told = self.events(lease.fence.id)[-1].data["calls"]
        assert told == [{"service": "gateway", "ok": True, "seconds": 0.5}]
        lease = self.leased(service="gateway")
        blamed = verdict(blames_service=True, failure=Failure(type="HTTPError", status=502))
        self.settle(lease, Retry(MINUTE, blamed, {}))
        told = self.events(lease.fence.id)[-1].data["calls"]
        assert told == [{"service": "gateway", "ok": False, "status": 502, "seconds": 0.5}]

    def test_an_attempt_that_called_nothing_tells_no_calls(self) -> None:
        lease = self.leased()
        self.settle(lease, Succeed("1"))
        assert self.events(lease.fence.id)[-1].data.keys() == {"worker", "by", "seconds"}

    @pytest.mark.parametrize("is_unwanted", [False, True])
    @pytest.mark.parametrize("decision", ENDS, ids=lambda end: type(end).__name__)
    def test_of_many_calls_twenty_are_listed_and_the_rest_is_counted(self, decision: Any, is_unwanted: bool) -> None:
        lease = self.leased()
        if is_unwanted:
            self.move(Move.MANUAL_CANCEL, lease.fence.id, reason="no longer needed")
        calls = tuple(ReportedCall("gateway", True, number) for number in range(33))
        self.store.settle([Outcome(lease, decision, calls=calls)])
        event = self.events(lease.fence.id)[-1]
        assert [call["status"] for call in event.data["calls"]] == list(range(20))
        assert event.data["more_calls"] == 13
        is_undecided = isinstance(decision, Retry | Postpone | Park | Release)
        assert (event.type == "job.cancelled") == (is_unwanted and is_undecided)
        if not isinstance(decision, Succeed):
            assert event.data["services"] == {"gateway": {"ok": 33, "failed": 0}}

    @pytest.mark.parametrize("what", ["duty", "queue", "kind", "service", "schedule", "intake"])
    def test_the_log_says_why_a_pause_began_and_ended(self, what: str) -> None:
        about: dict[str, Any] = {"what": what, "name": "send", "reason": "a reason"}
        self.store.pause(PauseRequest(id=self.ids(), duration=MINUTE, **about))
        self.store.resume(PauseRequest(id=self.ids(), **about))
        paused, resumed = self.events()
        assert (paused.type, paused.data) == (f"{what}.paused", about | {"for": 60.0})
        assert (resumed.type, resumed.data) == (f"{what}.resumed", about | {"paused": resumed.data["paused"]})

    def test_the_log_says_why_a_schedule_was_run_and_removed(self) -> None:
        cron = Definition(expression="@daily", timezone="UTC", missed="once", kind="send", arguments="{}")
        record = ScheduleRecord(name="nightly", definition=cron, since=self.now, next_tick=self.now + HOUR)
        run, removed = (
            ScheduleNote(type=type_, data={"reason": "a reason"}, request=self.ids())
            for type_ in ("schedule.run_requested", "schedule.removed")
        )
        self.store.change_schedule(ScheduleChange(record=record, notes=[run]))
        assert self.store.remove_schedule("nightly", removed)
        assert [event.data["reason"] for event in self.events()] == ["a reason"] * 2

    @pytest.mark.parametrize("number", [10**400, float("nan"), float("inf"), -(10**40)])
    @pytest.mark.parametrize("decision", [Succeed("1"), retrying()])
    def test_a_number_that_no_log_can_hold_is_left_out(self, number: Any, decision: Any) -> None:
        lease = self.leased()
        status = number if isinstance(number, int) else None
        self.store.settle([Outcome(lease, decision, calls=(ReportedCall("gateway", True, status, number),))])
        assert self.events(lease.fence.id)[-1].data["calls"] == [{"service": "gateway", "ok": True}]

    # The history of a batch or a service itself

    def test_the_history_of_a_service_is_its_own_and_the_newest_comes_first(self) -> None:
        gateway, lookalike = 'gate\'way "1"', "gateway"
        for number, name in enumerate((gateway, lookalike, gateway)):
            to = ("open", "open", "closed")[number]
            self.store.force(ServiceRequest(id=self.ids(), name=name, to=to, reason='"service":"gateway"'))
        self.store.pause(PauseRequest(id=self.ids(), what="service", name=gateway))
        self.store.pause(PauseRequest(id=self.ids(), what="queue", name=gateway))
        self.enqueue(service=gateway)
        told = [event.type for event in self.store.history(service=gateway, limit=10)]
        assert told == ["service.paused", "service.forced", "service.forced"]
        (last,) = self.store.history(service=lookalike, limit=10)
        assert (last.service, last.data["to"]) == (lookalike, "open")
        assert [event.type for event in self.store.history(service=gateway, limit=1)] == ["service.paused"]

    def test_the_history_of_a_batch_has_no_members_and_is_that_of_its_owner(self) -> None:
        batch, other = self._batch(owner="acme"), self._batch(owner="acme")
        self.enqueue(owner="acme", batch=batch)
        for each in (batch, other):
            self.store.publish(each)
        told = self.store.history(batch=batch, limit=10)
        assert [(event.type, event.batch) for event in told] == [("batch.published", batch)]
        assert self.store.history(batch=batch, owner="acme", limit=10) == told
        assert self.store.history(batch=batch, owner="other", limit=10) == []

    def test_a_history_looks_at_a_bounded_number_of_events(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(events, "SCAN", 3)
        self.store.force(ServiceRequest(id=self.ids(), name="gateway", to="open"))
        for number in range(3):
            assert len(self.store.history(service="gateway", limit=10)) == 1, number
            self.store.pause(PauseRequest(id=self.ids(), what="queue", name=f"q{number}"))
        assert self.store.history(service="gateway", limit=10) == []

    # Filters and pages

    @settings(
        max_examples=60,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(data=st.data(), limit=st.integers(1, 12), scan=st.integers(1, 30), draw=st.randoms(use_true_random=False))
    def test_filters_and_pages_of_the_log_equal_a_full_scan(
        self, data: st.DataObject, limit: int, scan: int, draw: random.Random
    ) -> None:
        batch, job = self._crowd()
        wanted = EventFilter(
            job=data.draw(_some((job,))),
            batch=data.draw(_some((batch,))),
            kind=data.draw(_some(KINDS)),
            owner=data.draw(_some(OWNERS)),
            types=data.draw(st.none() | st.lists(st.sampled_from(TYPES), min_size=1).map(tuple)),
        )
        everything = self.events()
        start = draw.choice([0, *(event.position for event in everything)])
        expected = [event for event in everything if fits(event, wanted) and event.position > start]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(events, "SCAN", scan)
            assert read_stream(self.store, wanted, after=start, limit=limit) == expected

    def test_a_position_that_the_log_has_not_reached_is_refused(self) -> None:
        job = self.enqueue()
        self.store.stream(EventFilter(), after=self.events(job.id)[-1].position)
        for wanted in (EventFilter(), EventFilter(job=job.id), EventFilter(owner="acme")):
            with pytest.raises(BadArgument, match="the highest position that this log has reached"):
                self.store.stream(wanted, after=10**12)

    def test_the_position_advances_though_nothing_matched_and_a_call_reads_few_events(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(events, "SCAN", 10)
        for _ in range(35):
            self.enqueue(owner="other")
        mine = self.enqueue(owner="acme")
        pages: list[EventPage] = []
        after = 0
        while not pages or not pages[-1].is_end:
            pages.append(self.store.stream(EventFilter(owner="acme"), after=after))
            assert pages[-1].position > after
            after = pages[-1].position
        assert [len(page.events) for page in pages] == [0, 0, 0, 1]
        assert (pages[-1].events[0].job, pages[-1].position) == (mine.id, self.store.last_position())
        assert self.store.stream(EventFilter(owner="acme"), after=after) == EventPage((), after, is_end=True)
        assert [event.job for event in self.store.events(owner="acme")] == [mine.id], "all of them are looked through"

    def test_a_reader_at_the_end_stays_where_it_is(self) -> None:
        assert self.store.stream(EventFilter()) == EventPage((), 0, is_end=True)
        self.enqueue()
        end = self.store.last_position()
        assert self.store.stream(EventFilter(), after=end) == EventPage((), end, is_end=True)
        with pytest.raises(BadArgument, match="of another database"):
            self.store.stream(EventFilter(), after=end + 1_000_000)

    def test_a_reader_that_follows_one_owner_while_others_write_misses_nothing(self) -> None:
        stores = [self.store, self.twin()]
        wanted: list[list[NewJob]] = [[self.new(owner=OWNERS[number % 3]) for number in range(5)] for _ in range(20)]
        mine = [job.id for jobs in wanted for job in jobs if job.owner == "acme"]
        read: list[str] = []

        def follow() -> None:
            after = 0
            while len(read) < len(mine):
                page = self.store.stream(EventFilter(owner="acme"), after=after, limit=3)
                after = page.position
                read.extend(event.job for event in page.events)

        def write(place: int) -> None:
            for jobs in wanted[place::2]:
                stores[place].enqueue(jobs)

        assert at_once([follow, lambda: write(0), lambda: write(1)]) == [None, None, None]
        assert sorted(read) == sorted(mine)

    def _batch(self, **options: Any) -> str:
        return self.store.create_batch(NewBatch(id=self.ids(), name="spring", **options)).id

    def _crowd(self) -> tuple[str, str]:
        """A batch and a job in it, made once for a test, among others of every kind and owner."""
        if self.store.last_position():
            (batch,) = [event.batch for event in self.events() if event.type == "batch.published"]
            assert batch is not None
            return batch, next(event.job for event in self.events() if event.job and event.batch == batch)
        batch = self._batch(owner="acme")
        for number in range(24):
            options: dict[str, Any] = {"kind": KINDS[number % 2], "owner": OWNERS[number % 3]}
            if number % 4 == 0:
                options["batch"] = batch
            self.store.enqueue([self.new(**options), *(self.new() for _ in range(number % 5))])
        self.store.publish(batch)
        self.store.pause(PauseRequest(id=self.ids(), what="queue", name="bulk"))
        for number, lease in enumerate(self.claim(*KINDS, limit=30)):
            self.settle(lease, failing() if number % 3 else Succeed("1"))
        return self._crowd()

    # Deleted events

    def test_a_reader_behind_a_deleted_event_is_told_and_others_are_not(self) -> None:
        first, kept = self.in_state(State.SUCCEEDED), self.enqueue(owner="acme")
        second = self.in_state(State.SUCCEEDED)
        last = self.events(second.id)[-1].position
        assert not self.store.stream(EventFilter()).is_pruned
        self.advance(HOUR)
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=10) == 2
        page = self.store.stream(EventFilter())
        assert ({event.job for event in page.events}, page.is_pruned) == ({kept.id}, True)
        assert self.store.stream(EventFilter(owner="acme"), after=last - 1).is_pruned
        assert not self.store.stream(EventFilter(), after=last).is_pruned
        assert page.position >= last and not self.store.stream(EventFilter(), after=page.position).is_pruned
        assert not self.store.stream(EventFilter(job=kept.id)).is_pruned, "a job is deleted with all its events"
        assert first.id not in {event.job for event in self.events()}

    def test_a_reader_of_a_log_that_was_emptied_is_told_once(self) -> None:
        job = self.in_state(State.FAILED)
        last = self.store.last_position()
        self.advance(HOUR)
        assert self.store.prune(State.FAILED, before=self.now, limit=10) == 1
        assert self.store.last_position() == last, "a reader that begins there misses nothing"
        page = self.store.stream(EventFilter())
        assert page == EventPage((), last, is_end=True, is_pruned=True)
        assert self.store.stream(EventFilter(), after=page.position) == EventPage((), last, is_end=True)
        assert self.enqueue().id != job.id
        assert len(self.store.stream(EventFilter(), after=last).events) == 1

    # Progress

    def test_progress_is_read_as_a_change(self) -> None:
        batch = self._batch()
        leases = [self.leased(owner="acme"), self.leased(owner="other"), self.leased()]
        member = self.enqueue(batch=batch)
        self.store.publish(batch)
        (last,) = self.claim()
        assert self.store.progress() == []
        reported = []
        for number, lease in enumerate([*leases, last]):
            self.advance(SECOND)
            self.beat(lease.fence, progress=[ReportedProgress(lease.fence, number / 4, f"page {number}")])
            reported.append((lease.fence.id, number / 4, f"page {number}", self.now))
        assert self._progress() == reported
        assert self._progress(limit=2) == reported[:2]
        assert self._progress(since=reported[1][3]) == reported[2:]
        assert self._progress(owner="acme") == reported[:1]
        assert self._progress(batch=batch) == [reported[3]] and reported[3][0] == member.id
        assert self._progress(job=leases[1].fence.id) == [reported[1]]
        assert self._progress(job=leases[1].fence.id, owner="acme") == []
        self.settle(leases[1], Succeed("1"))
        self.settle(leases[2], retrying())
        assert self._progress() == [reported[0], reported[3]], "what runs no more has no progress"

    def _progress(self, **options: Any) -> list[tuple[str, float, str, Any]]:
        return [(found.job, found.ratio, found.text, found.at) for found in self.store.progress(**options)]

    # Projections

    def test_a_projection_gets_every_event_once_in_order(self) -> None:
        self._crowd()
        seen: list[Event] = []
        while self.store.project("all", lambda found, _: seen.extend(found), limit=7):
            pass
        assert seen == self.events()
        self.enqueue()
        assert self.store.project("all", lambda found, _: seen.extend(found)) == 1
        assert self.store.project("all", lambda found, _: seen.extend(found)) == 0
        assert (seen, self._cursor("all").position) == (self.events(), self.store.last_position())

    def test_projections_are_apart(self) -> None:
        self.enqueue()
        numbers: dict[str, int] = {}
        for name in ("one", "two", "one"):
            numbers[name] = numbers.get(name, 0) + self.store.project(name, lambda *_: None)
        assert numbers == {"one": 1, "two": 1}

    def test_an_error_undoes_what_a_projection_wrote_and_leaves_its_cursor(self) -> None:
        class Mine(Exception):
            pass

        def fail(_: Any, connection: Any) -> None:
            connection.execute("DELETE FROM mulligan_workers")
            raise Mine

        self.enqueue()
        self.beat()
        with pytest.raises(Mine):
            self.store.project("all", fail)
        assert len(self.store.workers()) == 1
        assert self.store.project("all", lambda *_: None) == 1

    def test_an_error_of_the_driver_in_a_projection_is_raised_as_it_is(self) -> None:
        self.enqueue()
        with pytest.raises(Exception, match="no_such_table") as raised:
            self.store.project("all", lambda _, connection: connection.execute("DELETE FROM no_such_table"))
        assert type(raised.value).__module__.split(".")[0] in ("sqlite3", "psycopg", "pysqlite3")

    def test_of_two_that_read_the_same_events_one_applies_them(self) -> None:
        self.enqueue()
        seen: list[str] = []

        def stolen(_: Any, __: Any) -> None:
            seen.append("late")

        page = self.store.stream(EventFilter())
        assert self.store.project("all", lambda *_: seen.append("first")) == 1
        # The second read its page before the first had moved the cursor.
        assert self._apply("all", 0, page, stolen) == 0
        assert seen == ["first"]

    def _apply(self, name: str, before: int, page: EventPage, apply: Callable[[Any, Any], None]) -> int:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.store, "_start_of", lambda _: before)
            patch.setattr(self.store, "stream", lambda *_, **__: page)
            return self.store.project(name, apply)

    def test_many_threads_apply_each_event_once(self) -> None:
        self._crowd()
        stores = [self.store, self.twin()]
        seen: list[Event] = []

        def apply(place: int) -> None:
            store = stores[place % 2]
            while self._cursor_position("all") < store.last_position():
                store.project("all", lambda found, _: seen.extend(found), limit=5)

        assert at_once([lambda place=place: apply(place) for place in range(4)]) == [None] * 4  # type: ignore[misc]
        assert [event.position for event in seen] == [event.position for event in self.events()]

    def test_events_that_a_projection_has_not_applied_are_kept(self) -> None:
        assert self.store.project("slow", lambda *_: None) == 0
        job = self.in_state(State.SUCCEEDED)
        self.advance(HOUR)
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=10) == 0
        seen: list[Event] = []
        self.store.project("slow", lambda found, _: seen.extend(found))
        assert {event.job for event in seen} == {job.id}
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=10) == 1

    def test_a_projection_that_ends_its_transaction_is_told_so(self) -> None:
        self.enqueue()
        with pytest.raises(Exception, match="ended the transaction"):
            self.store.project("bad", lambda _, connection: connection.commit())
        with pytest.raises(Exception, match="ended the transaction"):
            self.store.project("worse", lambda _, connection: connection.rollback())

    def _cursor(self, name: str) -> Cursor:
        return next(cursor for cursor in self.store.cursors() if cursor.name == name)

    def _cursor_position(self, name: str) -> int:
        return next((cursor.position for cursor in self.store.cursors() if cursor.name == name), 0)

    def test_a_request_to_cancel_stands_before_the_end_it_came_too_late_for(self) -> None:
        lease = self.leased()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.settle(lease, Succeed("1"))
        types = [event.type for event in self.store.stream(EventFilter(job=lease.fence.id)).events]
        assert types[-2:] == ["job.cancel_requested", "job.succeeded"]
