"""A task: a function whose calls become durable jobs, typed by its own signature."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from msgspec import Struct

from mulligan.errors import BadArgument, BadBatch, BadTask, InvalidArguments, Snooze
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import AnyRule, check_rules
from mulligan.policies.in_force import InForce
from mulligan.records.batch import BatchRecord
from mulligan.records.job import ANY_ID, DEFAULT_QUEUE, FollowUp, Job, NewJob
from mulligan.service.records import PROBE_KIND
from mulligan.task.checks import (
    CanRetry,
    Priority,
    ServiceName,
    check_aliases,
    check_can_retry,
    check_computed_service,
    check_concurrency,
    check_cost,
    check_isolate,
    check_memory,
    check_name,
    check_retry,
    check_service,
    check_timeout,
    priority_number,
)
from mulligan.task.client import Client
from mulligan.task.options import (
    JobOptions,
    batch_id,
    check_attempts,
    check_id,
    check_key,
    check_label,
    check_length,
    check_moment,
    check_owner,
    check_price,
    check_scope,
    check_tags,
    owner_in,
)
from mulligan.task.payload import Payload
from mulligan.values.check import not_allowed
from mulligan.values.duration import Duration, parse
from mulligan.values.ids import id_from, is_id

P = ParamSpec("P")
C = TypeVar("C", covariant=True)
R = TypeVar("R", covariant=True)

DEFAULT_TIMEOUT = "15m"


class Binding(Struct, Generic[R], frozen=True, gc=False):
    """A call that is checked and encoded, but not enqueued yet."""

    task: "Task[..., Any, R]"
    arguments: str
    options: JobOptions
    service: str = ""

    async def enqueue_async(self) -> Job[R]:
        """Store the call as a job, without blocking the event loop."""
        (job,) = await self.task.client.enqueue_async([self])
        return job

    def is_like(self, other: "Binding[Any]") -> bool:
        """Whether the two are surely the same call with other arguments."""
        return self.task is other.task and self.options is other.options and self.service == other.service

    @property
    def own_id(self) -> str | None:
        """The caller's id if it is a UUID, else a UUID derived from owner, kind and the caller's id."""
        given = self.options.id
        if given is None or is_id(given):
            return given
        return id_from(f"{self.options.owner}\0{self.task.name}\0{given}")

    def new_job(self, job_id: str, in_force: InForce, *, is_submitted: bool = False) -> NewJob:
        """The job, with the limits in force for its kind and owner."""
        task, options, retry, caps = self.task, self.options, in_force.policy, in_force.caps
        return NewJob(
            id=job_id,
            kind=task.name,
            arguments=self.arguments,
            owner=options.owner,
            queue=options.queue or task.queue,
            service=self.service,
            is_service_computed=callable(task.service),
            priority=task.priority if options.priority is None else options.priority,
            submitted_at=options.submitted_at,
            delay=options.delay,
            deadline=retry.deadline if options.deadline is None else options.deadline,
            max_attempts=options.max_attempts or caps["max_attempts"],
            max_crashes=caps["max_crashes"],
            max_snoozes=caps["max_snoozes"],
            timeout=options.timeout or in_force.timeout,
            own_max_attempts=options.max_attempts,
            own_timeout=options.timeout,
            dedupe_key=options.dedupe,
            dedupe_scope=options.dedupe_scope,
            dedupe_for=options.dedupe_for,
            tags=options.tags,
            cost=task.cost if options.cost is None else options.cost,
            on_failed=None if task.on_failed is None else task.on_failed.follow_up,
            on_cancelled=None if task.on_cancelled is None else task.on_cancelled.follow_up,
            batch=options.batch,
            # The engine's own probes are no intake.
            is_submitted=is_submitted and task.name != PROBE_KIND,
            is_id_given=options.id is not None,
        )


class Submission(Generic[P, R]):
    """A task with the options of one call."""

    def __init__(self, task: "Task[P, Any, R]", options: JobOptions) -> None:
        self._task = task
        self._options = options

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Binding[R]:
        """Check and encode a call for `app.enqueue_many`."""
        # The order of a set differs between processes, but the same call must give the same JSON.
        arguments = self._task.payload.encode(args, kwargs, in_order=self._options.id is not None)
        return Binding(self._task, arguments, self._options, self._task.service_of(args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store the call as a job. It survives a crash from when this returns; with `connection=`, from its commit."""
        (job,) = self._task.client.enqueue([self.bind(*args, **kwargs)])
        return job

    def bind_json(self, arguments: Mapping[str, Any]) -> Binding[R]:
        """Like `bind`, for arguments by name that were read from JSON: they are converted to the annotations."""
        args, kwargs = self._task.payload.convert(arguments)
        return self.bind(*args, **kwargs)

    def reject(self, error: Exception, /, *args: Any, **kwargs: Any) -> Job[R]:
        """Store the call as a job that failed with this error before it could run.

            convert.options(owner="acme").reject(FinalError("not a PDF", code="NOT_PDF"), mapping="invoice")

        The error is classified as any other. Arguments may be missing. A dedupe key is not used, and `on_failed` is not
        enqueued. The job can be retried manually if its arguments fit the task; NotAllowed says what is wrong.
        """
        if not isinstance(error, Exception) or isinstance(error, Snooze):
            raise BadArgument("the error", error, "an exception that is a failure, such as FinalError('…', code='…')")
        task, options = self._task, replace(self._options, dedupe=None, dedupe_for=None)
        arguments = task.payload.encode_incomplete(args, kwargs, in_order=options.id is not None)
        service = ""
        # Its name may be computed from an argument that is missing.
        with suppress(InvalidArguments):
            service = task.service_of(args, kwargs)
        return task.client.reject(Binding(task, arguments, options, service), error)

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return await self.bind(*args, **kwargs).enqueue_async()


class Task(Generic[P, C, R]):
    """A registered function. Calling it calls the function; `enqueue` makes it a job."""

    def __init__(
        self,
        function: Callable[P, C],
        *,
        client: Client,
        name: str,
        retry: RetryPolicy,
        rules: Sequence[AnyRule] = (),
        service: ServiceName = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority = "normal",
        timeout: Duration = DEFAULT_TIMEOUT,
        isolate: bool | None = None,
        memory: int | str | None = None,
        cost: int = 0,
        concurrency: int | None = None,
        can_retry: CanRetry | None = None,
        on_failed: "Task[..., Any, Any] | None" = None,
        on_cancelled: "Task[..., Any, Any] | None" = None,
        at_most_once: bool = False,
        public: bool = False,
        aliases: Iterable[str] = (),
    ) -> None:
        self.function = function
        self.client = client
        self.name = check_name("the name of a task", name)
        self.at_most_once = at_most_once
        self.public = public
        self.retry = check_retry(self.name, retry, at_most_once=at_most_once)
        self.rules = check_rules(rules, f"rules of task {self.name!r}")
        self.service = check_service(self.name, service)
        self.queue = check_name("the name of a queue", queue)
        self.priority = priority_number(priority)
        self.timeout = check_timeout(self.name, timeout)
        self.memory = check_memory(self.name, memory)
        self.isolate = check_isolate(self.name, isolate, self.memory)
        self.cost = check_cost(cost)
        self.concurrency = check_concurrency(concurrency)
        self.can_retry = check_can_retry(self.name, can_retry)
        self.on_failed = _check_follow_up(self.name, "on_failed", on_failed, client)
        self.on_cancelled = _check_follow_up(self.name, "on_cancelled", on_cancelled, client)
        self.aliases = check_aliases(self.name, aliases)
        self.is_async = inspect.iscoroutinefunction(function)
        self.payload = Payload(function, self.name)
        self._plain: Submission[P, R] = Submission(self, JobOptions())
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def prepare(self) -> None:
        """Raise the error that would keep its jobs, or the jobs that follow them, from running."""
        self.payload.prepare()
        for follow_up in (self.on_failed, self.on_cancelled):
            if follow_up is not None:
                follow_up.payload.encode((ANY_ID,), {})

    def service_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The name of the service that a call depends on, or an empty string."""
        if not callable(self.service):
            return self.service or ""
        try:
            named = self.service(*args, **kwargs)
        except Exception as error:
            raise InvalidArguments(self.name, f"its service= failed: {type(error).__name__}: {error!s:.300}") from error
        return "" if named is None or named == "" else check_computed_service(self.name, named)

    @property
    def follow_up(self) -> FollowUp:
        """The job to store when a job ends whose task has this one as `on_failed` or `on_cancelled`."""
        assert not callable(self.service)
        caps = InForce(self.retry, self.timeout, at_most_once=self.at_most_once).caps
        return FollowUp(
            kind=self.name,
            arguments=self.payload.encode((ANY_ID,), {}),
            queue=self.queue,
            service=self.service or "",
            priority=self.priority,
            deadline=self.retry.deadline,
            max_attempts=caps["max_attempts"],
            max_crashes=caps["max_crashes"],
            max_snoozes=caps["max_snoozes"],
            timeout=self.timeout,
            cost=self.cost,
            on_failed=None if self.on_failed is None else self.on_failed.follow_up,
            on_cancelled=None if self.on_cancelled is None else self.on_cancelled.follow_up,
        )

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Binding[R]:
        """Check and encode a call for `app.enqueue_many`."""
        return self._plain.bind(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store the call as a job. When this returns, it survives a crash."""
        return self._plain.enqueue(*args, **kwargs)

    def reject(self, error: Exception, /, *args: Any, **kwargs: Any) -> Job[R]:
        """Store the call as a job that failed with this error before it could run."""
        return self._plain.reject(error, *args, **kwargs)

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        return await self._plain.enqueue_async(*args, **kwargs)

    def options(
        self,
        *,
        owner: str = "",
        queue: str | None = None,
        priority: Priority | None = None,
        delay: Duration = 0,
        deadline: Duration | None = None,
        submitted_at: datetime | None = None,
        dedupe: str | None = None,
        dedupe_scope: str = "active",
        dedupe_for: Duration | None = None,
        tags: Iterable[str] = (),
        batch: BatchRecord | str | None = None,
        max_attempts: int | None = None,
        timeout: Duration | None = None,
        cost: int | None = None,
        id: UUID | str | None = None,  # noqa: A002
        connection: Any = None,
    ) -> Submission[P, R]:
        """The same task with options for the calls that follow.

        `owner`        the customer or tenant that the job belongs to; quotas, fair queues and access go by it
        `queue`        another queue than the task's
        `priority`     another priority than the task's: "high", "normal", "low" or an integer, lower first
        `delay`        how long the job waits before its first attempt
        `deadline`     how long after enqueue it may still start an attempt; then it fails with DEADLINE
        `submitted_at` when the work was requested, if that was before the enqueue; it sets the order in the queue
        `dedupe`       key that identifies the work: a job of the same owner and kind that holds it is returned instead
        `dedupe_scope` "active": a job holds the key until it is over; "succeeded": also after it succeeded
        `dedupe_for`   how long from enqueue a job holds the key, whatever becomes of it
        `tags`         labels to find the job by
        `batch`        draft batch, or its id; the job waits until the batch is published, and gets its owner
        `max_attempts` how often the job may be tried; the policies file does not change it
        `timeout`      how long an attempt may take; the policies file does not change it
        `cost`         what each automatic retry costs the budget of its owner, instead of the task's cost
        `id`           makes the call repeatable: a UUID, or any string, from which one is made with owner and kind
        `connection`   your own database connection with an open transaction; the job becomes part of it

        The same call under the same `id` returns the same job as long as that is stored. A call with another kind,
        owner, batch or other arguments under that id raises `Conflict`.
        A `connection` must lead to the app's own database, which is not checked. Workers are not notified of its
        commit: an idle worker finds the job within 2 seconds. Errors of the connection's library are raised unchanged.
        """
        if dedupe is None and dedupe_for is not None:
            problem = "dedupe_for is given without dedupe, the key that tells jobs apart"
            raise InvalidArguments(self.name, problem, option="dedupe_for")
        owner = "" if owner == "" else check_owner(self.name, check_label(self.name, "owner", owner))
        return Submission(
            self,
            JobOptions(
                owner=owner if batch is None else owner_in(self.name, batch, owner),
                queue=None if queue is None else check_name("the name of a queue", queue),
                priority=None if priority is None else priority_number(priority),
                delay=parse(delay),
                deadline=None if deadline is None else parse(deadline),
                submitted_at=check_moment(self.name, submitted_at),
                dedupe=None if dedupe is None else check_key(self.name, dedupe),
                dedupe_scope=check_scope(self.name, dedupe_scope),
                dedupe_for=None if dedupe_for is None else parse(dedupe_for),
                tags=check_tags(self.name, tags),
                batch=batch_id(self.name, batch),
                max_attempts=check_attempts(self.name, max_attempts, at_most_once=self.at_most_once),
                timeout=check_length(self.name, timeout),
                cost=check_price(self.name, cost),
                id=None if id is None else check_id(self.name, id),
                connection=connection,
            ),
        )


def check_bindings(bindings: Iterable[Binding[Any]]) -> list[Binding[Any]]:
    found = list(bindings) if isinstance(bindings, Iterable) else [bindings]
    for binding in found:
        if not isinstance(binding, Binding):
            raise BadArgument("a binding", binding, "a call made with task.bind(…)")
    return found


def _check_follow_up(
    name: str, option: str, task: Task[..., Any, Any] | None, client: Client
) -> Task[..., Any, Any] | None:
    """A task that is registered already, so two tasks cannot follow each other forever."""
    if task is None:
        return None
    if problem := _why_no_follow_up(task, client, f"{option[3:]} job"):
        raise BadTask(f"{option} of task {name!r} {problem}")
    if name in (task.name, *task.aliases):
        raise BadTask(f"task {name!r} cannot be its own {option}: each end would cause another one")
    return task


def settled_follow_up(on_settled: Task[..., Any, Any] | None, client: Client, *, owner: str) -> FollowUp | None:
    """The job to store when a batch is settled."""
    if on_settled is None:
        return None
    if problem := _why_no_follow_up(on_settled, client, "batch"):
        raise BadBatch(f"on_settled {problem}")
    return client.follow_up(on_settled, owner)


def _why_no_follow_up(task: Task[..., Any, Any], client: Client, subject: str) -> str | None:
    """Why the task cannot be called with the id of its subject; None if it can."""
    if not isinstance(task, Task) or task.client is not client:
        return not_allowed("", task, "a task of the same app")
    if callable(task.service):
        return f"cannot be used: the service of {task.name!r} must be a name, not a function"
    try:
        inspect.signature(task.function).bind(ANY_ID)
    except TypeError as error:
        return f"is called with one argument, the {subject}'s id; {task.name!r}: {error}"
    return None
