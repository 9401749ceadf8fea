"""The step from the states of alerts to the next ones. Pure: values in, values out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from mulligan.records.alert import AlertRule, AlertState, AlertStatus, AlertTransition, Evaluation
from mulligan.records.finding import Check, Finding, Level

# How long the end of an alert about one queue, kind, code or service is shown.
ENDED_KEPT = timedelta(days=1)


def evaluate(
    rules: Mapping[Check, AlertRule],
    before: Sequence[AlertStatus],
    findings: Iterable[Finding],
    now: datetime,
    *,
    unseen_since: datetime | None = None,
    at_once: bool = False,
) -> Evaluation:
    """The next states. What was not found before has been there since now, or, if no worker has looked since
    `unseen_since`, since then at the earliest. With `at_once`, no alert waits for `after`: it cannot be known."""
    if at_once:
        rules = {check: replace(rule, after=timedelta(0)) for check, rule in rules.items()}
    found = {
        (finding.code, finding.subject): finding
        for finding in findings
        if rules[finding.code].is_on
        and finding.level is not Level.OK
        and finding.level.reaches(rules[finding.code].level)
    }
    known = {alert.key: alert for alert in before}
    # The states of rules, whatever they are about, come first.
    keys = dict.fromkeys([*((check, "") for check in rules), *known, *found])
    alerts, changes = [], []
    for key in keys:
        rule = rules[key[0]]
        after = _advance(rule, known.get(key), found.get(key), now, unseen_since or now, key)
        changed = _change(rule, known.get(key), after)
        if changed is not None:
            changes.append(changed)
            after = replace(after, _is_notified=changed.is_fired and not changed.is_silenced)
        if not key[1] or after.state is not AlertState.OK or now - after.since < ENDED_KEPT:
            alerts.append(replace(after, is_silenced=rule.is_silenced))
    return Evaluation(alerts=tuple(alerts), changes=tuple(changes))


def _advance(
    rule: AlertRule,
    before: AlertStatus | None,
    finding: Finding | None,
    now: datetime,
    began: datetime,
    key: tuple[Check, str],
) -> AlertStatus:
    check, subject = key
    fresh = AlertStatus(check=check, subject=subject, state=AlertState.OK, since=now)
    if finding is not None:
        return _find(rule, before or fresh, finding, now, began)
    if before is None:
        return fresh
    match before.state:
        case AlertState.OK:
            return before
        case AlertState.PENDING:
            return fresh
    quiet_since = before.quiet_since or now
    if not rule.is_on or now - quiet_since >= rule.resolve_after:
        # What it was is shown with its end.
        return replace(before, state=AlertState.OK, since=now, level=Level.OK, quiet_since=None)
    return replace(before, quiet_since=quiet_since)


def _find(rule: AlertRule, before: AlertStatus, finding: Finding, now: datetime, began: datetime) -> AlertStatus:
    since = began if before.state is AlertState.OK else before.since
    seen = replace(
        before,
        since=since,
        level=finding.level,
        found=finding.found,
        remedy=finding.remedy,
        value=finding.value,
        threshold=finding.threshold,
        quiet_since=None,
    )
    if before.state is AlertState.FIRING:
        return seen
    if now - since >= rule.after:
        return replace(seen, state=AlertState.FIRING, fired_at=now, _is_notified=False)
    return replace(seen, state=AlertState.PENDING, fired_at=None, _is_notified=False)


def _change(rule: AlertRule, before: AlertStatus | None, after: AlertStatus) -> AlertTransition | None:
    was_firing = before is not None and before.state is AlertState.FIRING
    if after.state is AlertState.FIRING:
        # Its silence has ended, and no person was notified yet.
        if was_firing and (after._is_notified or rule.is_silenced):
            return None
        return AlertTransition(after, is_fired=True, is_silenced=rule.is_silenced)
    if was_firing and before is not None:
        ended = replace(after, since=before.since)
        return AlertTransition(ended, is_fired=False, is_silenced=not before._is_notified)
    return None
