"""The finding: the result of one check of the doctor, with its remedy."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Protocol


class Level(StrEnum):
    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"

    def reaches(self, other: "Level") -> bool:
        """Whether it is at least as bad."""
        order = list(Level)
        return order.index(self) >= order.index(other)


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
    JOBS_DEPTH = "jobs.depth"
    JOBS_FAILING = "jobs.failing"
    JOBS_RETRIES = "jobs.retries"
    JOBS_CODES = "jobs.codes"
    JOBS_FAILED = "jobs.failed"
    DUTIES_PAUSED = "duties.paused"
    DUTIES_LATE = "duties.late"
    POLICIES_FILE = "policies.file"
    DELIVERIES = "notify.deliveries"
    SERVICES_TROUBLED = "services.troubled"
    SERVICES_NAMES = "services.names"


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is the queue, kind, code or service that it is about, if a check finds several. `value` is what was
    measured and `threshold` the limit, in the unit of the check; durations in seconds."""

    code: Check
    level: Level
    found: str
    remedy: str = ""
    subject: str = ""
    value: float | None = None
    threshold: float | None = None


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
    depth: int = 10_000
    """Ready jobs of one queue."""
    stuck: int = 1
    """Stuck jobs; fewer are a warning, and so many a problem."""
    failing: float = 0.25
    """The fraction of the jobs of one kind that may fail, of those that end in `window`."""
    retries: float = 0.9
    """The fraction of second and later attempts of one kind that may be in vain, of those that end in `window`."""
    spike: float = 5.0
    """How many times as many failures with one code `window` may have as it had in the hour before, on average."""
    window: timedelta = timedelta(minutes=10)
    least: int = 20
    """A fraction of fewer jobs or attempts says nothing, and fewer failures are no spike."""
    pause: timedelta = timedelta(days=1)
    """From when on a pause without an end looks forgotten."""
    outage: timedelta = timedelta(minutes=15)
    """How long a service may be open."""


class Examine(Protocol):
    """Runs the checks of the doctor, besides some."""

    def __call__(self, limits: Limits | None = None, *, besides: Collection[Check] = ()) -> list[Finding]: ...


def ok(code: Check, found: str) -> Finding:
    return Finding(code, Level.OK, found)


def warning(code: Check, found: str, remedy: str) -> Finding:
    return Finding(code, Level.WARNING, found, remedy)


def problem(code: Check, found: str, remedy: str) -> Finding:
    return Finding(code, Level.PROBLEM, found, remedy)
