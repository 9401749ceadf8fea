"""A connection that does not wait for ever.

If the network goes silent, the connection stays open and the answer never comes; nor does a statement end that waits
for a lock. So every wait for the server has a limit. After it the server is asked to cancel the statement, and the
connection is closed. The statement may still have been executed: as after any lost reply, the call is repeated.
"""

import contextlib
import time
from collections.abc import Generator
from typing import Any, TypeVar, cast

import psycopg
from psycopg import capabilities
from psycopg.abc import PQGen

T = TypeVar("T")

# For the cancel request, which may get no answer either.
CANCEL_SECONDS = 2.0


class NoAnswer(psycopg.OperationalError):
    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"no answer for {round(seconds, 2):g} s (MULLIGAN_STORE_TIMEOUT_SEC): the network is silent, the call "
            "waits for a lock, or it takes longer by itself"
        )


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """`limit` is how many seconds the server may be silent while an answer is awaited."""

    limit: float = 15.0
    prepares: bool = True
    """Whether statements may be prepared on the server."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # The names of the statements that were prepared without psycopg's help.
        self.prepared: set[bytes] = set()

    def roll_back(self, command: str = "ROLLBACK") -> None:
        """Run a ROLLBACK, also to a savepoint. After it psycopg makes the server forget statements."""
        self.execute(command)
        if self.prepared:
            left = self.execute("SELECT name FROM pg_prepared_statements", prepare=False)
            self.prepared &= {name.encode() for (name,) in left}

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        try:
            return super().wait(self._within_limit(gen), *args, **options)
        except NoAnswer:
            self.give_up()
            raise

    def _within_limit(self, waiting: PQGen[T]) -> Generator[Any, Any, T]:
        """The same steps. psycopg resumes each of them several times a second, even if nothing arrived."""
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
                raise NoAnswer(self.limit)

    def give_up(self) -> None:
        # A statement that waits for a lock would continue to wait, and each repeated call would add one. A libpq before
        # 17 waits for the answer without a limit; there the server has to notice by itself that the client is gone.
        if capabilities.has_cancel_safe():
            with contextlib.suppress(psycopg.Error):
                self.cancel_safe(timeout=min(CANCEL_SECONDS, self.limit))
        self.close()
