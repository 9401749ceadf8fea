"""The key of a token. A key is remembered for less than a second: a revoked one is refused everywhere within that."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

from starlette.requests import Request

from mulligan.errors import KeyRefused
from mulligan.records.key import Key
from mulligan.records.token import digest_of
from mulligan.values.clock import Clock

REMEMBERED_SECONDS = 0.8
MOST_REMEMBERED = 10_000


def read_bearer(request: Request) -> str:
    """The token in the header Authorization. Nothing else carries one: no cookie, no URL. Raises KeyRefused."""
    given = request.headers.getlist("authorization")
    scheme, _, token = (given[0] if len(given) == 1 else "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise KeyRefused
    return token.strip()


class Remembered(NamedTuple):
    key: Key
    until: float


@dataclass(slots=True)
class Authentication:
    """`find_key` finds the key of a token. It compares hashes in constant time."""

    find_key: Callable[[str], Key]
    clock: Callable[[], Clock]
    _remembered: dict[str, Remembered] = field(default_factory=dict)
    _asked: "dict[str, asyncio.Future[Key]]" = field(default_factory=dict)
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2, "mulligan-authentication"))

    def knows(self, token: str) -> bool:
        """Whether the token was valid when the store was asked last, however long ago."""
        return digest_of(token) in self._remembered

    async def find(self, token: str) -> Key:
        """Raises KeyRefused."""
        digest = digest_of(token)
        known = self._remembered.get(digest)
        if known is not None and self.clock().monotonic() < known.until:
            return known.key
        if digest not in self._asked:
            self._asked[digest] = asyncio.ensure_future(self._ask(token, digest))
            self._asked[digest].add_done_callback(lambda done: done.cancelled() or done.exception())
        # One client that goes away does not end the question of the others.
        return await asyncio.shield(self._asked[digest])

    async def _ask(self, token: str, digest: str) -> Key:
        # From before the read: a revocation after it is noticed when this time is over.
        until = self.clock().monotonic() + REMEMBERED_SECONDS
        try:
            key = await asyncio.get_running_loop().run_in_executor(self._threads, self.find_key, token)
        except KeyRefused:
            self._remembered.pop(digest, None)
            raise
        finally:
            del self._asked[digest]
        if len(self._remembered) >= MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = Remembered(key, until)
        return key

    def forget(self, token: str) -> None:
        self._remembered.pop(digest_of(token), None)

    def close(self) -> None:
        self._threads.shutdown(wait=False)
