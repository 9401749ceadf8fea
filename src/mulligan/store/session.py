"""A session: statements by name on one connection, in one transaction."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from mulligan.records.job import Lease
from mulligan.store.script import Rows, Statement, Steps, play
from mulligan.store.statements import Statements

T = TypeVar("T")

# Microseconds. None: the statements use the clock of the database.
Now = int | None


class Session(ABC):
    sql: Statements

    @property
    @abstractmethod
    def now(self) -> Now: ...

    @abstractmethod
    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement. Return its rows by column name."""

    @abstractmethod
    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        """Run a named statement. Return its rows as leases."""

    def rows(self, name: str, values: Mapping[str, Any] | None = None, /, **more: Any) -> Rows:
        """Run a named statement. Return its rows by column name."""
        return self.execute(self.sql[name], more if values is None else {**values, **more} if more else values)

    def play(self, steps: Steps[T]) -> T:
        """Run a script on this connection."""
        return play(steps, self._run)

    def _run(self, statement: Statement) -> Rows:
        return self.execute(*statement)

    def moment(self, now: Now) -> int:
        """Return the time as a number, to compare with."""
        return now if now is not None else int(self.rows("now", now=None)[0]["now"])

    @contextmanager
    def undo(self, *errors: type[Exception]) -> Iterator[None]:
        """Undo the block if it raises one of these errors. The transaction can continue."""
        self.execute("SAVEPOINT mulligan_steps", {})
        try:
            yield
        except errors:
            self.execute("ROLLBACK TO mulligan_steps", {})
            self.execute("RELEASE mulligan_steps", {})
            raise
        self.execute("RELEASE mulligan_steps", {})
