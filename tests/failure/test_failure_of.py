import asyncio
import errno
import io
import subprocess
import urllib.error
from datetime import timedelta
from email.message import Message
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mulligan.errors import FinalError, RateLimitedError, RetryableError, Snooze, TaskError
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.evidence import DETAIL_LIMIT, MESSAGE_LIMIT
from mulligan.failure.redact import LEFT_OUT, clip, first_line
from mulligan.failure.verdict import Failure


def raised(exception: BaseException) -> BaseException:
    try:
        raise exception
    except BaseException as error:
        return error


def with_attributes(**attributes: object) -> Exception:
    error = Exception("no")
    vars(error).update(attributes)
    return error


def answered(headers: dict[str, str]) -> Exception:
    return with_attributes(response=SimpleNamespace(headers=headers))


class Ours(OSError):
    pass


class StrRaises(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text for you")


class StrExits(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class StrLies(Exception):
    def __str__(self) -> str:
        return 42  # type: ignore[return-value]


class ReprRaises(Exception):
    def __repr__(self) -> str:
        raise RuntimeError("no repr either")


class TextWithAWill(str):
    def __len__(self) -> int:
        raise RuntimeError("never")

    def __getitem__(self, index: Any) -> None:  # type: ignore[override]
        raise RuntimeError("never")

    encode = __len__  # type: ignore[assignment]


class StrHasAWill(Exception):
    def __str__(self) -> str:
        return TextWithAWill("plain")


class EverythingRaises(Exception):
    def __getattribute__(self, name: Any) -> None:
        raise RuntimeError(name)


class ClassRaises(Exception):
    @property  # type: ignore[misc]
    def __class__(self) -> None:  # type: ignore[override]
        raise RuntimeError("who am I")


class Nameless(type):
    def __getattribute__(cls, name: Any) -> Any:
        if name in ("__module__", "__qualname__", "__mro__"):
            raise RuntimeError("nobody")
        return super().__getattribute__(name)


class NamelessError(Exception, metaclass=Nameless):
    pass


class NumberWithAWill(int):
    def __int__(self) -> int:
        raise RuntimeError("never")

    __le__ = __ge__ = __index__ = __int__  # type: ignore[assignment]


class ContainsItself(ExceptionGroup):
    @property
    def exceptions(self) -> Any:
        return (self,)


class Falsy(FinalError):
    def __bool__(self) -> bool:
        raise RuntimeError("neither")


def cyclic() -> BaseException:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first
    return raised(first)


def deep_group(depth: int) -> BaseException:
    error: BaseException = ValueError("the core")
    for level in range(depth):
        error = ExceptionGroup(f"level {level}", [error])  # type: ignore[type-var]
    return error


HOSTILE = {
    "str raises": lambda: StrRaises("x"),
    "str exits": lambda: StrExits("x"),
    "str returns no text": lambda: StrLies("x"),
    "repr raises": lambda: ReprRaises("x"),
    "str returns text with a will": lambda: StrHasAWill("x"),
    "every attribute raises": lambda: EverythingRaises("x"),
    "its class raises": lambda: ClassRaises("x"),
    "nameless": lambda: NamelessError("x"),
    "odd attributes": lambda: with_attributes(
        status_code=NumberWithAWill(503), response=StrRaises("x"), retry_after=object()
    ),
    "a hostile group": lambda: ExceptionGroup("many", [StrRaises("x"), EverythingRaises("y")]),
    "a deep group": lambda: deep_group(5_000),
    "a group in itself": lambda: ContainsItself("many", [ValueError("x")]),
    "neither true nor false": lambda: Falsy("x"),
    "causes in a circle": cyclic,
    "interrupt": KeyboardInterrupt,
    "exit": lambda: SystemExit(404),
    "cancelled": asyncio.CancelledError,
    "unicode": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    "syntax": lambda: SyntaxError("bad", ("file.py", 1, 1, "x =", 1, 2)),
}


@pytest.mark.parametrize("hostile", HOSTILE)
def test_no_exception_is_too_hostile_to_be_taken_in(hostile: Any) -> None:
    failure = Failure.of(raised(HOSTILE[hostile]()))  # type: ignore[no-untyped-call]
    assert type(failure.type) is type(failure.message) is type(failure.detail) is str
    assert failure.type
    assert failure.detail
    failure.detail.encode()


def test_text_that_cannot_be_read_is_said_to_be_so() -> None:
    assert "cannot be read" in Failure.of(StrRaises("x")).message
    assert "StrRaises" in Failure.of(StrRaises("x")).message
    assert Failure.of(StrHasAWill("x")).message == "plain"


def test_types_are_qualified_names_in_order_of_descent() -> None:
    failure = Failure.of(Ours(errno.ENOSPC, "No space left"))
    assert failure.type == f"{__name__}.Ours"
    assert failure.types == (f"{__name__}.Ours", "OSError", "Exception", "BaseException")
    assert failure.errno == errno.ENOSPC


def test_long_text_keeps_its_head_and_its_tail() -> None:
    failure = Failure.of(raised(ValueError("HEAD" + "x" * 50_000_000 + "TAIL")))
    for text, limit in ((failure.message, MESSAGE_LIMIT), (failure.detail, DETAIL_LIMIT)):
        assert len(text.encode()) <= limit
        assert "HEAD" in text
        assert text.rstrip().endswith("TAIL")
        assert LEFT_OUT in text


def test_a_long_traceback_is_bounded() -> None:
    def fall(depth: int) -> None:
        if depth % 2:
            fall(depth - 1)
        elif depth:
            fall(  # another line each time, so that the traceback cannot be folded
                depth - 1
            )
        else:
            raise ValueError("bottom")

    with pytest.raises(ValueError, match="bottom") as caught:
        fall(900)
    detail = Failure.of(caught.value).detail
    assert len(detail.encode()) <= DETAIL_LIMIT
    assert detail.startswith("Traceback")
    assert detail.endswith("ValueError: bottom\n")


def test_what_a_store_cannot_keep_is_replaced() -> None:
    failure = Failure.of(raised(ValueError("nul \x00 and \ud800 alone")))
    assert failure.message == "nul \ufffd and \ufffd alone"
    assert "\x00" not in failure.detail
    failure.detail.encode()


@given(st.text(st.characters(), max_size=300), st.integers(40, 200))
def test_clipped_text_is_storable_short_and_clipped_once(text: str, limit: Any) -> None:
    once = clip(text, limit)
    assert len(once.encode()) <= limit
    assert "\x00" not in once
    assert clip(once, limit) == once


@given(st.text(st.characters(), max_size=2_000))
def test_a_first_line_is_one_line(text: str) -> None:
    line = first_line(text, 100)
    assert len(line) <= 100
    assert line.splitlines() in ([], [line])
    line.encode()


def test_the_detail_tells_causes_but_no_values_of_variables() -> None:
    def fail() -> None:
        password = "hunter2-" + "secret"  # noqa: F841
        try:
            raise OSError(5, "disk")
        except OSError as error:
            raise ValueError("wrapped") from error

    with pytest.raises(ValueError, match="wrapped") as caught:
        fail()
    detail = Failure.of(caught.value).detail
    assert "OSError: [Errno 5] disk" in detail
    assert "direct cause" in detail
    assert "hunter2-secret" not in detail


def test_causes_in_a_circle_end() -> None:
    detail = Failure.of(cyclic()).detail
    assert "first" in detail
    assert "second" in detail


def http_error(status: int, retry_after: str | None = None) -> urllib.error.HTTPError:
    headers = Message()
    if retry_after is not None:
        headers["Retry-After"] = retry_after
    return urllib.error.HTTPError("http://localhost/", status, "No", headers, io.BytesIO())


@pytest.mark.parametrize(
    ("exception", "status"),
    [
        (http_error(404), 404),
        (with_attributes(response=SimpleNamespace(status_code=503)), 503),
        (with_attributes(response=SimpleNamespace(status=502)), 502),
        (with_attributes(status_code=429), 429),
        (with_attributes(status=HTTPStatus.GATEWAY_TIMEOUT), 504),
        (with_attributes(code=418, response=object()), 418),
        (with_attributes(code=418, headers={}), 418),
        (with_attributes(code=450), None),  # SMTP's, who asks to come back
        (with_attributes(response=None, status_code="503"), None),
        (with_attributes(status=7), None),
        (with_attributes(status=100), 100),
        (with_attributes(status=600), None),
        (with_attributes(status=True), None),
        (with_attributes(status=10**30), None),
        (with_attributes(code="23505"), None),
        (with_attributes(status=NumberWithAWill(503)), 503),
        (SystemExit(404), None),
        (ValueError("HTTP 500"), None),
    ],
)
def test_the_http_status_is_found_where_client_libraries_put_it(exception: Any, status: Any) -> None:
    assert Failure.of(exception).status == status
    if isinstance(exception, urllib.error.HTTPError):
        exception.close()


@pytest.mark.parametrize(
    ("exception", "hint"),
    [
        (RateLimitedError("slow", retry_after="30s"), 30),
        (RateLimitedError("slow"), None),
        (Snooze("5m"), 300),
        (with_attributes(retry_after=12), 12),
        (with_attributes(retry_after="7"), 7),
        (with_attributes(retry_after=-1), None),
        (with_attributes(retry_after=float("nan")), None),
        (with_attributes(retry_after="9" * 5_000), None),
        (answered({"Retry-After": "120"}), 120),
        (answered({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}), None),
        (answered({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Fri, 31 Dec 1999 23:59:00 GMT"}), 59),
        (answered({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "Sat, 01 Jan 2000 00:00:00 GMT"}), 0),
        (answered({"Retry-After": "soon", "Date": "Sat, 01 Jan 2000 00:00:00 GMT"}), None),
        (answered({"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT", "Date": "today"}), None),
    ],
)
def test_a_hint_when_to_come_back_is_taken_over(exception: Any, hint: Any) -> None:
    assert Failure.of(exception).retry_after == (None if hint is None else timedelta(seconds=hint))


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "wrapper",
    [
        lambda inner: caused(ValueError("no"), inner),
        lambda inner: caused(ValueError("no"), caused(KeyError("key"), inner)),
        lambda inner: urllib.error.URLError(inner),
        lambda inner: with_attributes(reason=inner),
        lambda inner: with_attributes(orig=inner),
        lambda inner: ValueError("no", inner),
    ],
)
def test_an_exception_has_the_evidence_of_its_cause(wrapper: Any) -> None:
    failure = Failure.of(wrapper(OSError(errno.ECONNREFUSED, "refused")))
    assert failure.errno == errno.ECONNREFUSED
    assert "ConnectionRefusedError" in failure.causes
    assert "ConnectionRefusedError" not in failure.types
    assert Failure.of(wrapper(with_attributes(status=503, retry_after=7))).status == 503
    assert Failure.of(wrapper(with_attributes(status=503, retry_after=7))).retry_after == timedelta(seconds=7)
    assert Failure.of(wrapper(with_attributes(sqlstate="40001"))).sqlstate == "40001"
    assert Failure.of(wrapper(subprocess.CalledProcessError(3, "x"))).exit == 3


def test_the_nearest_word_counts() -> None:
    inner = with_attributes(status=503)
    assert Failure.of(caused(with_attributes(status=404), inner)).status == 404
    assert Failure.of(
        caused(RateLimitedError("slow", retry_after="5s"), with_attributes(retry_after=9))
    ).retry_after == (timedelta(seconds=5))


def test_an_error_met_while_another_was_handled_is_no_cause() -> None:
    error = ValueError("no")
    error.__context__ = with_attributes(status=404)
    assert (Failure.of(error).status, Failure.of(error).causes) == (None, ())


def test_causes_without_end_are_followed_a_little_way() -> None:
    def wrapped(depth: int) -> BaseException:
        return caused(ValueError("no"), wrapped(depth - 1)) if depth else with_attributes(status=503)

    assert Failure.of(wrapped(5)).status == 503
    assert Failure.of(wrapped(50)).status is None


@pytest.mark.parametrize(
    ("exception", "sqlstate"),
    [
        (with_attributes(sqlstate="40001"), "40001"),
        (with_attributes(pgcode="40001"), "40001"),
        (with_attributes(sqlite_errorname="SQLITE_BUSY"), "SQLITE_BUSY"),
        (with_attributes(sqlstate=None, pgcode=""), None),
        (with_attributes(sqlstate=40001), None),
    ],
)
def test_what_a_database_calls_it_is_found_where_drivers_put_it(exception: Any, sqlstate: Any) -> None:
    assert Failure.of(exception).sqlstate == sqlstate


def test_the_retry_after_header_of_urllib_is_read() -> None:
    error = http_error(503, "17")
    assert Failure.of(error).retry_after == timedelta(seconds=17)
    error.close()


def test_a_failed_program_tells_exit_status_and_what_it_wrote() -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        subprocess.run(["sh", "-c", "echo moov atom 'not found' >&2; exit 3"], check=True, capture_output=True)
    failure = Failure.of(caught.value)
    assert failure.exit == 3
    assert "exit status 3" in failure.message
    assert "moov atom not found" in failure.message


@pytest.mark.parametrize(
    ("exception", "code", "error_class"),
    [
        (FinalError("no"), "REJECTED", "final"),
        (FinalError("no", code="NOT_PDF"), "NOT_PDF", "final"),
        (RetryableError("no"), "UNKNOWN", "retryable"),
        (RetryableError("no", code="GW_5XX"), "GW_5XX", "retryable"),
        (RateLimitedError("no"), "RATE_LIMITED", "rate_limited"),
        (TaskError("no", code="MINE"), "MINE", "retryable"),
        (Snooze("5m"), "SNOOZED", "rate_limited"),
        (ValueError("no"), None, None),
    ],
)
def test_an_error_made_for_tasks_brings_its_code_and_class(exception: Any, code: str, error_class: str) -> None:
    failure = Failure.of(exception)
    assert (failure.code, failure.error_class) == (code, error_class)


def test_a_group_of_like_errors_speaks_as_one_of_them() -> None:
    group = ExceptionGroup(
        "all", [ConnectionRefusedError(111, "a"), ExceptionGroup("in", [ConnectionRefusedError(111, "b")])]
    )
    failure = Failure.of(raised(group))
    assert failure.type == "ConnectionRefusedError"
    assert failure.errno == 111
    assert "ExceptionGroup" in failure.detail


def test_a_final_error_speaks_for_its_group_and_a_mixed_group_for_itself() -> None:
    assert Failure.of(ExceptionGroup("all", [ValueError("a"), FinalError("b")])).error_class is ErrorClass.FINAL
    assert Failure.of(ExceptionGroup("all", [ValueError("a"), TypeError("b")])).type == "ExceptionGroup"


def test_the_error_of_a_task_group_is_the_error_of_its_task() -> None:
    async def fail() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(0))
            group.create_task(asyncio.wait_for(asyncio.Event().wait(), timeout=0.001))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(fail())
    assert Failure.of(caught.value).type == "TimeoutError"


def test_the_recursion_limit_is_a_failure_like_others() -> None:
    def fall() -> None:
        fall()

    with pytest.raises(RecursionError) as caught:
        fall()
    failure = Failure.of(caught.value)
    assert failure.type == "RecursionError"
    assert len(failure.detail.encode()) <= DETAIL_LIMIT
