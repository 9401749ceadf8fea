"""`mulligan stats`: what happened in each minute, hour or day, and whether retries helped."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import KIND, OWNER, Group, SharedOptions, pass_shared, without_subcommand
from mulligan.cli.output import echo, print_heading, print_json, print_pairs, print_table, show
from mulligan.cli.parameters import text, when
from mulligan.explain.words import at
from mulligan.records.document import document_of
from mulligan.records.statistics import OUTCOMES, SPANS, RetryResult, Statistics
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe
from mulligan.values.text import safe


@click.group("stats", cls=Group, invoke_without_command=True)
@click.option("--span", type=click.Choice(list(SPANS)), default="hour", show_default=True)
@click.option("--since", type=when, help="A time, or a duration such as 2h.  [default: an hour, a day or 30 days]")
@click.option("--until", type=when, help="A time, or a duration such as 2h.")
@KIND
@OWNER
@click.option("--service", type=text)
@click.option("--code", type=text, help="The error code.")
@without_subcommand
def stats(shared: SharedOptions, /, **terms: Any) -> None:
    """Show what happened, and whether retries helped.

    Workers derive the statistics from the event log, about a second late. With --json, all rows by kind, owner,
    service, outcome, code and attempt, each with its histogram.
    """
    with open_either(shared) as app:
        found = app.statistics(**terms)
    if shared.as_json:
        print_json(document_of(found))
    else:
        _print(found)


@stats.command("rebuild")
@pass_shared
def rebuild(shared: SharedOptions) -> None:
    """Fold the event log again, as far as it is complete. Older minutes and groups stay. Workers do it."""
    with open_either(shared) as app:
        app.rebuild_statistics()
    show(shared, {"rebuilding": True}, "Workers fold the event log again. See how far they are with: mulligan stats")


def _print(found: Statistics) -> None:
    now = SystemClock().now()
    _print_spans(found)
    retries = found.retries
    half = retries.median_recovery
    pairs = {
        "recovered": f"{retries.recovered:,}" + (f", half of them within {describe(half)}" if half else ""),
        "in vain": f"{retries.attempts_in_vain:,} retries, {retries.seconds_in_vain:,.1f} s",
        "cost of retries": f"{retries.cost:,}",
        "without a row": f"{found.other:,} events, counted by outcome only" if found.other else "",
        "behind the log": describe(found.status.lag) if found.status.lag else "",
        "rebuilding": "numbers are too low" if found.status.is_rebuilding else "",
        "missed": f"events were deleted uncounted, {at(found.status.missed_at, now)}" if found.status.missed_at else "",
        "cut": "the oldest rows are missing: choose a longer --span, or filter" if found.is_cut else "",
    }
    print_heading("Retries")
    print_pairs((name, safe(value)) for name, value in pairs.items() if value)
    if retries.by_attempt:
        print_heading("Success by attempt")
        rows = [
            (str(one.attempt), f"{one.ended:,}", f"{one.succeeded:,}", f"{one.succeeded / one.ended:.1%}")
            for one in retries.by_attempt
        ]
        print_table(("Attempt", "Ended", "Succeeded", ""), rows)
    _print_results("By kind and code", retries.by_code)
    _print_results("Retries that never helped", retries.never_helped)


def _print_spans(found: Statistics) -> None:
    counts: dict[str, Counter[str]] = {}
    for row in found.rows:
        counts.setdefault(f"{row.at:%Y-%m-%d %H:%M}", Counter())[row.outcome] += row.number
    if not counts:
        echo("Nothing happened in this time.")
        return
    shown = [outcome for outcome in OUTCOMES if any(number[outcome] for number in counts.values())]
    rows = [(begin, *(f"{number[outcome]:,}" for outcome in shown)) for begin, number in counts.items()]
    print_table((found.span.capitalize(), *(outcome.capitalize() for outcome in shown)), rows)


def _print_results(heading: str, results: Iterable[RetryResult]) -> None:
    rows = [
        (
            one.kind,
            one.code,
            f"{one.retried:,}",
            f"{one.recovered:,}",
            f"{one.unrecovered:,}",
            f"{one.in_vain:,}",
            f"{one.seconds_in_vain:,.1f}",
        )
        for one in results
    ]
    if rows:
        print_heading(heading)
        print_table(("Kind", "Code", "Retried", "Recovered", "Failed", "In vain", "Seconds"), rows)
