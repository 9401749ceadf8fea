"""Alerts: states are written by one of several workers, with their events; rules are set and silenced."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from conformance.bench import HOUR, MINUTE, Bench, at_once, failing, retrying
from mulligan.errors import RequestMismatch
from mulligan.failure.decision import Succeed
from mulligan.lifecycle import ALERT_EVENTS
from mulligan.projections.fold import fold
from mulligan.records.admission import NewAuditEntry
from mulligan.records.alert import (
    AlertState,
    AlertStatus,
    AlertTerms,
    AlertTransition,
    Evaluation,
    StoredRule,
)
from mulligan.records.event import Event
from mulligan.records.finding import Check, Level
from mulligan.store.requests import answer_format, to_once
from mulligan.store.store import Store

DEPTH = Check.JOBS_DEPTH


class AlertStateRules(Bench):
    def test_nothing_is_evaluated_at_first(self) -> None:
        book = self.store.alert_book()
        assert (book.version, book.evaluated_at, book.evaluated_by) == (0, None, None)
        assert (book.now, list(book.alerts), dict(book.rules)) == (self.now, [], {})

    def test_states_are_read_as_they_were_written(self) -> None:
        alerts = [self._firing(), self._firing("bulk", value=None, fired_at=None, quiet_since=self.now)]
        assert self._write(*alerts)
        book = self.store.alert_book()
        assert sorted(book.alerts, key=lambda alert: alert.subject) == alerts[::-1]
        assert (book.version, book.evaluated_at, book.evaluated_by) == (1, self.now, "w")

    def test_a_state_that_is_no_longer_there_is_deleted(self) -> None:
        self._write(self._firing(), self._firing("bulk"))
        self._write(self._firing("bulk"))
        assert [alert.subject for alert in self.store.alert_book().alerts] == ["bulk"]

    def test_an_evaluation_of_an_older_version_writes_nothing(self) -> None:
        book = self.store.alert_book()
        assert self._write(self._firing())
        assert not self.store.write_alerts(book, self._fired(self._firing("late")), worker="late")
        assert [event.data["subject"] for event in self._events()] == ["default"]
        assert self.store.alert_book().evaluated_by == "w"

    def test_of_workers_that_evaluate_at_once_one_writes(self) -> None:
        stores = [self.store, self.twin()]
        book, done = self.store.alert_book(), self._fired(self._firing())

        def write(store: Store) -> bool:
            return store.write_alerts(book, done, worker="w")

        answers = at_once([lambda store=store: write(store) for store in stores])  # type: ignore[misc]
        assert sorted(answers, key=str) == [False, True]
        assert len(self._events()) == 1

    @pytest.mark.parametrize("is_silenced", [True, False])
    def test_an_alert_that_fires_and_ends_is_recorded(self, is_silenced: bool) -> None:
        fired = AlertTransition(self._firing(), is_fired=True, is_silenced=is_silenced)
        self._write(fired.alert, changes=[fired])
        self.advance(HOUR)
        over = AlertTransition(self._firing(since=fired.alert.since), is_fired=False, is_silenced=is_silenced)
        self._write(over.alert, changes=[over])
        first, second = self._events()
        same = {"what": "alert", "name": "jobs.depth", "subject": "default", "found": "deep", "value": 12.0}
        same |= {"threshold": 10.0, "since": fired.alert.since.isoformat()} | (
            {"silenced": True} if is_silenced else {}
        )
        assert (first.type, first.data) == ("alert.fired", {**same, "level": "warning", "remedy": "more workers"})
        assert (second.type, second.data) == ("alert.resolved", {**same, "seconds": 3_660.0})
        assert (first.owner, first.job, second.at) == ("", "", self.now)

    def test_the_terms_of_the_code_are_stored_and_replaced(self) -> None:
        terms = AlertTerms(threshold=5.0, level=Level.WARNING, after=MINUTE, resolve_after=timedelta(0), is_on=False)
        self._write(in_code={DEPTH: terms, Check.JOBS_STUCK: AlertTerms()})
        assert self.store.alert_rules()[DEPTH].in_code == terms
        self._write(in_code=None)
        assert self.store.alert_rules()[DEPTH].in_code == terms, "a command has no code"
        self._write(in_code={Check.JOBS_STUCK: AlertTerms(after=HOUR)})
        rules = self.store.alert_rules()
        assert (rules[DEPTH].in_code, rules[Check.JOBS_STUCK].in_code) == (None, AlertTerms(after=HOUR))

    def test_what_a_person_sets_replaces_what_was_set_before(self) -> None:
        self.store.set_alert_rule(DEPTH, AlertTerms(threshold=5.0), actor="ann", reason="the import")
        rule = self.store.set_alert_rule(DEPTH, AlertTerms(after=HOUR), actor="bob")
        assert rule == StoredRule(check=DEPTH, edited=AlertTerms(after=HOUR), edited_at=self.now, edited_by="bob")
        assert self.store.set_alert_rule(DEPTH, AlertTerms()).edited is None

    def test_a_silence_ends_by_itself_or_by_a_person(self) -> None:
        rule = self.store.silence_alert(DEPTH, HOUR, actor="ann", reason="the import")
        assert (rule.silenced_at, rule.silenced_until) == (self.now, self.now + HOUR)
        assert (rule.silenced_by, rule.silenced_because) == ("ann", "the import")
        assert self.store.silence_alert(DEPTH, None).silenced_until is None
        assert self.store.unsilence_alert(DEPTH).silenced_at is None
        assert self.store.unsilence_alert(Check.CLOCK) == StoredRule(check=Check.CLOCK)

    def test_a_repeated_request_changes_nothing_more(self) -> None:
        def once(**arguments: Any) -> Any:
            return to_once("r1", "silence alert", answer_format(StoredRule), **arguments)

        first = self.store.silence_alert(DEPTH, HOUR, once=once(length=1))
        self.advance(MINUTE)
        assert self.store.silence_alert(DEPTH, HOUR, once=once(length=1)) == first
        with pytest.raises(RequestMismatch):
            self.store.silence_alert(DEPTH, HOUR, once=once(length=2))

    def test_a_change_is_in_the_audit(self) -> None:
        def entry(action: str) -> list[NewAuditEntry]:
            return [NewAuditEntry(id=self.ids(), actor="ann", action=action, target=DEPTH)]

        self.store.set_alert_rule(DEPTH, AlertTerms(after=HOUR), audit=entry("set"))
        self.store.silence_alert(DEPTH, HOUR, audit=entry("silence"))
        self.store.unsilence_alert(DEPTH, audit=entry("unsilence"))
        assert sorted(each.action for each in self.store.audit()) == ["set", "silence", "unsilence"]

    def test_recent_outcomes_are_counted_by_kind_and_code(self) -> None:
        for decision in (failing("OLD"), Succeed("1")):
            self.settle(self.leased("convert"), decision)
        self.advance(HOUR)
        for _ in range(2):
            self.settle(self.leased("convert"), failing("NOT_PDF"))
        lease = self.leased("send")
        self.settle(lease, retrying(timedelta(0), "GW_5XX"))
        (again,) = self.claim("send")
        self.settle(again, failing("GW_5XX"))
        self._fold_all()
        counts = self.store.recent_counts(self.now - MINUTE, since=self.now - 2 * HOUR)
        found = {
            (each.kind, each.outcome, each.code, each.is_retry, each.is_recent): each.number
            for each in counts
            if each.outcome in ("failed", "succeeded", "retried")
        }
        assert found == {
            ("convert", "failed", "OLD", False, False): 1,
            ("convert", "succeeded", "", False, False): 1,
            ("convert", "failed", "NOT_PDF", False, True): 2,
            ("send", "retried", "GW_5XX", False, True): 1,
            ("send", "failed", "GW_5XX", True, True): 1,
        }
        later = self.store.recent_counts(self.now, since=self.now - MINUTE)
        assert {each.code for each in later if each.code} == {"NOT_PDF", "GW_5XX"}

    # Words

    def _fold_all(self) -> None:
        while (page := self.store.next_entries(limit=1_000)).position != page.after:
            self.store.apply_folded(page, fold(page.entries))

    def _firing(self, subject: str = "default", **given: Any) -> AlertStatus:
        alert = AlertStatus(
            check=DEPTH,
            subject=subject,
            state=AlertState.FIRING,
            since=self.now - MINUTE,
            level=Level.WARNING,
            found="deep",
            remedy="more workers",
            value=12.0,
            threshold=10.0,
            fired_at=self.now,
            _is_notified=True,
        )
        return replace(alert, **given)

    def _fired(self, alert: AlertStatus) -> Evaluation:
        return Evaluation(alerts=(alert,), changes=(AlertTransition(alert, is_fired=True, is_silenced=False),))

    def _write(
        self, *alerts: AlertStatus, changes: Sequence[AlertTransition] | None = None, in_code: Any = None
    ) -> bool:
        if changes is None:
            changes = [AlertTransition(alert, is_fired=True, is_silenced=False) for alert in alerts[:1]]
        done = Evaluation(alerts=alerts, changes=tuple(changes))
        return self.store.write_alerts(self.store.alert_book(), done, worker="w", in_code=in_code)

    def _events(self) -> list[Event]:
        return [event for event in self.events() if event.type in ALERT_EVENTS]
