"""A transaction whose begin and commit take no round trips: they are sent with its first and its last statements."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from psycopg.abc import PQGen

from mulligan.store.postgres.connections import Connection
from mulligan.store.postgres.lean import LeanCall, LeanStatement, run_together
from mulligan.store.postgres.session import ASYNCHRONOUSLY, to_lean
from mulligan.store.session import Now, RoundTrips, Rows

T = TypeVar("T")

# A plan that is made for an empty table stays when it has grown, until the server analyses it.
_BEGIN = [
    LeanStatement("begin", "BEGIN").with_values({}),
    LeanStatement("by_key", f"{ASYNCHRONOUSLY}, set_config('enable_seqscan', 'off', true)").with_values({}),
]
_COMMIT = LeanStatement("commit", "COMMIT").with_values({})


def transact(connection: Connection, trips: RoundTrips[T], now: Now) -> PQGen[T]:
    """Run the transaction. It commits asynchronously, and finds rows by their keys. An error leaves it open."""
    first: Sequence[LeanCall] = _BEGIN
    try:
        statements = next(trips)
        while True:
            found = yield from run_together(connection, [*first, *to_lean(statements, now)])
            statements, first = trips.send(found[len(first) :]), ()
    except StopIteration as end:
        read: Callable[[list[Rows]], T]
        last, read = end.value
    found = yield from run_together(connection, [*first, *to_lean(last, now), _COMMIT])
    return read(found[len(first) : -1])
