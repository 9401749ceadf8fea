"""The version of the schema: which code may use it, and its migrations."""

from collections.abc import Iterator

from mulligan.store.schema import check_version, migrations, missing
from mulligan.store.sqlite.session import sqlite3

MIGRATIONS = migrations("mulligan.store.sqlite")
VERSION = MIGRATIONS[-1][0]
# The oldest schema version that code may know to work with a schema of this one.
OLDEST_CODE = 1

_TABLE = """
CREATE TABLE IF NOT EXISTS mulligan_schema (
    version     INTEGER PRIMARY KEY,
    name        TEXT    NOT NULL,
    oldest_code INTEGER NOT NULL
) STRICT
"""


def migrate(connection: "sqlite3.Connection") -> list[str]:
    """Apply the missing migrations in the caller's transaction. Return their names."""
    found, oldest = version(connection)
    check_version(found, oldest, VERSION)
    wanted = missing(MIGRATIONS, found)
    if wanted:
        connection.execute(_TABLE)
    for number, name, text in wanted:
        for statement in _statements(text):
            connection.execute(statement)
        connection.execute("INSERT INTO mulligan_schema VALUES (?, ?, ?)", (number, name, OLDEST_CODE))
    return [name for _, name, _ in wanted]


def version(connection: "sqlite3.Connection") -> tuple[int, int]:
    """Return the version found and the oldest code that may use it; 0, 0 for an empty database."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'mulligan_schema'").fetchone():
        return 0, 0
    row = connection.execute(
        "SELECT version, oldest_code FROM mulligan_schema ORDER BY version DESC LIMIT 1"
    ).fetchone()
    return row or (0, 0)


def _statements(text: str) -> Iterator[str]:
    statement = ""
    for line in text.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
