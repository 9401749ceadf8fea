"""Reads an exception safely, whatever its attributes return or raise.

Exceptions come from foreign code: `__str__` may raise, a property may have the wrong type, a message may take a
gigabyte.
"""

from collections.abc import Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from subprocess import SubprocessError
from traceback import TracebackException
from typing import TypeGuard, TypeVar

from mulligan.errors import FinalError, ProgramFailed, Snooze
from mulligan.failure.redact import clip, sanitize
from mulligan.failure.trace import format_traceback
from mulligan.values.duration import Duration, parse

T = TypeVar("T")

MESSAGE_LIMIT = 16 * 1024
DETAIL_LIMIT = 64 * 1024
# The size of a message that is stored for reclassification: enough for rules, small for a log.
KEPT_LIMIT = 4 * 1024
KEPT_TYPES = 10
_NAME_LIMIT = 200
_MOST_MEMBERS = 1_000
_MOST_OUTPUT = 256 * 1024
_LARGEST = 2**31
_DEEPEST = 10
# aiohttp reports 400 for a response that it could not read, which no server sent.
_READ_BY_AIOHTTP = "aiohttp.http_exceptions.HttpProcessingError"
_OF_PROGRAMS = (SubprocessError, ProgramFailed)


def try_or(ask: Callable[[], T], otherwise: T) -> T:
    """The result of foreign code, or `otherwise` if it raises."""
    try:
        return ask()
    except BaseException:
        return otherwise


def attribute(holder: object, name: str) -> object:
    # Not by `try_or`: each failure asks for twenty attributes.
    try:
        return getattr(holder, name, None)
    except BaseException:
        return None


def is_a(exception: BaseException, kind: type | tuple[type, ...]) -> bool:
    # isinstance would also read `__class__`, which may raise.
    return issubclass(type(exception), kind)


def representative(exception: BaseException) -> BaseException:
    """The member that represents an exception group: a final one, or the first if all have the same type."""
    if not is_a(exception, BaseExceptionGroup):
        return exception
    members = _members(exception) or [exception]
    # By identity: a metaclass may have any `__hash__` and `__eq__`.
    alike = all(type(member) is type(members[0]) for member in members)
    final = [member for member in members if is_a(member, FinalError)]
    return next(iter(final or (members if alike else [exception])))


def _members(exception: BaseException) -> list[BaseException]:
    """The exceptions of a group and of its nested groups; none if there are too many."""
    pending = [exception]
    members: list[BaseException] = []
    # Bounded, because a group may claim to contain itself.
    for _ in range(_MOST_MEMBERS):
        if not pending:
            return members
        member = pending.pop()
        inner = attribute(member, "exceptions") if is_a(member, BaseExceptionGroup) else None
        if isinstance(inner, tuple):
            pending.extend(reversed(inner))
        else:
            members.append(member)
    return []


def chain(exception: BaseException) -> list[BaseException]:
    """The exception and its causes, the outermost first."""
    found = [exception]
    while len(found) < _DEEPEST and (inner := _beneath(found[-1])) is not None:
        if any(inner is known for known in found):
            break
        found.append(inner)
    return found


def _beneath(exception: BaseException) -> BaseException | None:
    """The exception that it was raised from or wraps: `URLError.reason`, SQLAlchemy's `orig`, an argument."""
    arguments = attribute(exception, "args")
    wrapped = [attribute(exception, name) for name in ("__cause__", "reason", "orig")]
    wrapped += arguments[:_DEEPEST] if isinstance(arguments, tuple) else ()
    return next((inner for inner in wrapped if _is_exception(inner)), None)


def _is_exception(value: object) -> TypeGuard[BaseException]:
    return issubclass(type(value), BaseException)


def first(ask: Callable[[BaseException], T | None], exceptions: list[BaseException]) -> T | None:
    """The first answer that is not None."""
    for exception in exceptions:
        if (answer := ask(exception)) is not None:
            return answer
    return None


def type_name(kind: type) -> str:
    """`OSError`, `socket.gaierror`, `app.tasks.Refused`."""
    module, name = attribute(kind, "__module__"), attribute(kind, "__qualname__")
    if type(module) is not str or type(name) is not str:
        module, name = try_or(lambda: str(module or ""), ""), try_or(lambda: str(name or ""), "")
    name = name or "nameless"
    return clip(name if module in ("", "builtins") else f"{module}.{name}", _NAME_LIMIT)


def type_names(exception: BaseException) -> tuple[str, ...]:
    """The names of its class and of all base classes."""
    kinds: tuple[type, ...] = (type(exception),)
    kinds = try_or(lambda: type(exception).__mro__[:-1], kinds)
    return tuple(type_name(kind) for kind in kinds)


def cause_names(exceptions: list[BaseException]) -> tuple[str, ...]:
    """The names of the classes of all causes."""
    return tuple(dict.fromkeys(name for inner in exceptions[1:] for name in type_names(inner)))


def message_of(exception: BaseException) -> str:
    try:
        # str() may return a subclass with its own behaviour; str.__str__ makes it a plain string.
        text = str.__str__(str(exception))
    except BaseException:
        text = f"(the text of this {type_name(type(exception))} cannot be read)"
    text = sanitize(text, MESSAGE_LIMIT)
    said = try_or(lambda: _program_output(exception), "") if is_a(exception, _OF_PROGRAMS) else ""
    return clip(f"{text}\n{said}", MESSAGE_LIMIT) if said else text


def _program_output(exception: BaseException) -> str:
    """The last output of a failed program, which contains the reason; the exception's own text does not."""
    said = attribute(exception, "stderr")
    if isinstance(said, bytes):
        said = said[-_MOST_OUTPUT:].decode(errors="replace")
    return sanitize(said[-_MOST_OUTPUT:], MESSAGE_LIMIT // 2).strip() if isinstance(said, str) else ""


def detail_of(exception: BaseException) -> str:
    """The traceback with its causes, without the values of variables."""
    traceback = try_or(lambda: format_traceback(exception, MESSAGE_LIMIT), None)
    if traceback is None:
        traceback = sanitize(try_or(lambda: _format_by_python(exception), "") or _short(exception), DETAIL_LIMIT)
    # ProgramFailed carries the output as a note, which is part of the traceback.
    said = try_or(lambda: _program_output(exception), "") if is_a(exception, SubprocessError) else ""
    return clip(f"{traceback}\n{said}\n" if said else traceback, DETAIL_LIMIT)


def _format_by_python(exception: BaseException) -> str:
    """Slower, for all that is unusual; empty if a group has too many members."""
    lines = TracebackException.from_exception(exception).format() if _members(exception) else ()
    return "".join(sanitize(line, MESSAGE_LIMIT) if len(line) > MESSAGE_LIMIT // 4 else line for line in lines)


def _short(exception: BaseException) -> str:
    return f"{type_name(type(exception))}: {message_of(exception)}\n"


def status_of(exceptions: list[BaseException]) -> int | None:
    """The HTTP status of the response."""
    status = first(_status, exceptions)
    if status is None or any(_READ_BY_AIOHTTP in type_names(exception) for exception in exceptions):
        return None
    return status


def _status(exception: BaseException) -> int | None:
    """The status, from wherever the client library keeps it."""
    if not is_a(exception, Exception):
        return None  # SystemExit has a `code` too
    response = attribute(exception, "response")
    places = [
        (response, "status_code"),
        (response, "status"),
        (exception, "status_code"),
        (exception, "status"),
        # A `code` alone may belong to another protocol, such as SMTP's 450.
        *([(exception, "code")] if response is not None or attribute(exception, "headers") is not None else []),
    ]
    numbers = (_integer(attribute(holder, name)) for holder, name in places if holder is not None)
    return next((number for number in numbers if number is not None and 100 <= number <= 599), None)


def errno_of(exception: BaseException) -> int | None:
    return _integer(attribute(exception, "errno")) if is_a(exception, OSError) else None


def sqlstate_of(exception: BaseException) -> str | None:
    """The database's error code: the SQLSTATE, or SQLite's name such as `SQLITE_BUSY`."""
    said = (attribute(exception, name) for name in ("sqlstate", "pgcode", "sqlite_errorname"))
    return next((clip(code, _NAME_LIMIT) for code in said if type(code) is str and code), None)


def exit_of(exception: BaseException) -> int | None:
    """The exit status of a program; the negative number of the signal that ended it."""
    return _integer(attribute(exception, "returncode"))


def _integer(value: object) -> int | None:
    if value is None:
        return None
    number = try_or(lambda: int.__int__(value) if isinstance(value, int) else None, None)
    return number if number is not None and type(value) is not bool and abs(number) < _LARGEST else None


def hint_of(exception: BaseException) -> timedelta | None:
    """The delay that the task or the server asked for."""
    if is_a(exception, Snooze):
        return _duration(attribute(exception, "delay"))
    hint = _duration(attribute(exception, "retry_after"))
    return _header(exception) if hint is None else hint


def _header(exception: BaseException) -> timedelta | None:
    for holder in (attribute(exception, "response"), exception):
        headers = attribute(holder, "headers")
        if headers is None:
            continue
        asked = _entry(headers, "Retry-After")
        hint = _duration(asked)
        hint = _until(asked, _entry(headers, "Date")) if hint is None else hint
        if hint is not None:
            return hint
    return None


def _until(moment: object, sent: object) -> timedelta | None:
    """The time from the response's `Date` to the given date. Both are by the server's clock, which may be wrong."""
    if not isinstance(moment, str) or not isinstance(sent, str):
        return None
    return try_or(lambda: max(parsedate_to_datetime(moment) - parsedate_to_datetime(sent), timedelta(0)), None)


def _entry(mapping: object, key: str) -> object:
    return try_or(lambda: mapping.get(key), None)  # type: ignore[attr-defined]


def _duration(value: object) -> timedelta | None:
    if value is None:
        return None
    return try_or(lambda: parse(_seconds(value)), None)


def _seconds(value: object) -> Duration:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        return int(value)
    return value  # type: ignore[return-value]
