"""A job as the model knows it."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from mulligan.lifecycle import State
from mulligan.records.job import Fence, Job, NewJob

# What the store does not say of a job, or says in another way.
ITS_OWN = ("asked", "rank", "claim", "parked", "has_slot", "touched_at", "settled", "refused")


class Refusal(Exception):
    """The model's word for an IllegalMove (`twin` is None), a Conflict or a BatchExpired."""

    def __init__(self, twin: str | None = None, *, is_expired: bool = False) -> None:
        self.twin = twin
        self.is_expired = is_expired


@dataclass
class ModelJob:
    """The names are those of `Job`."""

    asked: NewJob
    state: State
    rank: datetime
    enqueued_at: datetime
    submitted_at: datetime
    due_at: datetime
    deadline: datetime | None
    dedupe_until: datetime | None
    waiting_for: str | None
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    losses: int = 0
    snoozes: int = 0
    manual_retries: int = 0
    code_failures: dict[str, int] = field(default_factory=dict)
    previous_delay: timedelta | None = None
    trigger: str = "automatic"
    started_at: datetime | None = None
    last_attempt_at: datetime | None = None
    finished_at: datetime | None = None
    result: Any = None
    error_code: str | None = None
    error_message: str | None = None
    leased_by: str | None = None
    lease_until: datetime | None = None
    cancel_requested: bool = False
    claim: int | None = None
    parked: str | None = None
    """The gate that blocks it: a paused duty, its batch, a budget or a limit."""
    has_slot: bool = False
    """Admitted under limits; it has a meaning only while it is queued or running."""
    touched_at: datetime | None = None
    settled: dict[int, str] = field(default_factory=dict)
    refused: set[tuple[int, str]] = field(default_factory=set)

    @property
    def turn(self) -> tuple[int, datetime, str]:
        """Who is lower comes first."""
        return self.asked.priority, self.rank, self.asked.id

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.asked.owner, self.asked.kind, self.asked.dedupe_key

    @property
    def fence(self) -> Fence:
        return Fence(self.asked.id, self.attempt, self.leased_by or "", self.claim or 0)

    @property
    def is_admitted(self) -> bool:
        return self.state in (State.QUEUED, State.RUNNING)

    def park(self, under: str, *, waiting_for: str, now: datetime) -> None:
        self.state, self.parked, self.waiting_for, self.touched_at = State.WAITING, under, waiting_for, now

    def admit(self, now: datetime, *, has_slot: bool) -> None:
        self.state, self.waiting_for, self.parked, self.touched_at = State.QUEUED, None, None, now
        self.has_slot = has_slot

    def end(self, state: State, now: datetime) -> None:
        self.state, self.waiting_for, self.parked, self.finished_at = state, None, None, now

    def differences(self, job: Job[Any]) -> dict[str, tuple[Any, Any]]:
        """Where the store's record says something else: name → (model, store)."""
        names = [name for name in self.__dataclass_fields__ if name not in ITS_OWN]
        pairs = {name: (getattr(self, name), getattr(job, name)) for name in names}
        if self.state is not State.WAITING:
            del pairs["due_at"]
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
