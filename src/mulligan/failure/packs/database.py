"""Errors of databases: PostgreSQL by SQLSTATE with any driver, SQLite by the name of its result code.

Errors wrapped by SQLAlchemy and others match too. The libraries are not imported.
"""

from mulligan.failure.rule import Rule

_SQLITE_ERROR = r"no such (table|column|index|function|view|trigger)|syntax error|has no column|unrecognized token"

RULES: tuple[Rule, ...] = (
    Rule("DISK_FULL", "retryable", sqlstate=("53100", "SQLITE_FULL"), name="database.disk_full"),
    Rule("OUT_OF_MEMORY", "retryable", sqlstate=("53200", "SQLITE_NOMEM"), name="database.memory"),
    # Serialization failures and deadlocks: the database rolled back so that the transaction can be repeated.
    Rule("DATABASE_BUSY", "retryable", sqlstate="40", name="database.conflict"),
    Rule(
        "DATABASE_BUSY",
        "retryable",
        sqlstate=("55P03", "55006", "SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL", "SQLITE_SCHEMA"),
        name="database.locked",
    ),
    Rule("DATABASE_BUSY", "retryable", cause="sqlalchemy.exc.TimeoutError", name="database.pool"),
    # The statement timed out, or it was cancelled.
    Rule("TIMEOUT", "retryable", sqlstate=("57014", "SQLITE_INTERRUPT"), name="database.timeout"),
    Rule("CONSTRAINT_VIOLATED", "final", sqlstate=("23", "SQLITE_CONSTRAINT"), name="database.constraint"),
    Rule("NOT_PERMITTED", "final", sqlstate=("42501", "SQLITE_PERM", "SQLITE_AUTH"), name="database.permission"),
    # A pooling proxy gave us another session, without our prepared statements.
    Rule("DATABASE_BUSY", "retryable", sqlstate=("26000", "42P05"), name="database.session"),
    Rule(
        "QUERY_INVALID",
        "final",
        sqlstate=("22", "42", "SQLITE_TOOBIG", "SQLITE_MISMATCH", "SQLITE_RANGE"),
        name="database.query",
    ),
    Rule("QUERY_INVALID", "final", sqlstate="SQLITE_ERROR", message=_SQLITE_ERROR, name="database.sqlite_query"),
    Rule(
        "DATABASE_DAMAGED",
        "final",
        sqlstate=("XX001", "XX002", "SQLITE_CORRUPT", "SQLITE_NOTADB"),
        name="database.damaged",
    ),
    # A disk that is read-only or missing comes back.
    Rule(
        "IO_ERROR",
        "retryable",
        sqlstate=("58", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY"),
        name="database.io",
    ),
    # A refused login too: passwords change while workers run, and libpq gives no SQLSTATE if connecting fails. A
    # read-only server is a standby before it takes over.
    Rule(
        "DATABASE_UNAVAILABLE",
        "retryable",
        sqlstate=("08", "25006", "25P03", "28", "3D", "53", "57P"),
        name="database.unavailable",
    ),
    Rule(
        "DATABASE_UNAVAILABLE",
        "retryable",
        cause=("psycopg.OperationalError", "psycopg2.OperationalError"),
        name="database.connection",
    ),
)
