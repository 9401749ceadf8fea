"""Where the stores are. The harness starts servers and names them in the environment of what it starts."""

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

PREFIX = "MULLIGAN_BENCH_"


@dataclass(frozen=True)
class Place:
    folder: Path
    """For SQLite's files and for logs, on the same disk as PostgreSQL's."""
    postgres: str = ""
    """A URL without the name of a database, or nothing if there is no server."""
    redis: str = ""
    server: int = 0
    """The process id of the server that the peer's store is in, or 0."""

    def variables(self) -> dict[str, str]:
        return {PREFIX + name.upper(): str(value) for name, value in asdict(self).items()}

    @classmethod
    def given(cls) -> Self:
        """The place that the process which started this one has named."""
        values = {name: os.environ[PREFIX + name.upper()] for name in ("folder", "postgres", "redis", "server")}
        return cls(Path(values["folder"]), values["postgres"], values["redis"], int(values["server"]))


class Postgres:
    """One database of one peer."""

    def __init__(self, name: str) -> None:
        self._server = Place.given().postgres
        self._name = f"bench_{name.replace('-', '_')}"
        self._connection: Any = None
        self.url = self._server + self._name

    def create(self) -> None:
        """Replace the database by an empty one, and let no earlier checkpoint fall into what is measured."""
        import psycopg

        with psycopg.connect(self._server + "postgres", autocommit=True) as connection:
            connection.execute(f'DROP DATABASE IF EXISTS "{self._name}" WITH (FORCE)'.encode())
            connection.execute(f'CREATE DATABASE "{self._name}"'.encode())
            connection.execute("CHECKPOINT")

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def value(self, query: str) -> Any:
        """The first column of the only row, through a connection that is kept."""
        import psycopg

        if self._connection is None:
            self._connection = psycopg.connect(self.url, autocommit=True)
        return self._connection.execute(query.encode()).fetchone()[0]

    def has(self, rows: str) -> bool:
        return bool(self.value(f"SELECT EXISTS (SELECT 1 FROM {rows})"))

    def vacuum(self) -> None:
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")


class SqliteFile:
    """The folder of one peer on SQLite, and the file in it."""

    def __init__(self, name: str) -> None:
        self.folder = Place.given().folder / name
        self.path = self.folder / "jobs.db"

    def create(self) -> None:
        """Forget everything there was."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()


class Redis:
    """The server, which belongs to one peer at a time."""

    def __init__(self) -> None:
        import redis

        self.url = Place.given().redis
        self.client = redis.Redis.from_url(self.url)

    def create(self) -> None:
        """Forget everything there was."""
        self.client.flushall()

    def close(self) -> None:
        self.client.close()
