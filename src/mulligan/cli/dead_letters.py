"""`mulligan jobs export` and `purge`: write jobs as JSON lines, delete jobs that are over."""

from datetime import timedelta
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import (
    CliCommand,
    SharedOptions,
    filter_options,
    job_filter,
    pass_shared,
    reveal_option,
    signed,
)
from mulligan.cli.output import echo, print_json, print_json_line, print_table
from mulligan.cli.parameters import duration
from mulligan.console.dead_letters import Purge
from mulligan.explain.words import counted
from mulligan.records.document import document_of
from mulligan.values.text import safe


@click.command("export", cls=CliCommand)
@filter_options
@click.option("--events", "with_events", is_flag=True, help="Include the complete history of each job.")
@click.option("--ids", "ids_only", is_flag=True, help="Only the ids, one a line: … | xargs -r mulligan jobs retry")
@reveal_option
@pass_shared
def export(shared: SharedOptions, /, *, with_events: bool, ids_only: bool, **wanted: Any) -> None:
    """Write jobs as JSON lines. One object for each job, newest first: mulligan jobs export --state failed > file."""
    with open_either(shared) as app:
        for exported in app.export(job_filter(app, wanted), events=with_events):
            if ids_only:
                echo(safe(exported.job.id))
                continue
            history = {"events": exported.events} if with_events else {}
            print_json_line(document_of(exported.job, **history))


@click.command("purge", cls=CliCommand)
@filter_options
@click.option("--older-than", type=duration, metavar="DURATION", required=True, help="Over for longer than this.")
@click.option("--apply", "is_real", is_flag=True, help="Delete them. Without it, the jobs are only counted.")
@signed()
@pass_shared
def purge(
    shared: SharedOptions,
    /,
    *,
    older_than: timedelta,
    is_real: bool,
    reason: str | None,
    actor: str,
    request_id: str | None,
    **wanted: Any,
) -> None:
    """Delete jobs that are over, with their history. Jobs with a dedupe key in force, or in an open batch, stay."""
    with open_either(shared) as app:
        filter_ = job_filter(app, wanted)
        sign = {"actor": actor, "reason": reason, "request_id": request_id}
        done = app.purge(filter_, older_than=older_than, dry_run=not is_real, **sign)
    if shared.as_json:
        print_json(document_of(done))
    else:
        _print_purge(done)


def _print_purge(done: Purge) -> None:
    if done.piles:
        rows = [
            (pile.kind, str(pile.state), pile.code or "", f"{pile.number:,}", "held" if pile.is_held else "")
            for pile in done.piles
        ]
        print_table(("Kind", "State", "Code", "Jobs", ""), rows)
        echo()
    if done.held:
        echo(f"{counted(done.held, 'job')} held and kept: a dedupe key or an open batch still refers to them.")
    if not done.is_dry:
        echo(f"{counted(done.purged, 'job')} deleted with their history.")
    elif done.found:
        echo(
            f"{counted(done.found, 'job')} would be deleted with their history. "
            "To delete them, repeat the command with --apply"
        )
    else:
        echo("No job to delete.")
