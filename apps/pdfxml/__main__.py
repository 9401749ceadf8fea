"""Start the converter: `python -m apps.pdfxml`. Without GATEWAY_URL, a gateway of its own is started beside it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from apps.pages.command import main
from apps.pdfxml.site import build


@contextmanager
def gateway_beside() -> Iterator[None]:
    """A gateway that can be made to fail, for people who have none. It ends with this process, however that ends."""
    if os.environ.get("GATEWAY_URL"):
        yield
        return
    # It listens before the gateway runs, so that the first page waits for it.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        os.environ["GATEWAY_URL"] = f"http://127.0.0.1:{listener.getsockname()[1]}"
        number = listener.fileno()
        command = [sys.executable, "-m", "apps.pdfxml.gateway", "--fd", str(number), "--faults", "--until-eof"]
        started = subprocess.Popen(command, stdin=subprocess.PIPE, pass_fds=[number])  # noqa: S603 - our own program
    with started as gateway:
        click.echo(
            f"A gateway runs at {os.environ['GATEWAY_URL']} (process {gateway.pid}): kill it, and see what happens"
        )
        try:
            yield
        finally:
            gateway.terminate()


if __name__ == "__main__":
    main(build, "pdfxml", beside=gateway_beside)
