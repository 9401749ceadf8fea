"""Task bodies that fail in a known way: `app.task("unsteady")(flaky(2))`."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from mulligan.attempt import attempt
from mulligan.testing.virtual import VirtualLoop


def flaky(times: int, error: Callable[[], Exception] | None = None) -> Callable[[], Coroutine[Any, Any, int]]:
    """Fails so many times, then returns the number of the attempt that succeeded."""

    async def flaky() -> int:
        if attempt().number <= times:
            raise error() if error else RuntimeError(f"failing on purpose, {times} times in all")
        return attempt().number

    return flaky


def hanging() -> Callable[[], Coroutine[Any, Any, None]]:
    """Never returns: its timeout ends it."""

    async def hanging() -> None:
        await asyncio.Event().wait()

    return hanging


def crashing(status: int = 9) -> Callable[[], None]:
    """Ends its own process, with this exit status: for a task with `isolate=True`, never for the sandbox."""

    def crashing() -> None:
        if _is_in_a_sandbox():
            raise RuntimeError("crashing() ends its own process, which in a sandbox is that of your tests")
        os._exit(status)

    return crashing


def _is_in_a_sandbox() -> bool:
    try:
        return isinstance(asyncio.get_running_loop(), VirtualLoop)
    except RuntimeError:
        return False
