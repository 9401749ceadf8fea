"""Alerts in code: `App(alerts=[Alert("jobs.depth", threshold=5_000)])`."""

from collections.abc import Iterable

from mulligan.errors import BadAlert, UnknownCheck
from mulligan.records.alert import AlertTerms
from mulligan.records.alert_rules import check_named, check_terms
from mulligan.records.finding import Check
from mulligan.values.duration import Duration


class Alert:
    """The terms of one alert rule of this app.

        Alert("jobs.depth", threshold=5_000, after="10m")
        Alert("jobs.waiting", threshold="5m")
        Alert("workers.silent", level="warning")
        Alert("jobs.codes", is_on=False)

    `check`         the code of a check of the doctor
    `threshold`     what the check goes by: a number, or a duration
    `level`         `"warning"` or `"problem"`: how bad the finding must be
    `after`         how long the check must find it before the alert fires
    `resolve_after` how long the check must find nothing before the alert is over
    `is_on`         False: the rule never fires

    What is not given is as in docs/guides/alerts.md. A person can set other terms while workers run. Raises BadAlert
    for terms that cannot work.
    """

    def __init__(
        self,
        check: str,
        *,
        threshold: Duration | None = None,
        level: str | None = None,
        after: Duration | None = None,
        resolve_after: Duration | None = None,
        is_on: bool | None = None,
    ) -> None:
        try:
            self.check = check_named(check)
            self.terms = check_terms(
                self.check, threshold=threshold, level=level, after=after, resolve_after=resolve_after, is_on=is_on
            )
        except (UnknownCheck, ValueError) as error:
            raise BadAlert(f"alert {check!r:.80}: {error}") from None

    def __repr__(self) -> str:
        return f"<alert {self.check}>"


def by_check(alerts: Iterable[Alert]) -> dict[Check, AlertTerms]:
    """Raises BadAlert."""
    found: dict[Check, AlertTerms] = {}
    for each in alerts:
        if not isinstance(each, Alert):
            raise BadAlert(f"{each!r:.200} is no Alert(…)")
        if each.check in found:
            raise BadAlert(f"two alerts are about {each.check}; a check has one rule")
        found[each.check] = each.terms
    return found
