"""The manual moves: one command for each verb of the lifecycle."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import click

from mulligan.cli.errors import NotNow, command_error
from mulligan.cli.opening import open_either
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared, signed
from mulligan.cli.output import echo, print_json
from mulligan.cli.parameters import duration, text
from mulligan.errors import MulliganError
from mulligan.explain.words import state_phrase
from mulligan.lifecycle import VERBS, Move
from mulligan.records.document import document_of
from mulligan.records.job import Job
from mulligan.values.text import safe

HELP = {
    Move.MANUAL_RETRY: "Start jobs again now, with their counters reset. A stuck job is taken from its worker first.",
    Move.RUN_NOW: "Run jobs now. Their counters are kept.",
    Move.MANUAL_CANCEL: "Cancel jobs. A running job is asked to stop.",
    Move.MANUAL_SNOOZE: "Postpone jobs by a duration from now.",
}


# What the requests change that are no moves: the state of the job stays.
DONE = {"expire_result": "has no result any more", "release_key": "holds no dedupe key any more"}


class TakesDelay(CliCommand):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # `-5s` is a bad duration, not an unknown option.
        for before, arg in pairwise(["", *args]):
            if arg[:1] == "-" and arg[1:2].isdigit() and not before.startswith("--"):
                duration(arg)
        return super().parse_args(ctx, args)


def add_moves(group: click.Group) -> None:
    for move, verb in VERBS.items():
        group.add_command(_command(move, verb))
    group.add_command(expire_result)
    group.add_command(release_key)


@click.command("expire-result", cls=CliCommand)
@click.argument("job_ids", metavar="ID...", type=text, nargs=-1, required=True)
@signed("the history of the job")
@pass_shared
def expire_result(shared: SharedOptions, /, *, job_ids: Sequence[str], **options: Any) -> None:
    """Delete the results of jobs. The jobs themselves stay. Possible state: succeeded."""
    _move_all(shared, list(dict.fromkeys(job_ids)), "expire_result", options)


@click.command("release-key", cls=CliCommand)
@click.argument("job_ids", metavar="ID...", type=text, nargs=-1, required=True)
@signed("the history of the job")
@pass_shared
def release_key(shared: SharedOptions, /, *, job_ids: Sequence[str], **options: Any) -> None:
    """Take the dedupe key from jobs that are over."""
    _move_all(shared, list(dict.fromkeys(job_ids)), "release_key", options)


def _command(move: Move, verb: str) -> click.Command:
    @signed("the history of the job")
    @pass_shared
    def run(shared: SharedOptions, /, *, job_ids: Sequence[str], **options: Any) -> None:
        _move_all(shared, list(dict.fromkeys(job_ids)), verb.replace("-", "_"), options)

    kind = CliCommand
    if move is Move.MANUAL_SNOOZE:
        kind = TakesDelay
        run = click.argument("delay", metavar="DURATION", type=duration)(run)
    run = click.argument("job_ids", metavar="ID...", type=text, nargs=-1, required=True)(run)
    about = f"{HELP[move]} Possible states: {', '.join(move.sources)}."
    return click.command(verb, cls=kind, help=about)(run)


def _own_id(request_id: str | None, job_id: str, job_ids: list[str]) -> str | None:
    """The request id of one of several jobs."""
    return f"{request_id}/{job_id}" if request_id is not None and len(job_ids) > 1 else request_id


def _move_all(shared: SharedOptions, job_ids: list[str], verb: str, options: dict[str, Any]) -> None:
    """Move each job, and print its result. One that cannot be moved does not stop the others."""
    moved: dict[str, Job[Any]] = {}
    failed: dict[str, MulliganError] = {}
    request_id = options.pop("request_id")
    with open_either(shared) as app:
        for job_id in job_ids:
            try:
                whole = app.find_id("job", job_id)
                if whole in moved:
                    continue
                moved[whole] = getattr(app, verb)(whole, **options, request_id=_own_id(request_id, whole, job_ids))
                if not shared.as_json:
                    now = app.explain(whole)
                    done = DONE.get(verb) or state_phrase(now.job.state)
                    echo(safe(f"{whole} {done}. {now.next[0]}"))
            except MulliganError as error:
                if len(job_ids) == 1:
                    raise
                failed[job_id] = error
                if not shared.as_json:
                    click.echo(safe(f"{job_id}: {error}"), err=True)
    if shared.as_json:
        errors = [
            {"id": job_id, "type": type(error).__name__, "message": str(error)} for job_id, error in failed.items()
        ]
        print_json({"jobs": [document_of(job) for job in moved.values()], "errors": errors})
    if failed:
        # If all failed alike, exit with that code.
        codes = {command_error(error, shared).exit_code for error in failed.values()}
        raise click.exceptions.Exit(NotNow.exit_code if moved or len(codes) > 1 else codes.pop())
