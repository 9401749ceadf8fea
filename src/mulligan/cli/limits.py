"""`mulligan limits`: the concurrency limits in force and their use."""

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, print_json, print_table
from mulligan.cli.parameters import text
from mulligan.console.documents import Document, document_of
from mulligan.records.limit import LimitRecord, SpendingRecord
from mulligan.values.text import safe


@click.command("limits", cls=CliCommand)
@click.option("--owner", type=text, help="Also the limit of this owner, and what its retries have cost.")
@pass_shared
def limits(shared: SharedOptions, *, owner: str | None) -> None:
    """List the concurrency limits in force. Shows how many slots each has, and how many are taken."""
    with open_existing(shared) as app:
        found, everybody = app.limits(owner=owner), app.default_owner_limit()
        spending = None if owner is None else app.spending(owner)
    if shared.as_json:
        documents = {"limits": [document_of(limit) for limit in found]}
        print_json(documents if owner is None else documents | {"spending": spending and _document(spending)})
        return
    if found:
        print_table(("Limit", "Name", "Taken", "Of"), [_row(limit) for limit in found])
    elif everybody is not None:
        echo(f"No named limits; each owner has {everybody:,} slots. One owner: mulligan limits --owner NAME")
    else:
        echo("No limits. Workers store the limits of their app when they claim jobs.")
    if owner is not None:
        echo(safe(_spent(owner, spending)))


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
    parts_used = [f"{when} {used:,}" + ("" if most is None else f" of {most:,}") for when, used, most in parts]
    return f"Retries of owner {owner!r}: {', '.join(parts_used)}."
