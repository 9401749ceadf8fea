"""Times and counts as people write them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from mulligan.lifecycle import State
from mulligan.store.messages import WorkerRecord
from mulligan.values.duration import describe

LONGEST_QUOTE = 300

_AUXILIARIES = {State.SUCCEEDED: "has", State.FAILED: "has", State.CANCELLED: "was"}


def stamp(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def relative(moment: datetime, now: datetime) -> str:
    """`12s ago`, `in 4m`, `now`."""
    seconds = round((moment - now).total_seconds())
    if seconds == 0:
        return "now"
    length = describe(timedelta(seconds=abs(seconds)))
    return f"in {length}" if seconds > 0 else f"{length} ago"


def at(moment: datetime, now: datetime) -> str:
    """The time, and its distance from now."""
    return f"{stamp(moment)} ({relative(moment, now)})"


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number:,} times")


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:8])
    return f"{shown}, …" if len(names) > 8 else shown


def quoted(text: str) -> str:
    """A quotation on one line, shortened."""
    line = " ".join(text.split())
    return f'"{line}"' if len(line) <= LONGEST_QUOTE else f'"{line[: LONGEST_QUOTE - 1]}…"'


def end_sentence(text: str) -> str:
    """The text with a full stop, unless a quotation ends with one."""
    return text if text.endswith((".", '."', '!"', '?"', '…"')) else f"{text}."


def state_phrase(state: State) -> str:
    """`is running`, `has failed`, `was cancelled`."""
    return f"{_AUXILIARIES.get(state, 'is')} {state}"


def worker_name(incarnation: str, workers: Sequence[WorkerRecord]) -> str:
    """The host and process, if known; otherwise the incarnation."""
    found = next((worker for worker in workers if worker.incarnation == incarnation), None)
    return f"{found.host}, process {found.pid}" if found else incarnation
