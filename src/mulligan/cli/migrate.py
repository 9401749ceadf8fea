"""`mulligan migrate`: bring the schema of the database up to date."""

import click

from mulligan.cli.opening import open_app
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json
from mulligan.errors import without_password
from mulligan.values.text import safe


@click.command("migrate", cls=CliCommand)
@pass_shared
def migrate(shared: SharedOptions) -> None:
    """Bring the database up to date. A missing one is created."""
    with open_app(shared) as app:
        is_new = not app.has_database
        applied = app.migrate()
        database = without_password(app.settings.database_url)
    if shared.as_json:
        print_json({"database": database, "is_new": is_new, "applied": applied})
        return
    for name in applied:
        echo(f"Applied {name}.")
    echo(safe(f"{database} was created and is up to date." if is_new else f"{database} is up to date."))
