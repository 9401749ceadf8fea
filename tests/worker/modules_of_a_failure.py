"""Counts the modules that a failing job goes through, from the start of its claim to the end of its settle.

`python tests/worker/modules_of_a_failure.py` prints them. A module counts when one of its functions is called in any
thread. The keeper and the listener are not started, because they do not work on the job.
"""

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import mulligan
from mulligan import App, State
from mulligan.worker.drivers import ThreadDriver

PACKAGE = Path(mulligan.__file__).parent


def modules_of_a_failure(url: str) -> list[str]:
    """The modules of mulligan, in the order of their first call."""
    calls = Calls()
    with patch.object(ThreadDriver, "start"), calls.recorded(), App(url) as app:

        @app.task
        def failing() -> None:
            raise ValueError("no such page")

        job = failing.enqueue()
        with calls.between(app.store, "claim", "settle"):
            app.run_until_idle(timeout="60s")
        assert app.job(job.id).state is State.WAITING, "it failed and waits for its retry"
    return list(dict.fromkeys(name for code in calls.codes if (name := _module(code)) is not None))


class Calls:
    """The code of every function that is called."""

    def __init__(self) -> None:
        self.codes: dict[CodeType, None] = {}
        self._is_recording = False

    @contextlib.contextmanager
    def recorded(self) -> Iterator[None]:
        threading.setprofile(self._record)
        sys.setprofile(self._record)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextlib.contextmanager
    def between(self, store: object, first: str, last: str) -> Iterator[None]:
        """Record from the start of the first call of one operation to the end of the first call of another."""
        kind = type(store)
        before = {name: getattr(kind, name) for name in (first, last)}
        setattr(kind, first, self._recording_from(before[first]))
        setattr(kind, last, self._recording_to(before[last]))
        try:
            yield
        finally:
            for name, function in before.items():
                setattr(kind, name, function)

    def _recording_from(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            self._is_recording = self._is_recording or not self.codes
            return function(*arguments)

        return call

    def _recording_to(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            finally:
                self._is_recording = False

        return call

    def _record(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self._is_recording and event == "call" and not _is_resumed(frame):
            self.codes[frame.f_code] = None


def _is_resumed(frame: FrameType) -> bool:
    """Whether a coroutine or generator goes on, such as the one that waits for the whole run of a worker: it was called
    before. The argument of RESUME is 0 at the start of a function."""
    return bool(frame.f_code.co_code[frame.f_lasti + 1] & 3)


def _module(code: CodeType) -> str | None:
    path = Path(code.co_filename)
    if not path.is_relative_to(PACKAGE) or code.co_name == "<module>":
        return None
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        found = modules_of_a_failure(f"sqlite:///{folder}/jobs.db")
    is_store = [name.startswith("store.") for name in found]
    sys.stdout.write("".join(f"{number:3} {name}\n" for number, name in enumerate(found, 1)))
    sys.stdout.write(f"{len(found)} modules: {sum(is_store)} of the store, {len(found) - sum(is_store)} others\n")
