"""The spans of an attempt: the wait before it, its run, and its settle."""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mulligan import traces
from mulligan.failure.decision import Succeed
from mulligan.failure.verdict import Failure
from mulligan.records.job import Job, Lease
from mulligan.store.messages import Outcome, Settled
from mulligan.values.moment import microseconds
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, Success
from mulligan.worker.log import ENDS

if TYPE_CHECKING:
    from opentelemetry.trace import Tracer


class AttemptTrace:
    """One attempt's spans. They belong to the trace of the enqueue; a job without one begins a trace."""

    def __init__(self, tracer: "Tracer", lease: Lease, job: Job[Any]) -> None:
        from opentelemetry.trace import SpanKind

        self._tracer, self._lease, self._queue = tracer, lease, job.queue
        parent = traces.parent_in(job.tags)
        if parent is not None:
            wait = tracer.start_span(
                f"wait {job.queue}",
                context=parent,
                attributes=self._attributes("wait", "wait"),
                start_time=_nanoseconds(_waited_since(job)),
            )
            wait.end(_nanoseconds(lease.claimed_at))
        self._span = tracer.start_span(
            f"process {job.queue}",
            context=parent,
            kind=SpanKind.CONSUMER,
            attributes=self._attributes("process", "process"),
        )
        self.tags = traces.tags_of(self._span)
        lease.trace_id = traces.trace_id_in(self.tags)

    def make_current(self) -> None:
        """Spans of the task's own code become children of the attempt's."""
        from opentelemetry.context import attach
        from opentelemetry.trace import set_span_in_context

        # Never detached: the context ends with the asyncio task of the attempt.
        attach(set_span_in_context(self._span))

    def end(self, ended: Ended) -> None:
        match ended:
            case Failed(what=failure):
                traces.mark_failed(self._span, failure)
            case Judged(verdict=verdict):
                traces.mark_failed(self._span, Failure(type=verdict.code, message=verdict.technical_line or ""))
            case Interruption(why=why):
                self._span.set_attribute("mulligan.interrupted", str(why))
            case Success():
                pass
        self._span.end()

    def settle(self, outcome: Outcome, answer: Settled, *, began: datetime, ended: datetime) -> None:
        """Record what was decided, and how long storing it took."""
        from opentelemetry.trace import SpanKind

        span = self._tracer.start_span(
            f"settle {self._queue}",
            context=traces.parent_in(self.tags),
            kind=SpanKind.CLIENT,
            attributes={**self._attributes("settle", "settle"), **_describe(outcome), "mulligan.answer": str(answer)},
            start_time=_nanoseconds(began),
        )
        span.end(_nanoseconds(ended))

    def _attributes(self, operation: str, operation_type: str) -> dict[str, Any]:
        fence = self._lease.fence
        return {
            **traces.describe(operation, operation_type, queue=self._queue, kind=self._lease.kind),
            "messaging.message.id": fence.id,
            "messaging.client.id": fence.incarnation,
            "mulligan.attempt": fence.attempt,
            **({"mulligan.batch": self._lease.batch} if self._lease.batch else {}),
        }


def _describe(outcome: Outcome) -> dict[str, Any]:
    decision = outcome.decision
    said: dict[str, Any] = {"mulligan.outcome": ENDS[type(decision)]}
    if isinstance(decision, Succeed):
        return said
    verdict, delay = getattr(decision, "verdict", None), getattr(decision, "delay", None)
    if verdict is not None:
        said |= {"mulligan.error.code": verdict.code, "mulligan.error.class": str(verdict.error_class)}
    return said | ({"mulligan.delay": delay.total_seconds()} if isinstance(delay, timedelta) else {})


def _waited_since(job: Job[Any]) -> datetime:
    """When the wait for this attempt began: with the enqueue, or with the settle of the attempt before."""
    if job.attempt <= 1:
        return job.enqueued_at
    return job.due_at - (job.previous_delay or timedelta(0))


def _nanoseconds(moment: datetime) -> int:
    return microseconds(moment) * 1_000
