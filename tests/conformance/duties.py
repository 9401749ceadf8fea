"""Duties and their pauses: paused work waits, loses nothing and delays no other work; a manual run still works."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from conformance.bench import DAY, HOUR, INSTANT, MINUTE, SECOND, Bench, at_once, retrying, verdict
from mulligan.failure.decision import Postpone
from mulligan.failure.verdict import deadline_passed
from mulligan.lifecycle import DUTY_DONE, PAUSED, RESUMED, Move, State
from mulligan.records.duty import DutyOverview, DutyRun
from mulligan.records.job import Job
from mulligan.records.pause import Pause, PauseRequest
from mulligan.records.schedule import SEEN_EVERY, Definition, ScheduleChange, ScheduleRecord
from mulligan.store.store import Store

# How a job comes to wait, and which duty lets it in again.
WAYS = {
    "retry": "retry",
    "rate limit": "retry",
    "delay": "promote",
    "snooze": "promote",
    "manual snooze": "promote",
}
EACH_WAY = pytest.mark.parametrize("way", WAYS)
OTHER = {"retry": "promote", "promote": "retry"}


class DutyRules(Bench):
    # Pause and resume

    def test_a_pause_is_listed_with_actor_and_reason_until_it_is_over(self) -> None:
        asked = self._pause("retry", HOUR, actor="ann", reason="the gateway is down")
        expected = Pause(
            what="duty", name="retry", since=self.now, until=self.now + HOUR, actor="ann", reason="the gateway is down"
        )
        assert asked == expected
        assert self.store.pauses() == [expected]
        self.advance(HOUR - INSTANT)
        assert self.store.pauses() == [expected]
        self.advance(INSTANT)
        assert self.store.pauses() == []

    def test_a_pause_without_an_end_lasts_until_it_is_resumed(self) -> None:
        self._pause("retry")
        self.advance(400 * DAY)
        (pause,) = self.store.pauses()
        assert pause.until is None
        assert self._resume("retry") == pause
        assert self.store.pauses() == []

    def test_resuming_what_is_not_paused_does_nothing_and_says_so(self) -> None:
        assert self._resume("retry") is None
        self._pause("retry", MINUTE)
        self.advance(MINUTE)
        assert self._resume("retry") is None
        assert self._types() == [PAUSED]

    def test_a_second_pause_replaces_the_first(self) -> None:
        self._pause("retry", HOUR, actor="ann")
        self._pause("retry", MINUTE, actor="bob")
        (pause,) = self.store.pauses()
        assert (pause.actor, pause.until) == ("bob", self.now + MINUTE)

    def test_pauses_of_different_things_do_not_touch_each_other(self) -> None:
        self._pause("retry")
        self._pause("expire")
        self.store.pause(PauseRequest(id=self.ids(), what="queue", name="retry"))
        self._resume("retry")
        assert [(pause.what, pause.name) for pause in self.store.pauses()] == [("duty", "expire"), ("queue", "retry")]

    def test_pausing_and_resuming_are_in_the_log_with_actor_and_reason(self) -> None:
        self._pause("retry", HOUR, actor="ann", reason="maintenance")
        self._resume("retry", actor="bob", reason="it is over")
        paused, resumed = self.store.events()
        assert (paused.type, paused.job, paused.owner, paused.actor) == (PAUSED, "", "", "ann")
        assert paused.data == {"what": "duty", "name": "retry", "for": 3600.0, "reason": "maintenance"}
        assert (resumed.type, resumed.job, resumed.actor) == (RESUMED, "", "bob")
        assert (resumed.data["name"], resumed.data["reason"]) == ("retry", "it is over")
        assert (resumed.data["paused"]["actor"], resumed.data["paused"]["reason"]) == ("ann", "maintenance")
        assert paused.at == self.now

    def test_the_same_request_to_pause_changes_nothing_more(self) -> None:
        request = PauseRequest(id=self.ids(), what="duty", name="retry", duration=HOUR)
        first = self.store.pause(request)
        self.advance(MINUTE)
        assert self.store.pause(request) == first
        assert self._types() == [PAUSED]

    def test_a_request_to_pause_that_is_repeated_after_the_end_does_not_pause_again(self) -> None:
        request = PauseRequest(id=self.ids(), what="queue", name="mail", duration=HOUR, actor="ann", reason="moving")
        first = self.store.pause(request)
        self.advance(MINUTE)
        self.store.resume(PauseRequest(id=self.ids(), what="queue", name="mail"))
        assert self.store.pause(request) == first
        assert self.store.pauses() == []

    def test_a_request_to_pause_that_is_repeated_leaves_a_later_pause_alone(self) -> None:
        request = PauseRequest(id=self.ids(), what="duty", name="retry", actor="ann")
        first = self.store.pause(request)
        later = self._pause("retry", HOUR, actor="bob", reason="moving")
        assert (first.until, first.reason) == (None, None)
        assert self.store.pause(request) == first
        assert self.store.pauses() == [later]

    @pytest.mark.parametrize("duration", [HOUR, None])
    def test_a_request_to_resume_that_is_repeated_leaves_a_later_pause_alone(self, duration: timedelta | None) -> None:
        self._pause("retry", duration, actor="ann", reason="maintenance" if duration else None)
        self.advance(MINUTE)
        request = PauseRequest(id=self.ids(), what="duty", name="retry", actor="bob")
        ended = self.store.resume(request)
        assert ended is not None
        assert self.store.resume(request) == ended
        later = self._pause("retry")
        assert self.store.resume(request) == ended
        assert self.store.pauses() == [later]
        assert self._types() == [PAUSED, RESUMED, PAUSED]

    def test_a_pause_made_elsewhere_holds_here(self) -> None:
        twin = self.twin()
        job = self._waiting("retry")
        twin.pause(PauseRequest(id=self.ids(), what="duty", name="retry"))
        self.advance(HOUR)
        assert self.claim() == []
        twin.resume(PauseRequest(id=self.ids(), what="duty", name="retry"))
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    # What is paused waits

    @EACH_WAY
    def test_while_its_duty_is_paused_no_claim_promotes_a_job(self, way: str) -> None:
        job = self._waiting(way)
        self._pause(WAYS[way])
        self.advance(HOUR)
        for _ in range(2):
            assert self.claim() == []
        held = self.job(job.id)
        assert (held.state, held.waiting_for) == (State.WAITING, job.waiting_for)
        assert "job.queued" not in self.types(job.id)

    @EACH_WAY
    def test_after_a_resume_the_next_claim_promotes_the_jobs(self, way: str) -> None:
        job = self._waiting(way)
        self._pause(WAYS[way])
        self.advance(HOUR)
        self.claim()
        self._resume(WAYS[way])
        assert [lease.fence.id for lease in self.claim()] == [job.id]
        assert self.types(job.id).count("job.queued") == 1

    @EACH_WAY
    def test_a_pause_for_a_while_resumes_by_itself(self, way: str) -> None:
        job = self._waiting(way)
        self._pause(WAYS[way], HOUR)
        self.advance(HOUR - INSTANT)
        assert self.claim() == []
        self.advance(INSTANT)
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    @EACH_WAY
    def test_a_pause_of_the_other_duty_does_not_hold_it(self, way: str) -> None:
        job = self._waiting(way)
        self._pause(OTHER[WAYS[way]])
        self._pause("reclaim")
        self._pause("expire")
        self.advance(HOUR)
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    def test_a_pause_of_something_else_by_the_same_name_does_not_hold_it(self) -> None:
        self._waiting("retry")
        self.store.pause(PauseRequest(id=self.ids(), what="queue", name="retry"))
        self.advance(HOUR)
        assert len(self.claim()) == 1

    def test_new_jobs_and_those_in_the_queue_go_on_while_both_are_paused(self) -> None:
        queued = self.enqueue()
        self._pause("retry")
        self._pause("promote")
        new = self.enqueue()
        assert [lease.fence.id for lease in self.claim()] == [queued.id, new.id]

    def test_what_comes_due_during_a_pause_comes_in_order_afterwards(self) -> None:
        jobs = [self.enqueue(delay=MINUTE, priority=priority) for priority in (10, 0, -10)]
        self._pause("promote")
        self.advance(HOUR)
        self.claim()
        new = self.enqueue()
        self._resume("promote")
        assert [lease.fence.id for lease in self.claim()] == [jobs[2].id, jobs[1].id, new.id, jobs[0].id]

    @pytest.mark.usefixtures("small_passes")
    def test_more_than_a_pass_of_paused_jobs_do_not_hold_up_one_behind_them(self) -> None:
        self._pause("promote")
        self.store.enqueue([self.new(delay=SECOND) for _ in range(250)])
        job = self._waiting("retry", delay=MINUTE)
        self.advance(HOUR)
        assert [lease.fence.id for lease in self.claim()] == [job.id]
        self._resume("promote")
        assert len(self.claim(limit=300)) == 250

    def test_a_paused_job_is_not_what_a_claim_waits_for(self) -> None:
        self._waiting("retry", delay=MINUTE)
        self._pause("retry")
        self.advance(HOUR)
        assert self.claimed().next_due is None
        assert not self.store.is_busy(["send"], waiting_for=["retry"])

    def test_a_deadline_passes_during_a_pause_too(self) -> None:
        job = self.enqueue(delay=MINUTE, deadline=HOUR)
        self._pause("promote")
        self.advance(HOUR - SECOND)
        self.claim()
        self.advance(MINUTE)
        assert self.store.expire(verdict("DEADLINE"), limit=10) == 1
        assert self.job(job.id).state is State.FAILED

    # Manually

    @EACH_WAY
    @pytest.mark.parametrize("move", [Move.MANUAL_RETRY, Move.RUN_NOW], ids=["retry", "run-now"])
    @pytest.mark.parametrize("is_parked", [False, True])
    def test_a_manual_request_passes_a_pause(self, way: str, move: Move, is_parked: bool) -> None:
        job = self._waiting(way)
        self._pause(WAYS[way])
        if is_parked:
            self.advance(HOUR)
            self.claim()
        assert self.move(move, job.id).state is State.QUEUED
        assert [lease.fence.id for lease in self.claim()] == [job.id]

    def test_a_failed_job_is_retried_manually_during_a_pause_and_its_own_retries_wait(self) -> None:
        job = self.in_state(State.FAILED)
        self._pause("retry")
        assert self.move(Move.MANUAL_RETRY, job.id).state is State.QUEUED
        (lease,) = self.claim()
        self.settle(lease, retrying(SECOND))
        self.advance(MINUTE)
        assert self.claim() == []

    @pytest.mark.parametrize("move", [Move.MANUAL_CANCEL, Move.MANUAL_SNOOZE], ids=["cancel", "snooze"])
    def test_a_job_held_by_a_pause_can_be_cancelled_and_snoozed(self, move: Move) -> None:
        job = self._waiting("retry")
        self._pause("retry")
        self.advance(HOUR)
        self.claim()
        moved = self.move(move, job.id, delay=MINUTE)
        assert moved.state is (State.CANCELLED if move is Move.MANUAL_CANCEL else State.WAITING)
        self.advance(MINUTE)
        assert len(self.claim()) == (0 if move is Move.MANUAL_CANCEL else 1)

    # Run

    @EACH_WAY
    def test_a_duty_promotes_its_own_due_jobs_and_no_others(self, way: str) -> None:
        job = self._waiting(way)
        duty = WAYS[way]
        assert self.store.promote(duty, limit=10) == 0
        self.advance(HOUR)
        assert self.store.promote(OTHER[duty], limit=10) == 0
        assert self.job(job.id).state is State.WAITING
        assert self.store.promote(duty, limit=10) == 1
        assert self.job(job.id).state is State.QUEUED
        assert self.types(job.id)[-1] == "job.queued"

    @EACH_WAY
    def test_a_paused_duty_does_nothing_unless_run_manually(self, way: str) -> None:
        job = self._waiting(way)
        self._pause(WAYS[way])
        self.advance(HOUR)
        assert self.store.promote(WAYS[way], limit=10) == 0
        assert self.store.promote(WAYS[way], limit=10, is_manual=True) == 1
        assert self.job(job.id).state is State.QUEUED
        assert self.types(job.id)[-1] == "job.queued"

    def test_a_duty_promotes_no_more_than_its_limit(self) -> None:
        for _ in range(5):
            self.enqueue(delay=MINUTE)
        self.advance(HOUR)
        assert self.store.promote("promote", limit=2) == 2
        self._pause("promote")
        assert self.store.promote("promote", limit=2, is_manual=True) == 2
        self._resume("promote")
        assert [self.store.promote("promote", limit=2) for _ in range(2)] == [1, 0]

    def test_duties_of_two_workers_at_once_promote_each_job_once(self) -> None:
        jobs = [self.enqueue(delay=MINUTE) for _ in range(20)]
        self.advance(HOUR)
        stores = [self.store, self.twin()]
        did = at_once([lambda store=store: self._promoted(store) for store in stores])  # type: ignore[misc]
        assert sum(number for number in did if isinstance(number, int)) == len(jobs)
        assert all(self.types(job.id) == ["job.enqueued", "job.queued"] for job in jobs)

    # Rounds

    def test_a_round_is_recorded_once_for_each_worker_and_the_newest_comes_first(self) -> None:
        done = self._round("retry", worker="w1", did=3)
        self.advance(MINUTE)
        self._round("retry", worker="w2", did=1)
        self._round("retry", worker="w2", did=4)
        newest, oldest = self.store.duty_runs()
        assert (newest.worker, newest.did, newest.at) == ("w2", 4, self.now)
        assert (oldest.worker, oldest.did, oldest.at) == ("w1", 3, self.now - MINUTE)
        assert (oldest.seconds, oldest.interval, oldest.limit) == (done.seconds, done.interval, done.limit)
        assert self.store.events() == []

    def test_rounds_are_noted_together_each_with_its_time(self) -> None:
        rounds = [
            DutyRun(duty="retry", worker="w", seconds=0.25, did=3, interval=SECOND, limit=10, ago=SECOND),
            DutyRun(duty="prune", worker="w", seconds=0.5, did=0, interval=MINUTE, limit=20),
        ]
        for _ in range(2):
            self.store.record_runs(rounds)
        newest, oldest = self.store.duty_runs()
        assert (newest.duty, newest.seconds, newest.at, newest.limit) == ("prune", 0.5, self.now, 20)
        assert (oldest.duty, oldest.did, oldest.at, oldest.interval) == ("retry", 3, self.now - SECOND, SECOND)

    # What there is to do

    def test_one_query_finds_the_duties_that_have_nothing_to_do(self) -> None:
        assert self.store.duty_overview() == DutyOverview(
            frozenset(), frozenset({"expire", "redrive"}), has_ticks=False
        )
        self._pause("retry", MINUTE)
        self._pause("prune")
        self.store.pause(PauseRequest(id=self.ids(), what="queue", name="expire"))
        assert self.store.duty_overview().paused == {"retry", "prune"}
        self.advance(MINUTE)
        assert self.store.duty_overview().paused == {"prune"}

    def test_a_deadline_that_is_over_is_something_to_do(self) -> None:
        self.enqueue(deadline=MINUTE)
        assert "expire" in self.store.duty_overview().idle
        self.advance(MINUTE)
        assert "expire" not in self.store.duty_overview().idle
        assert self.store.expire(deadline_passed(), limit=10) == 1
        assert "expire" in self.store.duty_overview().idle

    def test_a_tick_that_has_come_is_something_to_do_and_so_is_a_schedule_not_seen_for_long(self) -> None:
        self._plan(next_tick=self.now + 2 * SEEN_EVERY)
        self.advance(SEEN_EVERY)
        assert not self.store.duty_overview().has_ticks
        self.advance(SECOND)
        assert self.store.duty_overview().has_ticks, "it is to be said again that it is in the code"
        self._plan(next_tick=self.now + SECOND)
        assert not self.store.duty_overview().has_ticks
        self.advance(SECOND)
        assert self.store.duty_overview().has_ticks, "its tick has come"

    def test_until_something_else_changes_the_duties_of_the_next_tick_are_known(self) -> None:
        self.store.pause(PauseRequest(id=self.ids(), what="duty", name="retry", duration=2 * HOUR))
        self._plan(next_tick=self.now + HOUR)
        outlook, tick = self.store.outlook(()), self.now + HOUR
        assert outlook.duties_at(tick - SECOND) is None
        self.advance(HOUR)
        assert not outlook.duties.has_ticks
        assert outlook.duties_at(tick) == self.store.duty_overview()

    def test_if_something_else_changes_before_the_next_tick_its_duties_are_unknown(self) -> None:
        self._plan(next_tick=self.now + HOUR)
        self.enqueue(deadline=HOUR)
        assert self.store.outlook(()).duties_at(self.now + HOUR) is None

    def test_the_next_moment_is_a_job_that_comes_due_a_tick_or_the_end_of_a_pause(self) -> None:
        assert self.store.outlook(()).next_moment is None
        self._plan(next_tick=self.now + HOUR)
        assert self.store.outlook(()).next_moment == self.now + HOUR
        self.store.pause(PauseRequest(id=self.ids(), what="schedule", name="report", duration=2 * HOUR))
        assert self.store.outlook(()).next_moment == self.now + 2 * HOUR, "until then its ticks pass by"
        self.enqueue(delay=MINUTE)
        assert self.store.outlook(()).next_moment == self.now + MINUTE
        self.advance(MINUTE)
        assert self.store.outlook(()).next_moment == self.now + 2 * HOUR - MINUTE, "what is due by now is not to come"

    def _plan(self, *, next_tick: datetime) -> None:
        version = max((record.version for record in self.store.schedules()), default=0)
        definition = Definition(kind="send", expression="* * * * *", timezone="UTC", missed="once", arguments="{}")
        record = ScheduleRecord(
            name="report", definition=definition, next_tick=next_tick, since=self.now, version=version
        )
        assert self.store.change_schedule(ScheduleChange(record=record))

    def test_rounds_of_workers_long_gone_are_forgotten(self) -> None:
        self._round("retry", worker="gone")
        self.advance(DAY + SECOND)
        self._round("retry", worker="here")
        assert [done.worker for done in self.store.duty_runs()] == ["here"]

    def test_a_manual_run_of_a_duty_is_in_the_log_once(self) -> None:
        done = DutyRun(
            duty="retry", worker="by hand", seconds=0.5, did=7, request=self.ids(), actor="ann", reason="in a hurry"
        )
        for _ in range(2):
            self.store.record_runs([done])
        (event,) = self.store.events()
        assert (event.type, event.job, event.actor) == (DUTY_DONE, "", "ann")
        assert event.data == {"what": "duty", "name": "retry", "did": 7, "seconds": 0.5, "reason": "in a hurry"}
        (found,) = self.store.duty_runs()
        assert (found.actor, found.reason, found.interval) == ("ann", "in a hurry", None)

    # Words

    def _waiting(self, way: str, *, delay: timedelta = MINUTE) -> Job[Any]:
        match way:
            case "delay":
                return self.enqueue(delay=delay)
            case "manual snooze":
                return self.move(Move.MANUAL_SNOOZE, self.enqueue().id, delay=delay)
            case "retry":
                lease = self.leased()
                self.settle(lease, retrying(delay))
            case _:
                lease = self.leased()
                self.settle(lease, Postpone(delay, verdict("SNOOZED" if way == "snooze" else "RATE_LIMITED"), {}))
        return self.job(lease.fence.id)

    def _pause(self, duty: str, duration: timedelta | None = None, **said: Any) -> Pause:
        return self.store.pause(PauseRequest(id=self.ids(), what="duty", name=duty, duration=duration, **said))

    def _resume(self, duty: str, **said: Any) -> Pause | None:
        return self.store.resume(PauseRequest(id=self.ids(), what="duty", name=duty, **said))

    def _round(self, duty: str, *, worker: str, did: int = 0) -> DutyRun:
        done = DutyRun(duty=duty, worker=worker, seconds=0.25, did=did, interval=SECOND, limit=10)
        self.store.record_runs([done])
        return done

    def _promoted(self, store: Store) -> int:
        return sum(store.promote("promote", limit=5) for _ in range(5))

    def _types(self) -> list[str]:
        return [event.type for event in self.store.events()]
