"""The client stores bound calls as jobs."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mulligan import traces
from mulligan.errors import BadConnection
from mulligan.failure.verdict import Failure, Verdict
from mulligan.policies.in_force import InForce
from mulligan.policies.quotas import Quotas
from mulligan.records.job import FollowUp, Job, NewJob
from mulligan.store import foreign
from mulligan.store.store import Store

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from mulligan.task.task import Binding, Task


@dataclass(slots=True, eq=False)
class Client:
    """Enqueues bound calls. `uses_connections`: the sandbox accepts every connection and uses none. `is_open`: the
    store is."""

    store: Callable[[], Store]
    ids: Callable[[int], list[str]]
    in_force: Callable[[str, str], InForce]
    _: KW_ONLY
    quotas: Quotas
    classify: Callable[[Failure, str, str], Verdict]
    uses_connections: Callable[[], bool] = lambda: True
    is_open: Callable[[], bool] = lambda: False

    def enqueue(self, bindings: "Sequence[Binding[Any]]", *, connection: Any = None) -> list[Job[Any]]:
        """Store all or none, in one transaction: the caller's, if the caller gave a connection."""
        tracer = traces.tracer()
        if tracer is None or not bindings:
            return self._enqueue(bindings, connection)
        with _enqueue_span(tracer, bindings) as span:
            return _note(span, self._enqueue(bindings, connection, traces.tags_of(span)))

    async def enqueue_async(self, bindings: "Sequence[Binding[Any]]", *, connection: Any = None) -> list[Job[Any]]:
        tracer = traces.tracer()
        if tracer is None or not bindings:
            return await self._enqueue_async(bindings, connection)
        with _enqueue_span(tracer, bindings) as span:
            return _note(span, await self._enqueue_async(bindings, connection, traces.tags_of(span)))

    def _enqueue(
        self, bindings: "Sequence[Binding[Any]]", connection: Any, tags: tuple[str, ...] = ()
    ) -> list[Job[Any]]:
        used, jobs = self._used(bindings, connection), self._new_jobs(bindings, tags)
        if used is None:
            return self.store().enqueue(jobs)
        return foreign.run(used, self.store().enqueue_script(jobs))

    async def _enqueue_async(
        self, bindings: "Sequence[Binding[Any]]", connection: Any, tags: tuple[str, ...] = ()
    ) -> list[Job[Any]]:
        used, jobs = self._used(bindings, connection), self._new_jobs(bindings, tags)
        if used is None:
            # In a thread if it is not open yet, because opening it blocks.
            store = self.store() if self.is_open() else await asyncio.to_thread(self.store)
            return await store.enqueue_async(jobs)
        # In a thread too, because opening the store blocks.
        return await foreign.run_async(used, await asyncio.to_thread(lambda: self.store().enqueue_script(jobs)))

    def reject(self, binding: "Binding[Any]", error: BaseException) -> Job[Any]:
        """Store a call as a job that failed with this error."""
        used = self._used([binding], None)
        (job,) = self._new_jobs([binding])
        verdict = self.classify(Failure.of(error), job.kind, job.owner)
        verdict = replace(verdict, message=verdict.final_message or verdict.message)
        # It never runs, so it is none of the jobs that an owner may have unfinished.
        return self.store().reject(structs.replace(job, max_live=None), verdict, connection=used)

    def _new_jobs(self, bindings: "Sequence[Binding[Any]]", tags: tuple[str, ...] = ()) -> list[NewJob]:
        """The jobs; `tags` are added to those of each."""
        jobs: list[NewJob] = []
        before: Binding[Any] | None = None
        for binding, new_id in zip(bindings, self.ids(len(bindings)), strict=True):
            job_id = binding.own_id or new_id
            if before is not None and binding.is_like(before):
                # A copy takes a tenth of the time.
                jobs.append(structs.replace(jobs[-1], id=job_id, arguments=binding.arguments))
            else:
                job = self.new_job(binding, job_id, is_submitted=True)
                jobs.append(structs.replace(job, tags=(*job.tags, *tags)) if tags else job)
            before = binding
        return jobs

    def new_job(self, binding: "Binding[Any]", job_id: str, *, is_submitted: bool = False) -> NewJob:
        """The job, with the policy and quotas in force now for its kind, queue and owner."""
        in_force = self.in_force(binding.task.name, binding.options.owner)
        job = binding.new_job(job_id, in_force, is_submitted=is_submitted)
        return self.quotas.apply_to(job)

    def follow_up(self, task: "Task[..., Any, Any]", owner: str) -> FollowUp:
        """The task's follow-up, with its owner's weight if its queue is fair."""
        return self.quotas.add_weight(task.follow_up, owner)

    def _used(self, bindings: "Sequence[Binding[Any]]", connection: Any) -> Any:
        given = [
            each for each in (connection, *(binding.options.connection for binding in bindings)) if each is not None
        ]
        if not given or not self.uses_connections():
            return None
        if any(each is not given[0] for each in given):
            raise BadConnection(
                given[0], "another call of the same enqueue_many has a different one; all go into one transaction"
            )
        return given[0]


def _enqueue_span(tracer: "Tracer", bindings: "Sequence[Binding[Any]]") -> "AbstractContextManager[Span]":
    """Named by the first job: those of one call are nearly always for one task and queue."""
    task, options = bindings[0].task, bindings[0].options
    return traces.enqueue_span(tracer, queue=options.queue or task.queue, kind=task.name, count=len(bindings))


def _note(span: "Span", jobs: list[Job[Any]]) -> list[Job[Any]]:
    if len(jobs) == 1:
        span.set_attribute("messaging.message.id", jobs[0].id)
    return jobs
