"""Redrive: runs the redrives and bulk operations, in chunks. One worker at a time runs one of them."""

import logging
from dataclasses import KW_ONLY, dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from mulligan.errors import StoreError
from mulligan.lifecycle import LIVE, State
from mulligan.records.job import Job, JobFilter, Page, all_pages
from mulligan.records.redrive import (
    FORGET,
    JOBS,
    MOST_ACTIVE,
    MOVES,
    Redrive,
    RedriveState,
    end,
    has_passed,
    jobs_allowed,
    reason_to_stop,
    record_retries,
    retry_request_id,
    spend,
    take_answers,
)
from mulligan.store.messages import Request
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.values.clock import Clock

logger = logging.getLogger("mulligan.duties")

# Chunks of one redrive in one step; the next step continues.
PASSES = 10
# A task's `can_retry` is called inside the transaction of a chunk, which may block other writers. It may be slow, so
# chunks begin with one job and grow as long as they take less than this.
ASKING_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class RunRedrives:
    """Reads how far a redrive has come, takes in the results of its jobs, and writes the next chunk: the moves and the
    record in one transaction, if the record has not changed since it was read. So a kill at any moment repeats
    nothing, and of two workers only one writes.

    To run jobs again, a worker moves only those of kinds it knows, because it has to call their `can_retry`.
    """

    name = "redrive"

    store: Store
    tasks: Registry
    _: KW_ONLY
    clock: Clock
    worker: str
    interval: float = 1.0
    limit: int = 100
    _most_asked: int = 1

    def step(self) -> int:
        """How many jobs were retried."""
        return sum(self._step(redrive) for redrive in self.store.redrives(is_active=True, limit=MOST_ACTIVE))

    def _step(self, redrive: Redrive) -> int:
        """Run one redrive. Its errors do not block the others."""
        try:
            return self._run_chunks(redrive)
        except StoreError:
            raise
        except Exception:
            logger.exception("a step of redrive %s failed; it is tried again", redrive.id)
            return 0

    def _run_chunks(self, redrive: Redrive) -> int:
        before = redrive.retried
        for _ in range(PASSES):
            after = self._run_chunk(redrive, self.store.now())
            if after is None:
                break
            redrive = after
            if redrive.state.is_over:
                _report(redrive)
                break
        return redrive.retried - before

    def _run_chunk(self, redrive: Redrive, now: datetime) -> Redrive | None:
        """The record after one more chunk; None when there is nothing to do now, or another worker does it."""
        if redrive.is_held_by_another(self.worker, now):
            return None
        if redrive.verb == FORGET:
            return self._forget(redrive, now)
        looked = self._take_results(redrive, now)
        if (because := reason_to_stop(looked)) is not None:
            return self.store.advance_redrive(end(looked, RedriveState.STOPPED, now, because=because))
        if looked.state is RedriveState.CANARY and has_passed(looked):
            looked = replace(looked, state=RedriveState.RUNNING)
        number = jobs_allowed(looked, now, self.limit)
        kind = next((kind for kind in looked.course.cursors if kind in self.tasks or not looked.asks_permission), None)
        if looked.course.cursors and (kind is None or not number):
            if looked != redrive:
                self.store.advance_redrive(looked)
            return None
        held = self._reserve(looked, now)
        return held and self._move(held, kind, number, now)

    def _forget(self, redrive: Redrive, now: datetime) -> Redrive | None:
        """Cancel live jobs of the owner, also those that came after the start, and delete those that are over."""
        number = jobs_allowed(redrive, now, self.limit)
        held = self._reserve(redrive, now) if number else None
        if held is None:
            return None
        live, damaged = self._live_jobs(held, number)
        if JOBS not in held.course.cursors:
            return self.store.forget(held, limit=self.limit, damaged=damaged)
        if live:
            held = self.store.advance_redrive(spend(held, len(live), now), moves=[_cancel(held, job) for job in live])
        if held is None or len(live) == number:
            return held
        return self.store.forget(held, limit=self.limit, damaged=damaged) or (held if live else None)

    def _live_jobs(self, redrive: Redrive, limit: int) -> tuple[list[Job[Any]], int]:
        """Jobs to cancel, and how many cannot be read. A running job is asked once; it ends with its
        attempt, or is reclaimed."""
        live: list[Job[Any]] = []
        damaged = 0
        for page in all_pages(partial(self.store.jobs, _of_owner(redrive, *LIVE), limit=limit)):
            live += [job for job in page.jobs if not job.cancel_requested]
            damaged += len(page.damaged)
            if len(live) >= limit:
                break
        return live[:limit], damaged

    def _take_results(self, redrive: Redrive, now: datetime) -> Redrive:
        return take_answers(redrive, self.store.redrive_results(redrive), now) if redrive.course.watched else redrive

    def _reserve(self, redrive: Redrive, now: datetime) -> Redrive | None:
        """Reserve the redrive for this worker, so that only one worker calls `can_retry`."""
        if not redrive.needs_hold(self.worker, now):
            return redrive
        return self.store.advance_redrive(redrive.held_by(self.worker, now))

    def _move(self, redrive: Redrive, kind: str | None, number: int, now: datetime) -> Redrive | None:
        if kind is None:
            return self.store.advance_redrive(end(redrive, RedriveState.DONE, now))
        permitted = self.tasks.permission()
        is_asked = redrive.asks_permission and kind in permitted.kinds
        page = self._candidates(redrive, kind, min(number, self._most_asked) if is_asked else number)
        requests = [_request(redrive, job) for job in page.jobs]
        damaged = [(kind, "damaged") for _ in page.damaged]
        left = _advance_cursor(redrive, kind, page)
        after = spend(record_retries(left, damaged, now), len(page.jobs) + len(damaged), now)
        if not after.course.cursors:
            after = end(after, RedriveState.DONE, now)
        began = self.clock.monotonic()
        advanced = self.store.advance_redrive(after, moves=requests, permission=permitted)
        if is_asked:
            is_slow = self.clock.monotonic() - began > ASKING_SECONDS
            self._most_asked = max(1, self._most_asked // 2) if is_slow else min(2 * self._most_asked, self.limit)
        return advanced

    def _candidates(self, redrive: Redrive, kind: str, number: int) -> Page[Any]:
        return self.store.candidates(
            replace(redrive.filter, kind=kind),
            before=redrive.began_at,
            owner=redrive.owner,
            after=redrive.course.cursors[kind],
            limit=number,
        )


def _of_owner(redrive: Redrive, *states: State) -> JobFilter:
    return JobFilter(owner=redrive.filter.owner, state=states)


def _cancel(redrive: Redrive, job: Job[Any]) -> Request:
    """With the version in its id: a job that is retried meanwhile is cancelled again."""
    request = _request(redrive, job)
    return replace(request, id=f"{request.id}:{redrive.course.version}")


def _request(redrive: Redrive, job: Job[Any]) -> Request:
    return Request(
        id=retry_request_id(redrive.id, job.id),
        move=MOVES[redrive.verb],
        job=job.id,
        owner=redrive.owner,
        actor=redrive.actor,
        reason=redrive.reason,
        delay=redrive.delay,
        redrive=redrive.id,
    )


def _advance_cursor(redrive: Redrive, kind: str, page: Page[Any]) -> Redrive:
    """The redrive with its cursor moved on. A kind with no jobs left is removed."""
    cursors = dict(redrive.course.cursors)
    if page.cursor is None:
        del cursors[kind]
    else:
        cursors[kind] = page.cursor
    return replace(redrive, course=replace(redrive.course, cursors=cursors))


def _report(redrive: Redrive) -> None:
    level = logging.WARNING if redrive.state is RedriveState.STOPPED else logging.INFO
    because = f": {redrive.because}" if redrive.because else ""
    logger.log(
        level,
        "redrive %s (%s) is %s after %d of %d jobs%s",
        redrive.id,
        redrive.verb,
        redrive.state,
        redrive.looked_at,
        redrive.matched,
        because,
    )
