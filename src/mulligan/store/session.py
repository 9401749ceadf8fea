"""A session: statements by name on one connection, in one transaction."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
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

    _moment: Now = None

    @property
    @abstractmethod
    def now(self) -> Now: ...

    @abstractmethod
    def execute(self, sql: str, values: Mapping[str, Any]) -> Rows:
        """Run a statement. Return its rows by column name."""

    @abstractmethod
    def leases(self, name: str, values: Mapping[str, Any]) -> list[Lease]:
        """Run a named statement. Return its rows as leases. Every statement may use `:now`."""

    def rows(self, name: str, values: Mapping[str, Any] | None = None, /, **more: Any) -> Rows:
        """Run a named statement. Return its rows by column name. Every statement may use `:now`."""
        return self.execute(self.sql[name], {"now": self.now, **(values or {}), **more})

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
