"""The command line of an application: serve its pages with a worker in the same process."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import click

from apps.pages.settings import SettingRefused
from apps.pages.site import Site
from mulligan import MulliganError

Build = Callable[[str], Site]
USAGE = 2


def main(build: Build, name: str, *, beside: Callable[[], AbstractContextManager[object]] = nullcontext) -> None:
    """`build` makes the application for the URL of a database, while `beside` runs."""

    @click.command(help=f"Serve {name}, with its pages, the dashboard at /ops, and a worker.")
    @click.option("--host", default="127.0.0.1", show_default=True)
    @click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65_535))
    @click.option(
        "--concurrency",
        default=4,
        envvar="WORKER_CONCURRENCY",
        show_default=True,
        type=click.IntRange(1, 1_000),
    )
    @click.option("--no-worker", is_flag=True, help="Only the pages: workers run elsewhere.")
    @click.option("--url", default=None, help="The database.  [default: DATABASE_URL, or a SQLite file here]")
    def serve(host: str, port: int, concurrency: int, *, no_worker: bool, url: str | None) -> None:
        try:
            with beside():
                site = build(url or os.environ.get("DATABASE_URL") or f"sqlite:///{name}.db")
                site.app.serve(
                    application=site.asgi(),
                    mounted_at="/ops",
                    host=host,
                    port=port,
                    with_worker=not no_worker,
                    concurrency=concurrency,
                    announce=announce,
                )
        except (MulliganError, SettingRefused) as problem:
            click.echo(str(problem), err=True)
            sys.exit(USAGE)

    serve()


def announce(address: str, link: str | None) -> None:
    """Print the addresses once they can be used."""
    click.echo(f"Open {address}")
    click.echo(f"The dashboard of its jobs: {address}/ops")
    if link is not None:
        click.echo(f"Make yourself an administrator, within ten minutes: {link}")
