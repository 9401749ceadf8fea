"""Start the converter: `python -m apps.pdfxml`. Without GATEWAY_URL, a gateway of its own is started beside it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from apps.pages.command import main
from apps.pdfxml.settings import SettingRefused
from apps.pdfxml.site import build


@contextmanager
def gateway_beside() -> Iterator[None]:
    """A gateway that can be made to fail, for those who have none. It ends with this process."""
    if os.environ.get("GATEWAY_URL"):
        yield
        return
    port = _free_port()
    os.environ["GATEWAY_URL"] = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "apps.pdfxml.gateway", "--port", str(port), "--faults"]
    with subprocess.Popen(command) as gateway:  # noqa: S603 - our own program
        click.echo(
            f"A gateway runs at {os.environ['GATEWAY_URL']} (process {gateway.pid}): kill it, and see what happens"
        )
        try:
            yield
        finally:
            gateway.terminate()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    try:
        with gateway_beside():
            main(build, "pdfxml")
    except SettingRefused as problem:
        raise SystemExit(str(problem)) from None
