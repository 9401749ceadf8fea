"""Checks of what `@app.task(…)` is given. Each raises BadTask with what is possible."""

import inspect
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from mulligan.errors import BadPolicy, BadTask, InvalidArguments
from mulligan.failure.policy import RetryPolicy
from mulligan.policies.queue import MOST_AT_ONCE
from mulligan.records.job import PRIORITIES, Job
from mulligan.service.config import check_exact_name
from mulligan.values.duration import Duration, parse
from mulligan.values.size import BadSize, describe_size, parse_size
from mulligan.values.text import LONGEST_NAME, is_name, name_allowed

CanRetry = Callable[[Job[Any]], object]
ServiceName = str | Callable[..., str | None] | None
Priority = str | int
PRIORITY_BOUND = 1_000_000
# The interpreter and a small app take about half of this before a task's own code takes any.
LEAST_MEMORY = 64 * 2**20


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


def check_name(what: str, name: str, *, longest: int = LONGEST_NAME) -> str:
    if not is_name(name, longest=longest):
        raise BadTask(f"{what} is {name_allowed(longest)}, not {name!r:.300}")
    return name


def check_aliases(name: str, aliases: Iterable[str]) -> tuple[str, ...]:
    # A text is a list too, of its letters.
    if isinstance(aliases, str) or not isinstance(aliases, Iterable):
        raise BadTask(f"aliases of task {name!r} must be a list of its former names, not {aliases!r:.300}")
    return tuple(check_name("an alias", alias) for alias in aliases)


def check_retry(name: str, retry: RetryPolicy, *, is_only: bool) -> RetryPolicy:
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


def check_version(version: str | None) -> str | None:
    return None if version is None else check_name("the version of an app", version)


def check_service(name: str, service: ServiceName) -> ServiceName:
    if service is not None and not isinstance(service, str) and not callable(service):
        raise BadTask(f"service of task {name!r} must be a name or a function of its arguments, not {service!r:.200}")
    if isinstance(service, str) and service:
        try:
            check_exact_name(service)
        except BadPolicy as error:
            raise BadTask(f"service of task {name!r}: {error}") from None
    return service


def check_computed_service(kind: str, service: str) -> str:
    try:
        return check_exact_name(service)
    except BadPolicy as error:
        raise InvalidArguments(kind, f"its service= gave what cannot be a name: {error}") from None


def check_callable(name: str, what: str, function: CanRetry | None) -> CanRetry | None:
    # What an async function gives is neither True nor False: it would allow everything.
    if function is not None and (not callable(function) or inspect.iscoroutinefunction(function)):
        raise BadTask(f"{what} of task {name!r} must be a plain function of the job, not {function!r:.200}")
    return function


def check_timeout(name: str, timeout: Duration) -> timedelta:
    found = parse(timeout)
    if not found:
        raise BadTask(f"timeout of task {name!r} must be longer than nothing, such as '30s', not {timeout!r}")
    return found


def check_memory(name: str, memory: int | str | None) -> int | None:
    if memory is None:
        return None
    try:
        size = parse_size(memory)
    except BadSize as error:
        raise BadTask(f"memory of task {name!r}: {error}") from None
    if size < LEAST_MEMORY:
        raise BadTask(f"memory of task {name!r} must be at least {describe_size(LEAST_MEMORY)}, not {memory!r}")
    return size


def check_isolate(name: str, isolate: bool | None, memory: int | None) -> bool | None:  # noqa: FBT001
    if isolate not in (None, True, False):
        raise BadTask(f"isolate of task {name!r} must be True, False or None (after a lost worker), not {isolate!r}")
    if memory is None:
        return isolate
    if isolate is False:
        raise BadTask(f"task {name!r} has a memory limit, which needs a process of its own: leave out isolate=False")
    # A limit that holds only after a lost worker would be none.
    return True


def check_concurrency(number: int | None) -> int | None:
    if number is None or (type(number) is int and 1 <= number <= MOST_AT_ONCE):
        return number
    raise BadTask(
        f"concurrency is a whole number from 1 to {MOST_AT_ONCE:,}, or None for no limit, not {number!r:.100}"
    )


def check_cost(cost: int) -> int:
    if not isinstance(cost, int) or not 0 <= cost < 2**31:
        raise BadTask(f"a cost is a whole number from 0 on, not {cost!r}")
    return cost
