"""A rule gives a code and a class to the failures that meet its conditions."""

import errno
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from mulligan.errors import BadTask
from mulligan.failure import checks, evidence
from mulligan.failure.checks import bad_value, require
from mulligan.failure.error_codes import CODE_ALLOWED, ErrorClass, check_blame, is_code
from mulligan.failure.pattern import LONGEST_PATTERN, QUICK, reach_of
from mulligan.failure.redact import LEFT_OUT, first_line
from mulligan.failure.verdict import Failure, Verdict
from mulligan.values import check
from mulligan.values.duration import LONGEST, Duration, describe

AnyRule: TypeAlias = Callable[[Failure], Verdict | None]
ExceptionType: TypeAlias = type[BaseException] | str
Types: TypeAlias = ExceptionType | tuple[ExceptionType, ...]
When: TypeAlias = Types | Callable[[Failure], bool]
Numbers: TypeAlias = int | range | Collection[int | range]

_SQLSTATE = re.compile(r"[0-9A-Z]{2,5}|SQLITE_[A-Z_]{2,40}")
_WHOLE_SQLSTATE = 5
# The length at which the line for users is stored.
LONGEST_LINE = 500
# Of a number with two names, the alphabetically first: `errno.errorcode` varies by platform.
_ERRNO_NAMES = {number: name for name, number in sorted(vars(errno).items(), reverse=True) if name.startswith("E")}
_TYPES_ALLOWED = "an exception type, its qualified name, a tuple of these"


@dataclass(frozen=True, slots=True)
class Pattern:
    """Searched, ignoring case, in the first and the last `reach` / 2 characters."""

    compiled: re.Pattern[str]
    reach: int

    @property
    def text(self) -> str:
        return self.compiled.pattern

    def is_in(self, text: str) -> bool:
        if len(text) > self.reach:
            half = self.reach // 2
            text = text[:half] + LEFT_OUT + text[-half:]
        return self.compiled.search(text) is not None


@dataclass(frozen=True, slots=True, init=False)
class Rule:
    """Gives a code and a class to the failures that meet every given condition.

    `when` is an exception type (or its qualified name, which needs no import), a tuple of these, or a function of the
    failure. `cause` takes the same types, and also matches exceptions that the raised one was raised from or wraps.
    `status`, `exit` and `errno` are a number, a range, or several of these. `sqlstate` is a code of a database or its
    beginning, or several of these: `"40"`, `"23505"`, `"SQLITE_BUSY"`. `message` is a regular expression, searched
    ignoring case; one that could be slow is refused. `retry_after` is the hint if the failure brings none. `line` is
    the message for users; the default is the catalogue's. `blames_service` says whether the service of the task is at
    fault; None leaves that to the catalogue.
    """

    code: str
    error_class: ErrorClass
    when: When | None
    cause: tuple[str, ...]
    status: tuple[range, ...]
    exit: tuple[range, ...]
    errno: tuple[range, ...]
    sqlstate: tuple[str, ...]
    message: Pattern | None
    kind: str | None
    name: str
    retry_after: timedelta | None
    blames_service: bool | None
    line: str

    def __init__(
        self,
        code: str,
        error_class: ErrorClass | str,
        *,
        when: When | None = None,
        cause: Types | None = None,
        status: Numbers | None = None,
        exit: Numbers | None = None,  # noqa: A002
        errno: Numbers | None = None,
        sqlstate: str | Collection[str] | None = None,
        message: str | re.Pattern[str] | None = None,
        kind: str | None = None,
        name: str | None = None,
        retry_after: Duration | None = None,
        blames_service: bool | None = None,
        line: str | None = None,
    ) -> None:
        if not is_code(code):
            raise bad_value("the code of a rule", code, CODE_ALLOWED)
        where = f"of rule {name or code!r}"
        if all(condition is None for condition in (when, cause, status, exit, errno, sqlstate, message)):
            allowed = "at least one of when, cause, status, exit, errno, sqlstate, message"
            raise bad_value(f"the condition {where}", None, allowed)
        checks.set_fields(
            self,
            code=code,
            error_class=ErrorClass.of(error_class),
            when=_when(f"when {where}", when),
            cause=_causes(f"cause {where}", cause),
            status=_ranges(f"status {where}", status, within=range(100, 600)),
            exit=_ranges(f"exit {where}", exit, within=range(-64, 256)),
            errno=_ranges(f"errno {where}", errno, within=range(-1_000, 100_000)),
            sqlstate=_beginnings(f"sqlstate {where}", sqlstate),
            message=_pattern(f"message {where}", message),
            kind=kind,
            name=name or code,
            retry_after=None
            if retry_after is None
            else checks.check_duration(f"retry_after {where}", retry_after, most=LONGEST),
            blames_service=check_blame(f"blames_service {where}", blames_service),
            line=_line(f"line {where}", line),
        )

    def matches(self, failure: Failure) -> bool:
        return (
            self.may_match(failure)
            and (self.message is None or self.message.is_in(failure.message))
            and (self.when is None or _holds(self.when, failure))
        )

    def may_match(self, failure: Failure) -> bool:
        """Whether the numbers, the SQLSTATE and the names of types fit. The rest depends on the message, on the
        exception itself, or on a function of the user."""
        return (
            _within(failure.status, self.status)
            and _within(failure.exit, self.exit)
            and _within(failure.errno, self.errno)
            and (not self.sqlstate or (failure.sqlstate or "").startswith(self.sqlstate))
            and (not self.cause or any(name in failure.types or name in failure.causes for name in self.cause))
            and (not isinstance(self.when, str) or self.when in failure.types)
        )

    def describe(self) -> str:
        """Its conditions in words: `status 500 to 599; message /busy/`."""
        said = [
            _when_in_words(self.when),
            _listed("is or wraps", self.cause),
            _listed("status", map(_range_in_words, self.status)),
            _listed("exit", map(_range_in_words, self.exit)),
            _listed("errno", map(_errno_in_words, self.errno)),
            _listed("SQLSTATE", map(_sqlstate_in_words, self.sqlstate)),
            "" if self.message is None else f"message /{self.message.text}/",
            "" if self.kind is None else f"kind {self.kind}",
            "" if self.retry_after is None else f"the hint is {describe(self.retry_after)}",
            f'the message for users is "{self.line}"' if self.line else "",
            {True: "blames the service", False: "does not blame the service", None: ""}[self.blames_service],
        ]
        return "; ".join(part for part in said if part)

    def __call__(self, failure: Failure) -> Verdict | None:
        if not self.matches(failure):
            return None
        return Verdict(
            code=self.code,
            error_class=self.error_class,
            message=self.line,
            rule=self.name,
            retry_after=self.retry_after if failure.retry_after is None else failure.retry_after,
            blames_service=self.blames_service,
        )


def name_of(rule: AnyRule) -> str:
    name = evidence.attribute(rule, "name") or evidence.attribute(rule, "__name__")
    return name if isinstance(name, str) else type(rule).__name__


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
        # From a child process or from the log: only the names of its classes are known.
        return evidence.type_name(kind) in failure.types
    return evidence.is_a(failure.exception, kind)


def _when_in_words(when: When | None) -> str:
    if when is None or isinstance(when, str | type | tuple):
        kinds = () if when is None else when if isinstance(when, tuple) else (when,)
        return ", ".join(kind if isinstance(kind, str) else evidence.type_name(kind) for kind in kinds)
    said = evidence.attribute(when, "__doc__") or evidence.attribute(when, "__name__")
    return first_line(said, 200) if isinstance(said, str) else type(when).__name__


def _listed(what: str, items: Iterable[str]) -> str:
    listed = ", ".join(items)
    return f"{what} {listed}" if listed else ""


def _range_in_words(numbers: range) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def _sqlstate_in_words(beginning: str) -> str:
    return beginning if len(beginning) >= _WHOLE_SQLSTATE else f"{beginning}…"


def _errno_in_words(numbers: range) -> str:
    return _ERRNO_NAMES.get(numbers[0], str(numbers[0])) if len(numbers) == 1 else _range_in_words(numbers)


def _when(field: str, when: When | None) -> When | None:
    if when is None or _are_exception_types(when):
        return when
    if callable(when) and not isinstance(when, type):
        return when
    raise bad_value(field, when, f"{_TYPES_ALLOWED}, or a function of the failure")


def _causes(field: str, cause: Types | None) -> tuple[str, ...]:
    if cause is None:
        return ()
    if not _are_exception_types(cause):
        raise bad_value(field, cause, _TYPES_ALLOWED)
    kinds = cause if isinstance(cause, tuple) else (cause,)
    return tuple(kind if isinstance(kind, str) else evidence.type_name(kind) for kind in kinds)


def _line(field: str, line: str | None) -> str:
    return "" if line is None else str(require(field, line, check.name(LONGEST_LINE)))


def _beginnings(field: str, sqlstate: str | Collection[str] | None) -> tuple[str, ...]:
    if sqlstate is None:
        return ()
    several = tuple(sqlstate) if isinstance(sqlstate, Collection) and not isinstance(sqlstate, str) else (sqlstate,)
    if not several or not all(isinstance(code, str) and _SQLSTATE.fullmatch(code) for code in several):
        raise bad_value(
            field, sqlstate, "a SQLSTATE such as '40001', its class '40', 'SQLITE_BUSY', or several of these"
        )
    return several


def _are_exception_types(kinds: object) -> bool:
    if isinstance(kinds, tuple):
        return bool(kinds) and all(_is_exception_type(kind) for kind in kinds)
    return _is_exception_type(kinds)


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
        raise bad_value(field, numbers, allowed)
    return tuple(found for found in ranges if found is not None)


def _range(number: object) -> range | None:
    if isinstance(number, range):
        return number
    if isinstance(number, int) and not isinstance(number, bool):
        return range(number, number + 1)
    return None


def _fits(found: range | None, within: range) -> bool:
    return found is not None and len(found) > 0 and found[0] in within and found[-1] in within


def _pattern(field: str, message: str | re.Pattern[str] | None) -> Pattern | None:
    if message is None:
        return None
    text, flags = (message.pattern, message.flags) if isinstance(message, re.Pattern) else (message, 0)
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_PATTERN:
        raise bad_value(field, message, f"a regular expression, not empty, of at most {LONGEST_PATTERN:,} characters")
    try:
        compiled = re.compile(text, flags | re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as problem:
        raise bad_value(field, message, f"a regular expression that compiles ({problem})") from None
    reach = reach_of(compiled)
    if reach is None:
        raise bad_value(field, message, QUICK)
    return Pattern(compiled, reach)


def check_rules(rules: Sequence[AnyRule], what: str) -> tuple[AnyRule, ...]:
    listed = tuple(rules) if isinstance(rules, Iterable) and not callable(rules) else None
    if listed is None or not all(callable(rule) for rule in listed):
        raise BadTask(check.not_allowed(what, rules, "a list of Rule(…) or functions of a Failure"))
    return listed
