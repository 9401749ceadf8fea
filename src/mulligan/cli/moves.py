"""The manual moves: one command for each verb of the lifecycle."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.errors import NotNow, command_error
from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json
from mulligan.cli.parameters import duration, login, text
from mulligan.console.documents import job_document
from mulligan.errors import MulliganError
from mulligan.explain.words import state_phrase
from mulligan.lifecycle import VERBS, Move
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.app import App
    from mulligan.records.job import Job

HELP = {
    Move.MANUAL_RETRY: "Start jobs again now, with their counters reset. A stuck job is taken from its worker first.",
    Move.RUN_NOW: "Run jobs now. Their counters are kept.",
    Move.MANUAL_CANCEL: "Cancel jobs. A running job is asked to stop.",
    Move.MANUAL_SNOOZE: "Postpone jobs by a duration from now.",
}
TAKES_DELAY = (Move.MANUAL_SNOOZE,)


class TakesDelay(CliCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `-5s` is a bad duration, not an unknown option.
        for before, arg in pairwise(["", *args]):
            if arg[:1] == "-" and arg[1:2].isdigit() and not before.startswith("--"):
                duration(arg)
        return super().parse_args(ctx, args)


Make = Callable[["App", str], "Job[Any]"]


def add_moves(group: click.Group) -> None:
    for move, verb in VERBS.items():
        group.add_command(_command(move, verb))


def _command(move: Move, verb: str) -> click.Command:
    @pass_shared
    def run(
        shared: SharedOptions, *, job_ids: Sequence[str], actor: str, reason: str | None, delay: timedelta | None = None
    ) -> None:
        arguments = () if delay is None else (delay,)

        def make(app: "App", job_id: str) -> "Job[Any]":
            moved: Job[Any] = getattr(app, verb.replace("-", "_"))(job_id, *arguments, actor=actor, reason=reason)
            return moved

        _move_all(shared, list(dict.fromkeys(job_ids)), make)

    sources = ", ".join(move.sources)
    command = TakesDelay if move in TAKES_DELAY else CliCommand
    return command(verb, callback=run, params=_parameters(move), help=f"{HELP[move]} Possible states: {sources}.")


def _parameters(move: Move) -> list[click.Parameter]:
    parameters: list[click.Parameter] = [
        click.Argument(["job_ids"], metavar="ID...", type=text, nargs=-1, required=True)
    ]
    if move in TAKES_DELAY:
        parameters.append(click.Argument(["delay"], metavar="DURATION", type=duration))
    return [
        *parameters,
        click.Option(["--reason"], type=text, help="Why; stored in the history of the job."),
        click.Option(["--actor"], type=text, default=login, help="Who; stored too.  [default: your login name]"),
    ]


def _move_all(shared: SharedOptions, job_ids: list[str], make: Make) -> None:
    """Move each job, and print its result. One that cannot be moved does not stop the others."""
    moved: list[Job[Any]] = []
    failed: dict[str, MulliganError] = {}
    with open_existing(shared) as app:
        for job_id in job_ids:
            try:
                whole = app.find_id("job", job_id)
                if whole in (job.id for job in moved):
                    continue
                moved.append(make(app, whole))
                _print_moved(shared, app, moved[-1])
            except MulliganError as error:
                if len(job_ids) == 1:
                    raise
                failed[job_id] = error
                _print_failed(shared, job_id, error)
    if shared.as_json:
        errors = [
            {"id": job_id, "type": type(error).__name__, "message": str(error)} for job_id, error in failed.items()
        ]
        print_json({"jobs": [job_document(job) for job in moved], "errors": errors})
    if failed:
        # If all failed alike, exit with that code.
        codes = {command_error(error, shared).exit_code for error in failed.values()}
        raise click.exceptions.Exit(NotNow.exit_code if moved or len(codes) > 1 else codes.pop())


def _print_moved(shared: SharedOptions, app: "App", job: "Job[Any]") -> None:
    if not shared.as_json:
        now = app.explain(job.id)
        echo(safe(f"{job.id} {state_phrase(now.job.state)}. {now.next[0]}"))


def _print_failed(shared: SharedOptions, job_id: str, error: MulliganError) -> None:
    if not shared.as_json:
        click.echo(safe(f"{job_id}: {error}"), err=True)
