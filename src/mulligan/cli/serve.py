"""`mulligan serve`: the HTTP API until SIGTERM or Ctrl-C."""

import logging

import click

from mulligan.cli.opening import open_app
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json_line
from mulligan.cli.parameters import text
from mulligan.errors import ConfigurationError
from mulligan.logs import configure
from mulligan.values.text import safe


@click.command("serve", cls=CliCommand)
@click.argument("name", metavar="[MODULE:APP]", type=text, required=False)
@click.option("--host", type=text, default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8000, show_default=True, help="0: any that is free.")
@click.option("--root-path", type=text, default="", help="The path below which a proxy offers it, such as /ops.")
@click.option("--with-worker", is_flag=True, help="Run jobs in the same process.")
@click.option("--concurrency", type=click.IntRange(1, 10_000), help="Jobs at a time of the worker.")
@pass_shared
def serve(
    shared: SharedOptions,
    name: str | None,
    *,
    host: str,
    port: int,
    root_path: str,
    with_worker: bool,
    concurrency: int | None,
) -> None:
    """Serve the HTTP API until SIGTERM or Ctrl-C. It is described at /docs.

    Without credentials it listens on this machine only.
    """
    shared.app = name or shared.app
    with open_app(shared, needs_tasks=True) as app:
        if with_worker and not app.tasks:
            raise ConfigurationError("the app has no tasks to run: import the modules that define them")
        configure(app.settings.log_level, app.settings.log_format)
        # One line says where it listens. Warnings are about what clients send: any of them could fill the log.
        logging.getLogger("uvicorn").setLevel(logging.ERROR)
        app.check_store()

        def announce(address: str, link: str | None) -> None:
            if shared.as_json:
                print_json_line({"serving": address, "first_link": link})
                return
            echo(safe(f"Serving {address}{' with a worker' if with_worker else ''}. Ctrl-C stops it."))
            if link is not None:
                echo(safe(f"There is no key yet. This link makes one, once, within ten minutes: {link}"))

        app.serve(
            host=host,
            port=port,
            root_path=root_path,
            with_worker=with_worker,
            concurrency=concurrency,
            announce=announce,
        )
