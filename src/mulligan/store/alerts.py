"""Alerts: the rules that people and code have changed, and the states at the last evaluation."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from mulligan.lifecycle import ALERT_FIRED, ALERT_RESOLVED
from mulligan.records.admission import NewAuditEntry
from mulligan.records.alert import (
    AlertBook,
    AlertState,
    AlertStatus,
    AlertTerms,
    AlertTransition,
    Evaluation,
    StoredRule,
)
from mulligan.records.document import to_json as to_document
from mulligan.records.finding import Check, Level
from mulligan.store.events import event_values
from mulligan.store.request_admission import write_audit
from mulligan.store.rows import Record, from_time, from_time_or_none, to_duration, to_json, to_record, to_time
from mulligan.store.session import Session

_terms = msgspec.json.Decoder(AlertTerms).decode
_KNOWN = frozenset(map(str, Check))


class AlertOperations:
    def read(self, session: Session) -> AlertBook:
        (row,) = session.rows("alert_evaluation")
        return AlertBook(
            version=row["version"],
            now=from_time(row["now"]),
            evaluated_at=from_time_or_none(row["at"]),
            evaluated_by=row["worker"],
            rules=self.rules(session),
            # A newer version may have more checks.
            alerts=[_to_status(each) for each in session.rows("alerts") if each["name"] in _KNOWN],
        )

    def rules(self, session: Session) -> dict[Check, StoredRule]:
        return {Check(row["name"]): _to_rule(row) for row in session.rows("alert_rules") if row["name"] in _KNOWN}

    def write(
        self,
        session: Session,
        book: AlertBook,
        done: Evaluation,
        in_code: Mapping[Check, AlertTerms] | None,
        worker: str,
    ) -> bool:
        """Store the states and the events of what has changed. False if another worker was faster. `in_code` is None
        if the caller has no code."""
        if not session.rows("alert_evaluation_move", version=book.version, worker=worker):
            return False
        if in_code is not None:
            self._declare(session, book, in_code)
        self._write_states(session, {alert.key: alert for alert in book.alerts}, done.alerts)
        for change in done.changes:
            session.rows("event", _event(change, session.moment()))
        return True

    def _declare(self, session: Session, book: AlertBook, in_code: Mapping[Check, AlertTerms]) -> None:
        for check in sorted({*in_code, *book.rules}):
            known = book.rules.get(check)
            if (known.in_code if known else None) != in_code.get(check):
                terms = in_code.get(check)
                session.rows("alert_rule_declare", name=str(check), terms=None if terms is None else to_json(terms))

    def _write_states(
        self, session: Session, known: Mapping[tuple[Check, str], AlertStatus], alerts: Sequence[AlertStatus]
    ) -> None:
        for alert in alerts:
            if known.get(alert.key) != alert:
                session.rows("alert_write", _values(alert))
        for check, subject in known.keys() - {alert.key for alert in alerts}:
            session.rows("alert_forget", name=str(check), subject=subject)

    def set_rule(
        self,
        session: Session,
        check: Check,
        terms: AlertTerms,
        signed: Mapping[str, str | None],
        entries: Sequence[NewAuditEntry],
    ) -> StoredRule:
        """Replace the terms that a person set before; empty terms end them."""
        written = None if terms == AlertTerms() else to_json(terms)
        session.rows("alert_rule_set", name=str(check), terms=written, **signed)
        write_audit(session, entries)
        return self.rules(session)[check]

    def silence(
        self,
        session: Session,
        check: Check,
        duration: timedelta | None,
        signed: Mapping[str, str | None],
        entries: Sequence[NewAuditEntry],
    ) -> StoredRule:
        length = None if duration is None else to_duration(duration)
        session.rows("alert_rule_silence", name=str(check), duration=length, **signed)
        write_audit(session, entries)
        return self.rules(session)[check]

    def unsilence(self, session: Session, check: Check, entries: Sequence[NewAuditEntry]) -> StoredRule:
        session.rows("alert_rule_unsilence", name=str(check))
        write_audit(session, entries)
        return self.rules(session).get(check, StoredRule(check=check))


def _to_rule(row: Record) -> StoredRule:
    given = {name: None if row[name] is None else _terms(row[name]) for name in ("in_code", "edited")}
    return to_record(StoredRule, row, check=Check(row["name"]), **given)


def _to_status(row: Record) -> AlertStatus:
    return to_record(
        AlertStatus,
        row,
        check=Check(row["name"]),
        state=AlertState(row["state"]),
        level=Level(row["level"]),
        _is_notified=bool(row["is_notified"]),
    )


def _values(alert: AlertStatus) -> dict[str, Any]:
    plain = ("subject", "found", "remedy", "value", "threshold")
    return {
        **{name: getattr(alert, name) for name in plain},
        "name": str(alert.check),
        "state": str(alert.state),
        "level": str(alert.level),
        "since": to_time(alert.since),
        "fired_at": None if alert.fired_at is None else to_time(alert.fired_at),
        "quiet_since": None if alert.quiet_since is None else to_time(alert.quiet_since),
        "is_notified": alert._is_notified,
    }


def _event(change: AlertTransition, now: int) -> dict[str, Any]:
    alert = change.alert
    data: dict[str, Any] = {"what": "alert", "name": str(alert.check), "subject": alert.subject}
    data |= {
        "found": alert.found,
        "value": alert.value,
        "threshold": alert.threshold,
        "since": to_document(alert.since),
    }
    if change.is_fired:
        data |= {"level": str(alert.level), "remedy": alert.remedy}
    else:
        data["seconds"] = (from_time(now) - alert.since).total_seconds()
    if change.is_silenced:
        data["silenced"] = True
    given = {name: value for name, value in data.items() if value not in (None, "")}
    return event_values(ALERT_FIRED if change.is_fired else ALERT_RESOLVED, data=given)
