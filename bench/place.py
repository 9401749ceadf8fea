"""Where the stores live: a PostgreSQL of our own and a folder, both temporary, both on the same disk."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "stores"))

from postgres_server import PostgresServer, postgres_server  # noqa: E402

# Durable in every way; the rest keeps a checkpoint from falling into one subject's measurement and not another's.
SETTINGS = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "shared_buffers": "1GB",
    "autovacuum": "on",
    "max_wal_size": "4GB",
}


@dataclass(frozen=True)
class Place:
    server: PostgresServer
    folder: Path

    def fresh_database(self, name: str) -> str:
        url = self.server.fresh_database(name)
        self.execute(url, "CHECKPOINT")
        return url

    @staticmethod
    def execute(url: str, statement: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def server_seconds(self) -> float:
        """CPU time of the whole server so far, of the connections that are closed too."""
        postmaster = psutil.Process(self._postmaster)
        live = 0.0
        for process in postmaster.children():
            with contextlib.suppress(psutil.NoSuchProcess):
                live += sum(process.cpu_times()[:2])
        return live + sum(postmaster.cpu_times()[2:4])

    @property
    def _postmaster(self) -> int:
        return int((self.server.folder / "data" / "postmaster.pid").read_text().split()[0])


class Looking:
    """One kept connection that asks one question, so that asking costs the server next to nothing."""

    def __init__(self, url: str, question: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._question = question.encode()

    def __call__(self) -> bool:
        row: Any = self._connection.execute(self._question).fetchone()
        return bool(row[0])

    def close(self) -> None:
        self._connection.close()


@contextlib.contextmanager
def opened() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(prefix="mulligan-bench-") as folder, postgres_server(**SETTINGS) as server:
        yield Place(server, Path(folder))
