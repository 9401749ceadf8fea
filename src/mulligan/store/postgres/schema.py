"""The version of the schema: which code may use it, and its migrations."""

from mulligan.errors import SchemaMismatch
from mulligan.store.postgres.connections import Connection
from mulligan.store.schema import check_version, migrations, missing

MIGRATIONS = migrations("mulligan.store.postgres")
VERSION = MIGRATIONS[-1][0]
# The oldest schema version that code may know to work with a schema of this one.
OLDEST_CODE = 1

# Held until the transaction ends; the server releases it if the process dies.
_LOCK = "SELECT pg_advisory_xact_lock(7216104371)"
_TABLE = """
CREATE TABLE IF NOT EXISTS mulligan_schema (
    version     integer PRIMARY KEY,
    name        text    NOT NULL,
    oldest_code integer NOT NULL
)
"""


def migrate(connection: Connection) -> list[str]:
    """Apply the missing migrations in one transaction. Return their names."""
    with connection.transaction():
        connection.execute(_LOCK)
        found, oldest = version(connection)
        check_version(found, oldest, VERSION)
        connection.execute(_TABLE)
        for number, name, text in missing(MIGRATIONS, found):
            connection.execute(text.encode())
            connection.execute("INSERT INTO mulligan_schema VALUES (%s, %s, %s)", (number, name, OLDEST_CODE))
        continued = ["positions_of_the_log"] if _continue_log(connection) else []
    return [*(name for _, name, _ in missing(MIGRATIONS, found)), *continued]


def check(connection: Connection) -> None:
    """Raise SchemaMismatch for a schema that this code cannot use."""
    found, oldest = version(connection)
    check_version(found, oldest, VERSION)
    if not found:
        raise SchemaMismatch("the database has no mulligan tables yet: run 'mulligan migrate'")
    if found < VERSION:
        raise SchemaMismatch(f"the database has schema {found}, this mulligan needs {VERSION}: run 'mulligan migrate'")


_LAST = """
SELECT xid::text::bigint, pg_current_xact_id()::text::bigint
FROM mulligan_events
ORDER BY xid DESC
LIMIT 1
"""
# The last event keeps its position, the others move closer to it: a reader that continues from a cursor may see some
# events again, but misses none. A new cluster has fewer transaction ids than there were transactions, so some events
# share one.
_CONTINUE = """
UPDATE mulligan_events AS event
SET xid = (%(now)s - 1 - (numbers.all_of_them - ranked.number) * least(numbers.all_of_them, %(now)s - 3)
    / numbers.all_of_them)::text::xid8
FROM (SELECT xid, row_number() OVER (ORDER BY xid) AS number FROM mulligan_events GROUP BY xid) AS ranked,
    (SELECT count(DISTINCT xid) AS all_of_them FROM mulligan_events) AS numbers
WHERE event.xid = ranked.xid
"""


def _continue_log(connection: Connection) -> bool:
    """Continue the positions after a restore into another cluster, whose transaction ids are below those of the log.
    Return whether that was necessary."""
    row = connection.execute(_LAST).fetchone()
    if row is None or row[0] < row[1]:
        return False
    last, now = row
    connection.execute("LOCK TABLE mulligan_events IN EXCLUSIVE MODE")
    connection.execute(_CONTINUE, {"now": now})
    connection.execute("UPDATE mulligan_jobs SET cancel_xid = NULL WHERE cancel_xid IS NOT NULL")
    connection.execute("UPDATE mulligan_log SET base = base + %s", (last - (now - 1),))
    return True


def version(connection: Connection) -> tuple[int, int]:
    """Return the version found and the oldest code that may use it; 0, 0 for an empty database."""
    if connection.execute("SELECT to_regclass('mulligan_schema')").fetchone() == (None,):
        return 0, 0
    row = connection.execute(
        "SELECT version, oldest_code FROM mulligan_schema ORDER BY version DESC LIMIT 1"
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)
