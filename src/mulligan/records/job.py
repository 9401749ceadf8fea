"""The records of a job: the request, the stored job, and the lease of a worker that runs it.

The first two are structs of msgspec: made and copied in a fifth of the time that a frozen dataclass takes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from msgspec import Struct

from mulligan.errors import BadFilter
from mulligan.lifecycle import State
from mulligan.records.document import Shape
from mulligan.records.event import Event
from mulligan.records.rate import Rate
from mulligan.values.check import STRING

R = TypeVar("R", covariant=True)

PRIORITIES = {"high": -10, "normal": 0, "low": 10}
DEFAULT_QUEUE = "default"

# Placeholder for a job's id in arguments that are encoded before the id is known.
ANY_ID = "00000000-0000-0000-0000-000000000000"

# A job waits for this if its arguments fitted no worker that claimed it.
ANOTHER_VERSION = "another version"
# The key, among the failures by code, that counts failed calls charged to a recovering service.
RECOVERING = "SERVICE_RECOVERING"

# The caps of a job that runs at most once. A policy allows at least one crash, so zero crashes mark such a job, also
# for a worker that does not know its kind.
ONCE = {"max_attempts": 1, "max_crashes": 0, "max_snoozes": 0}

# The fields of a filter that are strings, and those that are times.
STRINGS = (
    "kind",
    "owner",
    "queue",
    "service",
    "worker",
    "code",
    "error_class",
    "last_code",
    "group",
    "batch",
    "tag",
    "version",
)
TIMES = ("since", "until", "finished_since")
# Those of `failure`, which is above records.
ERROR_CLASSES = ("final", "retryable", "rate_limited")
MOST_IDS = 10_000
# At most this many ids are named in a phrase.
MOST_SHOWN = 5

# How often a worker may vanish with a job: its process, machine or network was lost.
MAX_LOSSES = 10


# Without `gc`: these records can be part of no cycle, and thousands of them would make the collector examine the whole
# process again and again.
class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """A request to run a task, as the client passes it to the store."""

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
    own_max_attempts: int | None = None
    """Given for this one job: it wins over the policies file. Then `max_attempts` is the same."""
    own_timeout: timedelta | None = None
    dedupe_key: str | None = None
    dedupe_scope: str = "active"
    dedupe_for: timedelta | None = None
    tags: tuple[str, ...] = ()
    cost: int = 0
    on_failed: "FollowUp | None" = None
    on_cancelled: "FollowUp | None" = None
    batch: str | None = None
    """The id of a draft batch; the job waits until it is published."""
    weight: float | None = None
    """The owner's weight in a fair queue; None in a plain queue, which is ordered by submission."""
    submit_rate: Rate | None = None
    """The owner's limit on submissions."""
    max_live: int | None = None
    """How many jobs of the owner may be waiting, queued or running."""
    is_counted: bool = False
    """It counts as one of them. A follow-up does too, although it is never refused."""
    is_submitted: bool = False
    """A client enqueues it, so a pause of the intake refuses it. The engine's own jobs always pass."""
    is_id_given: bool = False
    """The caller chose the id: the same call again returns the same job, and another call with it is a Conflict."""
    is_service_computed: bool = False
    """The service's name was computed from the arguments. Only a limited number of such names is tracked separately."""


class FollowUp(Struct, frozen=True, kw_only=True, gc=False):
    """The job that is stored when another job fails for good or is cancelled, or when a batch is settled.

    `ANY_ID` in its arguments stands for the id of that job or batch.
    """

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
    on_cancelled: "FollowUp | None" = None
    weight: float | None = None
    is_counted: bool = False

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
            on_cancelled=self.on_cancelled,
            weight=self.weight,
            is_counted=self.is_counted,
        )


class Job(Struct, Generic[R], frozen=True, kw_only=True, gc=False):
    """A snapshot of one durable record. Read it again to see later changes."""

    _shape: ClassVar = Shape(
        adds=("retry_count", "max_retries", "at_most_once"),
        given={"blocked_by": str | None, "events": list[Event]},
    )

    id: str
    kind: str
    owner: str
    queue: str
    service: str
    priority: int
    state: State
    arguments: Any
    """By parameter name, as decoded from JSON; the stored string if it is damaged."""
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
    result_expired_at: datetime | None = None
    """When the result was deleted; the job itself stays until its own retention."""
    error_code: str | None
    error_class: str | None
    error_message: str | None
    """The line for users."""
    error_detail: str | None = None
    """The technical line of a failed job, without secrets: `ValueError: no such page`."""
    last_code: str | None = None
    """The code of the last attempt that failed. It stays when a later attempt succeeds or the job is retried."""
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
    own_max_attempts: int | None = None
    """What `options(max_attempts=…)` gave this job. It wins over the policies file."""
    own_timeout: timedelta | None = None
    """What `options(timeout=…)` gave this job."""
    version: str | None = None
    """The version of the app that made the last attempt."""
    gate: str | None = None
    """What blocks the job although it is due: a paused duty (`duty/retry`), a service's budget (`budget/gateway`), or
    its service, whose probe it was and failed (`probe/…`)."""
    is_duplicate: bool = False

    @property
    def max_retries(self) -> int:
        """Automatic retries allowed, for display: the attempt limit minus the first attempt."""
        return self.max_attempts - 1

    @property
    def at_most_once(self) -> bool:
        """Once its code has begun, only a manual retry runs it again."""
        return self.max_crashes == ONCE["max_crashes"]

    @property
    def was_rejected(self) -> bool:
        """It was stored as a failed job, and has not been retried since."""
        return was_rejected(self.attempt, self.finished_at, self.enqueued_at)

    @property
    def retry_count(self) -> int:
        """Automatic retries since the start or the last manual retry, for display.

        Each failure counts as a retry, made or pending, except the failure that ended the job. A retry that was pending
        when the job expired or was cancelled does not count if all its attempts had failed; the record does not tell
        the order of failures and attempts that ended otherwise.
        """
        made = min(self.failures - self._ended_by_failure, self.max_retries)
        return max(0, min(made, self.attempt - 1) if self.state.is_final else made)

    @property
    def _ended_by_failure(self) -> bool:
        """Its last attempt failed and ended the job. Crashes and losses are not counted as failures, and a job may also
        fail without an attempt, such as by its deadline."""
        by_worker = self.crashes >= self.max_crashes or self.losses >= MAX_LOSSES
        by_attempt = is_last_failure(self.error_code, self.error_message, self.last_code, self.last_message)
        return self.state is State.FAILED and by_attempt and not by_worker


def is_last_failure(code: str | None, message: str | None, last_code: str | None, last_message: str | None) -> bool:
    """Whether a job failed with the failure of its last attempt. Otherwise it failed without an attempt, or a worker of
    an older version, which does not write the last failure, settled it; a planned retry has another message than the
    end."""
    return code is not None and (code, message) == (last_code, last_message)


def was_rejected(attempt: int, finished_at: object, enqueued_at: object) -> bool:
    """Whether a job with these values was stored as a failed one. The times are of a record or of a row."""
    return attempt == 0 and finished_at == enqueued_at


class Fence(NamedTuple):
    """Identifies the one lease that may settle an attempt. All four parts must match the row, which must be running."""

    id: str
    attempt: int
    incarnation: str
    claim: int


class ReportedCall(NamedTuple):
    """A call of a service as a task reports it. `ok`: the service did not fail."""

    service: str
    ok: bool
    status: int | None = None
    seconds: float | None = None


@dataclass(slots=True)
class Lease:
    """The right to run one attempt of a job, until `until` by the store's clock."""

    fence: Fence
    kind: str
    owner: str
    arguments: str
    claimed_at: datetime
    until: datetime
    load: Callable[[], Job[Any]] = field(repr=False)
    is_whole: bool = True
    """The whole record is loaded; else `job` reads it from the store, which takes time and can fail."""
    service: str = ""
    service_epoch: int = 0
    is_retry: bool = False
    """An earlier attempt failed."""
    is_refused: bool = False
    """Its service is open and fails fast: the job fails without running."""
    is_probe: bool = False
    """Its service is half-open, and this job is a probe."""
    is_suspect: bool = False
    """An earlier attempt crashed its process, or ran in a process that was lost: this one may do so too."""
    batch: str | None = None
    """The settle counts the job in this batch."""
    at_most_once: bool = False
    """The job was enqueued to run at most once; the task in this worker's version may differ."""
    own_timeout: timedelta | None = None
    """Given for this one job: it wins over the timeout of the task and the policies file."""
    has_begun: bool = True
    """For a job that runs at most once: whether its code may have begun. True if that is not known."""
    trace_id: str | None = None
    """The trace that the attempt belongs to, if the worker traces."""
    _job: Job[Any] | None = field(default=None, repr=False)

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of a log line about the attempt."""
        return {
            "job_id": self.fence.id,
            "kind": self.kind,
            "owner": self.owner,
            "attempt": self.fence.attempt,
            "worker": self.fence.incarnation,
            **({"trace_id": self.trace_id} if self.trace_id else {}),
        }

    @property
    def job(self) -> Job[Any]:
        """The whole record, built or loaded on first use: most attempts never need it."""
        if self._job is None:
            self._job, self.is_whole = self.load(), True
        return self._job


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFilter:
    """Selects jobs: every given field must match."""

    _shape: ClassVar = Shape(is_sparse=True)

    ids: Collection[str] | None = None
    """Only these jobs, at most 10,000."""
    state: State | str | Collection[State | str] | None = None
    """One state or several."""
    kind: str | None = None
    """The name of the task."""
    owner: str | None = None
    """Whose jobs."""
    queue: str | None = None
    """The queue in which the job waits or ran."""
    service: str | None = None
    """The service that the job calls."""
    worker: str | None = None
    """The incarnation of the worker that runs the job."""
    code: str | None = None
    """The code with which the job has failed."""
    error_class: str | None = None
    """How the failure was classified."""
    last_code: str | None = None
    """The code of the last failure, also of one that is retried."""
    group: str | None = None
    """The failure group."""
    batch: str | None = None
    """The id of a batch: its members."""
    tag: str | None = None
    """One tag of the job."""
    version: str | None = None
    """The version of the app that stored the job."""
    since: datetime | None = None
    """Enqueued at or after this time."""
    until: datetime | None = None
    """Enqueued before this time."""
    finished_since: datetime | None = None
    """Over since this time."""

    def __post_init__(self) -> None:
        if self.state is not None:
            object.__setattr__(self, "state", _one_or_several(self.state))
        if self.ids is not None:
            object.__setattr__(self, "ids", _ids(self.ids))
        for name in STRINGS:
            value = getattr(self, name)
            if value is not None and not STRING.fits(value):
                raise BadFilter(name, value, STRING.allowed)
        if self.error_class is not None and self.error_class not in ERROR_CLASSES:
            raise BadFilter("error_class", self.error_class, f"one of {', '.join(ERROR_CLASSES)}")
        for name in TIMES:
            moment = getattr(self, name)
            if moment is not None and (not isinstance(moment, datetime) or moment.tzinfo is None):
                raise BadFilter(name, moment, "a datetime with a time zone")

    @property
    def states(self) -> tuple[State, ...]:
        """The wanted states; all of them without a filter by state."""
        if self.state is None:
            return tuple(State)
        several = [self.state] if isinstance(self.state, str) else self.state
        return tuple(State(state) for state in several)


def _one_or_several(given: object) -> State | tuple[State, ...]:
    several = [given] if isinstance(given, str) else list(given) if isinstance(given, Collection) else []
    if not several or any(state not in tuple(State) for state in several):
        raise BadFilter("state", given, f"one of {', '.join(State)}, or a list of them")
    states = tuple(state for state in State if state in several)
    return states[0] if len(states) == 1 else states


def _ids(given: object) -> tuple[str, ...]:
    several = list(given) if isinstance(given, Collection) and not isinstance(given, str) else None
    if several is None or len(several) > MOST_IDS or not all(STRING.fits(each) for each in several):
        raise BadFilter("ids", given, f"a list of at most {MOST_IDS:,} ids")
    return tuple(dict.fromkeys(several))


def describe_filter(wanted: JobFilter, owner: str | None) -> str:
    """The filter as a phrase for people."""
    given = {each.name: getattr(wanted, each.name) for each in fields(wanted)}
    if owner is not None:
        given["owner"] = owner
    parts = [f"{name} {_phrase(value)}" for name, value in given.items() if value is not None]
    return f"jobs of {', '.join(parts)}" if parts else "all jobs"


def _phrase(value: object) -> str:
    if isinstance(value, tuple):
        shown = value[:3] if len(value) > MOST_SHOWN else value
        return " or ".join(map(str, shown)) + (f" or {len(value) - 3:,} more" if shown != value else "")
    return str(value)


@dataclass(frozen=True, slots=True)
class Page(Generic[R]):
    """One page of a list. `cursor` leads to the next page; None: this is the last.

    `damaged` names each row that could not be read, and says why.
    """

    jobs: tuple[Job[R], ...]
    cursor: str | None
    damaged: tuple[str, ...] = ()


def all_pages(read: Callable[..., Page[R]]) -> Iterator[Page[R]]:
    """Every page of a list. `read` takes a `cursor` and returns that page."""
    page = read(cursor=None)
    yield page
    while page.cursor is not None:
        page = read(cursor=page.cursor)
        yield page
