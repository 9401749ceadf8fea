"""The schema's version: who may work with it, and how it is brought up to date."""

from mulligan.store.postgres.connections import Connection
from mulligan.store.schema import check_version, missing
from mulligan.store.statements import migrations

MIGRATIONS = migrations("mulligan.store.postgres")
VERSION = MIGRATIONS[-1][0]
# The oldest version of the code that can still work with a schema made by this one.
OLDEST_CODE = 1

# Held to the end of the transaction, and freed by the server when its holder dies.
_LOCK = "SELECT pg_advisory_xact_lock(7216104371)"
_TABLE = """
CREATE TABLE IF NOT EXISTS mulligan_schema (
    version     integer PRIMARY KEY,
    name        text    NOT NULL,
    oldest_code integer NOT NULL
)
"""


def migrate(connection: Connection) -> list[str]:
    """Apply what is missing in one transaction; the names of what was applied."""
    with connection.transaction():
        connection.execute(_LOCK)
        found, oldest = version(connection)
        check_version(found, oldest, VERSION)
        connection.execute(_TABLE)
        for number, name, text in missing(MIGRATIONS, found):
            connection.execute(text.encode())
            connection.execute("INSERT INTO mulligan_schema VALUES (%s, %s, %s)", (number, name, OLDEST_CODE))
    return [name for _, name, _ in missing(MIGRATIONS, found)]


def version(connection: Connection) -> tuple[int, int]:
    """The version found and the oldest code that may work with it; 0, 0 for an empty database."""
    if connection.execute("SELECT to_regclass('mulligan_schema')").fetchone() == (None,):
        return 0, 0
    row = connection.execute(
        "SELECT version, oldest_code FROM mulligan_schema ORDER BY version DESC LIMIT 1"
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)
