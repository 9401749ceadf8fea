"""A rule: a code and a class for the failures that meet its conditions."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from mulligan.duration import LONGEST, Duration
from mulligan.failure import checks, evidence
from mulligan.failure.catalogue import CODE_ALLOWED, ErrorClass, is_code
from mulligan.failure.checks import refused
from mulligan.failure.verdict import Failure, Verdict

AnyRule: TypeAlias = Callable[[Failure], Verdict | None]
ExceptionType: TypeAlias = type[BaseException] | str
When: TypeAlias = ExceptionType | tuple[ExceptionType, ...] | Callable[[Failure], bool]
Numbers: TypeAlias = int | range | Collection[int | range]


@dataclass(frozen=True, slots=True, init=False)
class Rule:
    """A code and a class for the failures that meet every condition given.

    `when` is an exception type (or its qualified name, which spares the import), a tuple of them, or a
    function of the failure. `status`, `exit` and `errno` are a number, a range, or several of these.
    `message` is a regular expression, searched for without regard to case. `retry_after` is the hint
    when the failure brings none.
    """

    code: str
    error_class: ErrorClass
    when: When | None
    status: tuple[range, ...]
    exit: tuple[range, ...]
    errno: tuple[range, ...]
    message: re.Pattern[str] | None
    kind: str | None
    name: str
    retry_after: timedelta | None

    def __init__(
        self,
        code: str,
        error_class: ErrorClass | str,
        *,
        when: When | None = None,
        status: Numbers | None = None,
        exit: Numbers | None = None,  # noqa: A002
        errno: Numbers | None = None,
        message: str | re.Pattern[str] | None = None,
        kind: str | None = None,
        name: str | None = None,
        retry_after: Duration | None = None,
    ) -> None:
        if not is_code(code):
            raise refused("the code of a rule", code, CODE_ALLOWED)
        where = f"of rule {name or code!r}"
        if all(condition is None for condition in (when, status, exit, errno, message)):
            raise refused(f"the condition {where}", None, "at least one of when, status, exit, errno, message")
        checks.fill(
            self,
            code=code,
            error_class=ErrorClass.of(error_class),
            when=_when(f"when {where}", when),
            status=_ranges(f"status {where}", status, within=range(100, 600)),
            exit=_ranges(f"exit {where}", exit, within=range(-64, 256)),
            errno=_ranges(f"errno {where}", errno, within=range(-1_000, 100_000)),
            message=_pattern(f"message {where}", message),
            kind=kind,
            name=name or code,
            retry_after=None
            if retry_after is None
            else checks.duration(f"retry_after {where}", retry_after, most=LONGEST),
        )

    def matches(self, failure: Failure) -> bool:
        return (
            _within(failure.status, self.status)
            and _within(failure.exit, self.exit)
            and _within(failure.errno, self.errno)
            and (self.message is None or self.message.search(failure.message) is not None)
            and (self.when is None or _holds(self.when, failure))
        )

    def __call__(self, failure: Failure) -> Verdict | None:
        if not self.matches(failure):
            return None
        return Verdict(
            code=self.code,
            error_class=self.error_class,
            rule=self.name,
            retry_after=self.retry_after if failure.retry_after is None else failure.retry_after,
        )


def _within(number: int | None, ranges: tuple[range, ...]) -> bool:
    return not ranges or (number is not None and any(number in allowed for allowed in ranges))


def _holds(when: When, failure: Failure) -> bool:
    if isinstance(when, tuple):
        return any(_is_type(kind, failure) for kind in when)
    if isinstance(when, str | type):
        return _is_type(when, failure)
    return bool(when(failure))


def _is_type(kind: ExceptionType, failure: Failure) -> bool:
    if isinstance(kind, str):
        return kind in failure.types
    if failure.exception is None:
        # From a child process or from history: only the names of its classes are left.
        return evidence.type_name(kind) in failure.types
    return evidence.is_a(failure.exception, kind)


def _when(field: str, when: When | None) -> When | None:
    if when is None or _is_exception_type(when):
        return when
    if isinstance(when, tuple) and when and all(_is_exception_type(kind) for kind in when):
        return when
    if callable(when) and not isinstance(when, type):
        return when
    raise refused(field, when, "an exception type, its qualified name, a tuple of these, or a function of the failure")


def _is_exception_type(kind: object) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, BaseException)
    return isinstance(kind, str) and bool(kind)


def _ranges(field: str, numbers: Numbers | None, *, within: range) -> tuple[range, ...]:
    if numbers is None:
        return ()
    several = list(numbers) if isinstance(numbers, Collection) and not isinstance(numbers, range) else [numbers]
    ranges = tuple(_range(number) for number in several)
    if not ranges or not all(_fits(found, within) for found in ranges):
        allowed = f"a number from {within[0]} to {within[-1]}, a range of such numbers, or several of these"
        raise refused(field, numbers, allowed)
    return tuple(found for found in ranges if found is not None)


def _range(number: object) -> range | None:
    if isinstance(number, range):
        return number
    if isinstance(number, int) and not isinstance(number, bool):
        return range(number, number + 1)
    return None


def _fits(found: range | None, within: range) -> bool:
    return found is not None and len(found) > 0 and found[0] in within and found[-1] in within


def _pattern(field: str, message: str | re.Pattern[str] | None) -> re.Pattern[str] | None:
    if message is None:
        return None
    text, flags = (message.pattern, message.flags) if isinstance(message, re.Pattern) else (message, 0)
    try:
        if isinstance(text, str) and text:
            return re.compile(text, flags | re.IGNORECASE)
    except re.error as problem:
        raise refused(field, message, f"a regular expression that compiles ({problem})") from None
    raise refused(field, message, "a regular expression, not empty")
