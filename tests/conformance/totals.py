"""Totals of metrics: they equal a recount of the log, never fall, and have a limited number of series."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from conformance.bench import DAY, HOUR, MINUTE, SECOND, Bench, failing, retrying, verdict
from mulligan.failure.decision import Release, Succeed
from mulligan.failure.verdict import Ledger
from mulligan.lifecycle import Move, State
from mulligan.projections.fold import fold
from mulligan.records.job import ReportedCall
from mulligan.records.metric import BY_NAME, CREATED, TotalKey
from mulligan.records.statistics import SPANS
from mulligan.service.records import ServiceRequest
from mulligan.store.messages import Outcome
from mulligan.store.store import Store

LOST = Release({"loss": 1, "of": 10}, Ledger.LOSSES, verdict("WORKER_LOST", ledger=Ledger.LOSSES))


class TotalRules(Bench):
    # What is counted

    @pytest.mark.parametrize("limit", [1, 7, 1_000])
    def test_totals_are_what_the_log_says_however_it_is_cut_into_pages(self, limit: int) -> None:
        self._some_of_each()
        self._add_up(limit=limit)
        types = Counter(event.type for event in self.events())
        totals = self._totals()
        assert self._total("jobs_created_total") == types["job.enqueued"] == 5
        assert totals["jobs_completed_total", ("send",)] == types["job.succeeded"] == 1
        assert totals["jobs_failed_total", ("GW_4XX", "send")] == types["job.failed"] == 2
        assert totals["jobs_non_retryable_total", ("GW_4XX",)] == 2
        assert totals["jobs_cancelled_total", ("send",)] == types["job.cancelled"] == 1
        assert totals["jobs_retried_total", ("automatic",)] == types["job.retried"] == 1
        assert totals["jobs_retried_total", ("manual",)] == types["job.retry_requested"] == 1
        assert totals["manual_retry_total", ()] == 1
        assert totals["retries_scheduled_total", ("GW_5XX",)] == 1
        assert totals["retry_outcomes_total", ("2", "succeeded")] == 1
        assert totals["job_processing_duration_seconds", ("send",)] == 4
        assert totals["job_wait_seconds", ("send",)] == types["job.started"] == 4

    def test_the_latency_of_a_service_is_that_of_its_recorded_calls_also_of_successes(self) -> None:
        lease = self.leased(service="gateway")
        calls = [ReportedCall("gateway", ok=True, seconds=0.2), ReportedCall("other", ok=False, seconds=7.0)]
        self.store.settle([Outcome(lease, Succeed("1"), calls=tuple(calls), seconds=9.0)])
        self.settle(self.leased(service="plain"), Succeed("1"))
        self._add_up()
        found = {key.labels: tally for key, tally in self.store.totals().items() if key.name.startswith("service_lat")}
        assert {labels: tally.seconds for labels, tally in found.items()} == {
            ("gateway", "ok"): 0.2,
            ("other", "failed"): 7.0,
            ("plain", "ok"): 0.5,
        }
        assert found["gateway", "ok"].histogram[3] == 1, "0.1 s < 0.2 s ≤ 0.25 s"

    def test_attempts_that_were_taken_from_their_worker_are_counted_by_cause(self) -> None:
        lost = self.leased()
        self.advance(HOUR)
        self.settle(lost, LOST, by="the-reclaimer")
        stuck = self.leased(by="slow", lease=DAY)
        self.advance(HOUR)
        late = Outcome(stuck, retrying(code="TIMEOUT"), reclaimed_by="ann, manually", stuck_after=MINUTE)
        self.store.settle([late])
        self._add_up()
        totals = self._totals()
        assert totals["stuck_recovered_total", ("worker_lost",)] == 1
        assert totals["stuck_recovered_total", ("stuck",)] == 1

    # They never fall

    def test_neither_retention_nor_a_rebuild_changes_totals(self) -> None:
        self._some_of_each()
        self._add_up()
        before = self.store.totals()
        self.advance(DAY)
        self.store.prune(State.SUCCEEDED, before=self.now, limit=10)
        self.store.prune_statistics(SPANS["minute"], before=self.now, limit=100)
        self.store.rebuild_projection()
        assert self.store.totals() == before
        self._add_up(limit=2)
        assert self.store.totals() == before
        self.enqueue()
        self._add_up()
        assert self._total("jobs_created_total") == 6

    def test_a_page_is_added_to_the_totals_once(self) -> None:
        self.enqueue()
        page = self.store.next_entries(limit=10)
        assert self.store.apply_folded(page, fold(page.entries))
        assert not self.twin().apply_folded(page, fold(page.entries))
        assert self._total("jobs_created_total") == 1

    # Bounds

    def test_a_metric_has_a_limited_number_of_series_and_the_rest_is_counted(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(BY_NAME, CREATED.name, replace(CREATED, most=3))
            for number in range(5):
                self.enqueue(f"kind-{number}")
                self._add_up()
            self.enqueue("kind-1")
            self._add_up()
        created = {labels[0]: number for (name, labels), number in self._totals().items() if name == CREATED.name}
        assert created == {"kind-0": 1, "kind-1": 2, "kind-2": 1, "other": 2}

    def test_series_that_have_not_changed_for_long_make_room_and_their_sum_stays(self) -> None:
        for kind in ("old", "older"):
            self.enqueue(kind)
        self.in_state(State.CANCELLED)
        self._add_up()
        self.advance(2 * DAY)
        self.enqueue("new")
        self._add_up()
        assert self.store.prune_totals(before=self.now - DAY) == 4
        assert self.store.prune_totals(before=self.now - DAY) == 0
        created = {labels[0]: number for (name, labels), number in self._totals().items() if name == CREATED.name}
        assert created == {"new": 1, "other": 3}

    # Breakers

    def test_the_time_that_a_breaker_is_open_is_counted_while_it_is_open(self) -> None:
        seen = []
        self._force_gateway("open")
        for _ in range(3):
            self.advance(25 * SECOND)
            self.enqueue()
            self._add_up()
            seen.append(self._open_seconds())
        assert self.store.open_breakers(limit=5) == ["gateway"]
        self.advance(5 * SECOND)
        self._force_gateway("closed")
        self.advance(HOUR)
        self.enqueue()
        self._add_up()
        assert [*seen, self._open_seconds()] == [25, 50, 75, 80]
        assert self.store.open_breakers(limit=5) == []

    def test_a_breaker_whose_end_was_deleted_uncounted_is_not_open_for_ever(self) -> None:
        self.settle(self.leased(), Succeed("1"))
        self._force_gateway("open")
        self._add_up()
        self.settle(self.leased(), Succeed("1"))
        self.advance(DAY)
        self.store.prune(State.SUCCEEDED, before=self.now, limit=10)
        self.enqueue()
        self._add_up()
        assert self.store.projection_status().missed_at is not None
        assert self.store.open_breakers(limit=5) == []

    # Depths

    def test_depths_are_exact_while_there_are_few(self) -> None:
        self.enqueue("other", delay=HOUR)
        self.enqueue("other")
        self.leased()
        assert self.store.depths() == {State.WAITING: 1, State.QUEUED: 1, State.RUNNING: 1}

    def test_many_jobs_are_counted_now_and_then_by_one_process(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            for module in ("counts", "depths"):
                patch.setattr(f"mulligan.store.{module}.MOST_READ", 3)
            self.store.enqueue([self.new() for _ in range(7)])
            assert self.store.depths()[State.QUEUED] == 3, "at least"
            self.store.count_depths()
            assert self.store.depths() == {State.WAITING: 0, State.QUEUED: 7, State.RUNNING: 0}
            self.store.enqueue([self.new() for _ in range(2)])
            self.store.count_depths()
            assert self.store.depths()[State.QUEUED] == 7, "it was counted within this minute"
            self.advance(2 * MINUTE)
            self.store.count_depths()
            assert self.store.depths()[State.QUEUED] == 9
            self.advance(DAY)
            assert self.store.depths()[State.QUEUED] == 3, "no worker counts any more"

    # Words

    def _some_of_each(self) -> None:
        """Jobs that succeed, fail, are retried by a policy and by a person, and are cancelled."""
        self.settle(self.leased(), retrying(SECOND))
        self.advance(2 * SECOND)
        (again,) = self.claim()
        self.settle(again, Succeed("1"))
        failed = self.leased()
        self.settle(failed, failing())
        self.settle(self.leased(), failing())
        self.move(Move.MANUAL_RETRY, failed.fence.id)
        self.in_state(State.CANCELLED)
        self.enqueue("other")

    def _add_up(self, *, limit: int = 1_000, store: Store | None = None) -> None:
        store = store or self.store
        while True:
            page = store.next_entries(limit=limit)
            if page.position == page.after:
                return
            assert store.apply_folded(page, fold(page.entries))

    def _force_gateway(self, to: str) -> None:
        self.store.force(ServiceRequest(id=self.ids(), name="gateway", to=to))

    def _totals(self) -> dict[tuple[str, tuple[str, ...]], int]:
        return {(key.name, key.labels): tally.number for key, tally in self.store.totals().items()}

    def _total(self, metric: str) -> int:
        return sum(number for (name, _), number in self._totals().items() if name == metric)

    def _open_seconds(self) -> float:
        found = self.store.totals().get(TotalKey("breaker_open_seconds_total", ("gateway",)))
        return found.seconds if found else timedelta(0).total_seconds()
