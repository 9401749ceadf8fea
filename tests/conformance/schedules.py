"""Schedules: a tick is one job, whichever worker sees it and however often; a manual change is written once."""

from dataclasses import replace
from datetime import datetime
from typing import Any

from conformance.bench import HOUR, KIND, MINUTE, Bench, at_once
from mulligan.lifecycle import (
    SCHEDULE_PAUSED,
    SCHEDULE_PLANNED,
    SCHEDULE_REMOVED,
    SCHEDULE_RESUMED,
    SCHEDULE_RUN,
    State,
)
from mulligan.records.job import JobFilter
from mulligan.records.pause import PauseRequest
from mulligan.records.schedule import Definition, ScheduleChange, ScheduleNote, ScheduleRecord, job_id_of

NIGHTLY = Definition(kind=KIND, expression="30 2 * * *", timezone="Europe/Berlin", missed="once", arguments='{"n":1}')


class ScheduleRules(Bench):
    def test_a_new_schedule_is_kept_as_it_was_given(self) -> None:
        assert self.store.schedules() == []
        record = self._nightly(planned_by="w1", last_tick=self.now - HOUR, last_job="x")
        assert self._rewrite(record)
        assert self.store.schedules() == [replace(record, seen_at=self.now, version=1)]

    def test_schedules_are_listed_by_name(self) -> None:
        for name in ("b", "a", "C"):
            assert self._rewrite(self._nightly(name=name))
        assert [record.name for record in self.store.schedules()] == ["C", "a", "b"]

    def test_of_two_workers_that_declare_a_new_schedule_the_first_wins(self) -> None:
        assert self._rewrite(self._nightly(planned_by="w1"))
        assert not self._rewrite(
            self._nightly(planned_by="w2"), jobs=[self.new()], notes=[self._remark(SCHEDULE_PLANNED)]
        )
        (record,) = self.store.schedules()
        assert (record.planned_by, record.version) == ("w1", 1)
        assert (self._made(), self.events()) == ([], []), "the second wrote nothing at all"

    def test_a_tick_writes_the_record_and_its_job_together(self) -> None:
        before, tick = self._scheduled(), self.now
        self.advance(MINUTE)
        job = self.new(id=job_id_of("nightly", tick), submitted_at=tick, tags=("schedule:nightly",))
        after = replace(before, next_tick=tick + HOUR, last_tick=tick, last_job=job.id)
        assert self._rewrite(after, jobs=[job])
        assert self.store.schedules() == [replace(after, seen_at=self.now, version=2)]
        (stored,) = self._made()
        assert (stored.id, stored.state, stored.submitted_at, stored.tags) == (job.id, State.QUEUED, tick, job.tags)
        assert [found.id for found in self.store.jobs(JobFilter(tag="schedule:nightly")).jobs] == [job.id]

    def test_a_caller_that_read_an_older_version_writes_nothing(self) -> None:
        old = self._scheduled()
        assert self._rewrite(replace(old, next_tick=self.now + HOUR))
        stale = replace(old, next_tick=self.now + 2 * HOUR)
        assert not self._rewrite(stale, jobs=[self.new()], notes=[self._remark(SCHEDULE_PLANNED)])
        (record,) = self.store.schedules()
        assert (record.next_tick, record.version) == (self.now + HOUR, 2)
        assert (self._made(), self.events()) == ([], [])

    def test_a_removed_schedule_is_not_restored_by_a_worker_that_still_has_it(self) -> None:
        record = self._scheduled()
        assert self.store.remove_schedule("nightly", self._remark(SCHEDULE_REMOVED))
        assert not self._rewrite(record, jobs=[self.new()])
        assert (self.store.schedules(), self._made()) == ([], [])

    def test_of_many_workers_that_see_a_tick_one_enqueues_its_job(self) -> None:
        record = self._scheduled()
        jobs = [self.new() for _ in range(8)]
        answers = at_once([lambda job=job: self._rewrite(record, jobs=[job]) for job in jobs])  # type: ignore[misc]
        assert sorted(map(str, answers)) == ["False"] * 7 + ["True"]
        assert len(self._made()) == 1

    def test_of_two_processes_that_see_a_tick_come_one_makes_its_job(self) -> None:
        record, twin = self._scheduled(), self.twin()
        changes = [ScheduleChange(record=record, jobs=[self.new()]) for _ in range(2)]
        answers = at_once([lambda: self.store.change_schedule(changes[0]), lambda: twin.change_schedule(changes[1])])
        assert sorted(map(str, answers)) == ["False", "True"]
        assert len(self._made()) == 1

    def test_the_job_of_a_tick_that_is_there_already_is_the_same_job(self) -> None:
        record = self._scheduled()
        job = self.new(id=job_id_of("nightly", self.now))
        self.store.enqueue([job])
        assert self._rewrite(record, jobs=[job, self.new()])
        assert len(self._made()) == 2
        assert [event.type for event in self.events(job.id)] == ["job.enqueued"]

    def test_a_repeated_manual_run_is_made_once(self) -> None:
        record, job = self._scheduled(), self.new()
        note = self._remark(SCHEDULE_RUN, request="r1", actor="ann", data={"job": job.id})
        assert self._rewrite(record, jobs=[job], notes=[note])
        assert self._rewrite(record, jobs=[job], notes=[note]), "it was done before"
        (kept,) = self.store.schedules()
        assert (kept.version, len(self._made())) == (2, 1)
        (event,) = [event for event in self.events() if event.type == SCHEDULE_RUN]
        assert (event.job, event.actor) == ("", "ann")
        assert event.data == {"what": "schedule", "name": "nightly", "job": job.id}

    def test_removing_forgets_the_pause_and_keeps_the_jobs(self) -> None:
        record = self._scheduled()
        assert self._rewrite(record, jobs=[self.new()])
        self.store.pause(PauseRequest(id="p", what="schedule", name="nightly"))
        assert self.store.remove_schedule("nightly", self._remark(SCHEDULE_REMOVED, actor="ann"))
        assert not self.store.remove_schedule("nightly", self._remark(SCHEDULE_REMOVED))
        assert (self.store.schedules(), self.store.pauses()) == ([], [])
        assert len(self._made()) == 1
        assert [event.actor for event in self.events() if event.type == SCHEDULE_REMOVED] == ["ann"]

    def test_a_removal_that_is_repeated_leaves_a_schedule_that_came_back(self) -> None:
        self._scheduled()
        note = self._remark(SCHEDULE_REMOVED)
        assert self.store.remove_schedule("nightly", note)
        assert self.store.remove_schedule("nightly", note), "it was done before"
        record = self._scheduled()
        self.store.pause(PauseRequest(id="p", what="schedule", name="nightly"))
        assert self.store.remove_schedule("nightly", note)
        assert (self.store.schedules(), len(self.store.pauses())) == ([record], 1)

    def test_a_pause_of_a_schedule_is_logged_as_such(self) -> None:
        self.store.pause(PauseRequest(id="p", what="schedule", name="nightly", actor="ann"))
        self.store.resume(PauseRequest(id="r", what="schedule", name="nightly", actor="bob"))
        told = [(event.type, event.actor, event.data["name"]) for event in self.events()]
        assert told == [(SCHEDULE_PAUSED, "ann", "nightly"), (SCHEDULE_RESUMED, "bob", "nightly")]

    # Words

    def _nightly(self, **fields: Any) -> ScheduleRecord:
        return ScheduleRecord(
            **{"name": "nightly", "definition": NIGHTLY, "next_tick": self.now, "since": self._before, **fields}
        )

    @property
    def _before(self) -> datetime:
        return self.now - MINUTE

    def _scheduled(self) -> ScheduleRecord:
        assert self._rewrite(self._nightly())
        (record,) = self.store.schedules()
        return record

    def _rewrite(self, record: ScheduleRecord, **more: Any) -> bool:
        return self.store.change_schedule(ScheduleChange(record=record, **more))

    def _remark(self, type_: str, **fields: Any) -> ScheduleNote:
        return ScheduleNote(**{"type": type_, "request": self.ids(), **fields})

    def _made(self) -> list[Any]:
        return list(self.store.jobs(JobFilter()).jobs)
