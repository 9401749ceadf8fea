"""The client stores bound calls as jobs."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import TYPE_CHECKING, Any

from msgspec import structs

from mulligan.errors import BadConnection
from mulligan.failure.verdict import Failure, Verdict
from mulligan.policies.in_force import InForce
from mulligan.policies.quotas import Quotas
from mulligan.records.job import FollowUp, Job, NewJob
from mulligan.store import foreign
from mulligan.store.store import Store

if TYPE_CHECKING:
    from mulligan.task.task import Binding, Task


@dataclass(slots=True, eq=False)
class Client:
    """Enqueues bound calls. `uses_connections`: the sandbox accepts every connection and uses none."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    in_force: Callable[[str, str], InForce]
    _: KW_ONLY
    quotas: Quotas
    classify: Callable[[Failure, str, str], Verdict]
    uses_connections: Callable[[], bool] = lambda: True

    def enqueue(self, bindings: "Sequence[Binding[Any]]", *, connection: Any = None) -> list[Job[Any]]:
        """Store all or none, in one transaction: the caller's, if the caller gave a connection."""
        used, jobs = self._used(bindings, connection), self._new_jobs(bindings)
        if used is None:
            return self.store().enqueue(jobs)
        return foreign.run(used, self.store().enqueue_script(jobs))

    async def enqueue_async(self, bindings: "Sequence[Binding[Any]]", *, connection: Any = None) -> list[Job[Any]]:
        used, jobs = self._used(bindings, connection), self._new_jobs(bindings)
        if used is None:
            return await asyncio.to_thread(lambda: self.store().enqueue(jobs))
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

    def _new_jobs(self, bindings: "Sequence[Binding[Any]]") -> list[NewJob]:
        return [self.new_job(binding, binding.own_id or self.ids(), is_submitted=True) for binding in bindings]

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
