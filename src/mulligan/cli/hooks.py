"""`mulligan hooks`: incoming hooks, which retry failed jobs when a partner calls them."""

from datetime import datetime

import click

from mulligan.cli.opening import open_app, open_existing, open_for_watching
from mulligan.cli.options import ACTOR, Group, SharedOptions, complete_ids, limit_option, one_argument, pass_shared
from mulligan.cli.output import show, show_table
from mulligan.cli.parameters import text
from mulligan.explain.words import at
from mulligan.records.document import document_of
from mulligan.records.hook import IncomingHook


@click.group("hooks", cls=Group)
def hooks() -> None:
    """Create, list and remove incoming hooks, which retry failed jobs when they are called."""


@hooks.command("create")
@click.option("--name", type=text, required=True, help="For people; each owner uses a name once.")
@click.option("--group", type=text, help="Retry the failed jobs of this group; six characters of it are enough.")
@click.option("--batch", type=text, help="Retry the failed jobs of this batch; six characters of its id are enough.")
@click.option("--owner", type=text, help="Only jobs of this owner.  [default: all owners]")
@ACTOR
@pass_shared
def create(shared: SharedOptions, /, *, name: str, owner: str | None, actor: str, **jobs: str | None) -> None:
    """Create a hook and print its secret, which is shown this once."""
    with open_app(shared) as app:
        created = app.create_hook(name, **complete_ids(app, jobs, "group", "batch"), owner=owner, actor=actor)
    show(
        shared,
        document_of(created),
        created.secret,
        f"Signed calls of POST /api/v1/hooks/{created.hook.id} retry the jobs. The secret is not shown again.",
    )


@hooks.command("list")
@click.option("--owner", type=text, help="Only those of this owner.")
@limit_option(50)
@click.option("--cursor", type=text, help="The id of the last hook of the previous page.")
@pass_shared
def list_all(shared: SharedOptions, /, *, owner: str | None, limit: int, cursor: str | None) -> None:
    """List incoming hooks."""
    with open_existing(shared) as app:
        found, now = app.incoming_hooks(owner=owner, limit=limit, cursor=cursor), app.store.now()
    headings = ("Id", "Name", "Owner", "Retries", "Last called")
    document = {"hooks": [document_of(each) for each in found]}
    show_table(shared, document, headings, [_row(each, now) for each in found], empty="No hooks.")


def _row(each: IncomingHook, now: datetime) -> tuple[str, ...]:
    owner = "(all)" if each.owner is None else each.owner
    jobs = f"group {each.group}" if each.group else f"batch {each.batch}"
    called = "never" if each.called_at is None else at(each.called_at, now)
    return each.id, each.name, owner, jobs, called


@hooks.command("remove")
@one_argument("hook", "ID")
@ACTOR
@pass_shared
def remove(shared: SharedOptions, /, *, hook: str, actor: str) -> None:
    """Remove an incoming hook."""
    with open_for_watching(shared) as app:
        removed = app.remove_hook(app.find_id("hook", hook), actor=actor)
    show(shared, document_of(removed), f"Hook {removed.id} ({removed.name}) is removed.")
