"""What the doctor finds about a PostgreSQL server: each provoked on a real one."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import psycopg
import pytest
from pgbouncer import pgbouncer, proxy
from postgres_server import PostgresServer, binaries, postgres_server

from live import eventually
from mulligan import App
from mulligan.records.finding import Check, Finding, Level, Limits
from mulligan.records.job import NewJob
from mulligan.store.messages import Claim
from mulligan.store.postgres import PostgresStore

AT_ONCE = Limits(snapshot=timedelta(0), lag=timedelta(0), log=1)


@pytest.fixture(scope="module")
def healthy() -> Iterator[PostgresServer]:
    """A server as it should be, unlike the one of the other tests."""
    with postgres_server(
        autovacuum="on", autovacuum_naptime="1d", max_prepared_transactions="5", wal_level="logical"
    ) as server:
        yield server


@pytest.fixture
def url(healthy: PostgresServer) -> str:
    url = healthy.fresh_database("doctor")
    with closing(PostgresStore(url)) as store:
        store.migrate()
    return url


def found(url: str, code: Check, limits: Limits | None = None) -> Finding:
    with closing(PostgresStore(url)) as store:
        (finding,) = [finding for finding in store.examine(limits or Limits()) if finding.code is code]
    assert bool(finding.remedy) == (finding.level is not Level.OK)
    return finding


def job(name: str = "a") -> list[NewJob]:
    return [NewJob(id=name, kind="k", arguments="{}")]


def test_a_server_as_it_should_be_has_nothing_wrong_and_every_check_is_made(url: str) -> None:
    with App(url) as app:
        findings = app.doctor()
    wrong = {finding.code for finding in findings if finding.level is not Level.OK}
    assert wrong == {Check.WORKERS_ALIVE}
    codes = [finding.code for finding in findings]
    sqlite_only = {code for code in Check if code.startswith("sqlite.")} | {Check.DISK}
    assert sorted(codes) == sorted(set(Check) - sqlite_only)


def test_a_database_without_tables_wants_to_be_migrated(healthy: PostgresServer) -> None:
    with App(healthy.fresh_database("empty")) as app:
        reached, schema = app.doctor()
        assert (reached.level, schema.code, schema.level) == (Level.OK, Check.SCHEMA, Level.PROBLEM)
        assert "mulligan migrate" in schema.remedy
        app.migrate()
        assert len(app.doctor()) > 2


def test_a_server_that_is_down_is_reported() -> None:
    with App("postgresql://nobody@127.0.0.1:1/none") as app:
        (finding,) = app.doctor()
    assert (finding.code, finding.level) == (Check.REACHABLE, Level.PROBLEM)


def test_a_database_that_cannot_be_written_is_a_problem(healthy: PostgresServer, url: str) -> None:
    with psycopg.connect(healthy.url(), autocommit=True) as admin:
        admin.execute("ALTER DATABASE doctor SET default_transaction_read_only = on")
    assert found(url, Check.POSTGRES_SERVER).level is Level.PROBLEM


def test_commits_that_a_crash_can_undo_are_a_problem(server: PostgresServer, healthy: PostgresServer, url: str) -> None:
    assert found(url, Check.POSTGRES_DURABILITY).level is Level.OK
    with psycopg.connect(healthy.url(), autocommit=True) as admin:
        admin.execute("ALTER DATABASE doctor SET synchronous_commit = off")
    assert "synchronous_commit = off" in found(url, Check.POSTGRES_DURABILITY).found
    unsafe = server.fresh_database("unsafe")
    with closing(PostgresStore(unsafe)) as store:
        store.migrate()
    finding = found(unsafe, Check.POSTGRES_DURABILITY)
    assert (finding.level, "fsync = off, full_page_writes = off" in finding.found) == (Level.PROBLEM, True)
    assert found(unsafe, Check.POSTGRES_AUTOVACUUM).level is Level.WARNING


def test_a_held_snapshot_is_reported_with_its_holder(url: str) -> None:
    assert found(url, Check.POSTGRES_SNAPSHOTS).level is Level.OK
    with psycopg.connect(url, application_name="report") as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute("SELECT 1 FROM mulligan_jobs")
        finding = found(url, Check.POSTGRES_SNAPSHOTS, AT_ONCE)
        assert finding.level is Level.WARNING
        assert f"session {holder.info.backend_pid} (report, idle in transaction)" in finding.found
        assert f"pg_terminate_backend({holder.info.backend_pid})" in finding.remedy
        assert found(url, Check.POSTGRES_SNAPSHOTS).level is Level.OK, "it is young"
        assert found(url, Check.LOG_LAG, AT_ONCE).level is Level.OK, "who only reads does not hold up the stream"
        holder.rollback()
    assert found(url, Check.POSTGRES_SNAPSHOTS, AT_ONCE).level is Level.OK


def test_a_transaction_that_writes_holds_up_the_stream_and_is_named(url: str) -> None:
    with closing(PostgresStore(url)) as store, psycopg.connect(url, application_name="import") as holder:
        holder.execute("SELECT pg_current_xact_id()")
        store.enqueue(job())
        assert store.events() == []
        finding = found(url, Check.LOG_LAG, AT_ONCE)
        assert (finding.level, "1 events" in finding.found) == (Level.WARNING, True)
        assert f"session {holder.info.backend_pid} (import, idle in transaction)" in finding.found
        holder.rollback()
        assert found(url, Check.LOG_LAG, AT_ONCE).level is Level.OK
        assert len(store.events()) == 1


def test_a_prepared_transaction_that_was_forgotten_is_named(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as holder, closing(PostgresStore(url)) as store:
        holder.execute("BEGIN")
        holder.execute("CREATE TABLE theirs (a integer)")
        holder.execute("PREPARE TRANSACTION 'forgotten'")
        try:
            store.enqueue(job())
            told = [found(url, code, AT_ONCE) for code in (Check.POSTGRES_SNAPSHOTS, Check.LOG_LAG)]
        finally:
            holder.execute("ROLLBACK PREPARED 'forgotten'")
        for finding in told:
            assert (finding.level, "prepared transaction 'forgotten'" in finding.found) == (Level.WARNING, True)
            assert "ROLLBACK PREPARED 'forgotten'" in finding.remedy
        assert found(url, Check.LOG_LAG, AT_ONCE).level is Level.OK


def test_a_replication_slot_without_a_reader_is_named(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')")
        try:
            finding = found(url, Check.POSTGRES_SNAPSHOTS)
        finally:
            admin.execute("SELECT pg_drop_replication_slot('forgotten')")
    assert (finding.level, "replication slot 'forgotten' (not read" in finding.found) == (Level.WARNING, True)
    assert found(url, Check.POSTGRES_SNAPSHOTS).level is Level.OK


def test_dead_rows_that_are_not_removed_are_reported(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ALTER TABLE mulligan_workers SET (autovacuum_enabled = off)")
        admin.execute(
            "INSERT INTO mulligan_workers "
            "SELECT 'w' || n, 'h', 1, NULL, '[]', 1, 1, 1 FROM generate_series(1, 100001) n"
        )
        admin.execute("DELETE FROM mulligan_workers")
    # What that session counted is reported when it ends, on older servers a moment later.
    eventually(lambda: found(url, Check.POSTGRES_AUTOVACUUM).level is Level.WARNING)
    assert "mulligan_workers has 100,001 dead rows" in found(url, Check.POSTGRES_AUTOVACUUM).found


def test_a_long_log_is_reported(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        store.enqueue([*job("a"), *job("b"), *job("c")])
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute("ANALYZE mulligan_events")
    assert found(url, Check.LOG_SIZE).level is Level.OK
    finding = found(url, Check.LOG_SIZE, AT_ONCE)
    assert (finding.level, finding.found.startswith("about 3 events in ")) == (Level.WARNING, True)


def test_notify_that_is_off_or_arrives_is_well(url: str) -> None:
    assert found(url, Check.POSTGRES_NOTIFY).found == "NOTIFY arrives"
    assert found(url + "?notify=off", Check.POSTGRES_NOTIFY).level is Level.OK
    assert found(url, Check.POSTGRES_PROXY).found == "there is no proxy"


def test_a_proxy_that_pools_transactions_is_found_unless_the_url_declares_it(healthy: PostgresServer, url: str) -> None:
    if pgbouncer() is None:
        pytest.skip("pgbouncer is not installed: 'apt-get install pgbouncer'")
    with proxy(healthy) as port:
        through = url.replace(str(healthy.port), str(port))
        finding = found(through, Check.POSTGRES_PROXY)
        assert (finding.level, finding.remedy) == (Level.PROBLEM, "add '?proxy=transaction' to the URL")
        assert found(through, Check.POSTGRES_NOTIFY).level is Level.WARNING
        with App(through) as app:
            reached, finding = app.doctor()
        assert (reached.level, finding.code, finding.level) == (Level.OK, Check.POSTGRES_PROXY, Level.PROBLEM)
        assert finding.remedy == "add '?proxy=transaction' to the URL"
        told = found(through + "?proxy=transaction", Check.POSTGRES_PROXY)
        assert (told.level, told.found) == (Level.OK, "there is a proxy, and the URL declares it")


# As pg_restore leaves it in a new cluster: the log's transactions are far ahead of those of the server.
RESTORED = "UPDATE mulligan_events SET xid = (xid::text::bigint + 50000000)::text::xid8"


def test_a_log_restored_from_another_cluster_is_a_problem_that_migrate_mends(url: str) -> None:
    with closing(PostgresStore(url)) as store:
        for name in "abcdefgh":
            store.enqueue(job(name))
        with psycopg.connect(url, autocommit=True) as admin:
            admin.execute(RESTORED)
            places = dict(admin.execute("SELECT job, xid::text::bigint FROM mulligan_events").fetchall())
        assert found(url, Check.LOG_BASE).level is Level.PROBLEM
        assert store.migrate() == ["positions_of_the_log"]
        assert (found(url, Check.LOG_BASE).level, store.migrate()) == (Level.OK, [])
        store.enqueue(job("new"))
        events = store.events()
        assert [event.job for event in events] == [*"abcdefgh", "new"]
        # A reader that had read up to a position misses nothing after it; one that had read all sees only what is new.
        for cursor in "abcdefgh":
            read_on = [event.job for event in store.events(after=places[cursor])]
            assert set(read_on) >= {name for name in [*"abcdefgh", "new"] if name > cursor}
        assert [event.job for event in store.events(after=places["h"])] == ["new"]


def test_a_log_with_more_transactions_than_the_new_cluster_had_keeps_its_order(url: str) -> None:
    with closing(PostgresStore(url)) as store, psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "INSERT INTO mulligan_events (xid, type, job, kind, owner, attempt, at) "
            "SELECT (9000000 + n * 3)::text::xid8, 'job.enqueued', to_char(n, 'FM000000'), 'k', '', 0, n "
            "FROM generate_series(1, 20000) n"
        )
        assert store.migrate() == ["positions_of_the_log"]
        found_all = store.events(limit=20_000)
        assert [event.job for event in found_all] == [f"{n:06}" for n in range(1, 20_001)]
        assert found_all[-1].position == 9_060_000
        assert all(event.position >= 9_000_000 + 3 * n for n, event in enumerate(found_all, start=1))
        assert 0 < len(store.events(limit=50)) < 2_000, "a page stays a page"
        admin.execute("DELETE FROM mulligan_events")


def test_a_dump_restored_into_another_cluster_goes_on(
    healthy: PostgresServer, server: PostgresServer, url: str
) -> None:
    place = binaries()
    if place is None or not (place / "pg_dump").exists() or not (place / "psql").exists():
        pytest.skip("pg_dump is not installed: 'apt-get install postgresql-client'")
    with closing(PostgresStore(url)) as store:
        store.enqueue(job("before"))
        with psycopg.connect(url, autocommit=True) as admin:
            # The old cluster had been at work for long.
            admin.execute(RESTORED)
            last = admin.execute("SELECT xid::text::bigint FROM mulligan_events").fetchone()
    assert last is not None
    dump = subprocess.run([place / "pg_dump", url], check=True, capture_output=True).stdout
    restored = server.fresh_database("restored")
    subprocess.run(
        [place / "psql", "-q", "-v", "ON_ERROR_STOP=1", restored], input=dump, check=True, capture_output=True
    )
    with closing(PostgresStore(restored)) as store:
        assert found(restored, Check.LOG_BASE).level is Level.PROBLEM
        assert store.migrate() == ["positions_of_the_log"]
        store.enqueue(job("after"))
        assert [event.job for event in store.events()] == ["before", "after"]
        assert [event.job for event in store.events(after=last[0])] == ["after"]
        leases = store.claim(Claim(incarnation="w", number=1, kinds=["k"], limit=9, lease=timedelta(hours=1))).leases
        assert sorted(lease.fence.id for lease in leases) == ["after", "before"]
