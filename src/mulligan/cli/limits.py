"""`mulligan limits`: the concurrency limits in force and their use."""

import click

from mulligan.cli.opening import open_existing
from mulligan.cli.options import CliCommand, SharedOptions, pass_shared
from mulligan.cli.output import echo, show_table
from mulligan.cli.parameters import text
from mulligan.records.document import Document, document_of
from mulligan.records.limit import SpendingRecord
from mulligan.values.text import safe


@click.command("limits", cls=CliCommand)
@click.option("--owner", type=text, help="Also the limit of this owner, and what its retries have cost.")
@pass_shared
def limits(shared: SharedOptions, *, owner: str | None) -> None:
    """List the concurrency limits in force. Shows how many slots each has, and how many are taken; then the retry
    budgets of owners that have one of their own."""
    with open_existing(shared) as app:
        found, default = app.limits(owner=owner), app.default_owner_limit()
        budgets = app.budgets() if owner is None else []
        spending = None if owner is None else app.spending(owner)
    document: Document = {"limits": [document_of(limit) for limit in found]}
    if owner is None:
        document["budgets"] = [document_of(budget) for budget in budgets]
    if owner is not None:
        document["spending"] = spending and document_of(spending)
    rows = [(limit.what, limit.name, f"{limit.taken:,}", f"{limit.most:,}") for limit in found]
    show_table(shared, document, ("Limit", "Name", "Taken", "Of"), rows, empty=_no_limits(default))
    if owner is not None and not shared.as_json:
        echo(safe(_spent(owner, spending)))
    if not shared.as_json:
        for budget in budgets:
            echo(safe(_spent(budget.owner, budget)))


def _no_limits(default: int | None) -> str:
    if default is None:
        return "No limits. Workers store the limits of their app when they claim jobs."
    return f"No named limits; each owner has {default:,} slots. One owner: mulligan limits --owner NAME"


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
