"""The finding: what a check of the doctor saw, and what can be done about it."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


class Check(StrEnum):
    """The checks by their stable codes; docs/operations/doctor.md says what each means."""

    REACHABLE = "store.reachable"
    SCHEMA = "store.schema"
    CLOCK = "store.clock"
    DISK = "store.disk"
    SQLITE_VERSION = "sqlite.version"
    SQLITE_FILE_SYSTEM = "sqlite.filesystem"
    SQLITE_JOURNAL = "sqlite.journal"
    SQLITE_LOCK = "sqlite.lock"
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
    WORKERS_ALIVE = "workers.alive"
    WORKERS_SILENT = "workers.silent"
    LEASES_EXPIRED = "leases.expired"
    JOBS_STUCK = "jobs.stuck"
    JOBS_UNHANDLED = "jobs.unhandled"
    JOBS_WAITING = "jobs.waiting"
    JOBS_FAILED = "jobs.failed"
    DUTIES_PAUSED = "duties.paused"
    POLICIES_FILE = "policies.file"
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
    """From where on something is worth a word."""

    clock: timedelta = timedelta(seconds=1)
    """How far the store's clock may be from this machine's; thirty times that is a problem."""
    disk: int = 1024**3
    """Free bytes; a sixteenth of it is a problem."""
    lock: timedelta = timedelta(seconds=2)
    """How long another process may hold SQLite's file lock."""
    snapshot: timedelta = timedelta(minutes=5)
    lag: timedelta = timedelta(seconds=30)
    log: int = 10_000_000
    """Events."""
    cursor: timedelta = timedelta(days=1)
    """How long a reader of the log may stand still while the log goes on."""
    lease: timedelta = timedelta(minutes=1)
    """How long an expired lease may wait to be taken back."""
    wait: timedelta = timedelta(minutes=15)
    pause: timedelta = timedelta(days=1)
    """When a pause without an end looks forgotten."""
    outage: timedelta = timedelta(minutes=15)
    """How long a service may be open."""


def ok(code: Check, found: str) -> Finding:
    return Finding(code, Level.OK, found)


def warning(code: Check, found: str, remedy: str) -> Finding:
    return Finding(code, Level.WARNING, found, remedy)


def problem(code: Check, found: str, remedy: str) -> Finding:
    return Finding(code, Level.PROBLEM, found, remedy)
