"""The schema's version: who may work with it, and how it is brought up to date."""

from mulligan.errors import SchemaMismatch
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
        continued = ["positions_of_the_log"] if _continue_log(connection) else []
    return [*(name for _, name, _ in missing(MIGRATIONS, found)), *continued]


def check(connection: Connection) -> None:
    """Refuse a schema that this code cannot work with."""
    found, oldest = version(connection)
    check_version(found, oldest, VERSION)
    if not found:
        raise SchemaMismatch("the database has no tables of mulligan yet: run 'mulligan migrate'")
    if found < VERSION:
        raise SchemaMismatch(f"the database has schema {found}, this mulligan needs {VERSION}: run 'mulligan migrate'")


_LAST = """
SELECT xid::text::bigint, pg_current_xact_id()::text::bigint
FROM mulligan_events
ORDER BY xid DESC
LIMIT 1
"""
# The last event keeps its position, the others come closer to it: whoever reads on from a cursor may see some again,
# and misses none. A new cluster has fewer transaction ids than there were transactions: some share one from now on.
_CONTINUE = """
UPDATE mulligan_events AS event
SET xid = (%(now)s - 1 - (numbers.all_of_them - ranked.number) * least(numbers.all_of_them, %(now)s - 3)
    / numbers.all_of_them)::text::xid8
FROM (SELECT xid, row_number() OVER (ORDER BY xid) AS number FROM mulligan_events GROUP BY xid) AS ranked,
    (SELECT count(DISTINCT xid) AS all_of_them FROM mulligan_events) AS numbers
WHERE event.xid = ranked.xid
"""


def _continue_log(connection: Connection) -> bool:
    """After a restore into another cluster transaction ids begin anew, below those of the log; whether it was so."""
    row = connection.execute(_LAST).fetchone()
    if row is None or row[0] < row[1]:
        return False
    last, now = row
    connection.execute("LOCK TABLE mulligan_events IN EXCLUSIVE MODE")
    connection.execute(_CONTINUE, {"now": now})
    connection.execute("UPDATE mulligan_log SET base = base + %s", (last - (now - 1),))
    return True


def version(connection: Connection) -> tuple[int, int]:
    """The version found and the oldest code that may work with it; 0, 0 for an empty database."""
    if connection.execute("SELECT to_regclass('mulligan_schema')").fetchone() == (None,):
        return 0, 0
    row = connection.execute(
        "SELECT version, oldest_code FROM mulligan_schema ORDER BY version DESC LIMIT 1"
    ).fetchone()
    return (row[0], row[1]) if row else (0, 0)
