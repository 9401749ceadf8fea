"""Large requests, and large answers: they are computed in a thread of their own, and only some of them at a time.

A body of 1 MiB takes up to 30 MiB once it is decoded, until its handler has ended.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager

# Bytes of an answer that is large. Masking the secrets in so many takes some 40 ms, in which other threads hardly run.
LARGE_ANSWER = 128 * 1024
# Bytes of the bodies that are decoded at a time. A larger one is decoded alone.
MOST_BYTES = 2**20


class LargeRequests:
    """Of one event loop."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def thread(self) -> ThreadPoolExecutor:
        """Made when it is needed: an application may be started again after it was closed."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "mulligan-large")
        return self._thread

    @asynccontextmanager
    async def admit(self, size: int) -> AsyncIterator[None]:
        """Wait until there is room for a body, or an answer, of this many bytes, in the order of the requests."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        self._let_in()
        try:
            await turn
            yield
        finally:
            if turn.cancelled():
                self._waiting = deque(each for each in self._waiting if each[1] is not turn)
            else:
                self._bytes -= size
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and (not self._bytes or self._bytes + self._waiting[0][0] <= MOST_BYTES):
            size, turn = self._waiting.popleft()
            if not turn.done():
                self._bytes += size
                turn.set_result(None)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None
