"""Credits of owners: a balance, a ledger of every change, and what each job holds in reserve.

A job reserves its cost when it is submitted and keeps it if it succeeds. When it has failed for good or is cancelled,
the cost is returned, once; a manual retry after that reserves it again. All of it happens in transactions of the jobs.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Executable,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    func,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from apps.pages.database import Database, Moment
from mulligan import InsufficientCredits

GRANT, RESERVE, RETURN = "grant", "reserve", "return"

_POSTGRES: Dialect = PGDialect_psycopg()  # type: ignore[no-untyped-call]
_SQLITE = sqlite.dialect(paramstyle="named")


class Credits:
    """`first` is what a new owner gets. `costs` has the cost of each kind of job."""

    def __init__(self, database: Database, *, first: int, costs: Mapping[str, int]) -> None:
        self.costs = costs
        self._first = first
        self.accounts = Table(
            "credit_accounts",
            database.metadata,
            Column("owner", Text, primary_key=True),
            Column("balance", Integer, CheckConstraint("balance >= 0"), nullable=False),
        )
        self.entries = Table(
            "credit_entries",
            database.metadata,
            Column("id", Integer, primary_key=True),
            Column("owner", Text, ForeignKey("credit_accounts.owner"), nullable=False),
            Column("job", Text),
            Column("kind", Text, CheckConstraint(f"kind IN ('{GRANT}', '{RESERVE}', '{RETURN}')"), nullable=False),
            Column("amount", Integer, nullable=False),
            Column("at", Moment, server_default=func.current_timestamp(), nullable=False),
            Index("credit_entries_of_owner", "owner", "id"),
        )
        self.reservations = Table(
            "credit_reservations",
            database.metadata,
            Column("job", Text, primary_key=True),
            Column("owner", Text, ForeignKey("credit_accounts.owner"), nullable=False),
            Column("amount", Integer, nullable=False),
            Column("is_held", Boolean, nullable=False),
            # Grows with each manual retry: a return that was begun before it comes too late.
            Column("generation", Integer, nullable=False),
        )

    def balance(self, connection: Connection, owner: str) -> int:
        """What the owner can spend. An owner without an account has the credits of a new one."""
        found = connection.scalar(select(self.accounts.c.balance).where(self.accounts.c.owner == owner))
        return self._first if found is None else int(found)

    def history(self, connection: Connection, owner: str, limit: int = 50) -> list[Any]:
        found = select(self.entries).where(self.entries.c.owner == owner).order_by(self.entries.c.id.desc())
        return list(connection.execute(found.limit(limit)))

    def grant(self, connection: Connection, owner: str, amount: int) -> int:
        """Give an owner credits. The new balance."""
        self._open(connection, owner)
        self._change(connection, owner, amount, GRANT)
        return self.balance(connection, owner)

    def reserve(self, connection: Connection, owner: str, job: str, amount: int) -> None:
        """For a new job, in the transaction that stores it. Raises InsufficientCredits."""
        self._open(connection, owner)
        self._change(connection, owner, -amount, RESERVE, job)
        values = {"job": job, "owner": owner, "amount": amount, "is_held": True, "generation": 0}
        connection.execute(self.reservations.insert().values(values))

    def find(self, connection: Connection, job: str) -> Any:
        return connection.execute(select(self.reservations).where(self.reservations.c.job == job)).first()

    def reserve_again(self, connection: Any, job: str) -> None:
        """For a manual retry, in its transaction, unless the job still holds its reservation. `connection` may be the
        engine's own. Raises InsufficientCredits."""
        table = self.reservations
        grow = table.update().where(table.c.job == job).values(generation=table.c.generation + 1)
        # The row is locked from here on: a return waits, and then finds another generation.
        _run(connection, grow)
        found = _run(connection, select(table.c.owner, table.c.amount, table.c.is_held).where(table.c.job == job))
        row = found.fetchone()
        if row is None or row[2]:
            return
        self._change(connection, row[0], -row[1], RESERVE, job)
        _run(connection, table.update().where(table.c.job == job).values(is_held=True))

    def give_back(self, connection: Connection, reservation: Any) -> int:
        """Return what the job holds, if no manual retry came since the reservation was read. How much it was."""
        table = self.reservations
        same = (table.c.job == reservation.job) & table.c.is_held & (table.c.generation == reservation.generation)
        if connection.execute(table.update().where(same).values(is_held=False)).rowcount != 1:
            return 0
        self._change(connection, reservation.owner, reservation.amount, RETURN, reservation.job)
        return int(reservation.amount)

    def recount(self, connection: Connection) -> dict[str, int]:
        """The balance of each owner, added up from the ledger."""
        total = func.sum(self.entries.c.amount)
        return {
            owner: int(sum_)
            for owner, sum_ in connection.execute(select(self.entries.c.owner, total).group_by(self.entries.c.owner))
        }

    def _open(self, connection: Connection, owner: str) -> None:
        """Make the account of a new owner, once."""
        insert: Any = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
        made = insert(self.accounts).values(owner=owner, balance=0).on_conflict_do_nothing()
        is_new = connection.execute(made.returning(self.accounts.c.owner)).first() is not None
        if is_new and self._first:
            self._change(connection, owner, self._first, GRANT)

    def _change(self, connection: Any, owner: str, amount: int, kind: str, job: str | None = None) -> None:
        table = self.accounts
        is_enough = (table.c.owner == owner) & (table.c.balance >= -amount)
        changed = _run(connection, table.update().where(is_enough).values(balance=table.c.balance + amount))
        if changed.rowcount != 1:
            row = _run(connection, select(table.c.balance).where(table.c.owner == owner)).fetchone()
            raise InsufficientCredits(required=-amount, available=row[0] if row else 0)
        _run(connection, self.entries.insert().values(owner=owner, job=job, kind=kind, amount=amount))


def _run(connection: Any, statement: Executable) -> Any:
    """Execute on a connection of SQLAlchemy, or on one of the driver, as the engine gives it to `can_retry`."""
    if isinstance(connection, Connection):
        return connection.execute(statement)
    is_postgres = any(kind.__module__.startswith("psycopg") for kind in type(connection).__mro__)
    compiled = statement.compile(dialect=_POSTGRES if is_postgres else _SQLITE)  # type: ignore[attr-defined]
    return connection.execute(str(compiled), compiled.params)
