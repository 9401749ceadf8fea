"""Tracebacks are Python's own, without the markers under the source lines; a frame is read and masked once."""

import linecache
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from mulligan.failure import redact, trace
from mulligan.failure.evidence import DETAIL_LIMIT, MESSAGE_LIMIT, detail_of
from mulligan.failure.trace import LONGEST_CACHED, MOST_FRAMES, format_traceback

MARKERS = re.compile(r"^ +[~^]+\n", re.MULTILINE)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is empty too: it belongs to what is known."""
    monkeypatch.setattr(redact, "_known", redact._Known())


def fail(error: BaseException) -> None:
    raise error


def caught(call: Callable[[], Any]) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def caused() -> None:
    try:
        fail(OSError(5, "disk"))
    except OSError as error:
        raise ValueError("no page\nof two lines") from error


def during() -> None:
    try:
        fail(KeyError("a"))
    except KeyError:
        fail(ValueError())


def hidden() -> None:
    try:
        fail(KeyError("a"))
    except KeyError:
        raise ValueError("alone") from None


def noted() -> None:
    error = ValueError("see below")
    error.add_note("a note\nof two lines")
    raise error


def recurse(depth: int) -> None:
    if depth == 0:
        raise RecursionError("too deep")
    recurse(depth - 1)


def misspell() -> None:
    print(linecahe)  # type: ignore[name-defined]  # noqa: F821


class Outer:
    class Inner(Exception):
        """Named with its class."""


PLAIN: dict[str, Callable[[], Any]] = {
    "an error": lambda: fail(ValueError("no")),
    "one without a text": lambda: fail(ValueError()),
    "one of a nested class": lambda: fail(Outer.Inner("x")),
    "a cause": caused,
    "a context": during,
    "a hidden context": hidden,
    "a note": noted,
    "a recursion": lambda: recurse(50),
    "a recursion shown whole": lambda: recurse(2),
    "one more than shown": lambda: recurse(3),
    "a suggestion": misspell,
    "another suggestion": lambda: linecache.getlin,  # type: ignore[attr-defined]
    "an import": lambda: __import__("no_such_module"),
    "a syntax error": lambda: compile("1 +", "some.py", "exec"),
    "code without a file": lambda: exec("1 / 0"),
    "a quiet exit": lambda: fail(SystemExit(3)),
}


def by_python(error: BaseException) -> str:
    return MARKERS.sub("", "".join(traceback.format_exception(error)))


@pytest.mark.parametrize("call", PLAIN.values(), ids=PLAIN)
def test_a_traceback_is_pythons_own_without_markers(call: Callable[[], Any]) -> None:
    error = caught(call)
    for _ in ("read", "from the cache"):
        found = format_traceback(error, MESSAGE_LIMIT)
        assert found is not None
        # A syntax error keeps its marker, which is part of the message.
        assert MARKERS.sub("", found) == by_python(error)
        assert (MARKERS.search(found) is not None) == isinstance(error, SyntaxError)
        assert detail_of(error) == found


def test_an_exception_that_was_never_raised_has_a_traceback_without_frames() -> None:
    error = TimeoutError("no result after 5s")
    assert format_traceback(error, MESSAGE_LIMIT) == by_python(error)


def cyclic() -> BaseException:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    return first


def in_a_chain(length: int) -> BaseException:
    error: BaseException = ValueError("0")
    for number in range(1, length):
        outer = ValueError(str(number))
        outer.__cause__, error = error, outer
    return error


@pytest.mark.parametrize(
    "error",
    [
        ExceptionGroup("two", [ValueError("a"), KeyError("b")]),
        cyclic(),
        in_a_chain(50),
    ],
    ids=["a group", "a circle", "a long chain"],
)
def test_what_is_unusual_is_left_to_python(error: BaseException) -> None:
    assert detail_of(error) == by_python(error)


def test_the_limit_of_the_interpreter_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    error = caught(lambda: recurse(2))
    monkeypatch.setattr(sys, "tracebacklimit", 1, raising=False)
    assert detail_of(error) == "".join(traceback.format_exception(error))
    assert detail_of(error).count("File") == 1


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Meta(type):
    def __hash__(cls) -> int:
        raise RuntimeError("no hash")

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError("no comparison")


class Hostile(Exception, metaclass=Meta):
    """Its class cannot be the key of a cache."""


class Unowned(Exception):
    __module__ = 7  # type: ignore[assignment]


class Causing(Exception):
    @property
    def __cause__(self) -> Any:  # type: ignore[override]
        return 7


class Raising(Exception):
    @property
    def __traceback__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no traceback")


@pytest.mark.parametrize("kind", [Unreadable, Hostile, Unowned, Causing, Raising])
def test_a_formatter_that_fails_does_not_fail_the_job(kind: type[Exception]) -> None:
    error = caught(lambda: fail(kind("x")))
    for _ in range(2):
        assert kind.__qualname__ in detail_of(error)


# Secrets


def leak() -> None:
    fail(ValueError("wrong"))  # hunter2-as-it-is


def test_a_secret_that_becomes_known_later_is_masked_in_a_cached_frame() -> None:
    error = caught(leak)
    assert "hunter2-as-it-is" in detail_of(error)
    redact.redact("hunter2-as-it-is")
    assert "hunter2-as-it-is" not in detail_of(error)
    assert redact.MASK in detail_of(error)


def leak_a_sentence() -> None:
    fail(ValueError("wrong"))  # password = correct horse battery


def test_a_secret_that_becomes_known_later_is_masked_whole_where_its_beginning_was_masked() -> None:
    error = caught(leak_a_sentence)
    assert f"password = {redact.MASK} horse battery" in detail_of(error)
    redact.redact("correct horse battery")
    assert "horse" not in detail_of(error)


def test_a_known_pattern_may_match_across_frames() -> None:
    error = caught(leak)
    redact.redact(re.compile(r"in leak\n.*\n.*in fail"))
    assert "in leak" not in detail_of(error)


def test_a_secret_in_the_message_of_a_cause_is_masked() -> None:
    def call() -> None:
        try:
            fail(OSError("password=hunter2"))
        except OSError as error:
            raise ValueError("token=hunter3hunter3") from error

    detail = detail_of(caught(call))
    assert "hunter" not in detail
    # Twice each: in the source line and in the message.
    assert detail.count(redact.MASK) == 4


# The cache


def run(path: Path, text: str) -> BaseException:
    path.write_text(text)
    code: CodeType = compile(text, str(path), "exec")
    return caught(lambda: exec(code, {}))


def test_a_reloaded_source_shows_its_new_line(tmp_path: Path) -> None:
    path = tmp_path / "reloaded.py"
    first = run(path, "1 / 0  # the first version")
    assert "the first version" in detail_of(first)
    second = run(path, "1 / 0  # the second version, longer")
    assert "the second version" in detail_of(second)
    # What has run is shown as it was read, although the file changed.
    assert "the first version" in detail_of(first)


def test_a_frame_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = run(tmp_path / "once.py", "1 / 0")
    expected = detail_of(error)
    monkeypatch.setattr(linecache, "getline", lambda *_: pytest.fail("read again"))
    assert detail_of(error) == expected


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    text = "\n".join("try: 1 / 0\nexcept Exception as error: errors.append(error)" for _ in range(MOST_FRAMES + 10))
    errors: list[BaseException] = []
    code = compile(text, str(tmp_path / "many.py"), "exec")
    exec(code, {"errors": errors})
    for error in errors:
        detail_of(error)
    assert 0 < len(trace._cache[1]) <= MOST_FRAMES


def test_a_huge_line_is_clipped_and_not_cached(tmp_path: Path) -> None:
    error = run(tmp_path / "huge.py", "1 / 0  # " + "x" * 1_000_000)
    assert len(detail_of(error)) < 10_000
    assert all(len(text) <= LONGEST_CACHED for _, text in trace._cache[1].values())


def test_a_traceback_of_many_frames_is_clipped() -> None:
    def ping(depth: int) -> None:
        if depth == 0:
            fail(ValueError("bottom"))
        pong(depth - 1)

    def pong(depth: int) -> None:
        ping(depth)

    detail = detail_of(caught(lambda: ping(400)))
    assert len(detail.encode()) <= DETAIL_LIMIT
    assert detail.startswith("Traceback")
    assert detail.endswith("ValueError: bottom\n")
