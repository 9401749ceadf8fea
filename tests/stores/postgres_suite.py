"""The suite on a PostgreSQL server, at the cost of the tests alone.

To open a session and to fill its caches takes longer than most tests: each test leaves its sessions to the next.
"""

from collections.abc import Callable
from datetime import datetime

import pytest
from postgres_server import EMPTY, SWEEP

from conformance.bench import Bench
from conformance.suite import StoreSuite
from mulligan.service.config import ServiceBook
from mulligan.store.postgres import PostgresStore
from mulligan.store.postgres.connections import Connection

# One for the store, one for its hints; and as many for its twin.
TAKEN, LEFT = 2, 4
# Tests between two sweeps: what was deleted is else read again and again, by thousands of them.
SWEPT_AFTER = 20


class Sessions:
    """Sessions that earlier tests left, by URL."""

    def __init__(self) -> None:
        self._left: dict[str, list[Connection]] = {}
        self._emptied = 0

    def emptied(self, url: str) -> str:
        """The same database without a row."""
        store = self.open(url)
        store._connections.run(lambda session: session.execute(EMPTY))
        self._emptied += 1
        if self._emptied % SWEPT_AFTER == 0:
            store._connections.run(lambda session: session.execute(SWEEP))
        store.close()
        return url

    def open(
        self,
        url: str,
        now: Callable[[], datetime] | None = None,
        services: Callable[[], ServiceBook] = ServiceBook,
    ) -> PostgresStore:
        return _SessionReusingStore(url, now, services, self._left.setdefault(url, []))

    def close(self) -> None:
        for sessions in self._left.values():
            for session in sessions:
                session.close()


class _SessionReusingStore(PostgresStore):
    """Begins with sessions of earlier tests, and leaves its own."""

    def __init__(
        self,
        url: str,
        now: Callable[[], datetime] | None,
        services: Callable[[], ServiceBook],
        left: list[Connection],
    ) -> None:
        super().__init__(url, now=now, services=services)
        self._left = left
        self._connections._idle, left[:TAKEN] = left[:TAKEN], []

    def close(self) -> None:
        self._postgres._notifier.close()
        sessions = self._left + self._connections._take_idle()
        self._left[:] = sessions[:LEFT]
        self._connections._discard(sessions[LEFT:])
        super().close()


class PostgresBench(Bench):
    """A store on an emptied database. Which one, and by which way, is said by the fixture `address`."""

    url: str
    sessions: Sessions

    @pytest.fixture(autouse=True)
    def _a_database(self, address: str, sessions: Sessions) -> None:
        self.sessions = sessions
        self.url = sessions.emptied(address)

    def open_store(self, now: Callable[[], datetime]) -> PostgresStore:
        return self.sessions.open(self.url, now, self.services)

    open_twin = open_store


class PostgresSuite(PostgresBench, StoreSuite):
    """Every rule."""
