"""Alerts: what is wrong for long enough that people are notified, and the rules that say so."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from mulligan.records.alert import AlertBoard, AlertRule, AlertState, AlertStatus
from mulligan.records.alert_rules import SECONDS, check_named, describe_value
from mulligan.records.key import Scope
from mulligan.values.duration import describe
from mulligan.web.pages.doctor import place_of
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.pauses import PauseForm
from mulligan.web.pages.sentence import Piece, Sentence, ago, clock, failed, held
from mulligan.web.pages.words import duration, joined, listing, percent, plural, verb

pages = Pages("Alerts")


class TermsForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    threshold: str | None = None
    level: str | None = None
    after: str | None = None
    resolve_after: str | None = None
    is_on: str | None = None
    reason: str | None = None


def describe_alerts(board: AlertBoard) -> Sentence:
    loud = [alert for alert in board.firing if not alert.is_silenced]
    quiet = len(board.firing) - len(loud)
    pending = sum(alert.state is AlertState.PENDING for alert in board.alerts)
    title: tuple[Piece, ...] = ("No alert is firing.",)
    if loud:
        title = failed(f"{plural(len(loud), 'alert')} {verb(len(loud), 'is', 'are')} firing"), _of(loud)
    elif quiet:
        title = held(f"{plural(quiet, 'silenced alert')} {verb(quiet, 'is', 'are')} firing"), _of(board.firing)
    return Sentence(title, (*_pending(pending), *_evaluated(board)))


def _of(alerts: Sequence[AlertStatus]) -> str:
    return f": {listing([title_of(alert) for alert in alerts], 3)}."


def title_of(alert: AlertStatus) -> str:
    """`jobs.depth of media`"""
    return f"{alert.check} of {alert.subject}" if alert.subject else str(alert.check)


def _pending(pending: int) -> list[Piece]:
    if not pending:
        return []
    lasts = verb(pending, "it lasts", "they last")
    return [f"{plural(pending, 'alert')} will fire, if {lasts}. "]


def _evaluated(board: AlertBoard) -> list[Piece]:
    if not board.is_stale:
        return ["Evaluated ", ago(board.evaluated_at), "."] if board.evaluated_at else []
    last: list[Piece] = ["since ", clock(board.evaluated_at)] if board.evaluated_at else ["yet"]
    return ["No worker evaluates alerts ", *last, ": no notification is sent. This is what the doctor finds now."]


def describe_rule(rule: AlertRule) -> Sentence:
    if not rule.is_on:
        return Sentence((f"{rule.check} is off.",), ("Its findings are on the page of the doctor only.",))
    lasts = f" that lasts for {duration(rule.after)}" if rule.after else ", at once"
    beyond = f"Its threshold is {threshold_of(rule)}." if rule.threshold is not None else ""
    over = f"It ends after {duration(rule.resolve_after)} without it."
    return Sentence((f"{rule.check} fires at a {rule.level}{lasts}.",), (joined(beyond, over),))


def threshold_of(rule: AlertRule) -> str:
    """For people; empty if the check has none."""
    if rule.threshold is None:
        return ""
    match rule.unit:
        case "seconds":
            return duration(rule.threshold)
        case "ratio":
            return percent(rule.threshold)
    return describe_value(rule.threshold, rule.unit)


def source_of(rule: AlertRule) -> str:
    return "set by a person" if rule.is_edited else "the code" if rule.is_in_code else "default"


def written(rule: AlertRule) -> str:
    """The threshold as it is typed."""
    if rule.threshold is None:
        return ""
    if rule.unit == SECONDS:
        return describe(timedelta(seconds=rule.threshold)).replace(" ", "")
    return f"{rule.threshold:.10g}"


@pages.page("/alerts", scope=Scope.JOBS_READ, is_admin=True)
def show_alerts(call: PageCall) -> View:
    board = call.console.alerts()
    # Of several subjects, the worst is first.
    states = {alert.check: alert.state for alert in reversed(board.alerts) if alert.state is not AlertState.OK}
    shown = [alert for alert in board.alerts if alert.state is not AlertState.OK]
    rules = [(rule, source_of(rule), threshold_of(rule), states.get(rule.check)) for rule in board.rules]
    return View(
        "alerts.html",
        says=describe_alerts(board),
        alerts=[(alert, place_of(alert.check)) for alert in sorted(shown, key=lambda each: each.is_silenced)],
        special=[each for each in rules if is_special(each[0]) or each[3]],
        usual=[each for each in rules if not is_special(each[0]) and not each[3]],
    )


def is_special(rule: AlertRule) -> bool:
    """Whether it differs from its default."""
    return rule.is_edited or rule.is_in_code or rule.is_silenced


@pages.page("/alerts/{check}", scope=Scope.JOBS_READ, is_admin=True)
def show_rule(call: PageCall, check: str) -> View:
    wanted = check_named(check)
    board = call.console.alerts()
    (rule,) = [rule for rule in board.rules if rule.check is wanted]
    return View(
        "alert.html",
        says=describe_rule(rule),
        rule=rule,
        source=source_of(rule),
        written={
            "threshold": written(rule),
            "after": describe(rule.after).replace(" ", ""),
            "resolve_after": describe(rule.resolve_after).replace(" ", ""),
        },
        alerts=[alert for alert in board.alerts if alert.check is wanted],
        place=place_of(wanted),
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.action("/alerts/{check}/set", scope=Scope.OPERATE, is_admin=True)
def set_alert(call: PageCall, check: str, form: TermsForm) -> Done:
    rule = call.console.set_alert(
        check,
        threshold=_number(form.threshold),
        level=form.level,
        after=form.after,
        resolve_after=form.resolve_after,
        is_on=None if form.is_on is None else form.is_on == "yes",
        reason=form.reason,
        request_id=call.request_id,
    )
    return Done(f"/alerts/{rule.check}", f"The rule of {rule.check} is set, in all workers.")


def _number(given: str | None) -> float | str | None:
    """A number in the unit of the rule, or a duration as it was written."""
    try:
        return None if given is None else float(given)
    except ValueError:
        return given


@pages.action("/alerts/{check}/default", scope=Scope.OPERATE, is_admin=True)
def take_back_alert(call: PageCall, check: str, form: WithReason) -> Done:
    rule = call.console.set_alert(check, reason=form.reason, request_id=call.request_id)
    return Done(f"/alerts/{rule.check}", f"The rule of {rule.check} is as in the code again.")


@pages.action("/alerts/{check}/silence", scope=Scope.OPERATE, is_admin=True)
def silence_alert(call: PageCall, check: str, form: PauseForm) -> Done:
    rule = call.console.silence_alert(check, form.duration, reason=form.reason, request_id=call.request_id)
    until = "" if rule.silenced_until is None else f" for {duration(rule.silenced_until - call.now)}"
    return Done(
        "/alerts", f"Alert {rule.check} is silenced{until}.", "It is shown as before, but no notification is sent."
    )


@pages.action("/alerts/{check}/unsilence", scope=Scope.OPERATE, is_admin=True)
def unsilence_alert(call: PageCall, check: str) -> Done:
    rule = call.console.unsilence_alert(check, request_id=call.request_id)
    return Done("/alerts", f"Alert {rule.check} is not silenced any more.", "When it fires, notifications are sent.")
