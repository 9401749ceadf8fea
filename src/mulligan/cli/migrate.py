"""`mulligan migrate`: bring the database up to date."""

import click

from mulligan.cli.opening import opened
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json
from mulligan.errors import without_password
from mulligan.values.text import safe


@click.command("migrate", cls=CliCommand)
@pass_given
def migrate(given: Given) -> None:
    """Bring the database up to date; one that is not there is made."""
    with opened(given) as app:
        is_new = not app.has_database
        applied = app.migrate()
        database = without_password(app.settings.database_url)
    if given.as_json:
        say_json({"database": database, "is_new": is_new, "applied": applied})
        return
    for name in applied:
        say(f"Applied {name}.")
    say(safe(f"{database} was made and is up to date." if is_new else f"{database} is up to date."))
