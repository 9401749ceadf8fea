"""What callers may give: one row for each parameter of the calls that people make, looked at before all else."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import wraps
from inspect import isfunction, signature
from typing import Any, NamedTuple, ParamSpec, TypeVar

from mulligan.errors import BadArgument
from mulligan.records.finding import Limits
from mulligan.records.job import Job, JobFilter
from mulligan.values.duration import Duration, parse
from mulligan.values.ids import is_id
from mulligan.values.text import WORD_ALLOWED, is_word

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)

LARGEST_PAGE = 1_000
MOST_JUDGED = 100_000
LAST_POSITION = 2**62
MOST_SLOTS = 10_000
LONGEST_REQUEST = 200


class Accepted(NamedTuple):
    fits: Callable[[Any], bool]
    possible: str


def _whole(least: int, most: int) -> Accepted:
    def fits(value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most

    return Accepted(fits, f"a whole number from {least:,} to {most:,}")


def _instance(kind: type | tuple[type, ...], possible: str) -> Accepted:
    return Accepted(lambda value: isinstance(value, kind), possible)


def _are_words(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and bool(value) and all(map(is_word, value))


def _are_jobs(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(job, Job) for job in value)


def _lasts(value: Duration) -> bool:
    return parse(value) > timedelta(0)


WORD = Accepted(is_word, WORD_ALLOWED)
SAID = _instance(str, "text")
ANYTHING = Accepted(lambda _: True, "anything")
CHOICE = _instance(bool, "True or False")

# By the name of the parameter; `call.parameter` where one call has a word of its own.
PARAMETERS = {
    **dict.fromkeys(("job_id", "batch_id", "redrive_id", "name", "job", "owner", "part"), WORD),
    **dict.fromkeys(("queue", "kind", "service", "duty", "schedule"), WORD),
    **dict.fromkeys(("actor", "reason"), SAID),
    **dict.fromkeys(("events", "dry_run", "cancelled", "retries"), CHOICE),
    # A new name is one line, and shorter; who stores it says so.
    **dict.fromkeys(("create_batch.name", "create_batch.owner"), ANYTHING),
    "wait.job": Accepted(lambda job: isinstance(job, Job) or is_word(job), "a job or the id of one"),
    "request_id": Accepted(
        lambda value: is_word(value) and len(value) <= LONGEST_REQUEST,
        f"text of at most {LONGEST_REQUEST} characters that a database can hold",
    ),
    "wanted": _instance(JobFilter, "a JobFilter(…), such as JobFilter(kind='convert', state='failed')"),
    "limit": _whole(1, LARGEST_PAGE),
    "reclassify.limit": _whole(1, MOST_JUDGED),
    # Anything would be an answer to: what is below it? And with a cursor that was cut, the first page comes for ever.
    "cursor": Accepted(is_id, "what the page before gave as its cursor, or the id of its last one, unchanged"),
    "after": _whole(0, LAST_POSITION),
    "back": _whole(0, LAST_POSITION),
    "jobs": Accepted(_are_jobs, "jobs, as app.jobs(…) gives them"),
    "whole_id.what": Accepted(lambda value: value in ("job", "batch", "redrive"), "'job', 'batch' or 'redrive'"),
    "to": Accepted(lambda value: value in ("open", "closed", None), "'open', 'closed', or None: as its calls say"),
    "limits": _instance(Limits, "Limits(…)"),
    "pause.duration": Accepted(_lasts, "longer than nothing, such as '30m'; without one, until it is resumed"),
    "concurrency": _whole(1, MOST_SLOTS),
    "queues": Accepted(_are_words, "the names of queues, such as ['default', 'bulk']"),
}


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Raises BadArgument, with what is possible, before the function is called. None may be given where it is the
    default."""
    named = signature(function).parameters
    words = {name: PARAMETERS.get(f"{function.__name__}.{name}") or PARAMETERS.get(name) for name in named}
    optional = {name for name, parameter in named.items() if parameter.default is None}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(words, args, strict=False), *kwargs.items()):
            word = words.get(name)
            if word and not (value is None and name in optional) and not word.fits(value):
                raise BadArgument(name, value, word.possible)
        return function(*args, **kwargs)

    return call


def checked_calls(kind: C) -> C:
    """The same for every public method of a class."""
    for name, function in list(vars(kind).items()):
        if isfunction(function) and not name.startswith("_"):
            setattr(kind, name, checked(function))
    return kind
