"""Checks of arguments. `@check` must name a check for every parameter of a call, or its module fails to import."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from mulligan.errors import BadArgument
from mulligan.lifecycle import EVENT_TYPES
from mulligan.records.counts import COLUMNS
from mulligan.records.finding import Limits
from mulligan.records.job import Job, JobFilter
from mulligan.values.check import BOOLEAN, Requirement, instance, integer, one_of, string
from mulligan.values.duration import Duration, parse
from mulligan.values.ids import is_id

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_PAGE = 1_000
MOST_JUDGED = 100_000
LAST_POSITION = 2**62
MOST_SLOTS = 10_000
LONGEST_REQUEST_ID = 200
LONGEST_PROJECTION = 200


def check(**required: Requirement) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Raise BadArgument before the function is called with a value that does not fit.

    None is allowed where it is the default. Each parameter besides `self` needs a check; `BY_THE_CALL` marks one that
    the function checks itself.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        named = signature(function).parameters
        if required.keys() != named.keys() - {"self"}:
            raise TypeError(f"@check of {function.__qualname__} must name its parameters: {', '.join(named)}")
        optional = {name for name, parameter in named.items() if parameter.default is None}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in (*zip(named, args, strict=False), *kwargs.items()):
                one = required.get(name, BY_THE_CALL)
                if not (value is None and name in optional) and not one.fits(value):
                    raise BadArgument(name, value, one.allowed)
            return function(*args, **kwargs)

        return call

    return decorate


def _are_names(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and bool(value) and all(map(NAME.fits, value))


def _are_ids(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return len(value) <= LARGEST_PAGE and all(map(NAME.fits, value))


def _are_jobs(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(job, Job) for job in value)


def _are_types(value: object) -> bool:
    return _are_names(value) and set(value) <= set(EVENT_TYPES)  # type: ignore[call-overload]


def _is_aware(value: object) -> bool:
    return isinstance(value, datetime) and value.tzinfo is not None


def _is_positive(value: Duration) -> bool:
    return parse(value) > timedelta(0)


BY_THE_CALL = Requirement(lambda _: True, "")
# A name or an id to look up: no database has one that it cannot store.
NAME = string()
STRING = instance(str, "a string")
FLAG = BOOLEAN
FILTER = instance(JobFilter, "a JobFilter(…), such as JobFilter(kind='convert', state='failed')")
PAGE_SIZE = integer(1, LARGEST_PAGE)
MOST_FAILURES = integer(1, MOST_JUDGED)
# Any string sorts against ids, so a truncated cursor would return page one forever.
CURSOR = Requirement(is_id, "the unchanged cursor of the previous page, or the id of its last item")
POSITION = integer(0, LAST_POSITION)
TIME = Requirement(_is_aware, "a datetime with a time zone")
TYPES = Requirement(_are_types, "a list of event types, such as ['job.failed', 'batch.settled']")
APPLY = Requirement(callable, "a function of the events and the connection")
PROJECTION = string(LONGEST_PROJECTION, shortest=1)
JOBS = Requirement(_are_jobs, "jobs, as app.jobs(…) returns them")
IDS = Requirement(_are_ids, f"a list of at most {LARGEST_PAGE:,} ids of jobs")
JOB = Requirement(lambda job: isinstance(job, Job) or NAME.fits(job), "a job or a job's id")
COUNTED_BY = one_of(tuple(COLUMNS))
ID_OF = one_of(("job", "batch", "redrive"))
REQUEST_ID = string(LONGEST_REQUEST_ID, shortest=1)
DOCTOR_LIMITS = instance(Limits, "Limits(…)")
PAUSE_LENGTH = Requirement(_is_positive, "greater than zero, such as '30m'; without one, the pause lasts until resumed")
CONCURRENCY = integer(1, MOST_SLOTS)
QUEUES = Requirement(_are_names, "a list of queue names, such as ['default', 'bulk']")
