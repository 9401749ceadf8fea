"""Admission of HTTP requests: rates that hold for all processes together, marks of changes in flight, and the audit."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, SECOND, Bench, at_once
from mulligan.records.admission import (
    Admission,
    AdmissionRequest,
    Admitted,
    EndedRequest,
    InFlight,
    NewAuditEntry,
    RateExceeded,
)
from mulligan.records.key import NewKey, Scope
from mulligan.records.rate import Rate, parse_rate
from mulligan.store.request_admission import MARKED_FOR
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock

FAST, SLOW = parse_rate("1000/s"), parse_rate("5/m")


class AdmissionRules(Bench):
    # Rates

    def test_a_burst_is_admitted_and_then_one_at_the_pace_of_the_rate(self) -> None:
        assert self._admit_many(7) == [Admitted()] * 5 + [RateExceeded(timedelta(seconds=12))] * 2
        self.advance(timedelta(seconds=11))
        assert self._admit_many(1) == [RateExceeded(SECOND)]
        self.advance(SECOND)
        assert self._admit_many(2) == [Admitted(), RateExceeded(timedelta(seconds=12))]
        self.advance(HOUR)
        assert self._admit_many(6).count(Admitted()) == 5

    def test_requests_admitted_one_by_one_have_the_same_budget(self) -> None:
        assert [self._admit_many(1)[0] for _ in range(7)].count(Admitted()) == 5

    def test_one_subject_does_not_use_the_budget_of_another(self) -> None:
        wanted = [self._charged(subject, SLOW) for _ in range(6) for subject in ("key/a", "key/b")]
        assert self.store.admit(wanted).count(Admitted()) == 10

    def test_stores_of_several_processes_share_a_budget_exactly(self) -> None:
        stores = [self.store, self.twin()]
        answers = at_once([lambda store=store: self._admit_each(store, 20) for store in stores * 2])  # type: ignore[misc]
        assert [each for answer in answers if isinstance(answer, list) for each in answer].count(Admitted()) == 5

    def test_a_clock_that_was_set_back_blocks_no_request(self) -> None:
        self._admit_many(5)
        self.clock = VirtualClock(self.now - HOUR)
        assert self._admit_many(1) == [Admitted()]

    # Marks

    def test_a_change_in_flight_is_not_begun_again(self) -> None:
        first, second = self._audited_change("a", mark="m"), self._audited_change("b", mark="m")
        assert self.store.admit([first]) == [Admitted(self.now)]
        assert self.store.admit([second]) == [InFlight()]
        self.store.admit([], [EndedRequest("a", "m", 200)])
        assert self.store.admit([second]) == [Admitted(self.now)]

    def test_of_several_at_once_the_first_is_begun(self) -> None:
        wanted = [self._audited_change(name, mark="m") for name in "abc"] + [self._audited_change("d", mark="n")]
        assert self.store.admit(wanted) == [Admitted(self.now), InFlight(), InFlight(), Admitted(self.now)]
        assert sorted(self._audited()) == ["a", "d"]

    def test_a_mark_stands_for_the_first_request_that_succeeded(self) -> None:
        at = self.now
        requests = (None, "digest", "other", None)
        for number, request in enumerate(requests):
            known = None if number < 2 else "digest"
            assert self.store.admit([self._audited_change(f"a{number}", mark="m")]) == [Admitted(at, known)]
            self.store.admit([], [EndedRequest(f"a{number}", "m", 200, request=request)])
        # It came too late: the mark has another holder.
        self.store.admit([self._audited_change("b", mark="n")])
        self.store.admit([], [EndedRequest("a0", "n", 200, request="late")])
        self.advance(MARKED_FOR)
        assert self.store.admit([self._audited_change("c", mark="n")]) == [Admitted(at)]

    def test_a_request_id_that_is_no_mark_is_recorded_with_each_change(self) -> None:
        changes = [NewAuditEntry(id=name, actor="ann", action="POST /hooks", request_id="m") for name in "ab"]
        wanted = [AdmissionRequest(subject="key/k", rate=FAST, change=change) for change in changes]
        answers = self.store.admit([*wanted, self._audited_change("c", mark="m")])
        assert answers == [Admitted(), Admitted(), Admitted(self.now)]
        assert sorted(self._audited()) == ["a", "b", "c"]

    def test_of_several_processes_one_begins(self) -> None:
        stores = [self.store, self.twin()]
        answers = at_once(
            [lambda n=n: stores[n % 2].admit([self._audited_change(f"c{n}", mark="m")]) for n in range(4)]  # type: ignore[misc]
        )
        assert sorted(type(answer[0]).__name__ for answer in answers if isinstance(answer, list)) == [
            "Admitted",
            "InFlight",
            "InFlight",
            "InFlight",
        ]

    def test_an_end_frees_the_mark_for_a_request_that_came_with_it(self) -> None:
        self.store.admit([self._audited_change("a", mark="m")])
        answers = self.store.admit([self._audited_change("b", mark="m")], [EndedRequest("a", "m", 200)])
        assert answers == [Admitted(self.now)]

    def test_the_mark_of_a_process_that_died_expires(self) -> None:
        first_at = self.now
        self.store.admit([self._audited_change("a", mark="m")])
        self.advance(MARKED_FOR - INSTANT)
        assert self.store.admit([self._audited_change("b", mark="m")]) == [InFlight()]
        self.advance(INSTANT)
        assert self.store.admit([self._audited_change("c", mark="m")]) == [Admitted(first_at)]
        # The first was not dead, only slow: it does not free the mark of its successor.
        self.store.admit([], [EndedRequest("a", "m", 200)])
        assert self.store.admit([self._audited_change("d", mark="m")]) == [InFlight()]

    def test_a_request_beyond_its_rate_takes_no_mark_and_is_not_audited(self) -> None:
        self._admit_many(5, "key/k")
        assert isinstance(
            self.store.admit([self._audited_change("a", mark="m", subject="key/k", rate=SLOW)])[0], RateExceeded
        )
        assert self._audited() == []
        assert self.store.admit([self._audited_change("b", mark="m")]) == [Admitted(self.now)]

    def test_the_time_of_the_first_request_is_kept_for_a_day_however_it_ended(self) -> None:
        first_at = self.now
        for number, status in enumerate((201, 503, None)):
            assert self.store.admit([self._audited_change(f"a{number}", mark="m")]) == [Admitted(first_at)]
            self.store.admit([], [EndedRequest(f"a{number}", "m", status)])
            self.advance(HOUR)
            self.store.prune_access(audited_before=None, limit=9)
        self.store.admit([self._audited_change("b", mark="m")])
        self.advance(MARKED_FOR)
        assert self.twin().admit([self._audited_change("c", mark="m")]) == [Admitted(first_at)], "the process died"
        self.clock = VirtualClock(first_at + DAY + INSTANT)
        self.store.admit([], [EndedRequest("c", "m", 201)])
        self.store.prune_access(audited_before=None, limit=9)
        assert self.store.admit([self._audited_change("d", mark="m")]) == [Admitted(self.now)]

    def test_a_mark_in_flight_is_not_pruned_after_its_day(self) -> None:
        first_at = self.now
        self.store.admit([self._audited_change("a", mark="m")])
        self.store.admit([], [EndedRequest("a", "m", 201)])
        self.advance(DAY - SECOND)
        self.store.admit([self._audited_change("b", mark="m")])
        self.advance(MINUTE)
        self.store.prune_access(audited_before=None, limit=9)
        self.store.admit([], [EndedRequest("b", "m", 201)])
        assert self.store.admit([self._audited_change("c", mark="m")]) == [Admitted(first_at)]

    # The audit

    def test_a_change_is_audited_before_it_is_made_and_its_end_afterwards(self) -> None:
        change = NewAuditEntry(
            id=self.ids(),
            actor="ci (key k1)",
            action="POST /jobs/{job_id}/retry",
            target="j1",
            key="k1",
            owner="acme",
            request_id="r1",
            ip="192.0.2.1",
        )
        self.store.admit([AdmissionRequest(subject="key/k1", rate=FAST, change=change)])
        (before,) = self.store.audit()
        assert (before.actor, before.action, before.target) == (change.actor, change.action, "j1")
        assert (before.key, before.owner, before.request_id, before.ip) == ("k1", "acme", "r1", "192.0.2.1")
        assert (before.at, before.status, before.ended_at) == (self.now, None, None)
        self.advance(SECOND)
        self.store.admit([], [EndedRequest(change.id, None, 404, None, "b" * 64, "a" * 64)])
        (after,) = self.store.audit()
        assert (after.status, after.ended_at, after.target) == (404, self.now, "j1")
        assert (after.before_hash, after.after_hash) == ("b" * 64, "a" * 64)
        self.advance(SECOND)
        self.store.admit([], [EndedRequest(change.id, None, 200, "other")])
        assert self.store.audit() == [after], "an entry ends once"

    def test_a_target_that_is_known_only_afterwards_is_added(self) -> None:
        self.store.admit([self._audited_change("a")])
        self.store.admit([], [EndedRequest("a", None, 201, "k7")])
        assert [entry.target for entry in self.store.audit()] == ["k7"]

    def test_an_owner_sees_its_own_entries_newest_first_in_pages(self) -> None:
        for number in range(6):
            self.store.admit([self._audited_change(f"a{number}", owner="acme" if number % 2 else None)])
        assert self._audited() == ["a5", "a4", "a3", "a2", "a1", "a0"]
        assert self._audited(owner="acme") == ["a5", "a3", "a1"]
        assert self._audited(owner="acme", limit=1, cursor="a5") == ["a3"]
        assert self._audited(owner="") == []

    def test_only_its_retention_deletes_an_entry(self) -> None:
        self.store.admit([self._audited_change("old")])
        self.advance(DAY)
        self.store.admit([self._audited_change("new")])
        assert self.store.prune_access(audited_before=None, limit=9) == 0
        assert self._audited() == ["old", "new"]
        assert self.store.prune_access(audited_before=self.now - HOUR, limit=9) == 1
        assert self._audited() == ["new"]

    def test_marks_and_full_buckets_are_pruned_and_nothing_else(self) -> None:
        self.store.admit([self._audited_change("a", mark="m"), self._charged("key/slow", SLOW)])
        assert self.store.prune_access(audited_before=None, limit=9) == 0
        self.advance(MARKED_FOR + INSTANT)
        assert self.store.prune_access(audited_before=None, limit=9) == 2
        self.advance(DAY)
        assert self.store.prune_access(audited_before=None, limit=9) == 1
        assert self.store.prune_access(audited_before=None, limit=9) == 0

    # Keys

    def test_the_last_use_of_a_key_is_stored_to_the_minute(self) -> None:
        key = NewKey(
            id="k1",
            owner=None,
            name="a",
            scopes=(Scope.JOBS_READ,),
            digest="h",
            last_four="1234",
            created_by=None,
        )
        self.store.create_api_key(key)
        self.advance(timedelta(seconds=90))
        self.store.admit([AdmissionRequest(subject="key/k1", rate=FAST, used_key="k1")])
        (found,) = self.store.api_keys()
        assert found.last_used_at == self.now.replace(second=0, microsecond=0)
        self.clock = VirtualClock(self.now - MINUTE)
        self.store.admit([AdmissionRequest(subject="key/k1", rate=FAST, used_key="k1")])
        assert self.store.api_keys() == [found], "it never goes back"

    def _charged(self, subject: str = "key/k", rate: Rate = FAST) -> AdmissionRequest:
        return AdmissionRequest(subject=subject, rate=rate)

    def _audited_change(
        self,
        entry: str,
        *,
        mark: str | None = None,
        subject: str = "key/fast",
        rate: Rate = FAST,
        owner: str | None = None,
    ) -> AdmissionRequest:
        change = NewAuditEntry(id=entry, actor="ann", action="POST /jobs", owner=owner, request_id=mark)
        return AdmissionRequest(subject=subject, rate=rate, change=change, is_marked=mark is not None)

    def _admit_many(self, number: int, subject: str = "key/k") -> Sequence[Admission]:
        return self.store.admit([self._charged(subject, SLOW)] * number)

    def _admit_each(self, store: Store, number: int) -> list[Admission]:
        return [store.admit([self._charged("key/k", SLOW)])[0] for _ in range(number)]

    def _audited(self, **wanted: Any) -> list[str]:
        return [entry.id for entry in self.store.audit(**wanted)]
