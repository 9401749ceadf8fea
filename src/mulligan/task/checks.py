"""Checks of the arguments of `@app.task(…)`. Each raises BadTask with what is possible."""

import inspect
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from mulligan.errors import BadPolicy, BadTask, InvalidArguments
from mulligan.failure.policy import RetryPolicy
from mulligan.policies.queue import MOST_AT_ONCE
from mulligan.records.job import PRIORITIES, Job
from mulligan.service.config import check_exact_name
from mulligan.values.check import BOOLEAN, LONGEST_NAME, Requirement, instance, integer, name, not_allowed
from mulligan.values.duration import Duration, parse
from mulligan.values.size import BadSize, describe_size, parse_size

CanRetry = Callable[[Job[Any]], object] | Callable[[Job[Any], Any], object]
ServiceName = str | Callable[..., str | None] | None
Priority = str | int
PRIORITY_BOUND = 1_000_000
MOST_COST = 2**31 - 1
# The interpreter and a small app take about half of this before a task's own code takes any.
LEAST_MEMORY = 64 * 2**20
POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
CONNECTION = "connection"

_PRIORITY = integer(-PRIORITY_BOUND, PRIORITY_BOUND)


def _require(field: str, value: Any, requirement: Requirement) -> Any:
    if not requirement.fits(value):
        raise BadTask(not_allowed(field, value, requirement.allowed))
    return value


def priority_number(priority: Priority) -> int:
    """A level or a number as a number; lower goes first."""
    if isinstance(priority, str) and priority in PRIORITIES:
        return PRIORITIES[priority]
    if not _PRIORITY.fits(priority):
        allowed = f"'high', 'normal', 'low' or {_PRIORITY.allowed} (lower goes first)"
        raise BadTask(not_allowed("priority", priority, allowed))
    return int(priority)


def check_name(what: str, value: str, *, longest: int = LONGEST_NAME) -> str:
    return str(_require(what, value, name(longest)))


def check_aliases(task: str, aliases: Iterable[str]) -> tuple[str, ...]:
    # A string is iterable too.
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise BadTask(not_allowed(f"aliases of task {task!r}", aliases, "a list of its former names"))
    return tuple(check_name(f"an alias of task {task!r}", alias) for alias in aliases)


def check_retry(task: str, retry: RetryPolicy, *, at_most_once: bool) -> RetryPolicy:
    _require(f"retry of task {task!r}", retry, instance(RetryPolicy, "a RetryPolicy(…)"))
    _require(f"at_most_once of task {task!r}", at_most_once, BOOLEAN)
    if at_most_once and retry.max_attempts > 1:
        raise BadTask(
            f"task {task!r} runs at most once, but its policy allows {retry.max_attempts} attempts: leave out retry=, "
            "or give RetryPolicy(1, …)"
        )
    return retry


def check_version(version: str | None) -> str | None:
    return None if version is None else check_name("the version of an app", version)


def check_service(task: str, service: ServiceName) -> ServiceName:
    if service is not None and not isinstance(service, str) and not callable(service):
        raise BadTask(not_allowed(f"service of task {task!r}", service, "a name, or a function of the arguments"))
    if isinstance(service, str) and service:
        try:
            check_exact_name(service)
        except BadPolicy as error:
            raise BadTask(f"service of task {task!r}: {error}") from None
    return service


def check_computed_service(kind: str, service: str) -> str:
    try:
        return check_exact_name(service)
    except BadPolicy as error:
        raise InvalidArguments(kind, f"its service= returned an invalid name: {error}") from None


def check_can_retry(task: str, function: Any) -> Callable[[Job[Any], Any], object] | None:
    """The function as one of the job and a connection."""
    if function is None:
        return None
    # A coroutine is neither True nor False: an async function would allow everything.
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise BadTask(not_allowed(f"can_retry of task {task!r}", function, "a function of the job, not an async one"))
    return function if _takes_connection(function) else lambda job, _: function(job)


def _takes_connection(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    required = [one for one in parameters.values() if one.default is one.empty and one.kind in POSITIONAL]
    return len(required) > 1 or CONNECTION in list(parameters)[1:]


def check_timeout(task: str, timeout: Duration) -> timedelta:
    length = parse(timeout)
    if not length:
        raise BadTask(not_allowed(f"timeout of task {task!r}", timeout, "greater than zero, such as '30s'"))
    return length


def check_memory(task: str, memory: int | str | None) -> int | None:
    if memory is None:
        return None
    try:
        size = parse_size(memory)
    except BadSize as error:
        raise BadTask(f"memory of task {task!r}: {error}") from None
    if size < LEAST_MEMORY:
        raise BadTask(not_allowed(f"memory of task {task!r}", memory, f"at least {describe_size(LEAST_MEMORY)}"))
    return size


def check_isolate(task: str, isolate: bool | None, memory: int | None) -> bool | None:  # noqa: FBT001
    if isolate not in (None, True, False):
        raise BadTask(not_allowed(f"isolate of task {task!r}", isolate, "True, False or None (after a lost worker)"))
    if memory is None:
        return isolate
    if isolate is False:
        raise BadTask(f"task {task!r} has a memory limit, which needs a separate process: leave out isolate=False")
    # The limit must apply to every attempt, not only after a lost worker.
    return True


def check_concurrency(number: int | None) -> int | None:
    requirement = integer(1, MOST_AT_ONCE)
    if number is not None and not requirement.fits(number):
        raise BadTask(not_allowed("concurrency", number, f"{requirement.allowed}, or None for no limit"))
    return number


def check_cost(cost: int) -> int:
    return int(_require("cost", cost, integer(0, MOST_COST)))
