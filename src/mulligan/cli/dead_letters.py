"""`mulligan jobs export` and `purge`: take jobs away as JSON lines, clear those that are over."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from mulligan.cli.filters import filtered, job_filter
from mulligan.cli.opening import opened_existing
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json, say_json_line, say_table
from mulligan.cli.parameters import duration, login, text
from mulligan.console.documents import document_of, event_document, job_document
from mulligan.explain.words import counted
from mulligan.values.text import safe

if TYPE_CHECKING:
    from mulligan.console.dead_letters import Purge


@click.command("export", cls=CliCommand)
@filtered
@click.option("--events", "with_events", is_flag=True, help="Each with its whole history.")
@click.option("--ids", "ids_only", is_flag=True, help="Only the ids, a line each: … | xargs -r mulligan jobs retry")
@pass_given
def export(given: Given, /, *, with_events: bool, ids_only: bool, **wanted: Any) -> None:
    """Write jobs as JSON lines. One object a job, the newest first: mulligan jobs export --state failed > file."""
    with opened_existing(given) as app:
        for letter in app.export(job_filter(app, wanted), events=with_events):
            if ids_only:
                say(safe(letter.job.id))
                continue
            history = {"events": [event_document(event) for event in letter.events]} if with_events else {}
            say_json_line(job_document(letter.job) | history)


@click.command("purge", cls=CliCommand)
@filtered
@click.option("--older-than", type=duration, metavar="DURATION", required=True, help="Over for longer than that.")
@click.option("--apply", "is_real", is_flag=True, help="Do it. Without this, it is only shown what would be deleted.")
@click.option("--reason", type=text, help="Why; kept in the log.")
@click.option("--actor", type=text, default=login, help="Who; kept too.  [default: your login name]")
@pass_given
def purge(
    given: Given, /, *, older_than: timedelta, is_real: bool, reason: str | None, actor: str, **wanted: Any
) -> None:
    """Delete jobs that are over, with their history. Those that hold a dedupe key, or whose batch is not over, stay."""
    with opened_existing(given) as app:
        meant = job_filter(app, wanted)
        done = app.purge(meant, older_than=older_than, dry_run=not is_real, actor=actor, reason=reason)
    if given.as_json:
        piles = [document_of(pile) for pile in done.piles]
        say_json(document_of(done) | {"piles": piles, "found": done.found, "held": done.held})
    else:
        _say(done)


def _say(done: "Purge") -> None:
    if done.piles:
        rows = [
            (pile.kind, str(pile.state), pile.code or "", f"{pile.number:,}", "held" if pile.is_held else "")
            for pile in done.piles
        ]
        say_table(("Kind", "State", "Code", "Jobs", ""), rows)
        say()
    if done.held:
        why = "a dedupe key or a batch that is not over still refers to them"
        say(f"{counted(done.held, 'job')} held: {why}, and they stay.")
    if not done.is_dry:
        say(f"{counted(done.purged, 'job')} deleted, with all history.")
    elif done.found:
        say(f"{counted(done.found, 'job')} would be deleted, with all history. To do it: the same with --apply")
    else:
        say("There is nothing to delete.")
