"""A real pgbouncer for the tests: it pools transactions, so no client owns a session."""

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from postgres_server import PostgresServer, free_port

START_SECONDS = 20
# Few server connections for many clients: a client that leaves something in a session is found out.
CONFIG = """
[databases]
* = host=127.0.0.1 port={server} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 200
default_pool_size = 6
logfile = {folder}/log
"""


def pgbouncer() -> str | None:
    return shutil.which("pgbouncer", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def proxy(server: PostgresServer) -> Iterator[int]:
    """A pgbouncer before this server; its port. As root it runs as `nobody`."""
    program = pgbouncer()
    assert program is not None
    folder = Path(tempfile.mkdtemp(prefix="mulligan-pgbouncer-"))
    folder.chmod(0o755)
    user = {"user": "nobody", "group": pwd.getpwnam("nobody").pw_gid} if os.getuid() == 0 else {}
    if user:
        shutil.chown(folder, "nobody")
    port = free_port()
    (folder / "pgbouncer.ini").write_text(CONFIG.format(server=server.port, port=port, folder=folder))
    process = subprocess.Popen(
        [program, "-q", folder / "pgbouncer.ini"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=folder,
        **user,  # type: ignore[call-overload]
    )
    try:
        _wait_until_up(process, port, folder / "log")
        yield port
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_until_up(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(log.read_text(errors="replace")[-2000:] if log.exists() else "pgbouncer did not start")
        time.sleep(0.02)
