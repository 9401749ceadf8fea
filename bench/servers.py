"""The servers of the stores: each on a free port of loopback, each ended by its process id."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import SkipTest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "stores"))

from postgres_server import free_port, postgres_server  # noqa: E402

# Durable in every way; the rest keeps a checkpoint from falling into the measurement of one peer only.
POSTGRES = {
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    "autovacuum": "on",
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
}
REDIS = {"save": "", "appendonly": "no"}
START_SECONDS = 10


@dataclass(frozen=True)
class Server:
    url: str
    pid: int
    version: str


class Missing(Exception):
    """A server that is not installed and cannot be."""


@contextlib.contextmanager
def postgres() -> Iterator[Server]:
    import psycopg

    # What the tests use to install PostgreSQL, if this is root.
    subprocess.run(["sh", ROOT / "tests" / "servers.sh"], check=False)
    try:
        with postgres_server(**POSTGRES) as server:
            pid = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
            with psycopg.connect(server.url()) as connection:
                version = connection.execute("SHOW server_version").fetchone()
            assert version is not None
            yield Server(server.url(""), pid, version[0].split()[0])
    except SkipTest as error:
        raise Missing(str(error)) from error


@contextlib.contextmanager
def redis(folder: Path) -> Iterator[Server]:
    program, port = _redis_program(), free_port()
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    options = [part for name, value in REDIS.items() for part in (f"--{name}", value)]
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), *options]
    with (folder / "redis.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_for(port, process)
        # It says: Redis server v=7.0.15 sha=…
        yield Server(f"redis://127.0.0.1:{port}/0", process.pid, version.split("v=")[1].split()[0])
    finally:
        process.terminate()
        process.wait()


def _redis_program() -> str:
    if shutil.which("redis-server") is None and os.getuid() == 0 and shutil.which("apt-get"):
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in ("update -qq", "install -y -qq --no-install-recommends redis-server"):
            subprocess.run(["apt-get", *command.split()], check=False, capture_output=True, env=environment)
    program = shutil.which("redis-server")
    if program is None:
        raise Missing("redis-server is not installed: 'apt-get install redis-server', or run 'make bench' as root")
    return program


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    import socket

    end = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > end:
            raise Missing("redis-server does not start")
        time.sleep(0.05)
