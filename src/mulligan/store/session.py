"""A session runs named statements on one connection. A script yields statements, so that any connection can run it:
one of the store, or one of the caller with an open transaction.

SQL is in `.sql` files named for the store's operation: in `store/sql/` if both databases share the statement, else in
the folder of each database under the same name. Shared statements are written for PostgreSQL.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

SHARED = "mulligan.store"

_INCLUDED = re.compile(r"\{\{([a-z_]+)\}\}")
_CAST = re.compile(r"::(?:text|bigint|json)\b")
_ROW_LOCK = re.compile(r"\s+FOR UPDATE(?: SKIP LOCKED)?\b")
_LIST = re.compile(r"= ANY \(ARRAY\(SELECT json_array_elements_text\((:[a-z_]+)\)\)\)")
_ELEMENTS = re.compile(r"\bjson_array_elements_text\((:[a-z_]+)\)")


class Statements(dict[str, str]):
    """The statements of one backend, read once. `{{name}}` includes the file of that name."""

    def __init__(self, package: str, dialect: Callable[[str], str]) -> None:
        super().__init__()
        self._folders = [files(package) / "sql", files(SHARED) / "sql"]
        self._dialect = dialect
        self._texts: dict[str, str] = {}

    def __missing__(self, name: str) -> str:
        self[name] = text = self._dialect(self._text(name))
        return text

    def filtered(self, name: str, conditions: Sequence[str], **words: str) -> str:
        """Return a statement with the `{conditions}` of a filter and other constants, such as a `{table}`."""
        text = self._text(name).format(conditions=" AND ".join(conditions), **words)
        return self._dialect(self._include(text))

    def _text(self, name: str) -> str:
        if name not in self._texts:
            file = next(file for folder in self._folders if (file := folder / f"{name}.sql").is_file())
            self._texts[name] = self._include(file.read_text("utf-8"))
        return self._texts[name]

    def _include(self, text: str) -> str:
        return _INCLUDED.sub(lambda found: self._text(found[1]).strip(), text)


def for_postgres(text: str) -> str:
    """Rewrite `:name` as `%(name)s`. Casts (`::text`) stay."""
    return re.sub(r"(?<!:):([a-z_]+)", r"%(\1)s", text.replace("%", "%%"))


def for_sqlite(text: str) -> str:
    """Remove casts and row locks: types are dynamic, and there is one writer."""
    text = _LIST.sub(r"IN (SELECT value FROM json_each(\1))", _ROW_LOCK.sub("", _CAST.sub("", text)))
    return _ELEMENTS.sub(r"value FROM json_each(\1)", text).replace("greatest(", "max(").replace("strpos(", "instr(")


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


Named = tuple[str, Mapping[str, Any]]
"""The name of a statement and its values."""

RoundTrips = Generator[Sequence[Named], list[Rows], tuple[Sequence[Named], Callable[[list[Rows]], T]]]
"""A transaction by its round trips. It yields the statements of each, and gets the rows of each statement. It returns
the statements that are sent with the commit, and a function that makes the answer from their rows."""

# Microseconds. None: the statements use the clock of the database.
Now = int | None


class Session(ABC):
    sql: Statements
    violation: type[Exception]
    """The library's exception for a row that the schema does not allow."""

    _moment: Now = None

    @property
    @abstractmethod
    def connection(self) -> Any:
        """The connection of the library, as a task's `can_retry` gets it."""

    @property
    @abstractmethod
    def now(self) -> Now: ...

    @abstractmethod
    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement. Return its rows by column name."""

    def rows(self, name: str, values: Mapping[str, Any] | None = None, /, **more: Any) -> Rows:
        """Run a named statement. Return its rows by column name. Every statement may use `:now`."""
        return self.execute(self.sql[name], {"now": self.now, **(values or {}), **more})

    def together(self, *statements: Named) -> list[Rows]:
        """Run named statements, in one round trip where there are any. Return the rows of each."""
        return [self.rows(name, values) for name, values in statements]

    def make(self, trips: RoundTrips[T]) -> T:
        """Run the round trips of a transaction."""
        try:
            statements = next(trips)
            while True:
                statements = trips.send(self.together(*statements))
        except StopIteration as end:
            read: Callable[[list[Rows]], T]
            last, read = end.value
        return read(self.together(*last))

    def filtered(self, name: str, conditions: Sequence[str], values: Mapping[str, Any], **words: str) -> Rows:
        """Run a named statement with the conditions of a filter."""
        return self.execute(self.sql.filtered(name, conditions, **words), {"now": self.now, **values})

    def play(self, steps: Steps[T]) -> T:
        """Run a script on this connection."""
        return play(steps, self._run)

    def _run(self, statement: Statement) -> Rows:
        return self.execute(*statement)

    def moment(self) -> int:
        """Return the time as a number, to compare with: the same for the whole session."""
        if self._moment is None:
            self._moment = self.now if self.now is not None else int(self.rows("now")[0]["now"])
        return self._moment

    @property
    def in_transaction(self) -> bool:
        """False if an error, or code of the user, has ended the transaction."""
        return True

    @property
    def can_commit(self) -> bool:
        """False also if a statement has failed, and nothing can follow but a rollback."""
        return self.in_transaction

    @contextmanager
    def undo(self, *errors: type[BaseException]) -> Iterator[None]:
        """Undo the block if it raises one of these errors. The transaction can continue."""
        self.execute("SAVEPOINT mulligan_steps", {})
        try:
            yield
        except errors:
            if self.in_transaction:
                self.undo_steps()
                self.execute("RELEASE mulligan_steps", {})
            raise
        self.execute("RELEASE mulligan_steps", {})

    def undo_steps(self) -> None:
        """Undo what the innermost `undo` block has done so far."""
        self.execute("ROLLBACK TO mulligan_steps", {})
