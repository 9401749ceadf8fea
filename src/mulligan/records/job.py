"""The records of a job: what is asked for, what is stored, what a worker holds while it runs it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

from mulligan.errors import BadFilter
from mulligan.lifecycle import State
from mulligan.records.rate import Rate
from mulligan.values.text import WORD_ALLOWED, is_word

R = TypeVar("R", covariant=True)

PRIORITIES = {"high": -10, "normal": 0, "low": 10}
DEFAULT_QUEUE = "default"

# Stands for a job's id in arguments written before that is known.
ANY_ID = "00000000-0000-0000-0000-000000000000"

# What a job waits for whose arguments fit no worker that took it.
ANOTHER_VERSION = "another version"
# Counts, among the failures by code, the calls that failed while the job's service recovered and were charged to it.
RECOVERING = "SERVICE_RECOVERING"

# The caps of a job that runs at most once. A policy allows one crash at least: zero stands for such a job, also to a
# worker that does not know its kind.
ONCE = {"max_attempts": 1, "max_crashes": 0, "max_snoozes": 0}

# Losses nobody saw the cause of: the process, the machine or the network went away.
MAX_LOSSES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """One durable request to run a task, as the client hands it to the store."""

    id: str
    kind: str
    arguments: str
    owner: str = ""
    queue: str = DEFAULT_QUEUE
    service: str = ""
    priority: int = PRIORITIES["normal"]
    submitted_at: datetime | None = None
    delay: timedelta = timedelta(0)
    deadline: timedelta | None = None
    max_attempts: int = 4
    max_crashes: int = 3
    max_snoozes: int = 100
    timeout: timedelta | None = None
    dedupe_key: str | None = None
    dedupe_scope: str = "active"
    dedupe_for: timedelta | None = None
    tags: tuple[str, ...] = ()
    cost: int = 0
    on_failed: "FollowUp | None" = None
    batch: str | None = None
    """A draft; the job waits until that is published."""
    weight: float | None = None
    """Of its owner in a fair queue; None in a plain one, whose jobs go by submission."""
    submit_rate: Rate | None = None
    """How fast its owner may submit."""
    is_id_given: bool = False
    """The caller chose the id: the same call again is the same job, and another call under it is a Conflict."""
    is_service_computed: bool = False
    """Its service is named by its arguments: of such names so many are told apart, and not more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowUp:
    """The job that is stored when another one fails for good, or a batch is settled. `ANY_ID` in its arguments stands
    for that one's id."""

    kind: str
    arguments: str
    queue: str
    service: str
    priority: int
    deadline: timedelta | None
    max_attempts: int
    max_crashes: int
    max_snoozes: int
    timeout: timedelta | None
    cost: int
    on_failed: "FollowUp | None" = None
    weight: float | None = None

    def after(self, ended: str, *, owner: str, job_id: str) -> NewJob:
        return NewJob(
            id=job_id,
            kind=self.kind,
            arguments=self.arguments.replace(ANY_ID, ended),
            owner=owner,
            queue=self.queue,
            service=self.service,
            priority=self.priority,
            deadline=self.deadline,
            max_attempts=self.max_attempts,
            max_crashes=self.max_crashes,
            max_snoozes=self.max_snoozes,
            timeout=self.timeout,
            cost=self.cost,
            on_failed=self.on_failed,
            weight=self.weight,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[R]):
    """One durable record. A snapshot: ask again to see what happened since."""

    id: str
    kind: str
    owner: str
    queue: str
    service: str
    priority: int
    state: State
    arguments: Any
    """By parameter name, as JSON carries them; the stored string if somebody damaged it."""
    attempt: int
    failures: int
    crashes: int
    losses: int
    snoozes: int
    manual_retries: int
    max_attempts: int
    max_crashes: int
    max_snoozes: int
    code_failures: Mapping[str, int]
    previous_delay: timedelta | None
    trigger: str
    submitted_at: datetime
    enqueued_at: datetime
    queued_at: datetime | None
    due_at: datetime
    deadline: datetime | None
    started_at: datetime | None
    last_attempt_at: datetime | None
    finished_at: datetime | None
    updated_at: datetime
    progress: float
    progress_text: str
    result: Any
    error_code: str | None
    error_class: str | None
    error_message: str | None
    """The line for people."""
    error_detail: str | None = None
    """Of a failed job, the technical line beside `error_message`: `ValueError: no such page`. Without secrets."""
    last_code: str | None = None
    """Of the last attempt that failed, in any state; it stays when a later attempt succeeds or the job is retried."""
    last_class: str | None = None
    last_message: str | None = None
    last_detail: str | None = None
    group: str | None
    batch: str | None
    dedupe_key: str | None
    dedupe_scope: str
    dedupe_until: datetime | None
    tags: tuple[str, ...]
    cost: int
    leased_by: str | None
    lease_until: datetime | None
    cancel_requested: bool
    waiting_for: str | None
    timeout: timedelta | None = None
    version: str | None = None
    """Of the app that made the last attempt."""
    gate: str | None = None
    """What holds it back although it is due: a paused duty (`duty/retry`), a service's budget (`budget/gateway`), or
    its service, of which it was a probe that failed (`probe/…`)."""
    is_duplicate: bool = False

    @property
    def max_retries(self) -> int:
        """Automatic retries allowed, for display: the attempt limit without the first try."""
        return self.max_attempts - 1

    @property
    def at_most_once(self) -> bool:
        """Once its code has begun, nothing but a person runs it again."""
        return self.max_crashes == ONCE["max_crashes"]

    @property
    def retry_count(self) -> int:
        """Automatic retries made since the start or the last manual retry, for display.

        Until the job is over, each failure brings a retry, made or to come; the failure that ends it brings none. A job
        that was cancelled while its retry was to come has no attempt for it.
        """
        ended_by_failure = self.state is State.FAILED and not self._ended_by_its_worker
        made = min(self.failures - ended_by_failure, self.max_retries)
        return max(0, min(made, self.attempt - 1) if self.state.is_final else made)

    @property
    def _ended_by_its_worker(self) -> bool:
        """A crash or a loss at its limit ended it: those are not among its failures."""
        return self.crashes >= self.max_crashes or self.losses >= MAX_LOSSES


class Fence(NamedTuple):
    """Who may settle an attempt. All four must match the row, which must still be running."""

    id: str
    attempt: int
    incarnation: str
    claim: int


class Called(NamedTuple):
    """A call of a service that a task reports: whether that did its part."""

    service: str
    ok: bool
    status: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class Lease:
    """The right to run one attempt of a job until `until` by the store's clock."""

    fence: Fence
    kind: str
    owner: str
    arguments: str
    claimed_at: datetime
    until: datetime
    load: Callable[[], Job[Any]] = field(repr=False)
    is_whole: bool = True
    """The whole record is at hand; else `job` asks the store, which takes its time and may not answer."""
    service: str = ""
    service_epoch: int = 0
    is_retry: bool = False
    """It failed before."""
    is_refused: bool = False
    """Its service is open and fails fast: it is to fail without being run."""
    is_probe: bool = False
    """Its service is half-open, and tried with it."""
    is_suspect: bool = False
    """An earlier attempt took its process down, or was with one that went away: it may do so again."""
    batch: str | None = None
    """Counted by whoever settles."""
    at_most_once: bool = False
    """The job was enqueued so; the task of this worker's version may say otherwise."""
    has_begun: bool = True
    """Of a job that runs at most once: whether its code may have begun. True where that is not known."""
    _job: Job[Any] | None = field(default=None, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """What a line of the log says about the attempt."""
        return {
            "job_id": self.fence.id,
            "kind": self.kind,
            "owner": self.owner,
            "attempt": self.fence.attempt,
            "worker": self.fence.incarnation,
        }

    @property
    def job(self) -> Job[Any]:
        """The whole record, built or loaded when first asked for: most attempts never need it."""
        if self._job is None:
            self._job, self.is_whole = self.load(), True
        return self._job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Which jobs: every field given must match."""

    state: State | str | None = None
    kind: str | None = None
    owner: str | None = None
    queue: str | None = None
    code: str | None = None
    last_code: str | None = None
    group: str | None = None
    batch: str | None = None
    tag: str | None = None
    version: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in tuple(State):
            raise BadFilter("state", self.state, "one of " + ", ".join(State))
        for name in ("kind", "owner", "queue", "code", "last_code", "group", "batch", "tag", "version"):
            value = getattr(self, name)
            if value is not None and not is_word(value):
                raise BadFilter(name, value, WORD_ALLOWED)
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
                raise BadFilter(name, moment, "a datetime with a time zone")


def described(wanted: JobFilter, owner: str | None) -> str:
    """The filter in words."""
    given = {each.name: getattr(wanted, each.name) for each in fields(wanted)}
    if owner is not None:
        given["owner"] = owner
    parts = [f"{name} {value}" for name, value in given.items() if value is not None]
    return f"jobs of {', '.join(parts)}" if parts else "all jobs"


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """A part of a listing; `cursor` leads to the next one, None when this was the last.

    `damaged` names rows that could not be read: they are shown, not hidden.
    """

    jobs: tuple[Job[R], ...]
    cursor: str | None
    damaged: tuple[str, ...] = ()
