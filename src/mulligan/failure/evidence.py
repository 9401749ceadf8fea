"""What an exception can tell, asked so that nothing it answers or raises can do harm.

Exceptions come from anybody's code: `__str__` may raise, a property may lie, a text may be a gigabyte.
"""

from collections.abc import Callable
from datetime import timedelta
from email.utils import parsedate_to_datetime
from subprocess import SubprocessError
from traceback import TracebackException
from typing import TypeGuard, TypeVar

from mulligan.errors import FinalError, ProgramFailed, Snooze
from mulligan.failure.redact import kept
from mulligan.failure.text import clipped
from mulligan.values.duration import Duration, parse

T = TypeVar("T")

MESSAGE_LIMIT = 16 * 1024
DETAIL_LIMIT = 64 * 1024
# Of what is kept to be judged again: enough for rules, little for a log.
KEPT_LIMIT = 4 * 1024
KEPT_TYPES = 10
_NAME_LIMIT = 200
_MOST_MEMBERS = 1_000
_MOST_OUTPUT = 256 * 1024
_LARGEST = 2**31
_DEEPEST = 10
# aiohttp says 400 of an answer that it could not read. Nobody sent that.
_READ_BY_AIOHTTP = "aiohttp.http_exceptions.HttpProcessingError"


def tried(ask: Callable[[], T], otherwise: T) -> T:
    """The answer of code we don't know, or `otherwise` when it raises."""
    try:
        return ask()
    except BaseException:
        return otherwise


def attribute(holder: object, name: str) -> object:
    return tried(lambda: getattr(holder, name, None), None)


def is_a(exception: BaseException, kind: type | tuple[type, ...]) -> bool:
    # isinstance would also ask `__class__`, which is one more thing that can raise.
    return issubclass(type(exception), kind)


def speaker(exception: BaseException) -> BaseException:
    """Who speaks for an exception group: one that is final, or the first when all are alike."""
    members = _members(exception) or [exception]
    alike = len({type(member) for member in members}) == 1
    final = [member for member in members if is_a(member, FinalError)]
    return next(iter(final or (members if alike else [exception])))


def _members(exception: BaseException) -> list[BaseException]:
    """The exceptions of a group and of the groups in it; none when they are too many to look at."""
    pending = [exception]
    members: list[BaseException] = []
    # Counted, for a group might say that it contains itself.
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
    """The exception and what lies beneath it, the outermost first."""
    found = [exception]
    while len(found) < _DEEPEST and (inner := _beneath(found[-1])) is not None:
        if any(inner is known for known in found):
            break
        found.append(inner)
    return found


def _beneath(exception: BaseException) -> BaseException | None:
    """What it was raised from, or what libraries wrap: `URLError.reason`, SQLAlchemy's `orig`, an argument."""
    arguments = attribute(exception, "args")
    wrapped = [attribute(exception, name) for name in ("__cause__", "reason", "orig")]
    wrapped += arguments[:_DEEPEST] if isinstance(arguments, tuple) else ()
    return next((inner for inner in wrapped if _is_exception(inner)), None)


def _is_exception(value: object) -> TypeGuard[BaseException]:
    return issubclass(type(value), BaseException)


def first(ask: Callable[[BaseException], T | None], exceptions: list[BaseException]) -> T | None:
    """The first answer that one of them gives."""
    answers = (ask(exception) for exception in exceptions)
    return next((answer for answer in answers if answer is not None), None)


def type_name(kind: type) -> str:
    """`OSError`, `socket.gaierror`, `app.tasks.Refused`."""
    module = tried(lambda: str(kind.__module__), "")
    name = tried(lambda: str(kind.__qualname__), "") or "nameless"
    return clipped(name if module in ("", "builtins") else f"{module}.{name}", _NAME_LIMIT)


def type_names(exception: BaseException) -> tuple[str, ...]:
    """The names of its class and of all that one is derived from."""
    kinds: tuple[type, ...] = (type(exception),)
    kinds = tried(lambda: type(exception).__mro__[:-1], kinds)
    return tuple(type_name(kind) for kind in kinds)


def cause_names(exceptions: list[BaseException]) -> tuple[str, ...]:
    """The names of all classes beneath the outermost."""
    return tuple(dict.fromkeys(name for inner in exceptions[1:] for name in type_names(inner)))


def message_of(exception: BaseException) -> str:
    unreadable = f"(the text of this {type_name(type(exception))} cannot be read)"
    # What str() returns may be a subclass with a will of its own; str.__str__ makes it plain.
    text = kept(tried(lambda: str.__str__(str(exception)), unreadable), MESSAGE_LIMIT)
    said = tried(lambda: _program_output(exception), "")
    return clipped(f"{text}\n{said}", MESSAGE_LIMIT) if said else text


def _program_output(exception: BaseException) -> str:
    """What a failed program wrote last: the reason stands there, not in the exception's own text."""
    said = attribute(exception, "stderr") if is_a(exception, (SubprocessError, ProgramFailed)) else None
    if isinstance(said, bytes):
        said = said[-_MOST_OUTPUT:].decode(errors="replace")
    return kept(said[-_MOST_OUTPUT:], MESSAGE_LIMIT // 2).strip() if isinstance(said, str) else ""


def detail_of(exception: BaseException) -> str:
    """The traceback with its causes, without the values of variables."""
    short = f"{type_name(type(exception))}: {message_of(exception)}\n"
    traceback = tried(lambda: _traceback(exception), short) if _members(exception) else short
    # Ours carries it as a note, which is part of the traceback.
    said = tried(lambda: _program_output(exception), "") if is_a(exception, SubprocessError) else ""
    return kept(f"{traceback}\n{said}\n" if said else traceback, DETAIL_LIMIT)


def _traceback(exception: BaseException) -> str:
    lines = TracebackException.from_exception(exception).format()
    return "".join(kept(line, MESSAGE_LIMIT) if len(line) > MESSAGE_LIMIT // 4 else line for line in lines)


def status_of(exceptions: list[BaseException]) -> int | None:
    """The HTTP status that the other side gave."""
    status = first(_status, exceptions)
    if status is None or any(_READ_BY_AIOHTTP in type_names(exception) for exception in exceptions):
        return None
    return status


def _status(exception: BaseException) -> int | None:
    """The status, wherever client libraries put it."""
    if not is_a(exception, Exception):
        return None  # SystemExit has a `code` too
    response = attribute(exception, "response")
    places = [
        (response, "status_code"),
        (response, "status"),
        (exception, "status_code"),
        (exception, "status"),
        # A `code` alone may be that of another protocol: SMTP's 450 asks to come back.
        *([(exception, "code")] if response is not None or attribute(exception, "headers") is not None else []),
    ]
    numbers = (_integer(attribute(holder, name)) for holder, name in places)
    return next((number for number in numbers if number is not None and 100 <= number <= 599), None)


def errno_of(exception: BaseException) -> int | None:
    return _integer(attribute(exception, "errno")) if is_a(exception, OSError) else None


def sqlstate_of(exception: BaseException) -> str | None:
    """What a database calls it: the SQLSTATE, or SQLite's name such as `SQLITE_BUSY`."""
    said = (attribute(exception, name) for name in ("sqlstate", "pgcode", "sqlite_errorname"))
    return next((clipped(code, _NAME_LIMIT) for code in said if type(code) is str and code), None)


def exit_of(exception: BaseException) -> int | None:
    """The exit status of a program; for one ended by a signal, its number below zero."""
    return _integer(attribute(exception, "returncode"))


def _integer(value: object) -> int | None:
    number = tried(lambda: int.__int__(value) if isinstance(value, int) else None, None)
    return number if number is not None and type(value) is not bool and abs(number) < _LARGEST else None


def hint_of(exception: BaseException) -> timedelta | None:
    """How long to wait, as the task or the other side asked."""
    if is_a(exception, Snooze):
        return _duration(attribute(exception, "delay"))
    hint = _duration(attribute(exception, "retry_after"))
    return _header(exception) if hint is None else hint


def _header(exception: BaseException) -> timedelta | None:
    for holder in (attribute(exception, "response"), exception):
        headers = attribute(holder, "headers")
        asked = _entry(headers, "Retry-After")
        hint = _duration(asked)
        hint = _until(asked, _entry(headers, "Date")) if hint is None else hint
        if hint is not None:
            return hint
    return None


def _until(moment: object, sent: object) -> timedelta | None:
    """From the `Date` of the answer to the date it names: both by the other side's clock, so it may be wrong."""
    if not isinstance(moment, str) or not isinstance(sent, str):
        return None
    return tried(lambda: max(parsedate_to_datetime(moment) - parsedate_to_datetime(sent), timedelta(0)), None)


def _entry(mapping: object, key: str) -> object:
    return tried(lambda: mapping.get(key), None)  # type: ignore[attr-defined]


def _duration(value: object) -> timedelta | None:
    return tried(lambda: parse(_seconds(value)), None)


def _seconds(value: object) -> Duration:
    if isinstance(value, str) and value.isdecimal() and len(value) < 12:
        return int(value)
    return value  # type: ignore[return-value]
