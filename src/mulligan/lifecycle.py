"""The states of a job and the table of legal moves between them.

The guards in the stores, the verbs of the CLI, the event names and the diagram in the docs are derived from `TABLE`.
A move that is not in it cannot happen.
"""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    WAITING = "waiting"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        return self in FINAL


FINAL = (State.SUCCEEDED, State.FAILED, State.CANCELLED)
LIVE = (State.WAITING, State.QUEUED, State.RUNNING)


class Move(StrEnum):
    """What can be done to a job. Moves with a verb are manual, the others are made by the engine."""

    ENQUEUE = "enqueue"
    PROMOTE = "promote"
    PARK = "park"
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    FAIL = "fail"
    SNOOZE = "snooze"
    RELEASE = "release"
    CANCEL = "cancel"
    EXPIRE = "expire"
    MANUAL_RETRY = "manual retry"
    RUN_NOW = "run now"
    MANUAL_CANCEL = "manual cancel"
    MANUAL_SNOOZE = "manual snooze"

    @property
    def verb(self) -> str | None:
        """The command of a manual move; None if only the engine makes this move."""
        return VERBS.get(self)

    @property
    def sources(self) -> tuple[State, ...]:
        return tuple(source for move, source in TABLE if move is self and source is not None)


VERBS = {
    Move.MANUAL_RETRY: "retry",
    Move.RUN_NOW: "run-now",
    Move.MANUAL_CANCEL: "cancel",
    Move.MANUAL_SNOOZE: "snooze",
}


@dataclass(frozen=True, slots=True)
class Step:
    """The state that a move leads to, and the event it records."""

    target: State
    event: str


TABLE: dict[tuple[Move, State | None], Step] = {
    (Move.ENQUEUE, None): Step(State.WAITING, "job.enqueued"),
    (Move.PROMOTE, State.WAITING): Step(State.QUEUED, "job.queued"),
    # It holds a slot of a limit and cannot be claimed, or it was admitted before the limit existed.
    (Move.PARK, State.QUEUED): Step(State.WAITING, "job.parked"),
    # Its call failed while its service was failing: charged to the service, and no attempt is used up.
    (Move.PARK, State.RUNNING): Step(State.WAITING, "job.parked"),
    (Move.CLAIM, State.QUEUED): Step(State.RUNNING, "job.started"),
    (Move.SUCCEED, State.RUNNING): Step(State.SUCCEEDED, "job.succeeded"),
    (Move.RETRY, State.RUNNING): Step(State.WAITING, "job.retried"),
    (Move.FAIL, State.RUNNING): Step(State.FAILED, "job.failed"),
    (Move.SNOOZE, State.RUNNING): Step(State.WAITING, "job.snoozed"),
    (Move.RELEASE, State.RUNNING): Step(State.QUEUED, "job.released"),
    (Move.CANCEL, State.RUNNING): Step(State.CANCELLED, "job.cancelled"),
    (Move.EXPIRE, State.WAITING): Step(State.FAILED, "job.failed"),
    (Move.EXPIRE, State.QUEUED): Step(State.FAILED, "job.failed"),
    (Move.MANUAL_RETRY, State.FAILED): Step(State.WAITING, "job.retry_requested"),
    (Move.MANUAL_RETRY, State.CANCELLED): Step(State.WAITING, "job.retry_requested"),
    (Move.MANUAL_RETRY, State.WAITING): Step(State.WAITING, "job.retry_requested"),
    (Move.RUN_NOW, State.FAILED): Step(State.WAITING, "job.run_requested"),
    (Move.RUN_NOW, State.CANCELLED): Step(State.WAITING, "job.run_requested"),
    (Move.RUN_NOW, State.WAITING): Step(State.WAITING, "job.run_requested"),
    (Move.MANUAL_CANCEL, State.WAITING): Step(State.CANCELLED, "job.cancelled"),
    (Move.MANUAL_CANCEL, State.QUEUED): Step(State.CANCELLED, "job.cancelled"),
    # The worker learns of it at its next heartbeat, and the settle of the attempt cancels the job.
    (Move.MANUAL_CANCEL, State.RUNNING): Step(State.RUNNING, "job.cancel_requested"),
    (Move.MANUAL_SNOOZE, State.WAITING): Step(State.WAITING, "job.snoozed"),
    (Move.MANUAL_SNOOZE, State.QUEUED): Step(State.WAITING, "job.snoozed"),
}

# A result that came too late changes no state, but is recorded.
REFUSED = "job.refused"

RESULT_EXPIRED = "job.result_expired"
KEY_RELEASED = "job.key_released"
# These say something about a job and change no state.
NOTES = (REFUSED, RESULT_EXPIRED, KEY_RELEASED)

JOB_EVENTS = tuple(dict.fromkeys([*(step.event for step in TABLE.values()), *NOTES]))
# Events about other subjects than a job: `job` is empty, and `data` names the subject.
PAUSED, RESUMED, DUTY_DONE, PURGED = "duty.paused", "duty.resumed", "duty.done", "jobs.purged"
SCHEDULE_PLANNED, SCHEDULE_SKIPPED, SCHEDULE_RUN = "schedule.planned", "schedule.skipped", "schedule.run_requested"
SCHEDULE_PAUSED, SCHEDULE_RESUMED, SCHEDULE_REMOVED = "schedule.paused", "schedule.resumed", "schedule.removed"
SCHEDULE_EVENTS = (
    SCHEDULE_PLANNED,
    SCHEDULE_SKIPPED,
    SCHEDULE_RUN,
    SCHEDULE_PAUSED,
    SCHEDULE_RESUMED,
    SCHEDULE_REMOVED,
)
REDRIVE_STARTED, REDRIVE_STOPPED = "redrive.started", "redrive.stopped"
REDRIVE_CANCELLED, REDRIVE_FINISHED = "redrive.cancelled", "redrive.finished"
REDRIVE_EVENTS = (REDRIVE_STARTED, REDRIVE_STOPPED, REDRIVE_CANCELLED, REDRIVE_FINISHED)
SERVICE_OPENED, SERVICE_HALF_OPENED, SERVICE_CLOSED = "service.opened", "service.half_opened", "service.closed"
SERVICE_PACED, SERVICE_FORCED = "service.paced", "service.forced"
SERVICE_EVENTS = (SERVICE_OPENED, SERVICE_HALF_OPENED, SERVICE_CLOSED, SERVICE_PACED, SERVICE_FORCED)
BATCH_PUBLISHED, BATCH_SETTLED, BATCH_REOPENED = "batch.published", "batch.settled", "batch.reopened"
BATCH_ABORTED, BATCH_EXPIRED, BATCH_RETRIED = "batch.aborted", "batch.expired", "batch.retry_requested"
BATCH_EVENTS = (BATCH_PUBLISHED, BATCH_SETTLED, BATCH_REOPENED, BATCH_ABORTED, BATCH_EXPIRED, BATCH_RETRIED)
# A lane is the jobs of one queue, kind and service; each part can be paused.
LANE_PARTS = ("queue", "kind", "service")
LANE_EVENTS = tuple(f"{part}.{happened}" for part in LANE_PARTS for happened in ("paused", "resumed"))
GROUP_EVENTS = {"ignored": "group.ignored", "resolved": "group.resolved", "open": "group.reopened"}
ALERT_FIRED, ALERT_RESOLVED = "alert.fired", "alert.resolved"
ALERT_EVENTS = (ALERT_FIRED, ALERT_RESOLVED)
INTAKE_EVENTS = ("intake.paused", "intake.resumed")
EVENT_TYPES = (
    *JOB_EVENTS,
    PAUSED,
    RESUMED,
    DUTY_DONE,
    PURGED,
    *SCHEDULE_EVENTS,
    *SERVICE_EVENTS,
    *REDRIVE_EVENTS,
    *BATCH_EVENTS,
    *LANE_EVENTS,
    *INTAKE_EVENTS,
    *GROUP_EVENTS.values(),
    *ALERT_EVENTS,
)


def possible_verbs(state: State) -> tuple[str, ...]:
    """The manual moves that are possible in this state."""
    return tuple(verb for move, verb in VERBS.items() if (move, state) in TABLE)


def pause_events(what: str) -> tuple[str, str]:
    """The events for the begin and the end of a pause."""
    return f"{what}.paused", f"{what}.resumed"


def diagram() -> str:
    """The table as a Mermaid state diagram, for the docs."""
    lines = ["stateDiagram-v2"]
    for (move, source), step in TABLE.items():
        lines.append(f"    {source or '[*]'} --> {step.target}: {move}")
    lines += [f"    {state} --> [*]" for state in FINAL]
    return "\n".join(lines)
