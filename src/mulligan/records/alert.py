"""Alerts: what the doctor finds, over time.

A rule watches one check of the doctor. While the check finds something at the level of the rule, its alert is pending;
if that lasts for `after`, it fires. It is over once the check has found nothing for `resolve_after`, so a value near
its threshold neither fires nor ends an alert again and again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum

from mulligan.records.finding import Check, Level


class AlertState(StrEnum):
    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertTerms:
    """Terms that were given for a rule; None: as it is without them."""

    threshold: float | None = None
    level: Level | None = None
    after: timedelta | None = None
    resolve_after: timedelta | None = None
    is_on: bool | None = None

    def over(self, below: "AlertTerms") -> "AlertTerms":
        """These terms, and those below where these have none."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}
        return replace(below, **given)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRule:
    """What the store keeps of a rule: its terms in the code, those that a person set, and its silence."""

    check: Check
    in_code: AlertTerms | None = None
    edited: AlertTerms | None = None
    edited_at: datetime | None = None
    edited_by: str | None = None
    reason: str | None = None
    silenced_at: datetime | None = None
    silenced_until: datetime | None = None
    silenced_by: str | None = None
    silenced_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A rule in force.

    It fires if its check finds something at `level`, or worse, for `after`, and is over after `resolve_after` without
    it. `threshold` is what the check goes by, in `unit`; None: it has none. `is_in_code`: `App(alerts=…)` gives terms
    of it; `is_edited`: a person set terms, which win. `silenced_until` is None for a silence without an end.
    """

    check: Check
    level: Level
    threshold: float | None
    unit: str | None
    after: timedelta
    resolve_after: timedelta
    is_on: bool
    is_in_code: bool = False
    is_edited: bool = False
    edited_at: datetime | None = None
    edited_by: str | None = None
    reason: str | None = None
    is_silenced: bool = False
    silenced_until: datetime | None = None
    silenced_by: str | None = None
    silenced_because: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertStatus:
    """The state of an alert since when. `found` and `remedy` are those of the doctor, at the last evaluation.

    `subject` is the queue, kind, code or service, if the check has several. `fired_at` is when it fired.
    `quiet_since`: the check has found nothing since then, and the alert is nearly over.
    """

    check: Check
    subject: str
    state: AlertState
    since: datetime
    level: Level = Level.OK
    found: str = ""
    remedy: str = ""
    value: float | None = None
    threshold: float | None = None
    fired_at: datetime | None = None
    quiet_since: datetime | None = None
    is_silenced: bool = False
    _is_notified: bool = field(default=False, repr=False)

    @property
    def key(self) -> tuple[Check, str]:
        return self.check, self.subject


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertBoard:
    """All alerts and the rules behind them.

    `evaluated_by` is the worker that evaluated them last. With `is_stale`, no worker does at present: the states are
    those of `evaluated_at`, and what the doctor finds now.
    """

    alerts: tuple[AlertStatus, ...]
    rules: tuple[AlertRule, ...]
    evaluated_at: datetime | None
    evaluated_by: str | None
    is_stale: bool

    @property
    def firing(self) -> list[AlertStatus]:
        return [alert for alert in self.alerts if alert.state is AlertState.FIRING]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertBook:
    """What the store knows of alerts. `version` grows with each evaluation."""

    version: int
    now: datetime
    evaluated_at: datetime | None
    evaluated_by: str | None
    rules: Mapping[Check, StoredRule]
    alerts: Sequence[AlertStatus]


@dataclass(frozen=True, slots=True)
class AlertTransition:
    """An alert that has fired or is over. It is notified unless its rule is silenced."""

    alert: AlertStatus
    is_fired: bool
    is_silenced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The states after a look of the doctor, and what has changed."""

    alerts: tuple[AlertStatus, ...]
    changes: tuple[AlertTransition, ...]
