"""Task bodies that fail in a known way: `app.task("unsteady")(flaky(2))`."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from mulligan.attempt import attempt


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
