"""A statement that is sent and answered without psycopg's cursors, which take more time than storing a job.

The exchange with the server is a generator that yields what it waits for, as psycopg's own are. A blocking connection
runs it, or an event loop (`on_loop.py`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.abc import PQGen
from psycopg.errors import error_from_result
from psycopg.generators import execute, fetch_many
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn, PGresult

from mulligan.store.postgres.bounded import BoundedConnection

Parameter = bytes | None

_NAMED = re.compile(r"%\(([a-z_]+)\)s")


class LeanStatement:
    """Its parameters are texts in the order of `names`. It is prepared at its first use on a connection."""

    def __init__(self, name: str, sql: str) -> None:
        self.names = tuple(dict.fromkeys(_NAMED.findall(sql)))
        numbers = {name: f"${number}" for number, name in enumerate(self.names, 1)}
        self._sql = _NAMED.sub(lambda found: numbers[found[1]], sql).replace("%%", "%").encode()
        self._name = f"mulligan_{name}".encode()

    def run(
        self, connection: BoundedConnection, parameters: Sequence[Parameter], then: str | None = None
    ) -> PQGen[list[tuple[Parameter, ...]]]:
        """Run the statement in its own transaction and return its rows. The command `then` is sent right behind it,
        and has its own commit."""
        try:
            return (yield from self._run(connection, parameters, then))
        except psycopg.errors.InvalidSqlStatementName:
            # After a rollback psycopg makes the server forget all statements of a connection.
            connection.prepared.discard(self._name)
        return (yield from self._run(connection, parameters, then))

    def with_values(self, values: Mapping[str, Any]) -> "LeanCall":
        return self, [to_parameter(values[name]) for name in self.names]

    def _run(
        self, connection: BoundedConnection, parameters: Sequence[Parameter], then: str | None
    ) -> PQGen[list[tuple[Parameter, ...]]]:
        pgconn = connection.pgconn
        yield from self.prepare(connection)
        if then is not None:
            pgconn.enter_pipeline_mode()
        self.send(connection, parameters)
        results = yield from (execute(pgconn) if then is None else _followed_by(pgconn, then.encode()))
        return _rows(_check(results))

    def prepare(self, connection: BoundedConnection) -> PQGen[None]:
        if connection.prepares and self._name not in connection.prepared:
            connection.pgconn.send_prepare(self._name, self._sql)
            _check((yield from execute(connection.pgconn)))
            connection.prepared.add(self._name)

    def send(self, connection: BoundedConnection, parameters: Sequence[Parameter]) -> None:
        if connection.prepares:
            connection.pgconn.send_query_prepared(self._name, parameters)
        else:
            connection.pgconn.send_query_params(self._sql, parameters)


LeanCall = tuple[LeanStatement, Sequence[Parameter]]


def run_together(connection: BoundedConnection, statements: Sequence[LeanCall]) -> PQGen[list[list[dict[str, Any]]]]:
    """Run statements in one round trip. Return the rows of each by column name."""
    for statement, _ in statements:
        yield from statement.prepare(connection)
    pgconn = connection.pgconn
    pgconn.enter_pipeline_mode()
    for statement, parameters in statements:
        statement.send(connection, parameters)
    pgconn.pipeline_sync()
    results = [(yield from execute(pgconn))]
    while results[-1][-1].status != ExecStatus.PIPELINE_SYNC:
        results.append((yield from fetch_many(pgconn)))
    pgconn.exit_pipeline_mode()
    return [_records(_check(result)) for result in results[:-1]]


def _records(result: PGresult) -> list[dict[str, Any]]:
    columns = [
        (result.fname(number).decode(), _READ.get(result.ftype(number), bytes.decode), number)  # type: ignore[union-attr]
        for number in range(result.nfields)
    ]
    return [
        {
            name: None if (value := result.get_value(row, number)) is None else read(value)
            for name, read, number in columns
        }
        for row in range(result.ntuples)
    ]


def _followed_by(pgconn: PGconn, command: bytes) -> PQGen[list[PGresult]]:
    pgconn.pipeline_sync()
    pgconn.send_query_params(command, None)
    pgconn.pipeline_sync()
    results: list[PGresult] = yield from execute(pgconn)
    # The end of the first transaction, the reply to the command, and the end of the second.
    for _ in range(3):
        yield from fetch_many(pgconn)
    pgconn.exit_pipeline_mode()
    return results


# By the number of a type of PostgreSQL: bool, bigint, smallint, integer, double precision. The others are texts.
_READ: dict[int, Callable[[bytes], Any]] = {16: b"t".__eq__, 20: int, 21: int, 23: int, 701: float}


def _check(results: list[PGresult]) -> PGresult:
    result = results[-1]
    if result.status not in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK):
        raise error_from_result(result)
    return result


def _rows(result: PGresult) -> list[tuple[Parameter, ...]]:
    columns = range(result.nfields)
    return [tuple(result.get_value(row, column) for column in columns) for row in range(result.ntuples)]


def to_parameter(value: Any) -> Parameter:
    """The value as text. Raises what psycopg raises for a string that PostgreSQL cannot store."""
    if value is None:
        return None
    if isinstance(value, bool):
        return b"t" if value else b"f"
    text = str(value).encode()
    if b"\0" in text:
        raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
    return text
