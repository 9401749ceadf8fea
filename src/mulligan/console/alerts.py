"""Alerts: read their states, set the terms of their rules, and silence them. The duty `alert` evaluates them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from datetime import timedelta

from mulligan.console.arguments import BY_THE_CALL, FLAG, NAME, PAUSE_LENGTH, REQUEST_ID, STRING, check
from mulligan.errors import BadAlertTerm
from mulligan.failure.redact import bounded
from mulligan.records.admission import NewAuditEntry
from mulligan.records.alert import AlertBoard, AlertBook, AlertRule, AlertState, AlertStatus, AlertTerms, StoredRule
from mulligan.records.alert_evaluation import evaluate
from mulligan.records.alert_rules import (
    BadTerm,
    check_named,
    check_terms,
    find_rules,
    to_limits,
    to_rule,
    unused_checks,
)
from mulligan.records.finding import Check, Examine, Limits
from mulligan.store.requests import AnswerFormat, Once, answer_format, to_once
from mulligan.store.store import Store
from mulligan.values.duration import Duration, parse

RULE: AnswerFormat[StoredRule] = answer_format(StoredRule)
# After so many intervals without an evaluation, no worker evaluates.
MISSED = 4
SOONEST = timedelta(seconds=30)
UNKNOWN_ACTOR = "unknown"
ORDER = (AlertState.FIRING, AlertState.PENDING, AlertState.OK)


@dataclass(frozen=True, slots=True)
class AlertRules:
    """The rules in force. The terms of this app's code count, if it has any, and else those that workers stored."""

    store: Callable[[], Store]
    in_code: Mapping[Check, AlertTerms]

    def of(self, book: AlertBook) -> dict[Check, AlertRule]:
        return find_rules(book.rules, book.now, self.in_code or None)

    def limits(self) -> Limits:
        """The thresholds that the doctor goes by."""
        store = self.store()
        return to_limits(find_rules(store.alert_rules(), store.now(), self.in_code or None).values())

    def show(self, kept: StoredRule) -> AlertRule:
        code = self.in_code.get(kept.check) if self.in_code else kept.in_code
        return to_rule(kept, code, self.store().now())


@dataclass(frozen=True, slots=True)
class Alerts:
    store: Callable[[], Store]
    ids: Callable[[], str]
    _: KW_ONLY
    rules: AlertRules
    examine: Examine
    interval: Callable[[], timedelta]

    def read(self) -> AlertBoard:
        """The states as a worker wrote them; or, if no worker evaluates, those and what the doctor finds now."""
        book = self.store().alert_book()
        rules = self.rules.of(book)
        is_stale = book.evaluated_at is None or book.now - book.evaluated_at >= max(SOONEST, MISSED * self.interval())
        alerts = self._look(book, rules) if is_stale else book.alerts
        return AlertBoard(
            alerts=tuple(_arrange(alerts, rules)),
            rules=tuple(rules.values()),
            evaluated_at=book.evaluated_at,
            evaluated_by=book.evaluated_by,
            is_stale=is_stale,
        )

    def _look(self, book: AlertBook, rules: Mapping[Check, AlertRule]) -> tuple[AlertStatus, ...]:
        findings = self.examine(to_limits(rules.values()), besides=unused_checks(rules.values()))
        seen = book.evaluated_at
        return evaluate(rules, book.alerts, findings, book.now, unseen_since=seen, at_once=seen is None).alerts

    @check(
        check=NAME,
        threshold=BY_THE_CALL,
        level=BY_THE_CALL,
        after=BY_THE_CALL,
        resolve_after=BY_THE_CALL,
        is_on=BY_THE_CALL,
        actor=STRING,
        reason=STRING,
        is_audited=FLAG,
        request_id=REQUEST_ID,
    )
    def set_rule(
        self,
        check: str,
        *,
        threshold: Duration | None = None,
        level: str | None = None,
        after: Duration | None = None,
        resolve_after: Duration | None = None,
        is_on: bool | None = None,
        actor: str | None = None,
        reason: str | None = None,
        is_audited: bool = False,
        request_id: str | None = None,
    ) -> AlertRule:
        code = check_named(check)
        try:
            terms = check_terms(
                code, threshold=threshold, level=level, after=after, resolve_after=resolve_after, is_on=is_on
            )
        except BadTerm as error:
            raise BadAlertTerm(check, error.name, str(error)) from None
        once = to_once(request_id, "set alert", RULE, check=check, terms=terms, actor=actor, reason=reason)
        kept = self.store().set_alert_rule(
            code,
            terms,
            actor=bounded(actor),
            reason=bounded(reason),
            audit=self._audit("set alert", check, actor, is_audited=is_audited),
            once=once,
        )
        return self.rules.show(kept)

    @check(
        check=NAME,
        duration=PAUSE_LENGTH,
        actor=STRING,
        reason=STRING,
        is_audited=FLAG,
        request_id=REQUEST_ID,
    )
    def silence(
        self,
        check: str,
        duration: Duration | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        is_audited: bool = False,
        request_id: str | None = None,
    ) -> AlertRule:
        code, length = check_named(check), None if duration is None else parse(duration)
        once = to_once(request_id, "silence alert", RULE, check=check, length=length, actor=actor, reason=reason)
        kept = self.store().silence_alert(
            code,
            length,
            actor=bounded(actor),
            reason=bounded(reason),
            audit=self._audit("silence alert", check, actor, is_audited=is_audited),
            once=once,
        )
        return self.rules.show(kept)

    @check(check=NAME, actor=STRING, is_audited=FLAG, request_id=REQUEST_ID)
    def unsilence(
        self, check: str, *, actor: str | None = None, is_audited: bool = False, request_id: str | None = None
    ) -> AlertRule:
        code = check_named(check)
        once: Once[StoredRule] | None = to_once(request_id, "unsilence alert", RULE, check=check, actor=actor)
        audit = self._audit("unsilence alert", check, actor, is_audited=is_audited)
        return self.rules.show(self.store().unsilence_alert(code, audit=audit, once=once))

    def _audit(self, action: str, target: str, actor: str | None, *, is_audited: bool) -> list[NewAuditEntry]:
        """An entry, unless the caller has recorded the change."""
        if is_audited:
            return []
        return [NewAuditEntry(id=self.ids(), actor=bounded(actor or UNKNOWN_ACTOR), action=action, target=target)]


def _arrange(alerts: Collection[AlertStatus], rules: Mapping[Check, AlertRule]) -> list[AlertStatus]:
    """Firing ones first. The state of a whole check is left out if one of its subjects has another."""
    troubled = {alert.check for alert in alerts if alert.subject and alert.state is not AlertState.OK}
    shown = [
        replace(alert, is_silenced=rules[alert.check].is_silenced)
        for alert in alerts
        if rules[alert.check].is_on and (alert.subject or alert.check not in troubled)
    ]
    return sorted(shown, key=lambda alert: (ORDER.index(alert.state), alert.check, alert.subject))
