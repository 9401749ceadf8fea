"""`mulligan migrate`: bring the schema of the database up to date."""

import click

from mulligan.cli.opening import open_app
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import show
from mulligan.errors import without_password


@click.command("migrate", cls=CliCommand)
@pass_shared
def migrate(shared: SharedOptions) -> None:
    """Bring the database up to date. A missing one is created."""
    with open_app(shared) as app:
        is_new = not app.has_database
        applied = app.migrate()
        database = without_password(app.settings.database_url)
    show(
        shared,
        {"database": database, "is_new": is_new, "applied": applied},
        *(f"Applied {name}." for name in applied),
        f"{database} was created and is up to date." if is_new else f"{database} is up to date.",
    )
