"""Doctor checks of a PostgreSQL server: how it is reached, whether commits are durable, and what blocks it."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

import psycopg

from mulligan.errors import UndeclaredProxy
from mulligan.records.finding import Check, Finding, Limits, ok, problem, warning
from mulligan.store.postgres.connections import Connection, Connections
from mulligan.store.postgres.notify import CHANNEL, NOTIFY
from mulligan.store.postgres.proxy import PoolMode, detect_proxy
from mulligan.store.postgres.url import Address
from mulligan.values.duration import describe
from mulligan.values.size import describe_size

NOTIFY_SECONDS = 2.0
DEAD_ROWS = 100_000
PREPARED_REMEDY = "end it: COMMIT PREPARED or ROLLBACK PREPARED '{name}'"

# What prevents dead rows from being removed: sessions, prepared transactions, replication slots.
_HOLDERS = """
SELECT 'session', pid::text, coalesce(application_name, ''), coalesce(state, ''), backend_xid IS NOT NULL,
    coalesce(extract(epoch FROM clock_timestamp() - xact_start), 0)::float
FROM pg_stat_activity
WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
  AND pid <> pg_backend_pid() AND backend_type = 'client backend'
UNION ALL
SELECT 'prepared transaction', gid, owner::text, 'prepared', true,
    extract(epoch FROM clock_timestamp() - prepared)::float
FROM pg_prepared_xacts
UNION ALL
SELECT 'replication slot', slot_name, greatest(age(xmin), age(catalog_xmin)) || ' transactions behind',
    CASE WHEN active THEN 'active' ELSE 'not read' END, false,
    -- It has no time: one without a reader counts as old.
    CASE WHEN active THEN 0 ELSE 1e9 END
FROM pg_replication_slots
WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
ORDER BY 6 DESC
"""
_LAG = """
SELECT count(*), coalesce((extract(epoch FROM clock_timestamp()) - min(at) / 1e6), 0)::float
FROM (
    SELECT at
    FROM mulligan_events
    WHERE xid >= pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY xid
    LIMIT 1000
) AS hidden
"""
_BASE = """
SELECT xid::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint
FROM mulligan_events
ORDER BY xid DESC
LIMIT 1
"""
_SIZE = "SELECT reltuples::bigint, pg_total_relation_size(oid) FROM pg_class WHERE oid = 'mulligan_events'::regclass"
_DEAD = """
SELECT relname, n_dead_tup, n_live_tup
FROM pg_stat_user_tables
WHERE relname LIKE 'mulligan%%' AND n_dead_tup > greatest(n_live_tup, %s)
ORDER BY n_dead_tup DESC
"""
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"


def examine(
    connections: Connections, address: Address, limits: Limits, besides: Collection[Check] = ()
) -> list[Finding]:
    checks: Sequence[Callable[[Connection], Finding]] = (
        server,
        durability,
        autovacuum,
        lambda db: snapshots(db, limits),
        log_base,
        lambda db: log_lag(db, limits),
        lambda db: log_size(db, limits),
    )
    return [
        *(connections.run(check) for check in checks),
        proxy(connections, is_declared=not address.prepares),
        *([] if Check.POSTGRES_NOTIFY in besides else [notify(connections, is_wanted=address.listens)]),
    ]


def server(db: Connection) -> Finding:
    version, is_standby, read_only = _one(
        db, "SELECT current_setting('server_version'), pg_is_in_recovery(), current_setting('transaction_read_only')"
    )
    if is_standby or read_only == "on":
        why = "a standby" if is_standby else "read-only for this user or database"
        return problem(
            Check.POSTGRES_SERVER,
            f"PostgreSQL {version} is {why}: nothing can be written",
            "name the primary in the URL ('target_session_attrs=read-write' finds it among several hosts), "
            "or turn default_transaction_read_only off",
        )
    return ok(Check.POSTGRES_SERVER, f"PostgreSQL {version}")


def durability(db: Connection) -> Finding:
    settings = _settings(db, "fsync", "full_page_writes", "synchronous_commit")
    unsafe = [f"{name} = {value}" for name, value in settings.items() if value == "off"]
    if unsafe:
        return problem(
            Check.POSTGRES_DURABILITY,
            f"{', '.join(unsafe)}: a crash of the server can lose accepted jobs or damage the database",
            "turn it on in postgresql.conf, and for this user and database (ALTER ROLE, ALTER DATABASE)",
        )
    return ok(Check.POSTGRES_DURABILITY, ", ".join(f"{name} = {value}" for name, value in settings.items()))


def autovacuum(db: Connection) -> Finding:
    if _settings(db, "autovacuum")["autovacuum"] == "off":
        return warning(
            Check.POSTGRES_AUTOVACUUM,
            "autovacuum is off: dead rows are never removed, and everything becomes slower",
            "turn autovacuum on in postgresql.conf",
        )
    dead = db.execute(_DEAD, (DEAD_ROWS,)).fetchall()
    if dead:
        table, number, live = dead[0]
        return warning(
            Check.POSTGRES_AUTOVACUUM,
            f"{table} has {number:,} dead rows and {live:,} live ones: autovacuum does not keep up, or is blocked",
            "see postgres.snapshots; else: ALTER TABLE … SET (autovacuum_vacuum_scale_factor = 0.02)",
        )
    return ok(Check.POSTGRES_AUTOVACUUM, "autovacuum is on and keeps up")


def snapshots(db: Connection, limits: Limits) -> Finding:
    holders = [_Holder(*row) for row in db.execute(_HOLDERS).fetchall()]
    old = [holder for holder in holders if holder.seconds >= limits.snapshot.total_seconds()]
    if not old:
        return ok(Check.POSTGRES_SNAPSHOTS, f"no snapshot is older than {describe(limits.snapshot)}")
    return warning(
        Check.POSTGRES_SNAPSHOTS,
        f"{old[0]}: keeps {old[0].keeps} from being removed, and everything becomes slower the longer it lasts",
        old[0].remedy,
    )


def log_lag(db: Connection, limits: Limits) -> Finding:
    number, seconds = _one(db, _LAG)
    if not number or seconds < limits.lag.total_seconds():
        return ok(Check.LOG_LAG, "the stream of events is up to date")
    holders = [_Holder(*row) for row in db.execute(_HOLDERS).fetchall()]
    writers = [holder for holder in holders if holder.writes]
    blocker = str(writers[0]) if writers else "a transaction that this user may not see"
    least = "at least " if number == 1000 else ""
    return warning(
        Check.LOG_LAG,
        f"{least}{number:,} events, the oldest {describe(timedelta(seconds=round(seconds)))} old, are not visible to "
        f"readers of the stream yet; jobs are not affected. They wait for {blocker}",
        writers[0].remedy if writers else "find the oldest transaction; this needs the role pg_read_all_stats",
    )


class _Holder(NamedTuple):
    """A session, prepared transaction or replication slot with an old snapshot."""

    sort: str
    name: str
    detail: str
    state: str
    writes: bool
    seconds: float

    def __str__(self) -> str:
        if self.sort == "replication slot":
            return f"replication slot {self.name!r} ({self.state}, {self.detail})"
        length = describe(timedelta(seconds=round(self.seconds)))
        what = f"session {self.name}" if self.sort == "session" else f"prepared transaction {self.name!r}"
        return f"{what} ({', '.join(filter(None, [self.detail, self.state]))}), in a transaction for {length}"

    @property
    def keeps(self) -> str:
        return "the server's log and dead rows of its catalogue" if self.sort == "replication slot" else "dead rows"

    @property
    def remedy(self) -> str:
        match self.sort:
            case "session":
                return f"let it end its transaction, or end it: SELECT pg_terminate_backend({self.name})"
            case "prepared transaction":
                return PREPARED_REMEDY.format(name=self.name)
            case _:
                return f"let its reader continue, or drop it: SELECT pg_drop_replication_slot('{self.name}')"


def log_base(db: Connection) -> Finding:
    row = db.execute(_BASE).fetchone()
    if row is not None and row[0] >= row[1]:
        return problem(
            Check.LOG_BASE,
            f"the log goes up to transaction {row[0]:,}, but this cluster is at {row[1]:,} only: the database was "
            "restored from another cluster, and readers of the stream will miss new events",
            "stop the workers, and run: mulligan migrate",
        )
    return ok(Check.LOG_BASE, "event positions match the transaction ids of the cluster")


def log_size(db: Connection, limits: Limits) -> Finding:
    number, size = _one(db, _SIZE)
    text = f"about {max(number, 0):,} events in {describe_size(size)}"
    if number <= limits.log:
        return ok(Check.LOG_SIZE, text)
    return warning(Check.LOG_SIZE, text, "keep jobs for a shorter time: MULLIGAN_RETENTION_SUCCEEDED=1d, or a count")


def proxy(connections: Connections, *, is_declared: bool) -> Finding:
    match detect_proxy(connections):
        case PoolMode.NOTHING:
            return ok(Check.POSTGRES_PROXY, "there is no proxy")
        case _ if is_declared:
            return ok(Check.POSTGRES_PROXY, "there is a proxy, and the URL declares it")
        case PoolMode.SESSIONS:
            return ok(Check.POSTGRES_PROXY, "there is a proxy that pools sessions")
        case PoolMode.TRANSACTIONS:
            return problem(
                Check.POSTGRES_PROXY,
                "there is a proxy that pools transactions: prepared statements and LISTEN do not work through it",
                UndeclaredProxy.remedy,
            )


def notify(connections: Connections, *, is_wanted: bool) -> Finding:
    if not is_wanted:
        return ok(Check.POSTGRES_NOTIFY, "NOTIFY is not used: idle workers poll once a second")
    with connections.opened() as listener, connections.opened() as other:
        listener.execute(f"LISTEN {CHANNEL}")
        other.execute(NOTIFY)
        try:
            has_arrived = any(True for _ in listener.notifies(timeout=NOTIFY_SECONDS, stop_after=1))
        except psycopg.Error:
            has_arrived = False
    if has_arrived:
        return ok(Check.POSTGRES_NOTIFY, "NOTIFY arrives")
    return warning(
        Check.POSTGRES_NOTIFY,
        "a NOTIFY did not arrive: an idle worker sees new jobs up to a second late",
        "connect without the proxy, or add '?notify=off' to the URL",
    )


def _settings(db: Connection, *names: str) -> dict[str, str]:
    return dict(db.execute(_SETTINGS, (list(names),)).fetchall())


def _one(db: Connection, statement: str) -> tuple[Any, ...]:
    row = db.execute(statement.encode()).fetchone()
    assert row is not None
    return row
