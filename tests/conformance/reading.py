"""Reading: filters and pages that equal a full scan, owners apart, a log that skips nothing."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conformance.bench import DAY, HOUR, KIND, MINUTE, SECOND, WORKER, Bench, at_once, failing, retrying, verdict
from mulligan.errors import JobNotFound
from mulligan.failure.decision import Postpone, Release, Succeed
from mulligan.failure.verdict import Ledger
from mulligan.lifecycle import Move, State
from mulligan.records.counts import COLUMNS
from mulligan.records.job import ERROR_CLASSES, TIMES, Job, JobFilter, NewJob
from mulligan.records.pause import PauseRequest
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Changes, Settled
from mulligan.values.moment import EPOCH

OWNERS, KINDS, QUEUES, TAGS = ("", "acme", "other"), ("a", "b"), ("default", "bulk"), ("eu", "us", "a\"b'c")
SERVICES = ("", "gateway")
CODES, GROUPS = ("GW_4XX", "IO_ERROR"), ("g1", "g2")


def _some(values: Sequence[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.sampled_from([*values, "absent"])


HOURS = st.none() | st.integers(-1, 40).map(lambda number: number * HOUR)
FILTERS = st.fixed_dictionaries(
    {
        "ids": st.none() | st.sets(st.integers(0, 40), max_size=25),
        "state": st.none() | st.sampled_from(list(State)) | st.sets(st.sampled_from(list(State)), min_size=1),
        "kind": _some(KINDS),
        "owner": _some(OWNERS),
        "queue": _some(QUEUES),
        "service": _some(SERVICES),
        "worker": _some([WORKER]),
        "code": _some(CODES),
        "error_class": st.none() | st.sampled_from(ERROR_CLASSES),
        "last_code": _some(CODES),
        "group": _some(GROUPS),
        "tag": _some(TAGS),
        "since": HOURS,
        "until": HOURS,
        "finished_since": HOURS,
    }
)


QUIET_SECONDS = 0.2


class ReadingRules(Bench):
    # Jobs

    def test_a_job_is_found_by_its_owner_and_the_admin(self) -> None:
        job = self.enqueue(owner="acme")
        assert self.store.job(job.id) == self.store.job(job.id, owner="acme") == job

    @pytest.mark.parametrize("owner", ["", "other", "ACME", "acme "])
    def test_another_owners_job_reads_as_one_that_does_not_exist(self, owner: str) -> None:
        job = self.enqueue(owner="acme")
        with pytest.raises(JobNotFound, match=f"there is no job '{job.id}'"):
            self.store.job(job.id, owner=owner)

    def test_a_job_that_is_not_there_cannot_be_read(self) -> None:
        with pytest.raises(JobNotFound, match="there is no job 'nowhere'"):
            self.store.job("nowhere")

    def test_ids_are_found_by_their_beginning_and_by_their_end(self) -> None:
        jobs = [
            self.enqueue(id=id_) for id_ in ("aaaaaa-1-cccccc", "aaaaaa-2-dddddd", "bbbbbb-3-cccccc", "cccccc-4-aaaaaa")
        ]
        first, second, third, fourth = (job.id for job in jobs)
        assert self._found("bbbbbb") == self._found("3-cccccc") == [third]
        assert self._found("aaaaaa") == [fourth, second, first]
        assert self._found("cccccc", limit=2) == [fourth, third]
        assert self._found(first) == [first]
        exact = self.enqueue(id="aaaaaa").id
        assert self._found("aaaaaa", limit=2) == [exact, fourth], "the whole of an id comes first"
        assert [self._found(part) for part in ("-3-", "%", "cccccc_", "~", "BBBBBB")] == [[]] * 5

    def test_ids_of_another_owner_are_not_found(self) -> None:
        job, other = self.enqueue(owner="acme"), self.enqueue(owner="")
        part = job.id[-8:]
        assert self._found(part) == self._found(part, owner="acme") == [job.id]
        assert self._found(part, owner="other") == self._found(part, owner="") == []
        assert self._found(other.id[-8:], owner="") == [other.id]

    def _found(self, part: str, *, owner: str | None = None, limit: int = 10) -> list[str]:
        return self.store.find_ids("job", part, owner=owner, limit=limit)

    def test_a_list_shows_the_newest_first(self) -> None:
        jobs = [self.enqueue() for _ in range(3)]
        page = self.store.jobs(JobFilter())
        assert [job.id for job in page.jobs] == [job.id for job in reversed(jobs)]
        assert (page.cursor, page.damaged) == (None, ())

    def test_an_owner_sees_no_other_owners_jobs_whatever_the_filter(self) -> None:
        self._population()
        for wanted in (JobFilter(), JobFilter(owner="other"), JobFilter(owner="acme"), JobFilter(owner="")):
            assert {job.owner for job in self.store.jobs(wanted, owner="acme", limit=100).jobs} <= {"acme"}
        assert self.store.jobs(JobFilter(owner="other"), owner="acme").jobs == ()

    @settings(
        max_examples=80,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(fields=FILTERS, owner=_some(OWNERS), limit=st.integers(1, 12))
    def test_filters_and_pages_equal_a_full_scan(self, fields: dict[str, Any], owner: str | None, limit: int) -> None:
        everything = self._population()
        wanted = _filter(everything, fields)
        expected = [job for job in reversed(everything) if _matches(job, wanted, owner)]
        assert self._paged(wanted, owner, limit) == expected

    def _paged(self, wanted: JobFilter, owner: str | None, limit: int) -> list[Job[Any]]:
        found: list[Job[Any]] = []
        cursor, is_first = None, True
        while is_first or cursor is not None:
            page = self.store.jobs(wanted, owner=owner, limit=limit, cursor=cursor)
            assert len(page.jobs) <= limit
            assert page.cursor is None or len(page.jobs) == limit
            assert page.cursor is None or page.cursor != cursor, "the next page is another one"
            found += page.jobs
            cursor, is_first = page.cursor, False
        return found

    @pytest.mark.parametrize("few", [0, 4, 100])
    def test_a_list_of_one_state_is_the_same_if_its_jobs_are_few_or_many(
        self, few: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mulligan.store.reading.FEW", few)
        everything = self._population()
        for states in (*State, (State.WAITING, State.QUEUED), tuple(State)):
            wanted = JobFilter(state=states)
            expected = [job for job in reversed(everything) if _matches(job, wanted, None)]
            assert self._paged(wanted, None, 3) == expected

    def test_pages_stay_right_while_jobs_come_and_change(self) -> None:
        jobs = [self.enqueue() for _ in range(6)]
        first = self.store.jobs(JobFilter(), limit=3)
        self.enqueue()
        self.claim()
        second = self.store.jobs(JobFilter(), limit=3, cursor=first.cursor)
        assert [job.id for job in (*first.jobs, *second.jobs)] == [job.id for job in reversed(jobs)]

    def test_a_page_has_no_more_than_fits_in_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mulligan.store.reading.MOST_BYTES", 1_000)
        monkeypatch.setattr("mulligan.store.reading.PART", 3)
        sizes = (2_000, 10, 10, 10, 10, 400, 500, 200, 1_200)
        jobs = [self.enqueue(arguments=f'"{"x" * size}"').id for size in reversed(sizes)]
        pages: list[list[str]] = []
        cursor = None
        while not pages or cursor is not None:
            page = self.store.jobs(JobFilter(), limit=100, cursor=cursor)
            pages.append([job.id for job in page.jobs])
            cursor = page.cursor
        assert [len(page) for page in pages] == [1, 6, 1, 1]
        assert [job for page in pages for job in page] == list(reversed(jobs))

    @pytest.mark.parametrize("limit", [3, 4, 6, 7, 8])
    def test_a_page_that_is_read_in_parts_is_one_page(self, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mulligan.store.reading.PART", 3)
        jobs = [self.enqueue().id for _ in range(7)][::-1]
        page = self.store.jobs(JobFilter(), limit=limit)
        assert [job.id for job in page.jobs] == jobs[:limit]
        assert page.cursor == (jobs[limit - 1] if limit < 7 else None)

    def _population(self) -> list[Job[Any]]:
        """Forty jobs of every state, made once for a test; oldest first."""
        if not self.store.last_position():
            for number in range(40):
                self._make(number)
                self.advance(HOUR)
        found = self.store.jobs(JobFilter(), limit=100).jobs
        assert {job.state for job in found} == set(State)
        return list(reversed(found))

    def _make(self, number: int) -> None:
        options: dict[str, Any] = {
            "kind": KINDS[number % 2],
            "owner": OWNERS[number % 3],
            "queue": QUEUES[number // 3 % 2],
            "service": SERVICES[number // 4 % 2],
            "tags": tuple(tag for place, tag in enumerate(TAGS) if number >> place & 1),
        }
        match number % 7:
            case 0 if number % 2:
                self.settle(self.leased(**options), retrying(100 * DAY, CODES[number // 14 % 2]))
            case 0:
                self.enqueue(delay=100 * DAY, **options)
            case 1:
                # Claimed as soon as it stands there; a lease that lasts.
                self.leased(lease=100 * DAY, **options)
            case 2:
                self.settle(self.leased(**options), Succeed("1"))
            case 3 | 4:
                error = failing(CODES[number % 2], group=GROUPS[number // 2 % 2])
                self.settle(self.leased(**options), error)
            case 5:
                self.move(Move.MANUAL_CANCEL, self.enqueue(**options).id)
            case _:
                # No worker takes this queue.
                self.enqueue(**{**options, "kind": "a" if number > 30 else "b", "deadline": SECOND})

    def test_a_waiting_job_is_found_by_its_last_code_and_not_by_its_code(self) -> None:
        lease = self.leased()
        self.settle(lease, retrying(HOUR, "IO_ERROR"))
        found = self.store.jobs(JobFilter(last_code="IO_ERROR", state="waiting")).jobs
        assert [job.id for job in found] == [lease.fence.id]
        assert self.store.jobs(JobFilter(code="IO_ERROR")).jobs == ()

    # Counts

    def test_counts_say_how_many_of_each_kind_are_in_each_state(self) -> None:
        assert self.store.counts() == {}
        jobs = self._population()
        for owner in (None, *OWNERS, "absent"):
            seen = [job for job in jobs if owner is None or job.owner == owner]
            expected: dict[str, dict[str, int]] = {}
            for job in seen:
                states = expected.setdefault(job.kind, {})
                states[job.state] = states.get(job.state, 0) + 1
            assert self.store.counts(owner=owner) == expected

    @settings(
        max_examples=80,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(fields=FILTERS, owner=_some(OWNERS), by=st.sampled_from(list(COLUMNS)))
    def test_counts_by_a_field_equal_a_full_scan(self, fields: dict[str, Any], owner: str | None, by: str) -> None:
        everything = self._population()
        wanted = _filter(everything, fields)
        names = {"code": "error_code"}
        found = [getattr(job, names.get(by, by)) for job in everything if _matches(job, wanted, owner)]
        expected = Counter(str(name) for name in found if name is not None)
        counts = self.store.count(wanted, by=by, owner=owner)
        assert (counts.groups, counts.total, counts.at_least) == (expected, expected.total(), False)
        assert list(counts.groups.values()) == sorted(counts.groups.values(), reverse=True)

    def test_jobs_that_keep_their_dedupe_key_are_counted_too(self) -> None:
        for scope in ("active", "succeeded"):
            self.settle(self.leased(dedupe_key=scope, dedupe_scope=scope), Succeed("1"))
        self.enqueue(dedupe_key="live", dedupe_scope="succeeded")
        assert self.store.count(JobFilter()).groups == {"succeeded": 2, "queued": 1}

    def test_a_count_reads_a_limited_number_of_jobs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("mulligan.store.counts.MOST_READ", 3)
        for _ in range(5):
            self.settle(self.leased(), Succeed("1"))
        self.enqueue(kind="other")
        counts = self.store.count(JobFilter())
        assert (counts.groups, counts.total, counts.at_least) == ({"succeeded": 3, "queued": 1}, 4, True)
        assert not self.store.count(JobFilter(state="queued")).at_least
        assert self.store.count(JobFilter(kind="other")).at_least, "jobs that were not read may match"

    # Busy

    def test_a_store_without_jobs_is_not_busy(self) -> None:
        assert self.store.is_busy(["send"]) is False

    @pytest.mark.parametrize("state", State)
    def test_queued_and_running_jobs_make_a_store_busy(self, state: State) -> None:
        self.in_state(state)
        assert self.store.is_busy(["send"]) is (state in (State.QUEUED, State.RUNNING))
        assert self.store.is_busy(["other", "send"]) is (state in (State.QUEUED, State.RUNNING))
        assert self.store.is_busy(["other"]) is False
        assert self.store.is_busy([]) is False

    def test_a_waiting_job_makes_a_store_busy_when_it_is_due(self) -> None:
        self.enqueue(delay=MINUTE)
        assert not self.store.is_busy(["send"])
        self.advance(MINUTE)
        assert self.store.is_busy(["send"])

    @pytest.mark.parametrize(
        ("decision", "why"),
        [
            (retrying(DAY), "retry"),
            (Postpone(DAY, verdict("SNOOZED"), {}), "snooze"),
            (Postpone(DAY, verdict("RATE_LIMITED"), {}), "rate limit"),
        ],
        ids=["retry", "snooze", "rate limit"],
    )
    def test_a_caller_that_waits_for_retries_can_ask_for_them(self, decision: Postpone, why: str) -> None:
        self.settle(self.leased(), decision)
        assert not self.store.is_busy(["send"])
        assert not self.store.is_busy(["send"], waiting_for=["delay"])
        assert self.store.is_busy(["send"], waiting_for=["delay", why])
        assert not self.store.is_busy(["other"], waiting_for=[why])

    # Place in the line

    def test_a_job_knows_how_many_are_claimed_before_it(self) -> None:
        hours = [3, 1, 4, 2]
        jobs = {hour: self.enqueue(submitted_at=self.now - hour * HOUR) for hour in hours}
        first = self.enqueue(priority=-10)
        elsewhere: list[dict[str, Any]] = [{"kind": "b"}, {"queue": "bulk"}, {"service": "gateway"}, {"delay": HOUR}]
        for options in elsewhere:
            self.enqueue(priority=-20, **options)
        assert [self.store.ahead_of(jobs[hour], limit=100) for hour in (4, 3, 2, 1)] == [1, 2, 3, 4]
        assert self.store.ahead_of(first, limit=100) == 0

    def test_the_place_in_the_line_is_counted_up_to_a_limit(self) -> None:
        jobs = self.store.enqueue([self.new() for _ in range(6)])
        assert [self.store.ahead_of(job, limit=3) for job in jobs] == [0, 1, 2, 3, 3, 3]

    def test_the_place_in_the_queue_counts_every_lane_in_claim_order(self) -> None:
        lanes: list[dict[str, Any]] = [{}, {"kind": "b"}, {"queue": "bulk"}, {"service": "gateway"}]
        jobs = [self.enqueue(submitted_at=self.now - hour * HOUR, **lanes[hour % 4]) for hour in (5, 4, 3, 2, 1)]
        first, last = self.enqueue("b", priority=-10), self.enqueue(priority=10)
        delayed = self.enqueue(delay=HOUR)
        assert [self.store.position(job.id, limit=100) for job in (first, *jobs, last)] == [1, 2, 3, 4, 5, 6, 7]
        assert self.store.position(delayed.id, limit=100) is None
        claimed = self.claim("b", limit=1)
        assert [lease.fence.id for lease in claimed] == [first.id]
        assert self.store.position(first.id, limit=100) is None
        assert self.store.position(jobs[0].id, limit=100) == 1

    def test_the_place_in_the_queue_is_counted_up_to_a_limit(self) -> None:
        jobs = self.store.enqueue([self.new(kind=("a", "b")[n % 2]) for n in range(6)])
        assert [self.store.position(job.id, limit=3) for job in jobs] == [1, 2, 3, 3, 3, 3]

    def test_queues_count_their_ready_and_running_jobs_by_kind(self) -> None:
        oldest = self.enqueue(queue="bulk", service="gateway")
        self.advance(HOUR)
        self.enqueue(queue="bulk", service="other")
        self.enqueue("b", queue="bulk")
        self.enqueue(delay=DAY)
        self.leased("c")
        found = {(load.queue, load.kind): load for load in self.store.queue_loads(most=1_000)}
        assert {lane: (load.ready, load.running, load.at_least) for lane, load in found.items()} == {
            ("bulk", KIND): (2, 0, False),
            ("bulk", "b"): (1, 0, False),
            ("default", "c"): (0, 1, False),
        }
        assert found["bulk", KIND].since == oldest.queued_at
        assert found["default", "c"].since is None

    def test_queues_count_up_to_a_limit(self) -> None:
        self.store.enqueue([self.new() for _ in range(120)])
        self.enqueue("b")
        found = {load.kind: load for load in self.store.queue_loads(most=1)}
        assert (found[KIND].ready, found[KIND].at_least, found["b"].at_least) == (100, True, False)

    def test_jobs_that_no_worker_would_claim_are_not_before_others(self) -> None:
        paused = [self.enqueue(kind="b"), self.enqueue(queue="bulk"), self.enqueue(service="gateway")]
        job = self.enqueue()
        assert self.store.position(job.id, limit=100) == 4
        for what, name in (("kind", "b"), ("queue", "bulk"), ("service", "gateway")):
            self.store.pause(PauseRequest(id=self.ids(), what=what, name=name, duration=HOUR))
        assert self.store.position(job.id, limit=100) == 1
        assert [self.store.position(one.id, limit=100) for one in paused] == [1, 1, 1]
        self.advance(2 * HOUR)
        assert self.store.position(job.id, limit=100) == 4

    def test_jobs_of_a_service_that_is_held_open_are_not_before_others(self) -> None:
        self.enqueue(service="gateway")
        job = self.enqueue()
        self.store.force(ServiceRequest(id=self.ids(), name="gateway", to="open"))
        assert self.store.position(job.id, limit=100) == 1

    def test_the_place_of_a_job_of_another_owner_is_not_found(self) -> None:
        job = self.enqueue(owner="acme")
        assert self.store.position(job.id, owner="acme", limit=9) == 1
        with pytest.raises(JobNotFound):
            self.store.position(job.id, owner="other", limit=9)
        with pytest.raises(JobNotFound):
            self.store.position("unknown", limit=9)

    # The last failure

    def test_the_last_failures_of_many_jobs_are_read_at_once(self) -> None:
        retried, snoozed, well = self.leased(owner="acme"), self.leased(), self.leased()
        self.settle(retried, retrying(MINUTE, code="IO_ERROR"))
        self.settle(snoozed, retrying(MINUTE, code="TIMEOUT"))
        self.settle(well, Succeed(None))
        self.advance(MINUTE)
        again = {lease.fence.id: lease for lease in self.claim(limit=9)}
        self.settle(again[retried.fence.id], failing("GW_5XX"))
        self.settle(again[snoozed.fence.id], Postpone(MINUTE, verdict("SNOOZED"), {}))
        ids = [lease.fence.id for lease in (retried, snoozed, well)]
        found = self.store.last_failures([*ids, "unknown"])
        assert {id_: (event.code, event.attempt, event.type) for id_, event in found.items()} == {
            ids[0]: ("GW_5XX", 2, "job.failed"),
            ids[1]: ("TIMEOUT", 1, "job.retried"),
        }
        assert found[ids[0]] == self.store.events(job=ids[0])[-1]
        assert list(self.store.last_failures(ids, owner="acme")) == [ids[0]]
        assert self.store.last_failures([]) == {}

    def test_a_late_result_that_was_refused_is_not_the_last_failure(self) -> None:
        lease = self.leased(lease=SECOND)
        self.advance(MINUTE)
        lost = Release({}, ledger=Ledger.LOSSES, verdict=verdict("WORKER_LOST"))
        assert self.settle(lease, lost, by="other") is Settled.ACCEPTED
        assert self.settle(lease, failing("GW_5XX")) is Settled.REFUSED
        assert self.store.last_failures([lease.fence.id])[lease.fence.id].code == "WORKER_LOST"

    # Events

    def test_the_log_has_every_event_in_order(self) -> None:
        lease = self.leased()
        self.settle(lease, retrying(MINUTE))
        self.advance(MINUTE)
        (lease,) = self.claim()
        self.settle(lease, failing())
        self.move(Move.MANUAL_RETRY, lease.fence.id)
        (lease,) = self.claim()
        self.move(Move.MANUAL_CANCEL, lease.fence.id)
        self.settle(lease, Succeed("1"))
        story = [(event.type.removeprefix("job."), event.attempt) for event in self.events(lease.fence.id)]
        assert story == [
            ("enqueued", 0),
            ("started", 1),
            ("retried", 1),
            ("queued", 1),
            ("started", 2),
            ("failed", 2),
            ("retry_requested", 2),
            ("queued", 2),
            ("started", 3),
            ("cancel_requested", 3),
            ("succeeded", 3),
        ]

    @pytest.mark.parametrize("limit", [1, 2, 7, 1_000])
    def test_a_reader_that_continues_from_its_cursor_misses_nothing(self, limit: int) -> None:
        self._population()
        everything = self.events()
        read: list[Any] = []
        while page := self.store.events(after=read[-1].position if read else 0, limit=limit):
            assert len(page) <= limit
            read += page
        assert read == everything
        assert [event.position for event in read] == sorted(event.position for event in read)
        assert self.store.last_position() == read[-1].position

    def test_events_can_be_read_by_job_and_by_owner(self) -> None:
        jobs = self._population()
        everything = self.events()
        for job in jobs[:6]:
            assert self.events(job.id) == [event for event in everything if event.job == job.id]
            assert self.store.events(job=job.id, owner="absent") == []
            assert self.store.events(job=job.id, owner=job.owner) == self.events(job.id)
        for owner in (*OWNERS, "absent"):
            seen = self.store.events(owner=owner, limit=1_000)
            assert seen == [event for event in everything if event.owner == owner]

    def test_the_histories_of_many_jobs_are_read_at_once(self) -> None:
        ids = [job.id for job in self._population()[:6]]
        found = self.store.histories([*ids, "absent"])
        assert found == {job: self.events(job) for job in ids} | {"absent": []}
        assert self.store.histories([]) == {}

    def test_an_empty_log_begins_at_nothing(self) -> None:
        assert (self.store.last_position(), self.store.events()) == (0, [])

    @pytest.mark.parametrize("back", [1, 2, 3, 5, 6, 7, 1_000])
    def test_the_newest_are_found_from_the_end_also_if_they_were_written_at_once(self, back: int) -> None:
        """A whole transaction may share a position: then a few more are found, never fewer."""
        for number in (1, 2, 4):
            self.store.enqueue([self.new() for _ in range(number)])
        everything = self.events()
        found = self.store.events(after=self.store.last_position(back=back), limit=1_000)
        assert found == everything[-len(found) :]
        assert min(back, len(everything)) <= len(found) < back + 4

    def test_a_reader_that_follows_while_others_write_misses_nothing(self) -> None:
        stores = [self.store, self.twin()]
        wanted: list[list[NewJob]] = [[self.new() for _ in range(5)] for _ in range(20)]
        read: list[str] = []

        def follow() -> None:
            after = 0
            while len(read) < 100:
                for event in self.store.events(after=after, limit=7):
                    after = event.position
                    read.append(event.job)

        def write(place: int) -> None:
            for jobs in wanted[place::2]:
                stores[place].enqueue(jobs)

        answers = at_once([follow, lambda: write(0), lambda: write(1)])
        assert answers == [None, None, None]
        assert sorted(read) == sorted(job.id for jobs in wanted for job in jobs)

    # The store itself

    def test_the_store_goes_by_the_time_it_is_given(self) -> None:
        assert self.store.now() == self.now
        self.advance(timedelta(days=1, microseconds=1))
        assert self.store.now() == self.now

    def test_a_store_that_is_up_to_date_has_nothing_to_migrate(self) -> None:
        assert self.store.migrate() == []

    def test_a_change_is_noticed(self) -> None:
        changes = self.store.changes()
        try:
            assert changes.wait(0) is False
            self.enqueue()
            assert self._is_told(changes) is self.gives_hints
        finally:
            changes.close()

    def _is_told(self, changes: Changes) -> bool:
        """Soon: a store may answer earlier than asked to. One that gives no hints returns from every wait."""
        return any(changes.wait(1) for _ in range(50 if self.gives_hints else 1))

    def test_looking_for_work_is_no_change(self) -> None:
        self.enqueue("another", delay=HOUR)
        changes = self.store.changes()
        try:
            # The hint of the enqueue itself may still be on its way.
            while changes.wait(QUIET_SECONDS):
                pass
            self.store.jobs(JobFilter())
            self.store.events()
            assert self.claim() == []
            assert changes.wait(0) is False
        finally:
            changes.close()

    def test_a_change_made_on_another_connection_is_noticed(self) -> None:
        changes, twin = self.store.changes(), self.twin()
        try:
            changes.wait(0)
            twin.enqueue([self.new()])
            assert self._is_told(changes) is self.gives_hints
        finally:
            changes.close()

    def test_a_worker_in_the_same_process_is_woken_at_once(self) -> None:
        woken: list[str] = []
        end = self.store.on_hint(lambda: woken.append("now"))
        self.enqueue()
        assert woken == ["now"]
        end()
        self.enqueue()
        assert woken == ["now"]

    def test_what_one_connection_wrote_another_reads(self) -> None:
        twin = self.twin()
        job = self.enqueue()
        assert twin.job(job.id) == job
        (lease,) = self.claim(store=twin)
        assert self.job(job.id).leased_by == lease.fence.incarnation

    def test_a_store_can_be_closed_twice(self) -> None:
        store = self.twin()
        store.close()
        store.close()


def _filter(everything: Sequence[Job[Any]], fields: dict[str, Any]) -> JobFilter:
    """The filter of drawn fields: times count from the first job, ids are numbers of jobs."""
    start = everything[0].enqueued_at
    times = {name: None if fields[name] is None else start + fields[name] for name in TIMES}
    numbers = fields["ids"]
    ids = None if numbers is None else [everything[number].id if number < 40 else "absent" for number in numbers]
    return JobFilter(**{**fields, **times, "ids": ids})


def _matches(job: Job[Any], wanted: JobFilter, owner: str | None) -> bool:
    fields = {
        "kind": job.kind,
        "owner": job.owner,
        "queue": job.queue,
        "service": job.service,
        "worker": job.leased_by,
        "code": job.error_code,
        "error_class": job.error_class,
        "last_code": job.last_code,
        "group": job.group,
        "version": job.version,
    }
    return (
        all(getattr(wanted, name) in (None, value) for name, value in fields.items())
        and owner in (None, job.owner)
        and job.state in wanted.states
        and (wanted.ids is None or job.id in wanted.ids)
        and (wanted.tag is None or wanted.tag in job.tags)
        and (wanted.since is None or job.enqueued_at >= wanted.since)
        and (wanted.until is None or job.enqueued_at < wanted.until)
        and (wanted.finished_since is None or (job.finished_at or EPOCH) >= wanted.finished_since)
    )
