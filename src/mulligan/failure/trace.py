"""The traceback of an exception as a string, without the values of variables and with secrets masked.

The string is Python's own without the markers under the source lines. A frame is read and masked once per code and
line, because that takes longer than the rest of a failure. What this module does not format, it leaves to Python.
"""

import linecache
import sys
from traceback import TracebackException
from types import CodeType, FrameType, TracebackType
from weakref import ref

from mulligan.failure.redact import known_secrets, mask_known, sanitize

# Cache bounds: the number of frames, and the length of one.
MOST_FRAMES = 2_000
LONGEST_CACHED = 1_000
LONGEST_FRAME = 4 * 1024
_MOST_CAUSES = 10
# Python repeats a frame this often and counts the rest.
_REPEATS = 3
_CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
_CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"
# Python adds a suggestion or a position to these.
_WITH_HELP = (SyntaxError, NameError, AttributeError, ImportError)

FrameTexts = dict[tuple[int, int], tuple[ref[CodeType], str]]
_cache: tuple[object, FrameTexts] = (known_secrets(), {})


def format_traceback(exception: BaseException, limit: int) -> str | None:
    """The traceback with its causes; messages have at most `limit` bytes. None for one that is left to Python. May
    raise what a method of the exception raises."""
    if hasattr(sys, "tracebacklimit"):
        return None
    texts = _frame_texts()
    parts: list[str] = []
    seen: list[BaseException] = []
    current: BaseException | None = exception
    while current is not None:
        if len(seen) == _MOST_CAUSES or any(current is known for known in seen):
            return None
        if issubclass(type(current), BaseExceptionGroup):
            return None
        seen.append(current)
        parts.append(_format_frames(current.__traceback__, texts) + _format_message(current, limit))
        if current.__cause__ is not None:
            parts.append(_CAUSE)
            current = current.__cause__
        elif current.__context__ is not None and not current.__suppress_context__:
            parts.append(_CONTEXT)
            current = current.__context__
        else:
            current = None
    # A pattern of the user may match across frames.
    return mask_known("".join(reversed(parts)))


def _frame_texts() -> FrameTexts:
    """The cache of frames, emptied when it is full and when a secret became known."""
    global _cache
    known = known_secrets()
    if _cache[0] is not known or len(_cache[1]) >= MOST_FRAMES:
        _cache = (known, {})
    return _cache[1]


def _format_frames(traceback: TracebackType | None, texts: FrameTexts) -> str:
    lines = [] if traceback is None else ["Traceback (most recent call last):\n"]
    last, times = "", 0
    while traceback is not None:
        text = _format_frame(traceback.tb_frame, traceback.tb_lineno, texts)
        if text != last:
            lines.append(_count_repeats(times))
            last, times = text, 0
        times += 1
        if times <= _REPEATS:
            lines.append(text)
        traceback = traceback.tb_next
    lines.append(_count_repeats(times))
    return "".join(lines)


def _count_repeats(times: int) -> str:
    more = times - _REPEATS
    return "" if more <= 0 else f"  [Previous line repeated {more} more time{'s' if more > 1 else ''}]\n"


def _format_frame(frame: FrameType, number: int, texts: FrameTexts) -> str:
    code = frame.f_code
    # By identity: a reloaded module has other code in the same file. The hash of code takes longer than this.
    key = id(code), number
    found = texts.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    linecache.checkcache(code.co_filename)
    source = linecache.getline(code.co_filename, number, frame.f_globals).strip()
    text = f'  File "{code.co_filename}", line {number}, in {code.co_name}\n' + (f"    {source}\n" if source else "")
    text = sanitize(text, LONGEST_FRAME)
    if len(text) <= LONGEST_CACHED:
        texts[key] = ref(code), text
    return text


def _format_message(exception: BaseException, limit: int) -> str:
    kind = type(exception)
    module, name = kind.__module__, kind.__qualname__
    has_notes = getattr(exception, "__notes__", None) is not None
    if issubclass(kind, _WITH_HELP) or has_notes or type(module) is not str or type(name) is not str:
        python = TracebackException(kind, exception, exception.__traceback__, limit=0, lookup_lines=False)
        return sanitize("".join(python.format_exception_only()), limit)
    name = name if module in ("__main__", "builtins") else f"{module}.{name}"
    # str() may return a subclass with its own behaviour; str.__str__ makes it a plain string.
    message = str.__str__(str(exception))
    return sanitize(f"{name}: {message}\n" if message else f"{name}\n", limit)
