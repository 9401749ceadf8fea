"""Failure groups and statistics: they equal a recount of the log, however it is cut into pages and by whomever."""

import random
from collections import Counter, defaultdict
from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, MINUTE, SECOND, Bench, failing, retrying, verdict
from mulligan.errors import GroupNotFound
from mulligan.failure.decision import Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.lifecycle import GROUP_EVENTS, Move, State
from mulligan.projections.fold import fold
from mulligan.records.event import Event
from mulligan.records.failure_group import FailureGroup, GroupDecision, GroupState
from mulligan.records.job import JobFilter
from mulligan.records.statistics import MOST_ROWS, SPANS, Statistic, judge_retries
from mulligan.store.store import Store

COUNTED = ("enqueued", "started", "succeeded", "retried", "failed", "snoozed", "parked", "released", "cancelled")
LONG_AGO, LATER = timedelta(days=4_000), timedelta(days=4_000)


class ProjectionRules(Bench):
    # Equal to a recount

    @pytest.mark.parametrize("seed", range(3))
    @pytest.mark.parametrize("limit", [1, 7, 1_000])
    def test_groups_and_statistics_are_what_the_log_says(self, seed: int, limit: int) -> None:
        self._live(random.Random(seed), steps=60, folds=limit)
        self._fold(limit=limit)
        events = self.events()
        assert self._counted() == _recount(events)
        assert {group.id: _numbers(group) for group in self._groups()} == _recount_groups(events, None)
        for owner in ("acme", "other"):
            own = {group.id: _numbers(group) for group in self._groups(owner=owner)}
            assert own == _recount_groups(events, owner)

    @pytest.mark.parametrize("limit", [1, 5])
    def test_pages_of_any_size_give_the_same(self, limit: int) -> None:
        self._live(random.Random(8), steps=60)
        self._fold(limit=1_000)
        before = self._everything()
        self.store.rebuild_projection()
        assert self._groups() == []
        self._fold(limit=limit)
        assert self._everything() == before

    def test_a_rebuild_keeps_what_is_older_than_the_log(self) -> None:
        self.settle(self.leased(), Succeed("1"))
        self.settle(self.leased(), failing("OLD"))
        self._fold()
        self.advance(2 * HOUR)
        assert self.store.prune(State.SUCCEEDED, before=self.now - HOUR, limit=10) == 1
        self.settle(self.leased(), failing("OLD"))
        self.settle(self.leased(), Retry(MINUTE, verdict("NEW", group="new"), {}))
        self._fold()
        before, groups = self._rows("minute"), self._groups()
        assert {row.code for row in before} == {"", "OLD", "NEW"}
        self.store.rebuild_projection()
        assert self.store.projection_status().is_rebuilding
        self._fold(limit=3)
        assert (self._rows("minute"), self._groups()) == (before, groups)
        assert self._rows("day") == self._rows("day")
        assert not self.store.projection_status().is_rebuilding

    def test_events_after_a_rebuild_count_in_hours_that_began_before_it(self) -> None:
        self.settle(self.leased(), Succeed("1"))
        self._fold()
        self.advance(HOUR)
        self.store.prune(State.SUCCEEDED, before=self.now, limit=10)
        self.store.rebuild_projection()
        self._fold()
        self.advance(SECOND)
        self.settle(self.leased(), Succeed("1"))
        self._fold()
        assert sum(row.number for row in self._rows("day") if row.outcome == "succeeded") == 2

    # One writer

    def test_a_page_counts_once_whichever_processes_fold_it(self) -> None:
        self.settle(self.leased(), failing())
        page = self.store.next_entries(limit=100)
        folded = fold(page.entries)
        assert self.store.apply_folded(page, folded)
        assert not self.twin().apply_folded(page, folded)
        (group,) = self._groups()
        assert (group.failures, group.jobs, group.failed) == (1, 1, 1)

    def test_the_position_says_how_far_behind_it_is(self) -> None:
        assert self.store.projection_status().lag == timedelta(0)
        self.enqueue()
        self.advance(MINUTE)
        status = self.store.projection_status()
        assert (status.lag, status.reached_at) == (MINUTE, None)
        self._fold()
        status = self.store.projection_status()
        assert (status.lag, status.reached_at) == (timedelta(0), self.now - MINUTE)

    def test_events_that_were_deleted_before_they_were_folded_are_reported(self) -> None:
        self.settle(self.leased(), Succeed("1"))
        self.advance(DAY)
        assert self.store.prune(State.SUCCEEDED, before=self.now, limit=10) == 1, "it holds up nothing"
        self.enqueue()
        self._fold()
        assert self.store.projection_status().missed_at == self.now

    # What a group says

    def test_a_failure_that_recovered_is_in_its_group(self) -> None:
        lease = self.leased(cost=3)
        self.settle(lease, retrying(SECOND, "OFF"))
        self._fold()
        (group,) = self._groups()
        assert (group.jobs, group.failed, group.recovered) == (1, 0, 0)
        self.advance(2 * SECOND)
        (again,) = self.claim()
        self.settle(again, Succeed("1"))
        self._fold()
        (group,) = self._groups()
        assert (group.failures, group.jobs, group.failed, group.recovered, group.cost) == (1, 1, 0, 1, 3)
        (row,) = [row for row in self._rows("minute") if row.outcome == "recovered"]
        assert (row.code, row.attempt, row.seconds) == ("OFF", 2, 2.0)

    def test_retries_have_not_helped_only_once_their_job_has_failed(self) -> None:
        lease = self.leased()
        self.settle(lease, Retry(SECOND, verdict("OFF", group="off"), {}))
        self._fold()
        assert self._never_helped() == {}, "its retry is pending"
        self.advance(2 * SECOND)
        (again,) = self.claim()
        self.settle(again, Fail(verdict("BROKEN", group="broken"), {}))
        self._fold()
        assert self._never_helped() == {"OFF": 1}, "and BROKEN was not retried"
        (row,) = [row for row in self._rows("minute") if row.outcome == "unrecovered"]
        assert (row.code, row.attempt, row.number, row.seconds) == ("OFF", 2, 1, 2.0)

    @pytest.mark.parametrize("limit", [1, 1_000])
    def test_a_job_that_fails_again_after_a_manual_retry_has_failed_twice(self, limit: int) -> None:
        lease = self.leased()
        self.settle(lease, Retry(SECOND, verdict("OFF", group="off"), {}))
        for _ in range(2):
            self.advance(2 * SECOND)
            (again,) = self.claim()
            self.settle(again, Fail(verdict("OFF", group="off"), {}))
            self.move(Move.MANUAL_RETRY, lease.fence.id)
        self._fold(limit=limit)
        assert self._never_helped() == {"OFF": 2}
        (again,) = self.claim()
        self.settle(again, Succeed("1"))
        self._fold()
        assert self._never_helped() == {}

    def test_a_job_that_a_person_retried_has_not_failed_any_longer(self) -> None:
        lease = self.leased()
        self.settle(lease, failing())
        self._fold()
        self.move(Move.MANUAL_RETRY, lease.fence.id)
        self._fold()
        (group,) = self._groups()
        assert (group.jobs, group.failed, group.recovered) == (1, 0, 0)
        (again,) = self.claim()
        self.settle(again, Succeed("1"))
        self._fold()
        (group,) = self._groups()
        assert (group.jobs, group.failed, group.recovered) == (1, 0, 1)

    def test_a_group_names_versions_services_and_its_last_failure(self) -> None:
        self.enqueue(owner="acme", service="gateway")
        (lease,) = self.claim(version="1.2")
        self.settle(lease, retrying(code="OFF"))
        self._fold()
        (group,) = self._groups()
        assert [seen.name for seen in group.versions] == ["1.2"]
        assert [seen.name for seen in group.services] == ["gateway"]
        assert [seen.name for seen in group.kinds] == ["send"]
        assert (group.sample.job, group.sample.attempt, group.sample.code) == (lease.fence.id, 1, "OFF")
        assert [seen.name for seen in self.store.group_owners(group.id)] == ["acme"]
        assert [(count.failures, count.failed) for count in group.hours] == [(1, 0)]

    def test_an_owner_sees_only_groups_with_its_own_jobs_and_its_own_counts(self) -> None:
        for owner, number in (("acme", 3), ("other", 1)):
            for _ in range(number):
                self.settle(self.leased(owner=owner), failing("BOTH"))
        self.settle(self.leased(owner="other"), Fail(verdict("THEIRS", group="theirs"), {}))
        self._fold()
        assert len(self._groups()) == 2
        (group,) = self._groups(owner="acme")
        assert (group.failures, group.jobs, group.failed, group.owners) == (3, 3, 3, 1)
        acme = {job.id for job in self.store.jobs(JobFilter(), owner="acme").jobs}
        assert group.sample.job in acme
        assert self.store.group("theirs", owner="acme") is None
        assert self._groups(owner="nobody") == []

    def test_the_group_that_hurts_most_comes_first(self) -> None:
        for _ in range(20):
            self.settle(self.leased(), Fail(verdict("OLD", group="old"), {}))
        self.advance(10 * DAY)
        self.settle(self.leased(), Retry(HOUR, verdict("SMALL", group="small"), {}))
        self.settle(self.leased(), Fail(verdict("FINAL", group="final"), {}))
        self._fold()
        assert [group.id for group in self._groups()] == ["final", "small", "old"]
        assert [group.id for group in self._groups(order="failures")] == ["old", "final", "small"]
        found, following = self.store.groups(limit=2)
        assert ([group.id for group in found], following) == (["final", "small"], 2)
        found, following = self.store.groups(limit=2, skip=2)
        assert ([group.id for group in found], following) == (["old"], None)
        assert [group.id for group in self._groups(code="SMALL")] == ["small"]

    def test_groups_are_ordered_by_their_impact_at_any_time(self) -> None:
        draw = random.Random(5)
        for number in range(12):
            for _ in range(draw.randrange(1, 9)):
                self.advance(timedelta(hours=draw.randrange(30)))
                self.settle(self.leased(owner=draw.choice("abcdefgh")), Fail(verdict("X", group=f"g{number}"), {}))
        self._fold(limit=7)
        for owner in (None, "a"):
            impacts = [group.impact for group in self._groups(owner=owner)]
            assert impacts == sorted(impacts, reverse=True)
        later = [group.id for group in self._groups()]
        self.advance(30 * DAY)
        assert [group.id for group in self._groups()] == later

    def test_groups_are_counted_by_state(self) -> None:
        for name in ("one", "two", "three", "four"):
            code = "OFF" if name == "one" else "ON"
            self.settle(self.leased(owner="acme"), Fail(verdict(code, group=name), {}))
        self._fold()
        assert self.store.count_groups() == {"open": 4}
        self._decide("one", GroupState.IGNORED, until=HOUR)
        self._decide("two", GroupState.RESOLVED)
        self._decide("three", GroupState.IGNORED, growth=2)
        counts = {"open": 1, "ignored": 2, "resolved": 1}
        assert self.store.count_groups() == self.store.count_groups(owner="acme") == counts
        assert self.store.count_groups(owner="other") == {"open": 0}
        assert self.store.count_groups(code="OFF", kind="send") == {"open": 0, "ignored": 1}
        self.advance(HOUR)
        assert self.store.count_groups() == {"open": 2, "ignored": 1, "resolved": 1}
        assert {group.id for group in self._groups(states=[GroupState.OPEN])} == {"one", "four"}

    @pytest.mark.parametrize("step", [MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY])
    def test_a_trend_is_what_the_statistics_say(self, step: timedelta) -> None:
        for seed in range(3):
            self._live(random.Random(seed), steps=40)
            self.advance(3 * HOUR)
        self._fold()
        expected: dict[Any, Counter[str]] = defaultdict(Counter)
        for row in self._rows("minute"):
            if row.outcome in ("retried", "failed", "recovered") and row.owner == "acme":
                at = row.at - timedelta(seconds=row.at.timestamp() % step.total_seconds())
                expected[at][row.outcome] += row.number
        found = self.store.failure_points(step, since=self.now - LONG_AGO, until=self.now + LATER, owner="acme")
        assert {point.at: (point.retried, point.failed, point.recovered) for point in found} == {
            at: (numbers["retried"], numbers["failed"], numbers["recovered"]) for at, numbers in expected.items()
        }
        assert [point.at for point in found] == sorted(expected)
        assert self.store.failure_points(step, since=self.now - DAY, until=self.now, code="none") == []

    # What people decide

    def test_a_group_is_ignored_until_a_time(self) -> None:
        group = self._failed_group()
        ignored = self._decide(group, GroupState.IGNORED, until=HOUR, actor="ann", reason="known")
        assert (ignored.state, ignored.decided_by, ignored.reason) == (GroupState.IGNORED, "ann", "known")
        assert self._groups(states=[GroupState.OPEN]) == []
        self.advance(HOUR)
        assert [found.id for found in self._groups(states=[GroupState.OPEN])] == [group]

    def test_a_group_is_ignored_until_it_grows(self) -> None:
        group = self._failed_group()
        assert self._decide(group, GroupState.IGNORED, growth=3).ignored_below == 3
        for _ in range(2):
            assert self.store.group(group).state is GroupState.IGNORED  # type: ignore[union-attr]
            self._failed_group()
        assert self.store.group(group).state is GroupState.OPEN  # type: ignore[union-attr]

    def test_a_resolved_group_regresses_in_a_version_that_is_new(self) -> None:
        group = self._failed_group(version="1.0")
        self.advance(SECOND)
        self._decide(group, GroupState.RESOLVED)
        self.advance(SECOND)
        self._failed_group(version="1.0")
        assert self.store.group(group).state is GroupState.RESOLVED, "an old worker"  # type: ignore[union-attr]
        self._failed_group(version="1.1")
        found = self.store.group(group)
        assert found is not None
        assert (found.state, found.regressed_at) == (GroupState.REGRESSED, self.now)
        assert self._decide(group, GroupState.OPEN).state is GroupState.OPEN

    def test_without_versions_a_resolved_group_regresses_when_it_is_seen_again(self) -> None:
        group = self._failed_group()
        self.advance(SECOND)
        self._decide(group, GroupState.RESOLVED)
        self.advance(SECOND)
        self._failed_group()
        assert self.store.group(group).state is GroupState.REGRESSED  # type: ignore[union-attr]

    def test_a_decision_survives_a_rebuild_and_is_in_the_log(self) -> None:
        group = self._failed_group()
        self.advance(SECOND)
        self._decide(group, GroupState.RESOLVED, actor="ann", reason="fixed")
        self.store.rebuild_projection()
        self._fold()
        found = self.store.group(group)
        assert found is not None
        assert (found.state, found.decided_by, found.failures) == (GroupState.RESOLVED, "ann", 1)
        event = self.events()[-1]
        assert (event.type, event.actor, event.data) == (
            "group.resolved",
            "ann",
            {"what": "group", "name": group, "reason": "fixed"},
        )

    @pytest.mark.parametrize("decision", [GroupState.IGNORED, GroupState.RESOLVED, GroupState.OPEN])
    def test_the_log_says_who_decided_about_a_group_and_why(self, decision: GroupState) -> None:
        self._decide(self._failed_group(), decision, actor="ann", reason="known")
        event = self.events()[-1]
        assert (event.type, event.actor) == (GROUP_EVENTS[decision], "ann")
        assert event.data == {"what": "group", "name": "off", "reason": "known"}

    def test_an_unknown_group_cannot_be_decided_about(self) -> None:
        with pytest.raises(GroupNotFound):
            self._decide("nothing", GroupState.RESOLVED)

    # Bounds and retention

    def test_a_minute_has_a_limited_number_of_rows_and_the_rest_is_counted(self) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mulligan.records.statistics.MOST_OWN_ROWS", 5)
            for number in range(9):
                self.enqueue(owner=f"owner-{number}")
            self._fold(limit=4)
        rows = self._rows("minute")
        assert len(rows) == 6
        assert [(row.number, row.owner, row.outcome) for row in rows if row.is_other] == [(4, "", "enqueued")]
        assert sum(row.number for row in rows) == 9
        assert MOST_ROWS == 1_000

    def test_old_groups_and_statistics_are_deleted(self) -> None:
        self._failed_group()
        self.advance(2 * DAY)
        self.enqueue()
        self._fold()
        assert self.store.prune_groups(before=self.now - DAY, limit=10) == 1
        assert self._groups() == []
        assert self.store.prune_statistics(SPANS["minute"], before=self.now - DAY, limit=10) == 1
        assert {row.at for row in self._rows("minute")} == {self.now.replace(second=0, microsecond=0)}

    def test_a_deleted_job_is_no_failing_one(self) -> None:
        self._failed_group()
        assert self._count_failing() == 1
        self.advance(DAY)
        assert self.store.prune(State.FAILED, before=self.now, limit=10) == 1
        assert self._count_failing() == 0

    def _count_failing(self) -> int:
        count = "SELECT count(*) AS number FROM mulligan_failing"
        return int(self.store._backend.read(lambda session: session.execute(count, {}))[0]["number"])

    # Words

    def _fold(self, *, limit: int = 1_000, store: Store | None = None) -> None:
        store = store or self.store
        while True:
            page = store.next_entries(limit=limit)
            if page.position == page.after:
                return
            assert store.apply_folded(page, fold(page.entries))

    def _failed_group(self, version: str | None = None) -> str:
        self.enqueue()
        (lease,) = self.claim(version=version)
        self.settle(lease, Fail(verdict("OFF", group="off"), {}))
        self._fold()
        return "off"

    def _decide(self, group: str, decision: GroupState, **terms: Any) -> FailureGroup:
        return self.store.decide_group(GroupDecision(id=self.ids(), group=group, decision=decision, **terms))

    def _groups(self, **terms: Any) -> list[FailureGroup]:
        return self.store.groups(limit=1_000, **terms)[0]

    def _rows(self, span: str) -> list[Statistic]:
        since, until = self.now - LONG_AGO, self.now + LATER
        return self.store.statistics(SPANS[span], since=since, until=until, limit=100_000)

    def _never_helped(self) -> dict[str, int]:
        """How many jobs, by code."""
        return {result.code: result.unrecovered for result in judge_retries(self._rows("day")).never_helped}

    def _counted(self) -> dict[str, dict[tuple[Any, ...], tuple[int, int]]]:
        return {
            span: {
                (row.at, row.kind, row.owner, row.service, row.outcome, row.code, row.attempt): (row.number, row.cost)
                for row in self._rows(span)
                if row.outcome not in ("recovered", "unrecovered")
            }
            for span in SPANS
        }

    def _everything(self) -> Any:
        rows = {span: [(row, pytest.approx(row.seconds)) for row in self._rows(span)] for span in SPANS}
        return [[row for row, _ in each] for each in rows.values()], self._groups(), self._groups(owner="acme")

    def _live(self, draw: random.Random, *, steps: int, folds: int | None = None) -> None:
        """Some life: jobs of several owners and kinds that fail, recover, end and are retried."""
        for _ in range(steps):
            match draw.randrange(5):
                case 0 | 1:
                    self.enqueue(
                        draw.choice(("send", "call")),
                        owner=draw.choice(("", "acme", "other")),
                        service=draw.choice(("", "gateway")),
                        cost=draw.randrange(3),
                    )
                case 2 | 3:
                    for lease in self.claim("send", "call", limit=3, version=draw.choice((None, "1", "2"))):
                        self.settle(lease, _an_end(draw))
                case _:
                    found = self.store.jobs(JobFilter(state="failed")).jobs
                    if found:
                        self.move(Move.MANUAL_RETRY, draw.choice(found).id)
            self.advance(timedelta(seconds=draw.choice((0, 1, 40, 4_000))))
            if folds and draw.random() < 0.3:
                self._fold(limit=folds)


def _an_end(draw: random.Random) -> Any:
    code = draw.choice(("OFF", "BROKEN"))
    failed = verdict(code, group=f"group-{code}")
    return draw.choice(
        (
            Succeed("1"),
            Retry(SECOND, failed, {}),
            Retry(SECOND, failed, {}),
            Fail(failed, {}),
            Postpone(SECOND, verdict("SNOOZED"), {}),
            Park(SECOND, SECOND, failed, {}),
            Release({}, None, failed),
        )
    )


def _recount(events: list[Event]) -> dict[str, dict[tuple[Any, ...], tuple[int, int]]]:
    """The counts by plain Python, event by event."""
    found: dict[str, dict[tuple[Any, ...], tuple[int, int]]] = {span: {} for span in SPANS}
    for event in events:
        outcome = event.type.removeprefix("job.")
        if not event.type.startswith("job.") or outcome not in COUNTED:
            continue
        for span, begin in (
            ("minute", event.at.replace(second=0, microsecond=0)),
            ("hour", event.at.replace(minute=0, second=0, microsecond=0)),
            ("day", event.at.replace(hour=0, minute=0, second=0, microsecond=0)),
        ):
            key = (begin, event.kind, event.owner, event.service, outcome, event.code or "", min(event.attempt, 10))
            number, cost = found[span].get(key, (0, 0))
            found[span][key] = (number + 1, cost + (event.cost if "seconds" in event.data else 0))
    return found


def _numbers(group: FailureGroup) -> tuple[int, int, int, int]:
    return group.failures, group.jobs, group.failed, group.recovered


def _recount_groups(events: list[Event], owner: str | None) -> dict[str, tuple[int, int, int, int]]:
    failures, jobs, last = Counter[str](), defaultdict[str, set[str]](set), dict[str, str | None]()
    succeeded = set[str]()
    for event in events:
        if owner is not None and event.owner != owner:
            continue
        group = event.data.get("group")
        if group and event.code != "SNOOZED":
            failures[group] += 1
            jobs[group].add(event.job)
            if event.type == "job.failed":
                last[event.job] = group
        if event.type in ("job.retry_requested", "job.run_requested"):
            last[event.job] = None
        if event.type == "job.succeeded":
            succeeded.add(event.job)
    return {
        group: (
            failures[group],
            len(jobs[group]),
            sum(last.get(job) == group for job in jobs[group]),
            len(jobs[group] & succeeded),
        )
        for group in failures
    }
