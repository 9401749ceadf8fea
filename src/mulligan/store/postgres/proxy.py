"""Detect a proxy in front of the server, and whether it pools sessions or transactions."""

from enum import Enum, auto
from typing import TYPE_CHECKING

from mulligan.store.postgres.bounded import BoundedConnection, NoAnswer

if TYPE_CHECKING:
    from mulligan.store.postgres.connections import Connections

# A pool of one connection lets no second client in.
LOOK_SECONDS = 2.0


class PoolMode(Enum):
    NOTHING = auto()
    SESSIONS = auto()
    TRANSACTIONS = auto()


def detect_proxy(connections: "Connections") -> PoolMode:
    """A pooler reports an invented process number to the client; one that pools transactions also switches sessions."""
    with connections.opened() as first:
        process = _process(first)
        if process == first.info.backend_pid:
            return PoolMode.NOTHING
        with connections.opened() as second:
            return PoolMode.TRANSACTIONS if _is_swapped(first, second, process) else PoolMode.SESSIONS


def _is_swapped(first: BoundedConnection, second: BoundedConnection, process: int) -> bool:
    """Whether the first connection gets another session, or none, while the second is in a transaction."""
    first.limit = second.limit = min(first.limit, LOOK_SECONDS)
    try:
        second.execute("BEGIN")
        second.execute("SELECT 1")
    except NoAnswer:
        return False
    try:
        return _process(first) != process
    except NoAnswer:
        return True


def _process(connection: BoundedConnection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])
