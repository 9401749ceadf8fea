"""The schema's version: who may work with it, and how it is brought up to date."""

from collections.abc import Iterator

from mulligan.errors import SchemaMismatch
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.statements import migrations

MIGRATIONS = migrations("mulligan.store.sqlite")
VERSION = MIGRATIONS[-1][0]
# The oldest version of the code that can still work with a schema made by this one.
OLDEST_CODE = 1

_TABLE = """
CREATE TABLE IF NOT EXISTS mulligan_schema (
    version     INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,
    oldest_code INTEGER NOT NULL
) STRICT
"""


def migrate(connection: "sqlite3.Connection") -> list[str]:
    """Apply what is missing, inside the caller's transaction; the names of what was applied."""
    found = version(connection)
    check(connection)
    if found == VERSION:
        return []
    connection.execute(_TABLE)
    applied = []
    for number, name, text in MIGRATIONS:
        if number > found:
            for statement in _statements(text):
                connection.execute(statement)
            connection.execute("INSERT INTO mulligan_schema VALUES (?, ?, ?)", (number, name, OLDEST_CODE))
            applied.append(name)
    return applied


def version(connection: "sqlite3.Connection") -> int:
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mulligan_schema'").fetchone():
        return 0
    return int(connection.execute("SELECT coalesce(max(version), 0) FROM mulligan_schema").fetchone()[0])


def check(connection: "sqlite3.Connection") -> None:
    found = version(connection)
    if found <= VERSION:
        return
    (oldest,) = connection.execute("SELECT oldest_code FROM mulligan_schema ORDER BY version DESC LIMIT 1").fetchone()
    if oldest > VERSION:
        raise SchemaMismatch(
            f"the database was made by a newer mulligan (schema {found}); this one knows schemas up to {VERSION}: "
            "upgrade mulligan, nothing was changed"
        )


def _statements(text: str) -> Iterator[str]:
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
