"""Jobs: find them, read their history, and move them manually."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from mulligan.console.arguments import (
    BY_THE_CALL,
    COUNTED_BY,
    CURSOR,
    FILTER,
    FLAG,
    IDS,
    JOBS,
    LARGEST_PAGE,
    NAME,
    PAGE_SIZE,
    REQUEST_ID,
    STRING,
    check,
)
from mulligan.console.services import Services
from mulligan.console.stuck import StuckJobs
from mulligan.errors import BatchNotFound, JobNotFound
from mulligan.explain import Explanation, blocked_by, explain
from mulligan.failure.redact import bounded
from mulligan.judge import Judge
from mulligan.lifecycle import TABLE, Move, State
from mulligan.records.batch import BatchRecord
from mulligan.records.counts import Counts
from mulligan.records.duty import RETRY_REASONS
from mulligan.records.event import Event
from mulligan.records.job import Job, JobFilter, Page
from mulligan.records.limit import subjects_of
from mulligan.store.messages import JobRequest, Outcome, Request
from mulligan.store.moves import REVIVING
from mulligan.store.requests import JOB, Once, to_once
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.values.duration import Duration, parse

logger = logging.getLogger("mulligan.console")


@dataclass(frozen=True, slots=True)
class Jobs:
    """`owner=None` is the administrator. A job of another owner is not found, like a job that does not exist."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    tasks: Registry
    _: KW_ONLY
    judge: Judge
    services: Services
    stuck: StuckJobs
    uses_connections: Callable[[], bool] = lambda: True
    """The sandbox accepts every connection and uses none."""

    @check(job_id=NAME, owner=NAME)
    def find(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self.judge.seen(self.store().job(job_id, owner=owner))

    @check(wanted=FILTER, owner=NAME, limit=PAGE_SIZE, cursor=CURSOR)
    def search(
        self,
        wanted: JobFilter | None = None,
        *,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        page = self.store().jobs(wanted or JobFilter(), owner=owner, limit=limit, cursor=cursor)
        return replace(page, jobs=tuple(self.judge.seen(job) for job in page.jobs))

    @check(wanted=FILTER, by=COUNTED_BY, owner=NAME)
    def count(self, wanted: JobFilter | None = None, *, by: str = "state", owner: str | None = None) -> Counts:
        return self.store().count(wanted or JobFilter(), by=by, owner=owner)

    @check(jobs=JOBS)
    def find_blocks(self, jobs: Sequence[Job[Any]]) -> dict[str, str]:
        """One query for all of them."""
        live = [job for job in jobs if job.state in (State.WAITING, State.QUEUED)]
        if not live:
            return {}
        pauses, holding = self.store().pauses(), self.services.find_holding(job.service for job in live)
        found = {job.id: blocked_by(job, pauses=pauses, holding=holding) for job in live}
        return {job_id: what for job_id, what in found.items() if what is not None}

    @check(job_id=NAME, owner=NAME)
    def queue_position(self, job_id: str, *, owner: str | None = None) -> int | None:
        return self.store().position(job_id, owner=owner, limit=LARGEST_PAGE)

    @check(job_ids=IDS, owner=NAME)
    def last_failures(self, job_ids: Sequence[str], *, owner: str | None = None) -> dict[str, Event]:
        return self.store().last_failures(job_ids, owner=owner)

    @check(job_id=NAME, owner=NAME, for_owner=FLAG)
    def explain(self, job_id: str, *, owner: str | None = None, for_owner: bool = False) -> Explanation:
        store = self.store()
        job = self.find(job_id, owner=owner)
        return explain(
            job,
            events=self._history(job.id),
            workers=store.workers(),
            now=store.now(),
            ahead=store.ahead_of(job, limit=LARGEST_PAGE),
            is_known=job.kind in self.tasks,
            pauses=store.pauses(),
            stuck_after=self.stuck.after(),
            batch=self._batch_of(job),
            service=self.services.find_for_job(job.service),
            limits=store.limits(subjects_of(job)) if job.waiting_for == "limit" else (),
            spending=store.spending(job.owner) if job.waiting_for == "budget" else None,
            is_for_owner=for_owner,
        )

    def _batch_of(self, job: Job[Any]) -> BatchRecord | None:
        with suppress(BatchNotFound):
            return None if job.batch is None else self.store().batch(job.batch)
        return None

    def _history(self, job_id: str) -> Sequence[Event]:
        """All events of a job. If they fill more than two pages, only the first and the last page."""
        pages = [self.store().events(job=job_id, limit=LARGEST_PAGE)]
        while len(pages[-1]) == LARGEST_PAGE:
            page = self.store().events(job=job_id, after=pages[-1][-1].position, limit=LARGEST_PAGE)
            pages = [*pages[:1], page]
        return [event for page in pages for event in page]

    @check(
        move=BY_THE_CALL,
        job_id=NAME,
        owner=NAME,
        actor=STRING,
        reason=STRING,
        delay=BY_THE_CALL,
        connection=BY_THE_CALL,
        request_id=REQUEST_ID,
    )
    def move(
        self,
        move: Move,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        delay: Duration = 0,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Move a job manually. `delay` is that of a snooze."""
        length = parse(delay)
        once = to_once(request_id, str(move), JOB, owner, job=job_id, delay=length, actor=actor, reason=reason)
        before = self._read(job_id, owner) if move in REVIVING else None
        request = Request(
            id=self.ids(),
            move=move,
            job=job_id,
            owner=owner,
            actor=bounded(actor),
            reason=bounded(reason),
            delay=length,
            first=self._take_stuck(move, before, actor),
        )
        moved = self.judge.seen(
            self.store().move(request, permission=self.tasks.permission(), connection=self._used(connection), once=once)
        )
        _log(move, before, moved, bounded(actor), bounded(reason))
        return moved

    @check(job_id=NAME, owner=NAME, actor=STRING, reason=STRING, connection=BY_THE_CALL, request_id=REQUEST_ID)
    def expire_result(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        request, once = self._request("expire result", job_id, owner, actor, reason, request_id)
        return self.judge.seen(self.store().expire_result(request, connection=self._used(connection), once=once))

    @check(job_id=NAME, owner=NAME, actor=STRING, reason=STRING, connection=BY_THE_CALL, request_id=REQUEST_ID)
    def release_key(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        request, once = self._request("release key", job_id, owner, actor, reason, request_id)
        return self.judge.seen(self.store().release_key(request, connection=self._used(connection), once=once))

    def _request(
        self,
        verb: str,
        job_id: str,
        owner: str | None,
        actor: str | None,
        reason: str | None,
        request_id: str | None,
    ) -> tuple[JobRequest, Once[Job[Any]] | None]:
        """A request about one job that is not a move."""
        once = to_once(request_id, verb, JOB, owner, job=job_id, actor=actor, reason=reason)
        request = JobRequest(id=self.ids(), job=job_id, owner=owner, actor=bounded(actor), reason=bounded(reason))
        return request, once

    def _used(self, connection: Any) -> Any:
        return connection if self.uses_connections() else None

    def _read(self, job_id: str, owner: str | None) -> Job[Any] | None:
        """The job as it is before the move, which raises JobNotFound itself."""
        with suppress(JobNotFound):
            return self.store().job(job_id, owner=owner)
        return None

    def _take_stuck(self, move: Move, job: Job[Any] | None, actor: str | None) -> Outcome | None:
        """The outcome to settle before the move."""
        if job is None or move is not Move.MANUAL_RETRY or job.state is not State.RUNNING:
            return None
        return self.stuck.outcome_of(job.id, actor=bounded(actor))


def _log(move: Move, before: Job[Any] | None, job: Job[Any], actor: str | None, reason: str | None) -> None:
    replaces = before is not None and before.state is State.WAITING and before.waiting_for in RETRY_REASONS
    instead = f"; it replaces the automatic retry planned for {before.due_at}" if before and replaces else ""
    fields = {"job_id": job.id, "kind": job.kind, "owner": job.owner, "attempt": job.attempt, "status": str(job.state)}
    logger.info(
        f"job %s (%s): {move} requested by %s{instead}",
        job.id,
        job.kind,
        actor or "unknown",
        extra=fields | {"event": _event_of(move, job), "actor": actor, "reason": reason},
    )


def _event_of(move: Move, job: Job[Any]) -> str:
    """The event's type: a running job's cancellation is only requested."""
    steps = [step for (made, _), step in TABLE.items() if made is move]
    return next((step for step in steps if step.target is job.state), steps[0]).event
