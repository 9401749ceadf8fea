"""`mulligan metrics`: what Prometheus gets, and alert rules and a dashboard for it."""

import re
from importlib.resources import files

import click

from mulligan.cli.opening import open_either
from mulligan.cli.options import Group, SharedOptions, without_subcommand
from mulligan.cli.output import echo, print_json
from mulligan.records.document import document_of
from mulligan.records.exposition import check_prefix

OURS = "mulligan_"
PREFIX = click.option(
    "--prefix", default=OURS, show_default=True, help="What the names of your metrics begin with; '' for nothing."
)


@click.group("metrics", cls=Group, invoke_without_command=True)
@click.option("--prefix", help="What the names begin with.  [default: MULLIGAN_METRICS_PREFIX]")
@without_subcommand
def metrics(shared: SharedOptions, /, prefix: str | None) -> None:
    """Print all metrics in the text format of Prometheus.

    They are those of the whole installation, whichever process prints them. With --json, as records without a prefix.
    """
    with open_either(shared) as app:
        if shared.as_json:
            print_json({"metrics": [document_of(metric) for metric in app.read_metrics()]})
        else:
            echo(app.metrics(prefix).rstrip("\n"))


@metrics.command("rules")
@PREFIX
def rules(prefix: str) -> None:
    """Print alert rules for Prometheus: mulligan metrics rules > mulligan-rules.yml"""
    _print_file("rules.yml", prefix)


@metrics.command("dashboard")
@PREFIX
def dashboard(prefix: str) -> None:
    """Print a dashboard for Grafana, to import there: mulligan metrics dashboard > mulligan.json"""
    _print_file("dashboard.json", prefix)


def _print_file(name: str, prefix: str) -> None:
    text = (files("mulligan.cli") / "monitoring" / name).read_text("utf-8")
    echo(re.sub(rf"\b{OURS}", check_prefix(prefix), text).rstrip("\n"))
