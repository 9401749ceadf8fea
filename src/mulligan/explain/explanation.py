"""An explanation as data. `next` is made from the holds and the actions, so that pages, programs and people are told
the same."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from mulligan.records.job import Job


class HoldCode(StrEnum):
    """Why a job does not go on, by stable codes; docs/reference/explain.md describes each."""

    # It waits for a time.
    DELAY = "delay"
    RETRY = "retry"
    SNOOZE = "snooze"
    RATE_LIMIT = "rate_limit"
    ANOTHER_VERSION = "another_version"
    WAITING = "waiting"
    # It waits for something that is not possible now.
    PAUSED = "paused"
    SERVICE_OPEN = "service_open"
    SERVICE_FORCED_OPEN = "service_forced_open"
    SERVICE_HALF_OPEN = "service_half_open"
    SERVICE_PACED = "service_paced"
    SERVICE_RATE = "service_rate"
    SERVICE_CHARGED = "service_charged"
    SERVICE_BUDGET = "service_budget"
    OWNER_BUDGET = "owner_budget"
    LIMIT = "limit"
    BATCH_DRAFT = "batch_draft"
    NO_WORKER = "no_worker"
    NO_WORKER_FOR_KIND = "no_worker_for_kind"
    NO_WORKER_FOR_QUEUE = "no_worker_for_queue"
    # It runs, but its worker does not answer or does not stop it.
    STUCK = "stuck"
    LEASE_EXPIRED = "lease_expired"
    # It failed, and no retry follows.
    FINAL_ERROR = "final_error"
    FAIL_FAST = "fail_fast"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    CODE_LIMIT = "code_limit"
    SNOOZES_EXHAUSTED = "snoozes_exhausted"
    LOSSES_EXHAUSTED = "losses_exhausted"
    CRASHES_EXHAUSTED = "crashes_exhausted"
    MISFITS_EXHAUSTED = "misfits_exhausted"
    BUDGET_EXHAUSTED = "budget_exhausted"
    DEADLINE = "deadline"
    UNSTORABLE = "unstorable"
    DAMAGED = "damaged"
    AT_MOST_ONCE = "at_most_once"
    OTHER = "other"
    NO_REASON = "no_reason"
    # It was cancelled.
    CANCELLED = "cancelled"
    BATCH_ABORTED = "batch_aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """What can be done now. `purpose` describes it in words: "To cancel it"."""

    code: str
    """The verb: `retry`, `run-now`, `cancel`, `snooze`, `process-stuck`, `resume`, `close`, `auto`, `show`, `publish`
    or `start`."""
    what: str
    """The sort of its subject: `job`, `queue`, `kind`, `service`, `duty`, `batch`, `worker`."""
    name: str
    """The name or id of its subject; empty for a worker that is to be started, and for all stuck jobs."""
    purpose: str
    command: str | None = None
    """In a shell. None in the view of an owner."""

    @property
    def sentence(self) -> str:
        return f"{self.purpose}: {self.command}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """One reason why a job does not go on."""

    code: HoldCode
    sentence: str
    notes: tuple[str, ...] = ()
    """Further sentences, such as its consequences."""
    by: str | None = None
    """What holds it, as in `app.blocked_by`: `pause/queue/bulk`, `service/gateway`, `limit/kind/convert`,
    `budget/owner/acme`, `batch/ID`, or `worker/INCARNATION`."""
    actor: str | None = None
    """Who paused, forced or cancelled it."""
    reason: str | None = None
    """The reason that the actor gave."""
    since: datetime | None = None
    until: datetime | None = None
    """When it ends by itself; None: that is not known."""
    actions: tuple[Action, ...] = ()
    """What ends it, or helps."""

    @property
    def lines(self) -> tuple[str, ...]:
        """Everything in sentences."""
        return (self.sentence, *self.notes, *(action.sentence for action in self.actions if action.command))


Part = str | Hold
"""A plain sentence about the job, or something that holds it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """`happened` has one sentence per event, oldest first. `next` has the job's state, what comes next, and what can be
    done. `holds` and `actions` are the same as data: why the job does not go on, and which moves are legal now."""

    job: Job[Any]
    happened: tuple[str, ...]
    next: tuple[str, ...]
    holds: tuple[Hold, ...] = ()
    actions: tuple[Action, ...] = ()
    trace_id: str | None = None
    """The OpenTelemetry trace that the job was enqueued in."""


def holds_in(parts: Iterable[Part]) -> tuple[Hold, ...]:
    return tuple(part for part in parts if isinstance(part, Hold))


def sentences_of(parts: Iterable[Part], actions: Iterable[Action]) -> tuple[str, ...]:
    said = [line for part in parts for line in (part.lines if isinstance(part, Hold) else (part,))]
    return (*said, *(action.sentence for action in actions if action.command))
