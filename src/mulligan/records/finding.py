"""The finding: the result of one check of the doctor, with its remedy."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(StrEnum):
    """The checks by their stable codes; docs/operations/doctor.md explains each."""

    REACHABLE = "store.reachable"
    SCHEMA = "store.schema"
    CLOCK = "store.clock"
    DISK = "store.disk"
    SQLITE_VERSION = "sqlite.version"
    SQLITE_FILE_SYSTEM = "sqlite.filesystem"
    SQLITE_JOURNAL = "sqlite.journal"
    SQLITE_LOCK = "sqlite.lock"
    SQLITE_PERMISSIONS = "sqlite.permissions"
    POSTGRES_SERVER = "postgres.server"
    POSTGRES_PROXY = "postgres.proxy"
    POSTGRES_NOTIFY = "postgres.notify"
    POSTGRES_DURABILITY = "postgres.durability"
    POSTGRES_AUTOVACUUM = "postgres.autovacuum"
    POSTGRES_SNAPSHOTS = "postgres.snapshots"
    LOG_BASE = "log.base"
    LOG_LAG = "log.lag"
    LOG_SIZE = "log.size"
    LOG_CURSORS = "log.cursors"
    LOG_PROJECTION = "log.projection"
    WORKERS_ALIVE = "workers.alive"
    WORKERS_SILENT = "workers.silent"
    LEASES_EXPIRED = "leases.expired"
    JOBS_STUCK = "jobs.stuck"
    JOBS_UNHANDLED = "jobs.unhandled"
    JOBS_WAITING = "jobs.waiting"
    JOBS_FAILED = "jobs.failed"
    DUTIES_PAUSED = "duties.paused"
    DUTIES_LATE = "duties.late"
    POLICIES_FILE = "policies.file"
    DELIVERIES = "notify.deliveries"
    SERVICES_TROUBLED = "services.troubled"
    SERVICES_NAMES = "services.names"


@dataclass(frozen=True, slots=True)
class Finding:
    code: Check
    level: Level
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The thresholds from which a finding is a warning."""

    clock: timedelta = timedelta(seconds=1)
    """How far the store's clock may differ from this machine's; thirty times that is a problem."""
    disk: int = 1024**3
    """Free bytes; a sixteenth of that is a problem."""
    lock: timedelta = timedelta(seconds=2)
    """How long another process may hold SQLite's file lock."""
    snapshot: timedelta = timedelta(minutes=5)
    lag: timedelta = timedelta(seconds=30)
    log: int = 10_000_000
    """Events."""
    cursor: timedelta = timedelta(days=1)
    """How long a reader of the log may stay at its position while the log grows."""
    projection: timedelta = timedelta(minutes=15)
    """How far failure groups and statistics may be behind the log."""
    lease: timedelta = timedelta(minutes=1)
    """How long an expired lease may wait to be reclaimed."""
    wait: timedelta = timedelta(minutes=15)
    duty: timedelta = timedelta(minutes=5)
    """How long a duty may not have run, or ten of its intervals."""
    pause: timedelta = timedelta(days=1)
    """From when on a pause without an end looks forgotten."""
    outage: timedelta = timedelta(minutes=15)
    """How long a service may be open."""


def ok(code: Check, found: str) -> Finding:
    return Finding(code, Level.OK, found)


def warning(code: Check, found: str, remedy: str) -> Finding:
    return Finding(code, Level.WARNING, found, remedy)


def problem(code: Check, found: str, remedy: str) -> Finding:
    return Finding(code, Level.PROBLEM, found, remedy)
