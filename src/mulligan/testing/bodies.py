"""Task functions that fail in a known way: `app.task("unsteady")(flaky(2))`."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from mulligan.attempt import attempt
from mulligan.testing.virtual import VirtualLoop


def flaky(times: int, error: Callable[[], Exception] | None = None) -> Callable[[], Coroutine[Any, Any, int]]:
    """Return a function that fails `times` times and then returns the number of its attempt.

    `error` creates the exception to raise; default: a RuntimeError.
    """

    async def flaky() -> int:
        if attempt().number <= times:
            raise error() if error else RuntimeError(f"failing on purpose, {times} times")
        return attempt().number

    return flaky


def hanging() -> Callable[[], Coroutine[Any, Any, None]]:
    """Return a function that never returns, so that its timeout ends it."""

    async def hanging() -> None:
        await asyncio.Event().wait()

    return hanging


def crashing(status: int = 9) -> Callable[[], None]:
    """Return a function that ends its process with this exit status.

    Use it for tasks with `isolate=True`. In a sandbox it raises a RuntimeError instead.
    """

    def crashing() -> None:
        if _is_in_a_sandbox():
            raise RuntimeError("crashing() ends its process, which in a sandbox is the process of your tests")
        os._exit(status)

    return crashing


def _is_in_a_sandbox() -> bool:
    try:
        return isinstance(asyncio.get_running_loop(), VirtualLoop)
    except RuntimeError:
        return False
