"""Checks of what callers pass. `@check` names a check for every parameter of a call, or the module does not import."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, TypeVar

from mulligan.errors import BadArgument
from mulligan.records.finding import Limits
from mulligan.records.job import Job, JobFilter
from mulligan.values.clock import is_id
from mulligan.values.duration import Duration, parse
from mulligan.values.text import WORD_ALLOWED, is_word

P = ParamSpec("P")
R = TypeVar("R")

LARGEST_PAGE = 1_000
MOST_JUDGED = 100_000
LAST_POSITION = 2**62
MOST_SLOTS = 10_000
LONGEST_REQUEST_ID = 200


class Accepted(NamedTuple):
    """What a parameter takes: a predicate, and the words for it in an error message."""

    fits: Callable[[Any], bool]
    possible: str


def check(**accepted: Accepted) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Raise BadArgument before the function is called with a value that does not fit.

    None is allowed where it is the default. Each parameter besides `self` needs a check; `BY_THE_CALL` marks one that
    the function checks itself.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        named = signature(function).parameters
        if accepted.keys() != named.keys() - {"self"}:
            raise TypeError(f"@check of {function.__qualname__} must name its parameters: {', '.join(named)}")
        optional = {name for name, parameter in named.items() if parameter.default is None}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for name, value in (*zip(named, args, strict=False), *kwargs.items()):
                one = accepted.get(name, BY_THE_CALL)
                if not (value is None and name in optional) and not one.fits(value):
                    raise BadArgument(name, value, one.possible)
            return function(*args, **kwargs)

        return call

    return decorate


def _integer(least: int, most: int) -> Accepted:
    def fits(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return Accepted(fits, f"an integer from {least:,} to {most:,}")


def _instance(kind: type | tuple[type, ...], possible: str) -> Accepted:
    return Accepted(lambda value: isinstance(value, kind), possible)


def _are_names(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and bool(value) and all(map(is_word, value))


def _are_jobs(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(job, Job) for job in value)


def _is_positive(value: Duration) -> bool:
    return parse(value) > timedelta(0)


BY_THE_CALL = Accepted(lambda _: True, "")
NAME = Accepted(is_word, WORD_ALLOWED)
STRING = _instance(str, "a string")
FLAG = _instance(bool, "True or False")
FILTER = _instance(JobFilter, "a JobFilter(…), such as JobFilter(kind='convert', state='failed')")
PAGE_SIZE = _integer(1, LARGEST_PAGE)
MOST_FAILURES = _integer(1, MOST_JUDGED)
# Any string sorts against ids, so a truncated cursor would return page one forever.
CURSOR = Accepted(is_id, "the unchanged cursor of the previous page, or the id of its last item")
POSITION = _integer(0, LAST_POSITION)
JOBS = Accepted(_are_jobs, "jobs, as app.jobs(…) returns them")
JOB = Accepted(lambda job: isinstance(job, Job) or is_word(job), "a job or a job's id")
ID_OF = Accepted(lambda value: value in ("job", "batch", "redrive"), "'job', 'batch' or 'redrive'")
REQUEST_ID = Accepted(
    lambda value: is_word(value) and len(value) <= LONGEST_REQUEST_ID,
    f"a string of at most {LONGEST_REQUEST_ID} characters that a database can store",
)
DOCTOR_LIMITS = _instance(Limits, "Limits(…)")
PAUSE_LENGTH = Accepted(_is_positive, "greater than zero, such as '30m'; without one, the pause lasts until resumed")
CONCURRENCY = _integer(1, MOST_SLOTS)
QUEUES = Accepted(_are_names, "a list of queue names, such as ['default', 'bulk']")
