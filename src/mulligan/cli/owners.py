"""`mulligan owners`: forget an owner."""

from functools import partial
from typing import Any

import click

from mulligan.cli.opening import open_for_watching
from mulligan.cli.options import Group, SharedOptions, one_argument, pass_shared, signed
from mulligan.cli.redrive import run_operation


@click.group("owners", cls=Group)
def owners() -> None:
    """Owners of jobs."""


@owners.command("forget")
@one_argument("owner", "OWNER")
@click.option("--preview", is_flag=True, help="Only show what would be deleted: counts by kind and code.")
@signed()
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask for confirmation.")
@click.option("--follow", "is_followed", is_flag=True, help="Show the progress until the end.")
@pass_shared
def forget(shared: SharedOptions, /, *, owner: str, preview: bool, is_sure: bool, is_followed: bool, **by: Any) -> None:
    """Cancel all jobs of an owner, and delete everything stored about it.

    Workers carry out the stored operation; it survives their restarts. See it with: mulligan redrive show ID
    """
    with open_for_watching(shared) as app:
        start = partial(app.forget_owner, owner, **by)
        run_operation(shared, app, start, preview=preview, is_sure=is_sure, is_followed=is_followed)
