"""`mulligan alerts`: which alerts fire, and the rules behind them."""

from datetime import datetime
from typing import Any

import click

from mulligan.cli.errors import NotNow, WrongUsage
from mulligan.cli.opening import open_either
from mulligan.cli.options import ACTOR, Group, SharedOptions, one_argument, pass_shared, signed, without_subcommand
from mulligan.cli.output import echo, show, show_table
from mulligan.cli.parameters import duration, text
from mulligan.explain.words import at, relative
from mulligan.records.alert import AlertBoard, AlertRule, AlertState, AlertStatus
from mulligan.records.alert_rules import describe_value
from mulligan.records.document import document_of
from mulligan.values.clock import SystemClock
from mulligan.values.duration import describe

HEADINGS = ("State", "Check", "About", "Since", "Found", "Remedy")
RULE_HEADINGS = ("Check", "Level", "Threshold", "After", "Over after", "From")


@click.group("alerts", cls=Group, invoke_without_command=True)
@click.option("--all", "is_all", is_flag=True, help="Also alerts that are ok.")
@without_subcommand
def alerts(shared: SharedOptions, /, *, is_all: bool) -> None:
    """List the alerts that fire; set and silence their rules.

    The exit code is 5 if an alert fires that is not silenced: run it where no worker of mulligan runs, by cron or a
    monitoring system, to learn that all workers are dead.

    \b
    mulligan alerts
    mulligan alerts rules
    mulligan alerts set jobs.depth --threshold 5000 --after 10m
    mulligan alerts silence jobs.depth --for 2h --reason "the import of the month"
    """
    with open_either(shared) as app:
        board = app.alerts()
    now = SystemClock().now()
    shown = [alert for alert in board.alerts if is_all or alert.state is not AlertState.OK]
    show_table(shared, document_of(board), HEADINGS, [_row(alert, now) for alert in shown], empty="No alert fires.")
    if not shared.as_json and board.is_stale:
        echo(f"\n{_stale(board, now)}")
    if any(not alert.is_silenced for alert in board.firing):
        raise click.exceptions.Exit(NotNow.exit_code)


def _stale(board: AlertBoard, now: datetime) -> str:
    last = f"the last evaluation was {relative(board.evaluated_at, now)}" if board.evaluated_at else "none ever did"
    return (
        f"No worker evaluates the alerts at present ({last}), so no one is notified. This is what the doctor finds now."
    )


def _row(alert: AlertStatus, now: datetime) -> tuple[str, ...]:
    state = f"{alert.state}, silenced" if alert.is_silenced and alert.state is not AlertState.OK else str(alert.state)
    if alert.quiet_since is not None:
        state = f"{state}, quiet {relative(alert.quiet_since, now)}"
    found, remedy = (alert.found, alert.remedy) if alert.state is not AlertState.OK else ("", "")
    return state, str(alert.check), alert.subject, at(alert.since, now), found, remedy


@alerts.command("rules")
@pass_shared
def rules(shared: SharedOptions) -> None:
    """List the rules with their terms in force."""
    with open_either(shared) as app:
        found = app.alerts().rules
    document = {"rules": [document_of(rule) for rule in found]}
    now = SystemClock().now()
    show_table(shared, document, RULE_HEADINGS, [_rule(rule, now) for rule in found], empty="No rules.")


def _rule(rule: AlertRule, now: datetime) -> tuple[str, ...]:
    source = "set by a person" if rule.is_edited else "the code" if rule.is_in_code else "default"
    if rule.is_silenced:
        source += f", silenced until {at(rule.silenced_until, now)}" if rule.silenced_until else ", silenced"
    return (
        str(rule.check),
        str(rule.level) if rule.is_on else "off",
        describe_value(rule.threshold, rule.unit),
        describe(rule.after),
        describe(rule.resolve_after),
        source,
    )


@alerts.command("set")
@one_argument("check", "CHECK")
@click.option("--threshold", type=text, help="A number in the unit of the rule, or a duration: 5000, 0.3, 10m.")
@click.option("--level", type=click.Choice(("warning", "problem")), help="How bad the finding must be.")
@click.option("--after", type=duration, help="How long the check must find it before the alert fires: 5m.")
@click.option("--resolve-after", type=duration, help="How long it must find nothing before the alert is over: 5m.")
@click.option("--on/--off", "is_on", default=None, help="Whether the rule fires at all.")
@click.option("--default", "is_default", is_flag=True, help="Take back what was set before.")
@signed()
@pass_shared
def set_rule(shared: SharedOptions, /, *, check: str, threshold: str | None, is_default: bool, **options: Any) -> None:
    """Set the terms of a rule. They replace all that were set before; what is not given is as in the code."""
    terms = (threshold, *(options[name] for name in ("level", "after", "resolve_after", "is_on")))
    if is_default is any(term is not None for term in terms):
        raise WrongUsage("UsageError", "give terms, such as --threshold 5000, or --default to take them back", shared)
    with open_either(shared, watches=True) as app:
        rule = app.set_alert(check, threshold=_threshold(threshold), **options)
    show(shared, document_of(rule), f"Alert {rule.check} fires {_describe(rule)}.")


def _threshold(given: str | None) -> Any:
    """A number, or a duration as it was written."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


def _describe(rule: AlertRule) -> str:
    if not rule.is_on:
        return "never: it is off"
    beyond = f" beyond {describe_value(rule.threshold, rule.unit)}" if rule.threshold is not None else ""
    return f"for a {rule.level}{beyond} that lasts for {describe(rule.after)}"


@alerts.command("silence")
@one_argument("check", "CHECK")
@click.option("--for", "length", type=duration, help="For this long: 2h, 7d.  [default: until it is ended]")
@signed()
@pass_shared
def silence(shared: SharedOptions, /, *, check: str, length: Any, **options: Any) -> None:
    """Do not notify of an alert. It is shown as before, and notified if it still fires at the end."""
    with open_either(shared, watches=True) as app:
        rule = app.silence_alert(check, length, **options)
    until = f"until {at(rule.silenced_until, SystemClock().now())}" if rule.silenced_until else "until that is ended"
    show(shared, document_of(rule), f"Alert {rule.check} is silenced {until}.")


@alerts.command("unsilence")
@one_argument("check", "CHECK")
@ACTOR
@pass_shared
def unsilence(shared: SharedOptions, /, *, check: str, actor: str) -> None:
    """End the silence of an alert."""
    with open_either(shared, watches=True) as app:
        rule = app.unsilence_alert(check, actor=actor)
    show(shared, document_of(rule), f"Alert {rule.check} is notified again.")
