"""An enqueue as statements that any connection can run: one of the store, or one of the caller with an open
transaction.

A script yields a statement and is sent its rows. The caller of `play` chooses the connection and the transaction, and
whether it blocks or awaits.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from mulligan.store.statements import Statements

T = TypeVar("T")


class Statement(NamedTuple):
    """SQL with named parameters: `%(name)s` for PostgreSQL, `:name` for SQLite."""

    sql: str
    values: dict[str, Any]


Rows = list[dict[str, Any]]
Steps = Generator[Statement, Rows, T]


@dataclass(frozen=True, slots=True)
class Script(Generic[T]):
    """The steps, and the kind of database they are written for."""

    database: str
    steps: Steps[T]


def play(steps: Steps[T], execute: Callable[[Statement], Rows]) -> T:
    """Run the statements one after the other. A script catches no error of a statement."""
    try:
        statement = next(steps)
        while True:
            statement = steps.send(execute(statement))
    except StopIteration as end:
        result: T = end.value
        return result


async def play_async(steps: Steps[T], execute: Callable[[Statement], Awaitable[Rows]]) -> T:
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await execute(statement))
    except StopIteration as end:
        result: T = end.value
        return result


def moment(sql: Statements, now: int | None) -> Steps[int]:
    """Return the time of the store in microseconds."""
    if now is not None:
        return now
    (row,) = yield Statement(sql["now"], {"now": now})
    return int(row["now"])
