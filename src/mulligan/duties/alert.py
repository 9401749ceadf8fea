"""Alert: evaluates the rules of alerts by what the doctor finds. One worker at a time does it."""

import logging
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from mulligan.explain.context import is_alive
from mulligan.records.alert import AlertBook, AlertTerms, AlertTransition
from mulligan.records.alert_evaluation import evaluate
from mulligan.records.alert_rules import find_rules, to_limits, unused_checks
from mulligan.records.finding import Check, Examine, Level
from mulligan.store.store import Store

logger = logging.getLogger("mulligan.alerts")

# After so many intervals without an evaluation, another worker takes over.
MISSED = 3
# With a problem of these, nothing else can be examined.
FATAL = (Check.REACHABLE, Check.SCHEMA, Check.POSTGRES_PROXY)


@dataclass(slots=True, eq=False)
class EvaluateAlerts:
    """The worker that evaluated last goes on, because some checks are about its own machine: workers that take turns
    would see different machines. A version of the states decides which worker writes. A manual run always evaluates."""

    name = "alert"

    store: Store
    examine: Examine
    _: KW_ONLY
    worker: str
    in_code: Mapping[Check, AlertTerms] | None = None
    is_manual: bool = False
    interval: float = 15.0
    limit: int = 1

    def step(self) -> int:
        """How many alerts fired or ended."""
        book = self.store.alert_book()
        return self._evaluate(book) if self.is_manual or self._is_mine(book) else 0

    def _is_mine(self, book: AlertBook) -> bool:
        if book.evaluated_at is None or book.evaluated_by == self.worker:
            return True
        if book.now - book.evaluated_at >= timedelta(seconds=MISSED * self.interval):
            return True
        alive = {worker.incarnation for worker in self.store.workers() if is_alive(worker, book.now)}
        return book.evaluated_by not in alive

    def _evaluate(self, book: AlertBook) -> int:
        rules = find_rules(book.rules, book.now, self.in_code)
        findings = self.examine(to_limits(rules.values()), besides=unused_checks(rules.values()))
        if any(finding.level is Level.PROBLEM and finding.code in FATAL for finding in findings):
            return 0
        done = evaluate(rules, book.alerts, findings, book.now)
        if not self.store.write_alerts(book, done, worker=self.worker, in_code=self.in_code):
            return 0
        for change in done.changes:
            log_transition(change)
        return len(done.changes)


def log_transition(change: AlertTransition) -> None:
    alert = change.alert
    name = f"{alert.check} ({alert.subject})" if alert.subject else str(alert.check)
    if change.is_fired:
        logger.warning("alert %s fires: %s", name, alert.found, extra={"event": "alert.fired"})
    else:
        logger.info("alert %s is over: %s", name, alert.found, extra={"event": "alert.resolved"})
