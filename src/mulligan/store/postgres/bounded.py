"""A connection that does not wait for ever.

A network that goes silent tells nobody: the connection stays open, and the answer never comes. Nor does a statement end
that waits for somebody's lock. So every wait for the server has a limit here; beyond it the server is asked to cancel
what it does, and the connection is given up. What was asked may have been done all the same: as after any lost reply,
the call is repeated.
"""

import contextlib
import time
from collections.abc import Generator
from typing import Any, TypeVar, cast

import psycopg
from psycopg import capabilities
from psycopg.abc import PQGen

T = TypeVar("T")

# For the request to cancel, which may get no answer either.
CANCEL_SECONDS = 2.0


class Silent(psycopg.OperationalError):
    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"no answer for {round(seconds, 2):g} s (MULLIGAN_STORE_TIMEOUT_SEC): the network is silent, others hold "
            "what the call needs, or it takes longer by itself"
        )


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """`limit` is for how many seconds nothing may come from the server while something is awaited."""

    limit: float = 15.0

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        try:
            return super().wait(self._within_limit(gen), *args, **options)
        except Silent:
            self._give_up()
            raise

    def _within_limit(self, waiting: PQGen[T]) -> Generator[Any, Any, T]:
        """The same steps. psycopg comes back to each of them several times a second, also with nothing."""
        since, ready = time.monotonic(), cast("Any", None)
        while True:
            try:
                wanted = waiting.send(ready)
            except StopIteration as end:
                answer: T = end.value
                return answer
            ready = yield wanted
            if ready:
                since = time.monotonic()
            elif time.monotonic() - since >= self.limit:
                raise Silent(self.limit)

    def _give_up(self) -> None:
        # A statement that waits for a lock would wait on, and each repeat of the call would leave one more. A libpq
        # before 17 waits without a limit for the answer: there the server is left to notice that nobody is connected.
        if capabilities.has_cancel_safe():
            with contextlib.suppress(psycopg.Error):
                self.cancel_safe(timeout=min(CANCEL_SECONDS, self.limit))
        self.close()
