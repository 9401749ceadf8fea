"""The moves a person can make, one command for each verb of the lifecycle."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.errors import NotNow, stopped
from mulligan.cli.opening import opened_existing
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json
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
    Move.RETRY_BY_HAND: "Start jobs again, now, with all counters at zero. A stuck one is taken from its worker first.",
    Move.RUN_NOW: "Run jobs now, with the counters as they are.",
    Move.CANCEL_BY_HAND: "Cancel jobs; a running one is asked to stop.",
    Move.SNOOZE_BY_HAND: "Let jobs wait for so long from now.",
}
TAKES_DELAY = (Move.SNOOZE_BY_HAND,)


class TakesDelay(CliCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `-5s` is no option that is missing, but a duration that cannot be.
        for before, arg in pairwise(["", *args]):
            if arg[:1] == "-" and arg[1:2].isdigit() and not before.startswith("--"):
                duration(arg)
        return super().parse_args(ctx, args)


Make = Callable[["App", str], "Job[Any]"]


def add_moves(group: click.Group) -> None:
    for move, verb in VERBS.items():
        group.add_command(_command(move, verb))


def _command(move: Move, verb: str) -> click.Command:
    @pass_given
    def run(
        given: Given, *, job_ids: Sequence[str], actor: str, reason: str | None, delay: timedelta | None = None
    ) -> None:
        arguments = () if delay is None else (delay,)

        def make(app: "App", job_id: str) -> "Job[Any]":
            moved: Job[Any] = getattr(app, verb.replace("-", "_"))(job_id, *arguments, actor=actor, reason=reason)
            return moved

        _move_all(given, list(dict.fromkeys(job_ids)), make)

    sources = ", ".join(move.sources)
    command = TakesDelay if move in TAKES_DELAY else CliCommand
    return command(verb, callback=run, params=_parameters(move), help=f"{HELP[move]} Possible when: {sources}.")


def _parameters(move: Move) -> list[click.Parameter]:
    parameters: list[click.Parameter] = [
        click.Argument(["job_ids"], metavar="ID...", type=text, nargs=-1, required=True)
    ]
    if move in TAKES_DELAY:
        parameters.append(click.Argument(["delay"], metavar="DURATION", type=duration))
    return [
        *parameters,
        click.Option(["--reason"], type=text, help="Why; kept in the job's history."),
        click.Option(["--actor"], type=text, default=login, help="Who; kept too.  [default: your login name]"),
    ]


def _move_all(given: Given, job_ids: list[str], make: Make) -> None:
    """With several jobs each gets its answer, and one that could not be moved stops no other."""
    moved: list[Job[Any]] = []
    failed: dict[str, MulliganError] = {}
    with opened_existing(given) as app:
        for job_id in job_ids:
            try:
                whole = app.console.whole_id("job", job_id)
                if whole in (job.id for job in moved):
                    continue
                moved.append(make(app, whole))
                _say_moved(given, app, moved[-1])
            except MulliganError as error:
                if len(job_ids) == 1:
                    raise
                failed[job_id] = error
                _say_failed(given, job_id, error)
    if given.as_json:
        errors = [
            {"id": job_id, "type": type(error).__name__, "message": str(error)} for job_id, error in failed.items()
        ]
        say_json({"jobs": [job_document(job) for job in moved], "errors": errors})
    if failed:
        # Of one mind, such as all not found, they say it as one alone does.
        codes = {stopped(error, given).exit_code for error in failed.values()}
        raise click.exceptions.Exit(NotNow.exit_code if moved or len(codes) > 1 else codes.pop())


def _say_moved(given: Given, app: "App", job: "Job[Any]") -> None:
    if not given.as_json:
        now = app.explain(job.id)
        say(safe(f"{job.id} {state_phrase(now.job.state)}. {now.next[0]}"))


def _say_failed(given: Given, job_id: str, error: MulliganError) -> None:
    if not given.as_json:
        click.echo(safe(f"{job_id}: {error}"), err=True)
