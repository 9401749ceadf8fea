"""An operation as statements that anybody's connection can run, one after the other.

A script yields a statement and is sent the rows it gave: whoever plays it decides on which connection, in whose
transaction, and whether he blocks or awaits.
"""

from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Statement(NamedTuple):
    """SQL with named parameters: `%(name)s` for PostgreSQL, `:name` for SQLite."""

    sql: str
    values: dict[str, Any]


Rows = list[dict[str, Any]]
Steps = Generator[Statement, Rows, T]


@dataclass(frozen=True, slots=True)
class Script(Generic[T]):
    """The steps, and the kind of database that understands them."""

    database: str
    steps: Steps[T]


def play(steps: Steps[T], execute: Callable[[Statement], Rows]) -> T:
    """Errors of a statement are raised where it was yielded."""
    try:
        statement = next(steps)
        while True:
            try:
                rows = execute(statement)
            except Exception as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


async def play_async(steps: Steps[T], execute: Callable[[Statement], Awaitable[Rows]]) -> T:
    try:
        statement = next(steps)
        while True:
            try:
                rows = await execute(statement)
            except Exception as error:
                statement = steps.throw(error)
            else:
                statement = steps.send(rows)
    except StopIteration as end:
        result: T = end.value
        return result


def alone(statement: Statement) -> Steps[Rows]:
    """One statement."""
    return (yield statement)


def undoing(steps: Steps[T], *errors: type[Exception]) -> Steps[T]:
    """The same steps; what they did is undone when they end with such an error, and the transaction can go on."""
    yield Statement("SAVEPOINT mulligan_steps", {})
    try:
        result = yield from steps
    except errors:
        yield Statement("ROLLBACK TO mulligan_steps", {})
        yield Statement("RELEASE mulligan_steps", {})
        raise
    yield Statement("RELEASE mulligan_steps", {})
    return result
