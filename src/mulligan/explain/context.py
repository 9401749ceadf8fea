"""What is known besides the job itself, and what of it an owner may see."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from mulligan.explain.words import at
from mulligan.records.batch import BatchRecord
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.records.limit import LimitRecord, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import WorkerRecord

# A worker without a heartbeat for longer does not count as alive.
ALIVE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Context:
    """Everything known besides the job itself."""

    events: Sequence[Event]
    workers: Sequence[WorkerRecord]
    now: datetime
    ahead: int
    is_known: bool
    pauses: Sequence[Pause] = ()
    stuck_after: timedelta = timedelta(minutes=30)
    batch: BatchRecord | None = None
    service: ServiceStatus | None = None
    """The job's."""
    limits: Sequence[LimitRecord] = ()
    """Those that concern the job."""
    spending: SpendingRecord | None = None
    """The retry budget of the job's owner, and its use."""
    is_for_owner: bool = False
    """The reader is the owner of the job: no worker, no person and no shell command is named."""

    @property
    def alive(self) -> list[WorkerRecord]:
        return [worker for worker in self.workers if is_alive(worker, self.now)]

    def at(self, moment: datetime) -> str:
        return at(moment, self.now)

    def pause_of(self, duty: str) -> Pause | None:
        return next((pause for pause in self.pauses if (pause.what, pause.name) == ("duty", duty)), None)

    def last(self, *types: str) -> Event | None:
        return next((event for event in reversed(self.events) if event.type in types), None)


def is_alive(worker: WorkerRecord, now: datetime) -> bool:
    return worker.seen_at is not None and now - worker.seen_at <= ALIVE


# Technical fields of an event. A message for users is beside them.
_TECHNICAL = ("error", "detail", "failure")


def hide_from_owner(job: Job[Any], context: Context) -> tuple[Job[Any], Context]:
    """Leave out workers, people with what they wrote, and the technical lines of failures."""
    service = context.service and replace(context.service, actor=None, reason=None)
    shown = replace(
        context,
        events=[hide_in_event(event) for event in context.events],
        pauses=[replace(pause, actor=None, reason=None) for pause in context.pauses],
        service=service,
        is_for_owner=True,
    )
    return hide_in_job(job), shown


def hide_in_job(job: Job[Any]) -> Job[Any]:
    """As its owner may see it: without its worker, and without the technical lines of failures."""
    return structs.replace(job, leased_by=None, error_detail=None, last_detail=None)


def hide_in_event(event: Event) -> Event:
    """As the owner of its job may see it."""
    if not isinstance(event.data, Mapping):
        return replace(event, actor=None)
    data = {name: value for name, value in event.data.items() if name not in (*_TECHNICAL, "worker")}
    if event.actor is not None:
        data.pop("reason", None)
    if event.data.get("worker") is not None:
        # It still says that the event ended an attempt.
        data["by"] = "a worker"
    if isinstance(reasons := data.get("reasons"), Mapping):
        data["reasons"] = {name: value for name, value in reasons.items() if name != "notes"}
    return replace(event, actor=None, data=data)
