"""Plain code that can wait in simulated time.

The keeper's step and a duty's make several store calls in one plain function. In a strand such a
function stops at each of them, the world goes on, and it is taken up again when the answer is there:
what threads do in a real worker, without threads and always in the same order.
"""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

from greenlet import getcurrent, greenlet

from mulligan.program.interrupt import Interrupted


class Strand(greenlet):  # type: ignore[misc]  # it has no types
    """Begins at once and runs to its first wait. `future` has its result."""

    def __init__(self, function: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(self._main)
        self.gr_context = contextvars.copy_context()
        self.future: asyncio.Future[Any] = loop.create_future()
        self._loop = loop
        self._function = function
        self._waits_for: asyncio.Future[Any] | None = None
        self._go_on(None)

    def wait(self, future: asyncio.Future[Any]) -> Any:
        """Called from inside: give way until the future is done."""
        assert self.parent is not None
        self._waits_for = future
        self.parent.switch(future)
        return future.result()

    def interrupt(self) -> None:
        """Raise where it waits; the answer it waited for is dropped."""
        if self._waits_for is not None and not self._waits_for.done():
            self._waits_for.set_exception(Interrupted())

    def _go_on(self, _done: object) -> None:
        waits_for = self.switch()
        if not self.dead:
            waits_for.add_done_callback(self._go_on)

    def _main(self) -> None:
        try:
            result = self._function()
        except BaseException as error:
            # asyncio refuses StopIteration in a future.
            self._end(None, RuntimeError(repr(error)) if isinstance(error, StopIteration) else error)
        else:
            self._end(result, None)

    def _end(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


def current_strand() -> Strand | None:
    here = getcurrent()
    return here if isinstance(here, Strand) else None
