"""nginx with a configuration of ours, on free ports of this machine."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from live import eventually

MAIN = """
daemon off;
pid {folder}/nginx.pid;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    {servers}
}}
"""


def find_nginx() -> str | None:
    return shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


@contextmanager
def nginx(program: str, folder: Path, servers: str, port: int) -> Iterator[None]:
    """It accepts connections on the port when the block begins."""
    # As root, its workers would be another user, who may not write into the folder.
    user = "user root;" if os.getuid() == 0 else ""
    file, errors = folder / "nginx.conf", folder / "errors.log"
    file.write_text(MAIN.format(folder=folder, user=user, servers=servers))
    process = subprocess.Popen([program, "-c", str(file), "-e", str(errors)])
    try:
        eventually(lambda: process.poll() is not None or is_open(port))
        assert process.poll() is None, errors.read_text()
        yield
    finally:
        process.terminate()
        process.wait(20)


def is_open(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
