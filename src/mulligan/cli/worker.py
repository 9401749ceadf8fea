"""`mulligan worker`: run jobs until told to stop."""

import logging
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import click

from mulligan.cli.errors import CommandInterrupted, stopped
from mulligan.cli.opening import named, opened_with_tasks
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json_line
from mulligan.cli.parameters import names, text
from mulligan.cli.reload import folders_of, run_reloading
from mulligan.errors import ConfigurationError, WornOut, without_password
from mulligan.values.suggest import unknown
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.app import App

logger = logging.getLogger("mulligan.worker")


@click.command("worker", cls=CliCommand)
@click.argument("name", metavar="[MODULE:APP]", type=text, required=False)
@click.option("--concurrency", type=click.IntRange(1, 10_000), help="Jobs at once.  [env: MULLIGAN_WORKER_CONCURRENCY]")
@click.option("--queues", type=names, help="Take jobs of these queues only.  [default: all]")
@click.option("--verbose", is_flag=True, help="Log each start and each success, too.")
@click.option("--reload", "reloads", is_flag=True, help="For development: start anew when a source here changes.")
@pass_given
def worker(
    given: Given,
    name: str | None,
    *,
    concurrency: int | None,
    queues: tuple[str, ...] | None,
    verbose: bool,
    reloads: bool,
) -> None:
    """Run jobs until SIGTERM or Ctrl-C. Running ones may finish then; a second one hands them back."""
    from mulligan.logs import configure

    given.app = name or given.app
    if reloads:
        sys.exit(run_reloading(folders_of(named(given))))
    with opened_with_tasks(given) as app:
        if not app.tasks:
            raise ConfigurationError("the app has no tasks to run: import the modules that define them beside it")
        configure(app.settings.log_level, app.settings.log_format)
        if verbose:
            logger.setLevel(logging.DEBUG)
        app.check_store()
        signal.signal(signal.SIGTERM, _leave)
        _say_start(given, app, concurrency or app.settings.worker_concurrency, queues)
        _warn_of_unknown(app, queues or ())
        try:
            app.run(concurrency=concurrency, queues=queues)
        except WornOut as error:
            _end_at_once(stopped(error, given))
        # Nothing is left to stop.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _warn_of_unknown(app: "App", queues: tuple[str, ...]) -> None:
    """Jobs may be given any queue when they are enqueued; but most often it is a slip."""
    known = {task.queue for task in app.tasks.values()} | set(app.quotas.in_force.queues)
    for queue in queues:
        if queue not in known:
            logger.warning("%s; no job comes there but by options(queue=%r)", unknown("queue", queue, known), queue)


def _end_at_once(how: CommandInterrupted) -> NoReturn:
    """Without tidying up: to close a coroutine that takes no notice of anything may take for ever."""
    how.show()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(how.exit_code)


def _leave(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
    # Told to stop before anything was claimed: there is nothing to drain.
    sys.exit(0)


def _say_start(given: Given, app: "App", concurrency: int, queues: tuple[str, ...] | None) -> None:
    database = without_password(app.settings.database_url)
    kinds = sorted(app.tasks)
    if given.as_json:
        document = {"kinds": kinds, "queues": queues, "concurrency": concurrency, "database": database}
        say_json_line({"worker": document})
        return
    served = "all queues" if queues is None else f"queues {', '.join(queues)}"
    tasks = f"{len(kinds)} {'task' if len(kinds) == 1 else 'tasks'} ({', '.join(kinds)})"
    say(safe(f"Worker of {tasks} on {served}, {concurrency} at once, database {database}. Ctrl-C stops it."))
