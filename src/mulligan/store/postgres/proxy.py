"""What stands before the server: nothing, a proxy that keeps sessions together, or one that pools transactions."""

import contextlib
from enum import Enum, auto
from typing import TYPE_CHECKING

from mulligan.store.postgres.bounded import BoundedConnection, Silent

if TYPE_CHECKING:
    from mulligan.store.postgres.connections import Connections

# A pool of one connection lets nobody else in.
LOOK_SECONDS = 2.0


class Between(Enum):
    NOTHING = auto()
    SESSIONS = auto()
    TRANSACTIONS = auto()


def look(connections: "Connections") -> Between:
    """A pooler makes up the process number it tells the client; one that pools transactions swaps sessions."""
    with contextlib.closing(connections.connect()) as first:
        process = _process(first)
        if process == first.info.backend_pid:
            return Between.NOTHING
        with contextlib.closing(connections.connect()) as second:
            return Between.TRANSACTIONS if _is_swapped(first, second, process) else Between.SESSIONS


def _is_swapped(first: BoundedConnection, second: BoundedConnection, process: int) -> bool:
    """Whether the first gets another session, or none, while the second is in a transaction."""
    first.limit = second.limit = min(first.limit, LOOK_SECONDS)
    try:
        second.execute("BEGIN")
        second.execute("SELECT 1")
    except Silent:
        return False
    try:
        return _process(first) != process
    except Silent:
        return True


def _process(connection: BoundedConnection) -> int:
    row = connection.execute("SELECT pg_backend_pid()").fetchone()
    assert row is not None
    return int(row[0])
