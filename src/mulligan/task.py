"""Tasks: functions whose calls become durable jobs. Typed by the function's own signature."""

import asyncio
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar
from uuid import UUID

from mulligan.batch import BatchRecord
from mulligan.clock import id_from, is_id
from mulligan.duration import Duration, parse
from mulligan.errors import BadArgument, BadBatch, BadConnection, BadPolicy, BadTask, InvalidArguments, UnknownKind
from mulligan.failure.classify import AnyRule
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.service.config import one_service
from mulligan.job import ANY_ID, DEFAULT_QUEUE, PRIORITIES, FollowUp, Job, NewJob
from mulligan.limit import EVERYBODY
from mulligan.payload import Payload
from mulligan.policies import InForce, Quotas
from mulligan.policies.queue import MOST_AT_ONCE
from mulligan.safe import LONGEST_NAME, encodes, is_name, name_allowed
from mulligan.size import BadSize, describe_size, parse_size
from mulligan.store import foreign
from mulligan.store.protocols import JobStore

P = ParamSpec("P")
C = TypeVar("C", covariant=True)
R = TypeVar("R", covariant=True)

CanRetry = Callable[[Job[Any]], object]
ServiceName = str | Callable[..., str | None] | None
Priority = str | int

DEFAULT_TIMEOUT = "15m"
LONGEST_KEY = 500
MOST_TAGS = 50
PRIORITY_BOUND = 1_000_000
SCOPES = ("active", "succeeded")
# The interpreter and a small app take about half of this before a task's own code takes any.
LEAST_MEMORY = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one job is to be enqueued; what is None is left to the task."""

    owner: str = ""
    queue: str | None = None
    priority: int | None = None
    delay: timedelta = timedelta(0)
    deadline: timedelta | None = None
    submitted_at: datetime | None = None
    dedupe: str | None = None
    dedupe_scope: str = "active"
    dedupe_for: timedelta | None = None
    tags: tuple[str, ...] = ()
    batch: str | None = None
    id: str | None = None
    connection: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Binding(Generic[R]):
    """A call that was checked and encoded, but not made yet."""

    task: "Task[..., Any, R]"
    arguments: str
    options: Options
    service: str = ""

    @property
    def own_id(self) -> str | None:
        """The id its caller gave, or the one made of it: any other string names a job of this owner and kind."""
        given = self.options.id
        if given is None or is_id(given):
            return given
        return id_from(f"{self.options.owner}\0{self.task.name}\0{given}")

    def new_job(self, job_id: str, standing: InForce) -> NewJob:
        """The job, with the limits that are in force for its kind and owner."""
        task, options, retry, caps = self.task, self.options, standing.policy, standing.caps
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
            max_attempts=caps["max_attempts"],
            max_crashes=caps["max_crashes"],
            max_snoozes=caps["max_snoozes"],
            timeout=standing.timeout,
            dedupe_key=options.dedupe,
            dedupe_scope=options.dedupe_scope,
            dedupe_for=options.dedupe_for,
            tags=options.tags,
            cost=task.cost,
            on_failed=None if task.on_failed is None else task.on_failed.follow_up,
            batch=options.batch,
            is_id_given=options.id is not None,
        )


class Client:
    """Where bound calls are handed in. `uses_connections`: the sandbox takes every connection and uses none."""

    def __init__(
        self,
        store: Callable[[], JobStore],
        ids: Callable[[], str],
        in_force: Callable[[str, str], InForce],
        *,
        quotas: Quotas,
        uses_connections: Callable[[], bool] = lambda: True,
    ) -> None:
        self._store = store
        self._ids = ids
        self._in_force = in_force
        self._quotas = quotas
        self._uses_connections = uses_connections

    def enqueue(self, bindings: Sequence[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        """All or none, in one transaction: the caller's own, if there is a connection of his."""
        used, jobs = self._used(bindings, connection), self._new_jobs(bindings)
        if used is None:
            return self._store().enqueue(jobs)
        return foreign.run(used, self._store().enqueue_script(jobs))

    async def enqueue_async(self, bindings: Sequence[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        used, jobs = self._used(bindings, connection), self._new_jobs(bindings)
        if used is None:
            return await asyncio.to_thread(lambda: self._store().enqueue(jobs))
        # In a thread too: the store may have to be opened, which blocks.
        return await foreign.run_async(used, await asyncio.to_thread(lambda: self._store().enqueue_script(jobs)))

    def _new_jobs(self, bindings: Sequence[Binding[Any]]) -> list[NewJob]:
        return [self.new_job(binding, binding.own_id or self._ids()) for binding in bindings]

    def new_job(self, binding: Binding[Any], job_id: str) -> NewJob:
        """With what is in force for its kind, queue and owner now."""
        job = binding.new_job(job_id, self._in_force(binding.task.name, binding.options.owner))
        return self._quotas.over(job)

    def follow_up(self, task: "Task[..., Any, Any]", owner: str) -> FollowUp:
        """With its owner's weight, if its queue is a fair one now."""
        return self._quotas.weighed(task.follow_up, owner)

    def _used(self, bindings: Sequence[Binding[Any]], connection: Any) -> Any:
        given = [
            each for each in (connection, *(binding.options.connection for binding in bindings)) if each is not None
        ]
        if not given or not self._uses_connections():
            return None
        if any(each is not given[0] for each in given):
            raise BadConnection(
                given[0], "another call of the same enqueue_many has another; all go into one transaction"
            )
        return given[0]


class Submission(Generic[P, R]):
    """A task with the options of one call."""

    def __init__(self, task: "Task[P, Any, R]", options: Options) -> None:
        self._task = task
        self._options = options

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Binding[R]:
        """Check and encode a call for `app.enqueue_many`."""
        # A set has another order in another process, where the same call must be the same JSON.
        arguments = self._task.payload.encode(args, kwargs, in_order=self._options.id is not None)
        return Binding(self._task, arguments, self._options, self._task.service_of(args, kwargs))

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store the call as a job. When this returns, it survives a crash; with `connection=`, when that commits."""
        (job,) = self._task.client.enqueue([self.bind(*args, **kwargs)])
        return job

    async def enqueue_async(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        (job,) = await self._task.client.enqueue_async([self.bind(*args, **kwargs)])
        return job


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
        at_most_once: bool = False,
        aliases: Iterable[str] = (),
    ) -> None:
        self.function = function
        self.client = client
        self.name = checked_name("a task's name", name)
        self.at_most_once = at_most_once
        self.retry = _retry(self.name, retry, is_only=at_most_once)
        self.rules = checked_rules(rules, f"the rules of task {self.name!r}")
        self.service = _service(self.name, service)
        self.queue = checked_name("a queue's name", queue)
        self.priority = priority_number(priority)
        self.timeout = _timeout(self.name, timeout)
        self.memory = _memory(self.name, memory)
        self.isolate = _isolate(self.name, isolate, self.memory)
        self.cost = _cost(cost)
        self.concurrency = _concurrency(concurrency)
        self.can_retry = _callable(self.name, "can_retry", can_retry)
        self.on_failed = _on_failed(self.name, on_failed, client)
        self.aliases = _aliases(self.name, aliases)
        self.is_async = inspect.iscoroutinefunction(function)
        self.payload = Payload(function, self.name)
        self._plain: Submission[P, R] = Submission(self, Options())
        update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.name!r}>"

    def prepare(self) -> None:
        """Raises what would keep its jobs from being run, or from being followed when they fail."""
        self.payload.prepare()
        if self.on_failed is not None:
            self.on_failed.payload.encode((ANY_ID,), {})

    def service_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The name of the service a call depends on, or nothing."""
        if not callable(self.service):
            return self.service or ""
        try:
            named = self.service(*args, **kwargs)
        except Exception as error:
            raise InvalidArguments(self.name, f"its service= failed: {type(error).__name__}: {error!s:.300}") from error
        return "" if named is None or named == "" else _computed(self.name, named)

    @property
    def follow_up(self) -> FollowUp:
        """What is stored when a job fails whose task names this one as its `on_failed`."""
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
        )

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Binding[R]:
        """Check and encode a call for `app.enqueue_many`."""
        return self._plain.bind(*args, **kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> Job[R]:
        """Store the call as a job; when this returns, it survives a crash."""
        return self._plain.enqueue(*args, **kwargs)

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
        `id`           makes the call repeatable: a UUID, or any string, from which one is made with owner and kind
        `connection`   your own database connection with an open transaction; the job becomes part of it

        The same call under the same `id` returns the same job as long as that is stored. A call with another kind,
        owner, batch or other arguments under that id raises `Conflict`.
        A `connection` must lead to the app's own database, which is not checked. Workers are not notified of its
        commit: an idle worker finds the job within 2 seconds. Errors of the connection's library are raised unchanged.
        """
        if dedupe is None and dedupe_for is not None:
            raise InvalidArguments(self.name, "dedupe_for is given without dedupe, the key that tells jobs apart")
        owner = "" if owner == "" else _one_owner(self.name, _name(self.name, "owner", owner))
        return Submission(
            self,
            Options(
                owner=owner if batch is None else _owner_of(self.name, batch, owner),
                queue=None if queue is None else checked_name("a queue's name", queue),
                priority=None if priority is None else priority_number(priority),
                delay=parse(delay),
                deadline=None if deadline is None else parse(deadline),
                submitted_at=_aware(self.name, submitted_at),
                dedupe=None if dedupe is None else _key(self.name, dedupe),
                dedupe_scope=_scope(self.name, dedupe_scope),
                dedupe_for=None if dedupe_for is None else parse(dedupe_for),
                tags=_tags(self.name, tags),
                batch=_batch(self.name, batch),
                id=None if id is None else _id(self.name, id),
                connection=connection,
            ),
        )


class Registry(Mapping[str, Task[..., Any, Any]]):
    """The tasks of an app by name. A job is run by name only: nothing is imported from data."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any, Any]] = {}
        self._aliases: dict[str, str] = {}
        self.concurrency: dict[str, int] = {}
        """How many of a kind may run at once, where that is limited."""

    def add(self, task: Task[..., Any, Any]) -> None:
        for name in (task.name, *task.aliases):
            if name in self._tasks or name in self._aliases:
                raise BadTask(f"two tasks are named {name!r}; give one of them another name=")
        self._tasks[task.name] = task
        self._aliases |= dict.fromkeys(task.aliases, task.name)
        if task.concurrency is not None:
            # A new one: whoever compares it with the one before sees that it changed.
            self.concurrency = {**self.concurrency, task.name: task.concurrency}

    def __getitem__(self, kind: str) -> Task[..., Any, Any]:
        try:
            return self._tasks[self._aliases.get(kind, kind)]
        except KeyError:
            raise UnknownKind(kind, self._tasks) from None

    def __contains__(self, kind: object) -> bool:
        return kind in self._tasks or kind in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def kinds(self) -> list[str]:
        """Every name a job may carry, former ones included."""
        return [*self._tasks, *self._aliases]


def priority_number(priority: Priority) -> int:
    """A level or a number as a number; lower goes first."""
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES[priority]
    if isinstance(priority, int) and not isinstance(priority, bool) and abs(priority) <= PRIORITY_BOUND:
        return priority
    raise BadTask(
        f"{priority!r} is not a priority; use 'high', 'normal', 'low' "
        f"or a whole number from {-PRIORITY_BOUND:,} to {PRIORITY_BOUND:,} (lower goes first)"
    )


def checked_name(what: str, name: str, *, longest: int = LONGEST_NAME) -> str:
    if not is_name(name, longest=longest):
        raise BadTask(f"{what} is {name_allowed(longest)}, not {name!r:.300}")
    return name


def _aliases(name: str, aliases: Iterable[str]) -> tuple[str, ...]:
    # A text is a list too, of its letters.
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise BadTask(f"aliases of task {name!r} must be a list of its former names, not {aliases!r:.300}")
    return tuple(checked_name("an alias", alias) for alias in aliases)


def _retry(name: str, retry: RetryPolicy, *, is_only: bool) -> RetryPolicy:
    if not isinstance(retry, RetryPolicy):
        raise BadTask(f"retry of task {name!r} must be a RetryPolicy(…), not {retry!r:.200}")
    if is_only not in (True, False):
        raise BadTask(f"at_most_once of task {name!r} must be True or False, not {is_only!r:.200}")
    if is_only and retry.max_attempts > 1:
        raise BadTask(
            f"task {name!r} runs at most once, but its policy allows {retry.max_attempts} attempts: leave out retry=, "
            "or give RetryPolicy(1, …)"
        )
    return retry


def checked_rules(rules: Sequence[AnyRule], what: str) -> tuple[AnyRule, ...]:
    listed = tuple(rules) if isinstance(rules, Iterable) and not callable(rules) else None
    if listed is None or not all(callable(rule) for rule in listed):
        raise BadTask(f"{what} must be a list of Rule(…) or functions of a Failure, not {rules!r:.200}")
    return listed


def checked_bindings(bindings: Iterable[Binding[Any]]) -> list[Binding[Any]]:
    found = list(bindings) if isinstance(bindings, Iterable) else [bindings]
    for binding in found:
        if not isinstance(binding, Binding):
            raise BadArgument("what is enqueued", binding, "a call made with task.bind(…)")
    return found


def checked_version(version: str | None) -> str | None:
    return None if version is None else checked_name("the version of an app", version)


def _service(name: str, service: ServiceName) -> ServiceName:
    if service is not None and not isinstance(service, str) and not callable(service):
        raise BadTask(f"service of task {name!r} must be a name or a function of its arguments, not {service!r:.200}")
    if isinstance(service, str) and service:
        try:
            one_service(service)
        except BadPolicy as error:
            raise BadTask(f"service of task {name!r}: {error}") from None
    return service


def _computed(kind: str, service: str) -> str:
    try:
        return one_service(service)
    except BadPolicy as error:
        raise InvalidArguments(kind, f"its service= gave what cannot be a name: {error}") from None


def _callable(name: str, what: str, function: CanRetry | None) -> CanRetry | None:
    # What an async function gives is neither True nor False: it would allow everything.
    if function is not None and (not callable(function) or inspect.iscoroutinefunction(function)):
        raise BadTask(f"{what} of task {name!r} must be a plain function of the job, not {function!r:.200}")
    return function


def _on_failed(name: str, on_failed: Task[..., Any, Any] | None, client: Client) -> Task[..., Any, Any] | None:
    """A task that is there already, so no two can follow each other for ever."""
    if on_failed is None:
        return None
    if not isinstance(on_failed, Task):
        raise BadTask(f"on_failed of task {name!r} must be a task of the app, not {on_failed!r:.200}")
    if on_failed.client is not client:
        raise BadTask(f"on_failed of task {name!r} must be a task of the same app: {on_failed.name!r} is another's")
    if name in (on_failed.name, *on_failed.aliases):
        raise BadTask(f"task {name!r} cannot be its own on_failed: each failure would bring another one")
    if callable(on_failed.service):
        raise BadTask(f"on_failed of task {name!r}: the service of {on_failed.name!r} must be a name, not a function")
    try:
        inspect.signature(on_failed.function).bind(ANY_ID)
    except TypeError as error:
        raise BadTask(
            f"on_failed of task {name!r} is called with one argument, the failed job's id; {on_failed.name!r}: {error}"
        ) from None
    return on_failed


def checked_on_settled(on_settled: Task[..., Any, Any] | None, client: Client, *, owner: str) -> FollowUp | None:
    """What is stored when a batch is settled."""
    if on_settled is None:
        return None
    if not isinstance(on_settled, Task) or on_settled.client is not client:
        raise BadBatch(f"on_settled must be a task of the same app, not {on_settled!r:.200}")
    if callable(on_settled.service):
        raise BadBatch(f"on_settled: the service of {on_settled.name!r} must be a name, not a function")
    try:
        inspect.signature(on_settled.function).bind(ANY_ID)
    except TypeError as error:
        raise BadBatch(
            f"on_settled is called with one argument, the batch's id; {on_settled.name!r}: {error}"
        ) from None
    return client.follow_up(on_settled, owner)


def _id(kind: str, given: UUID | str) -> str:
    if given == "":
        raise InvalidArguments(kind, "an id must not be empty: every such job would be the same one")
    text = str(given) if isinstance(given, UUID) else _text(kind, "id", given, LONGEST_KEY)
    return text.lower() if is_id(text.lower()) else text


def _batch(kind: str, batch: BatchRecord | str | None) -> str | None:
    if batch is None:
        return None
    return _text(kind, "batch", batch.id if isinstance(batch, BatchRecord) else batch, LONGEST_NAME)


def _one_owner(kind: str, owner: str) -> str:
    if owner == EVERYBODY:
        raise InvalidArguments(kind, "owner is '*', which stands for every owner; a job has one, or none")
    return owner


def _owner_of(kind: str, batch: BatchRecord | str, owner: str) -> str:
    """A batch has one owner, and its members have the same."""
    if not isinstance(batch, BatchRecord) or owner == batch.owner:
        return owner
    if owner:
        raise InvalidArguments(kind, f"owner is {owner!r}, but the batch belongs to {batch.owner!r}")
    return batch.owner


def _timeout(name: str, timeout: Duration) -> timedelta:
    found = parse(timeout)
    if not found:
        raise BadTask(f"timeout of task {name!r} must be longer than nothing, such as '30s', not {timeout!r}")
    return found


def _memory(name: str, memory: int | str | None) -> int | None:
    if memory is None:
        return None
    try:
        size = parse_size(memory)
    except BadSize as error:
        raise BadTask(f"memory of task {name!r}: {error}") from None
    if size < LEAST_MEMORY:
        raise BadTask(f"memory of task {name!r} must be at least {describe_size(LEAST_MEMORY)}, not {memory!r}")
    return size


def _isolate(name: str, isolate: bool | None, memory: int | None) -> bool | None:  # noqa: FBT001
    if isolate not in (None, True, False):
        raise BadTask(f"isolate of task {name!r} must be True, False or None (after a lost worker), not {isolate!r}")
    if memory is None:
        return isolate
    if isolate is False:
        raise BadTask(f"task {name!r} has a memory limit, which needs a process of its own: leave out isolate=False")
    # A limit that holds only after a lost worker would be none.
    return True


def _concurrency(number: int | None) -> int | None:
    if number is None or (type(number) is int and 1 <= number <= MOST_AT_ONCE):
        return number
    raise BadTask(
        f"concurrency is a whole number from 1 to {MOST_AT_ONCE:,}, or None for no limit, not {number!r:.100}"
    )


def _cost(cost: int) -> int:
    if not isinstance(cost, int) or not 0 <= cost < 2**31:
        raise BadTask(f"a cost is a whole number from 0 on, not {cost!r}")
    return cost


def _name(kind: str, what: str, name: str) -> str:
    if not is_name(name):
        raise InvalidArguments(kind, f"{what} must be {name_allowed()}, not {name!r:.300}")
    return name


def _text(kind: str, what: str, value: str, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest or "\0" in value or not encodes(value):
        allowed = f"text of at most {longest} characters that a database can hold (no NUL, no lone surrogate)"
        raise InvalidArguments(kind, f"{what} must be {allowed}, not {value!r:.300}")
    return value


def _key(kind: str, dedupe: str) -> str:
    if dedupe == "":
        raise InvalidArguments(kind, "a dedupe key must not be empty: every such job would be the same one")
    return _text(kind, "dedupe", dedupe, LONGEST_KEY)


def _scope(kind: str, scope: str) -> str:
    if scope not in SCOPES:
        raise InvalidArguments(kind, f"dedupe_scope must be one of {', '.join(map(repr, SCOPES))}, not {scope!r}")
    return scope


def _aware(kind: str, moment: datetime | None) -> datetime | None:
    if moment is None:
        return None
    try:
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (AttributeError, OverflowError):
        pass
    raise InvalidArguments(kind, f"submitted_at must be a datetime with a time zone, not {moment!r:.200}")


def _tags(kind: str, tags: Iterable[str]) -> tuple[str, ...]:
    if isinstance(tags, str):
        raise InvalidArguments(kind, f"tags must be a list of texts, not the text {tags!r:.300}")
    found = tuple(_name(kind, "each tag", tag) for tag in tags)
    if len(found) > MOST_TAGS:
        raise InvalidArguments(kind, f"at most {MOST_TAGS} tags, not {len(found)}")
    return found
