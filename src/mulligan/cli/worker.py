"""`mulligan worker`: run jobs until SIGTERM or Ctrl-C."""

import logging
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

import click

from mulligan.app import App
from mulligan.cli.errors import CommandFailed, command_error
from mulligan.cli.opening import app_name, open_app
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json_line
from mulligan.cli.parameters import names, text
from mulligan.cli.reload import Reloader, folders_of
from mulligan.errors import ConfigurationError, WornOut, without_password
from mulligan.explain.words import counted
from mulligan.logs import configure
from mulligan.values.suggest import unknown
from mulligan.values.text import safe

logger = logging.getLogger("mulligan.worker")


@click.command("worker", cls=CliCommand)
@click.argument("name", metavar="[MODULE:APP]", type=text, required=False)
@click.option(
    "--concurrency", type=click.IntRange(1, 10_000), help="Jobs at a time.  [env: MULLIGAN_WORKER_CONCURRENCY]"
)
@click.option("--queues", type=names, help="Take jobs of these queues only.  [default: all]")
@click.option("--verbose", is_flag=True, help="Also log each start and each success.")
@click.option("--reload", "reloads", is_flag=True, help="For development: restart when a source file changes.")
@pass_shared
def worker(
    shared: SharedOptions,
    name: str | None,
    *,
    concurrency: int | None,
    queues: tuple[str, ...] | None,
    verbose: bool,
    reloads: bool,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C. Running jobs finish first; a second signal releases them."""
    shared.app = name or shared.app
    if reloads:
        sys.exit(Reloader(folders_of(app_name(shared))).run())
    with open_app(shared, needs_tasks=True) as app:
        if not app.tasks:
            raise ConfigurationError("the app has no tasks to run: import the modules that define them")
        configure(app.settings.log_level, app.settings.log_format)
        if verbose:
            logger.setLevel(logging.DEBUG)
        app.check_store()
        signal.signal(signal.SIGTERM, _leave)
        _print_start(shared, app, concurrency or app.settings.worker_concurrency, queues)
        _warn_of_unknown(app, queues or ())
        try:
            app.run(concurrency=concurrency, queues=queues)
        except WornOut as error:
            _end_at_once(command_error(error, shared))
        # The worker has stopped.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _warn_of_unknown(app: App, queues: tuple[str, ...]) -> None:
    """Warn about unknown queues: `options(queue=…)` may name any, but mostly it is a typing error."""
    known = {task.queue for task in app.tasks.values()} | set(app.quotas.in_force.queues)
    for queue in queues:
        if queue not in known:
            logger.warning("%s; only options(queue=%r) puts jobs there", unknown("queue", queue, known), queue)


def _end_at_once(how: CommandFailed) -> NoReturn:
    """Exit without cleanup, because closing a coroutine that ignores cancellation may take forever."""
    how.show()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(how.exit_code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    # Stopped before anything was claimed, so there is nothing to drain.
    sys.exit(0)


def _print_start(shared: SharedOptions, app: App, concurrency: int, queues: tuple[str, ...] | None) -> None:
    database = without_password(app.settings.database_url)
    kinds = sorted(app.tasks)
    if shared.as_json:
        document = {"kinds": kinds, "queues": queues, "concurrency": concurrency, "database": database}
        print_json_line({"worker": document})
        return
    served = "all queues" if queues is None else f"queues {', '.join(queues)}"
    tasks = f"{counted(len(kinds), 'task')} ({', '.join(kinds)})"
    echo(safe(f"Worker for {tasks} on {served}, {concurrency} jobs at a time, database {database}. Ctrl-C stops it."))
