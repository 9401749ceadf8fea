"""`mulligan limits`: how many run at once, of how many."""

import click

from mulligan.cli.opening import opened_existing
from mulligan.cli.options import CliCommand, Given, pass_given
from mulligan.cli.output import say, say_json, say_table
from mulligan.cli.parameters import text
from mulligan.console.documents import Document, document_of
from mulligan.records.limit import LimitRecord, SpendingRecord
from mulligan.values.text import safe


@click.command("limits", cls=CliCommand)
@click.option("--owner", type=text, help="His own limit too, and what his retries took of his budget.")
@pass_given
def limits(given: Given, *, owner: str | None) -> None:
    """List the concurrency limits in force. How many places each has, and how many are taken."""
    with opened_existing(given) as app:
        found, everybody = app.limits(owner=owner), app.default_owner_limit()
        spending = None if owner is None else app.spending(owner)
    if given.as_json:
        said = {"limits": [document_of(limit) for limit in found]}
        say_json(said if owner is None else said | {"spending": spending and _document(spending)})
        return
    if found:
        say_table(("Limit", "Name", "Taken", "Of"), [_row(limit) for limit in found])
    elif everybody is not None:
        say(f"No limit is named; each owner has {everybody:,} places. Of one: mulligan limits --owner NAME")
    else:
        say("No limits. A worker that has some tells them when it asks for work.")
    if owner is not None:
        say(safe(_spent(owner, spending)))


def _document(spent: SpendingRecord) -> Document:
    return document_of(spent) | {"budget": document_of(spent.budget)}


def _row(limit: LimitRecord) -> tuple[str, ...]:
    return limit.what, limit.name, f"{limit.taken:,}", f"{limit.most:,}"


def _spent(owner: str, spent: SpendingRecord | None) -> str:
    if spent is None:
        return f"Owner {owner!r} has no retry budget."
    parts = (
        ("today", spent.today, spent.budget.per_day),
        ("this month", spent.this_month, spent.budget.per_month),
        ("cost this month", spent.cost_this_month, spent.budget.cost_per_month),
    )
    told = [f"{when} {used:,}" + ("" if most is None else f" of {most:,}") for when, used, most in parts]
    return f"Retries of owner {owner!r}: {', '.join(told)}."
