"""Checks of arguments. `@check` must name a check for every parameter of a call, or its module fails to import."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from mulligan.errors import BadArgument
from mulligan.lifecycle import EVENT_TYPES
from mulligan.records.counts import COLUMNS
from mulligan.records.exposition import PREFIX_ALLOWED, is_prefix
from mulligan.records.failure_group import GROUP_ORDERS
from mulligan.records.finding import Limits
from mulligan.records.job import Job, JobFilter
from mulligan.records.key import Scope
from mulligan.records.statistics import OUTCOMES, SPANS
from mulligan.values.check import BOOLEAN, Requirement, encodes, instance, integer, one_of, string
from mulligan.values.check import NAME as SHOWN_NAME
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
_ROOT_PATH = re.compile(r"(/[\w.~-]+)*", re.ASCII)
MOST_STATISTICS = 100_000
MOST_GROWTH = 1_000_000


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


def _is_growth(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 1 < value <= MOST_GROWTH


def _is_positive(value: Duration) -> bool:
    return parse(value) > timedelta(0)


def _is_step(value: Duration) -> bool:
    return (step := parse(value)) > timedelta(0) and step % timedelta(minutes=1) == timedelta(0)


def _are_scopes(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Collection):
        return False
    return bool(value) and set(value) <= set(Scope)


def _are_headers(value: object) -> bool:
    return isinstance(value, Mapping) and all(_is_header(part) for pair in value.items() for part in pair)


def _is_header(part: object) -> bool:
    return isinstance(part, str) and "\0" not in part and encodes(part)


BY_THE_CALL = Requirement(lambda _: True, "")
# A name or an id to look up: no database has one that it cannot store.
NAME = string()
STRING = instance(str, "a string")
FLAG = BOOLEAN
FILTER = instance(JobFilter, "a JobFilter(…), such as JobFilter(kind='convert', state='failed')")
PAGE_SIZE = integer(1, LARGEST_PAGE)
STATISTIC_ROWS = integer(1, MOST_STATISTICS)
GROUP_ORDER = one_of(GROUP_ORDERS)
GROWTH = Requirement(_is_growth, "a number greater than 1: how many times its failures")
SPAN = one_of(tuple(SPANS))
STEP = Requirement(_is_step, "a whole number of minutes, such as '10m' or '1h'")
OUTCOME = one_of(OUTCOMES)
METRICS_PREFIX = Requirement(is_prefix, PREFIX_ALLOWED)
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
ID_OF = one_of(("job", "batch", "redrive", "group", "key", "subscription", "delivery", "hook"))
REQUEST_ID = string(LONGEST_REQUEST_ID, shortest=1)
DOCTOR_LIMITS = instance(Limits, "Limits(…)")
PAUSE_LENGTH = Requirement(_is_positive, "greater than zero, such as '30m'; without one, the pause lasts until resumed")
KEY_NAME = SHOWN_NAME
SCOPES = Requirement(_are_scopes, f"a list of scopes; possible: {', '.join(Scope)}")
KEY_LIFE = Requirement(_is_positive, "greater than zero, such as '90d'; without one, the key does not expire")
CONCURRENCY = integer(1, MOST_SLOTS)
# 0: any that is free.
PORT = integer(0, 65_535)
ROOT_PATH = Requirement(
    lambda value: isinstance(value, str) and _ROOT_PATH.fullmatch(value) is not None,
    "a path such as '/ops', without a slash at its end",
)
QUEUES = Requirement(_are_names, "a list of queue names, such as ['default', 'bulk']")
HEADERS = Requirement(_are_headers, "the headers of a request: a mapping of strings to strings")
BODY = instance(bytes, "bytes")
