"""Each rule for databases is asked about errors that PostgreSQL and SQLite really gave."""

import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy
from postgres_server import PostgresServer, postgres_server

from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS, database
from mulligan.failure.verdict import Failure, Verdict

CONNECTIONS = 8
PATIENCE = 20.0
TABLES = """
    CREATE TABLE parent (id integer PRIMARY KEY, total integer NOT NULL DEFAULT 0 CHECK (total >= 0));
    CREATE TABLE child (parent integer REFERENCES parent);
    INSERT INTO parent (id) VALUES (1), (2);
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    few = {"max_connections": str(CONNECTIONS), "superuser_reserved_connections": "0", "max_wal_senders": "0"}
    with postgres_server(fsync="off", deadlock_timeout="10ms", **few) as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute(f"{TABLES} CREATE ROLE nobody_special; CREATE SEQUENCE hidden".encode())
        yield server


def judged(cause: Callable[[], object]) -> Verdict:
    """The verdict, which must be the same where the exception itself is gone."""
    try:
        cause()
    except Exception as error:
        failure = Failure.of(error)
    else:
        pytest.fail("it did not fail")
    verdict = classify(failure, kind="any", rules=PACKS)
    assert classify(replace(failure, exception=None), kind="any", rules=PACKS) == verdict
    assert not verdict.notes
    return verdict


def said_by_the_server(condition: str) -> str:
    """What would take a broken disk: the server says it on demand."""
    return f"DO $$ BEGIN RAISE EXCEPTION 'on demand' USING ERRCODE = '{condition}'; END $$"


STATEMENTS = [
    ("INSERT INTO parent (id) VALUES (1)", "CONSTRAINT_VIOLATED", "final", "database.constraint"),
    ("INSERT INTO parent (id, total) VALUES (7, -1)", "CONSTRAINT_VIOLATED", "final", "database.constraint"),
    ("INSERT INTO parent (id, total) VALUES (7, NULL)", "CONSTRAINT_VIOLATED", "final", "database.constraint"),
    ("INSERT INTO child VALUES (99)", "CONSTRAINT_VIOLATED", "final", "database.constraint"),
    ("SELEC 1", "QUERY_INVALID", "final", "database.query"),
    ("SELECT * FROM no_such_table", "QUERY_INVALID", "final", "database.query"),
    ("SELECT no_such_column FROM parent", "QUERY_INVALID", "final", "database.query"),
    ("SELECT 1 / 0", "QUERY_INVALID", "final", "database.query"),
    ("SELECT CAST('abc' AS integer)", "QUERY_INVALID", "final", "database.query"),
    ("SET ROLE nobody_special; SELECT * FROM hidden", "NOT_PERMITTED", "final", "database.permission"),
    ("SET statement_timeout = 20; SELECT pg_sleep(60)", "TIMEOUT", "retryable", "database.timeout"),
    ("DROP DATABASE postgres", "DATABASE_BUSY", "retryable", "database.locked"),
    ("PREPARE twice AS SELECT 1; PREPARE twice AS SELECT 1", "DATABASE_BUSY", "retryable", "database.session"),
    ("EXECUTE of_another_session", "DATABASE_BUSY", "retryable", "database.session"),
    ("SET TRANSACTION READ ONLY; DELETE FROM child", "DATABASE_UNAVAILABLE", "retryable", "database.unavailable"),
    ("SELECT pg_terminate_backend(pg_backend_pid())", "DATABASE_UNAVAILABLE", "retryable", "database.unavailable"),
    (said_by_the_server("disk_full"), "DISK_FULL", "retryable", "database.disk_full"),
    (said_by_the_server("out_of_memory"), "OUT_OF_MEMORY", "retryable", "database.memory"),
    (said_by_the_server("io_error"), "IO_ERROR", "retryable", "database.io"),
    (said_by_the_server("data_corrupted"), "DATABASE_DAMAGED", "final", "database.damaged"),
    (said_by_the_server("cannot_connect_now"), "DATABASE_UNAVAILABLE", "retryable", "database.unavailable"),
]


def with_psycopg(url: str, statement: str) -> None:
    with closing(psycopg.connect(url, autocommit=statement.startswith("DROP"))) as connection:
        connection.execute(statement.encode())


def with_sqlalchemy(url: str, statement: str) -> None:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    level = "AUTOCOMMIT" if statement.startswith("DROP") else "READ COMMITTED"
    try:
        with engine.execution_options(isolation_level=level).connect() as connection:
            connection.execute(sqlalchemy.text(statement.replace(":", "\\:")))
    finally:
        engine.dispose()


@pytest.mark.parametrize("client", [with_psycopg, with_sqlalchemy])
@pytest.mark.parametrize(("statement", "code", "error_class", "rule"), STATEMENTS, ids=[row[0] for row in STATEMENTS])
def test_what_postgresql_says_of_a_statement(
    server: Any, client: Any, statement: str, code: str, error_class: str, rule: str
) -> None:
    verdict = judged(lambda: client(server.url(), statement))
    assert (verdict.code, verdict.error_class, verdict.rule) == (code, error_class, rule)


@pytest.fixture
def two(server: PostgresServer) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    with closing(psycopg.connect(server.url())) as one, closing(psycopg.connect(server.url())) as other:
        yield one, other


def add(connection: psycopg.Connection, parent: int) -> None:
    connection.execute("UPDATE parent SET total = total + 1 WHERE id = %s", (parent,))


def test_a_transaction_that_cannot_be_put_in_order_is_tried_again(two: Any) -> None:
    one, other = two
    one.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    one.execute("SELECT * FROM parent")
    add(other, 1)
    other.commit()
    verdict = judged(lambda: add(one, 1))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("DATABASE_BUSY", "retryable", "database.conflict")


def test_a_deadlock_is_tried_again(two: Any) -> None:
    met: list[Exception] = []

    def cross(connection: psycopg.Connection, parent: int) -> None:
        try:
            add(connection, parent)
        except psycopg.Error as error:
            met.append(error)
        connection.rollback()

    for connection, parent in zip(two, (1, 2), strict=True):
        add(connection, parent)
    threads = [threading.Thread(target=cross, args=args) for args in zip(two, (2, 1), strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    verdict = classify(Failure.of(met[0]), kind="any", rules=PACKS)
    assert (verdict.code, verdict.error_class, verdict.rule) == ("DATABASE_BUSY", "retryable", "database.conflict")


@pytest.mark.parametrize("statement", ["SET lock_timeout = 10; LOCK TABLE child", "LOCK TABLE child NOWAIT"])
def test_a_lock_that_is_not_had_in_time_is_tried_again(two: Any, statement: str) -> None:
    one, other = two
    one.execute("LOCK TABLE child")
    verdict = judged(lambda: other.execute(statement))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("DATABASE_BUSY", "retryable", "database.locked")


UNREACHABLE = ("DATABASE_UNAVAILABLE", "retryable", "database.connection")


def test_a_connection_that_was_lost_is_tried_again(two: Any) -> None:
    one, _ = two
    with socket.fromfd(one.fileno(), socket.AF_INET, socket.SOCK_STREAM) as line:
        line.shutdown(socket.SHUT_RDWR)
    verdict = judged(lambda: one.execute("SELECT 1"))
    assert (verdict.code, verdict.error_class, verdict.rule) == UNREACHABLE
    again = judged(lambda: one.execute("SELECT 1"))
    assert (again.code, again.error_class, again.rule) == UNREACHABLE


@pytest.mark.parametrize("client", [with_psycopg, with_sqlalchemy])
def test_a_server_that_takes_no_more_connections_is_tried_again(server: Any, client: Any) -> None:
    opened: list[psycopg.Connection] = []
    try:
        with suppress(psycopg.OperationalError):
            while len(opened) <= CONNECTIONS:
                opened.append(psycopg.connect(server.url()))
        verdict = judged(lambda: client(server.url(), "SELECT 1"))
    finally:
        for connection in opened:
            connection.close()
    assert (verdict.code, verdict.error_class, verdict.rule) == UNREACHABLE


@pytest.mark.parametrize("client", [with_psycopg, with_sqlalchemy])
def test_a_login_that_is_refused_is_tried_again_for_passwords_change(server: Any, client: Any) -> None:
    verdict = judged(lambda: client(server.url(user="stranger"), "SELECT 1"))
    assert (verdict.code, verdict.error_class, verdict.rule) == UNREACHABLE


@pytest.mark.parametrize("client", [with_psycopg, with_sqlalchemy])
def test_a_server_that_is_not_there_is_tried_again(client: Any) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"postgresql://postgres@127.0.0.1:{unused.getsockname()[1]}/postgres"
        verdict = judged(lambda: client(url, "SELECT 1"))
    assert (verdict.code, verdict.error_class, verdict.rule) == UNREACHABLE


def test_a_server_that_shuts_down_under_us_is_tried_again() -> None:
    with postgres_server(fsync="off") as short_lived, closing(psycopg.connect(short_lived.url())) as connection:
        short_lived.stop()
        verdict = judged(lambda: connection.execute("SELECT 1"))
    # Whether its last words are still read is a race.
    assert (verdict.code, verdict.error_class) == ("DATABASE_UNAVAILABLE", "retryable")


# SQLite


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "some.db")) as connection:
        connection.executescript(TABLES)
    return tmp_path / "some.db"


def run(file: Path | str, *statements: str, prepare: Callable[[sqlite3.Connection], object] = bool) -> None:
    with closing(sqlite3.connect(file, timeout=0, isolation_level=None, uri=True)) as connection:
        prepare(connection)
        for statement in statements:
            connection.execute(statement)


def constrained(file: Path) -> None:
    run(file, "INSERT INTO parent (id) VALUES (1)")


def unrelated(file: Path) -> None:
    run(file, "PRAGMA foreign_keys = ON", "INSERT INTO child VALUES (99)")


def busy(file: Path) -> None:
    def second(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN IMMEDIATE")
        run(file, "BEGIN IMMEDIATE")

    run(file, prepare=second)


def snapshot(file: Path) -> None:
    def overtaken(connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        connection.execute("SELECT * FROM parent").fetchall()
        run(file, "DELETE FROM child")

    run(file, "PRAGMA journal_mode = WAL")
    run(file, "DELETE FROM child", prepare=overtaken)


def locked(file: Path) -> None:
    def reading(connection: sqlite3.Connection) -> None:
        cursors.append(connection.execute("SELECT * FROM parent"))
        next(cursors[0])

    cursors: list[sqlite3.Cursor] = []
    run(file, "DROP TABLE parent", prepare=reading)


def full(file: Path) -> None:
    run(file, "PRAGMA max_page_count = 1", "CREATE TABLE more (a)", "INSERT INTO more VALUES (zeroblob(1000000))")


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[100:] = b"\xff" * (len(content) - 100)
    file.write_bytes(content)
    run(file, "SELECT * FROM parent")


def no_database(file: Path) -> None:
    file.write_bytes(b"this is a letter, not a database" * 100)
    run(file, "SELECT * FROM parent")


def not_there(file: Path) -> None:
    run(file.parent / "missing" / "some.db", "SELECT 1")


def read_only(file: Path) -> None:
    run(f"file:{file}?mode=ro", "DELETE FROM parent")


def interrupted(file: Path) -> None:
    run(file, "SELECT * FROM parent", prepare=lambda connection: connection.set_progress_handler(lambda: 1, 1))


def forbidden(file: Path) -> None:
    def deny(*_: object) -> int:
        return sqlite3.SQLITE_DENY

    run(file, "SELECT * FROM parent", prepare=lambda connection: connection.set_authorizer(deny))


def misspelt(file: Path) -> None:
    run(file, "SELEC 1")


def unknown_table(file: Path) -> None:
    run(file, "SELECT * FROM no_such_table")


def unknown_column(file: Path) -> None:
    run(file, "SELECT no_such_column FROM parent")


def mismatched(file: Path) -> None:
    run(file, "INSERT INTO parent (id) VALUES ('abc')")


def too_big(file: Path) -> None:
    def limit(connection: sqlite3.Connection) -> None:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1_000)

    run(file, "SELECT zeroblob(1000000)", prepare=limit)


ON_SQLITE = [
    (constrained, "CONSTRAINT_VIOLATED", "final", "database.constraint"),
    (unrelated, "CONSTRAINT_VIOLATED", "final", "database.constraint"),
    (busy, "DATABASE_BUSY", "retryable", "database.locked"),
    (snapshot, "DATABASE_BUSY", "retryable", "database.locked"),
    (locked, "DATABASE_BUSY", "retryable", "database.locked"),
    (full, "DISK_FULL", "retryable", "database.disk_full"),
    (damaged, "DATABASE_DAMAGED", "final", "database.damaged"),
    (no_database, "DATABASE_DAMAGED", "final", "database.damaged"),
    (not_there, "IO_ERROR", "retryable", "database.io"),
    (read_only, "IO_ERROR", "retryable", "database.io"),
    (interrupted, "TIMEOUT", "retryable", "database.timeout"),
    (forbidden, "NOT_PERMITTED", "final", "database.permission"),
    (misspelt, "QUERY_INVALID", "final", "database.sqlite_query"),
    (unknown_table, "QUERY_INVALID", "final", "database.sqlite_query"),
    (unknown_column, "QUERY_INVALID", "final", "database.sqlite_query"),
    (mismatched, "QUERY_INVALID", "final", "database.query"),
    (too_big, "QUERY_INVALID", "final", "database.query"),
]


@pytest.mark.parametrize(
    ("cause", "code", "error_class", "rule"), ON_SQLITE, ids=[cause.__name__ for cause, *_ in ON_SQLITE]
)
def test_what_sqlite_says(file: str, cause: Any, code: str, error_class: str, rule: str) -> None:
    verdict = judged(lambda: cause(file))
    assert (verdict.code, verdict.error_class, verdict.rule) == (code, error_class, rule)


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("INSERT INTO parent (id) VALUES (1)", "database.constraint"),
        ("SELECT * FROM no_such_table", "database.sqlite_query"),
        ("BEGIN IMMEDIATE", "database.locked"),
    ],
)
def test_what_sqlite_says_through_sqlalchemy(file: str, statement: str, rule: str) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{file}", connect_args={"timeout": 0, "isolation_level": None})

    def ask() -> None:
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)

    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        if rule == "database.locked":
            holder.execute("BEGIN IMMEDIATE")
        assert judged(ask).rule == rule
    engine.dispose()


def test_a_pool_that_is_used_up_is_tried_again(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(
        f"sqlite:///{tmp_path}/some.db",
        poolclass=sqlalchemy.QueuePool,
        pool_size=1,
        max_overflow=0,
        pool_timeout=0.01,
    )
    with engine.connect():
        verdict = judged(engine.connect)
    engine.dispose()
    assert (verdict.code, verdict.error_class, verdict.rule) == ("DATABASE_BUSY", "retryable", "database.pool")


def test_every_rule_for_databases_is_shown_here() -> None:
    shown = {rule for *_, rule in STATEMENTS} | {rule for *_, rule in ON_SQLITE} | {UNREACHABLE[-1]}
    assert shown | {"database.conflict", "database.pool"} == {rule.name for rule in database.RULES}
