"""Start the converter: `python -m apps.pdfxml`. Without GATEWAY_URL, a gateway of its own is started beside it."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from apps.pages.command import main
from apps.pdfxml.settings import SettingRefused
from apps.pdfxml.site import build

PORT = 8071


@contextmanager
def gateway_beside() -> Iterator[None]:
    """A gateway that can be made to fail, for those who have none. It ends with this process."""
    if os.environ.get("GATEWAY_URL"):
        yield
        return
    os.environ["GATEWAY_URL"] = f"http://127.0.0.1:{PORT}"
    command = [sys.executable, "-m", "apps.pdfxml.gateway", "--port", str(PORT), "--faults"]
    with subprocess.Popen(command) as gateway:  # noqa: S603 - our own program
        click.echo(
            f"A gateway runs at {os.environ['GATEWAY_URL']} (process {gateway.pid}): kill it, and see what happens"
        )
        try:
            yield
        finally:
            gateway.terminate()


if __name__ == "__main__":
    try:
        with gateway_beside():
            main(build, "pdfxml")
    except SettingRefused as problem:
        raise SystemExit(str(problem)) from None
