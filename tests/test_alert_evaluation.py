"""The step from one look of the doctor to the next: pending, firing, quiet, over. Pure."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan import Alert, App
from mulligan.errors import BadAlert, BadAlertTerm, UnknownCheck
from mulligan.records.alert import AlertRule, AlertState, AlertStatus, AlertTerms, Evaluation, StoredRule
from mulligan.records.alert_evaluation import ENDED_KEPT, evaluate
from mulligan.records.alert_rules import OF_CHECKS, THRESHOLDS, describe_value, find_rules, to_limits, unused_checks
from mulligan.records.finding import Check, Finding, Level, Limits

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DEPTH = Check.JOBS_DEPTH
DEEP = Finding(DEPTH, Level.WARNING, "deep", "more workers", subject="bulk", value=12, threshold=10)


class Watch:
    """Alerts over time: each look is a minute after the one before."""

    def __init__(self, *, after: int = 2, resolve_after: int = 3, is_on: bool = True) -> None:
        terms = AlertTerms(after=after * MINUTE, resolve_after=resolve_after * MINUTE, is_on=is_on)
        self.stored = {DEPTH: StoredRule(check=DEPTH, edited=terms)}
        self.alerts: tuple[AlertStatus, ...] = ()
        self.now = NOON

    def silence(self, until: timedelta | None) -> None:
        silenced = {"silenced_at": self.now, "silenced_until": None if until is None else self.now + until}
        self.stored[DEPTH] = replace(self.stored[DEPTH], **silenced)

    def look(self, *findings: Finding, **options: Any) -> Evaluation:
        self.now += MINUTE
        done = evaluate(find_rules(self.stored, self.now), self.alerts, findings, self.now, **options)
        self.alerts = done.alerts
        return done

    @property
    def alert(self) -> AlertStatus:
        (found,) = [alert for alert in self.alerts if alert.key == (DEPTH, "bulk")]
        return found

    def changes(self, looks: str) -> str:
        """`+` is a look that finds it. Of each look: `F` fired, `O` over, `.` neither."""
        done = [self.look(*([DEEP] if sign == "+" else [])) for sign in looks]
        return "".join("".join("F" if change.is_fired else "O" for change in each.changes) or "." for each in done)


@pytest.mark.parametrize(
    ("looks", "changes"),
    [
        ("+++++", "..F.."),
        ("++-++", "....."),
        ("+++----", "..F...O"),
        ("+++--+---", "..F......"),
        ("+++--+----", "..F......O"),
        ("+++----+++", "..F...O..F"),
        # A value that crosses its threshold with each look.
        ("+-+-+-+-+-", ".........."),
        ("+++-+-+-+-+-", "..F........."),
    ],
)
def test_an_alert_fires_if_it_lasts_and_ends_if_it_stays_away(looks: str, changes: str) -> None:
    assert Watch().changes(looks) == changes


def test_a_rule_without_a_wait_fires_and_ends_at_once() -> None:
    assert Watch(after=0, resolve_after=0).changes("+-+") == "FOF"


def test_states_say_since_when() -> None:
    watch = Watch()
    began = watch.now + MINUTE
    watch.look(DEEP)
    assert (watch.alert.state, watch.alert.since, watch.alert.fired_at) == (AlertState.PENDING, began, None)
    watch.look(DEEP)
    watch.look(replace(DEEP, found="deeper", value=20))
    assert (watch.alert.state, watch.alert.since, watch.alert.fired_at) == (AlertState.FIRING, began, watch.now)
    assert (watch.alert.found, watch.alert.value) == ("deeper", 20)
    watch.look()
    assert (watch.alert.state, watch.alert.quiet_since) == (AlertState.FIRING, watch.now)
    assert watch.changes("--") == ".."
    over = watch.look().changes[0].alert
    assert (over.state, over.since, over.found) == (AlertState.OK, began, "deeper"), "the event says how long it lasted"
    assert (watch.alert.state, watch.alert.since) == (AlertState.OK, watch.now)


def test_a_finding_below_the_level_of_the_rule_is_none() -> None:
    watch = Watch(after=0)
    watch.stored[DEPTH] = StoredRule(check=DEPTH, edited=AlertTerms(level=Level.PROBLEM, after=timedelta(0)))
    assert watch.changes("++") == ".."
    assert len(watch.look(replace(DEEP, level=Level.PROBLEM)).changes) == 1


def test_a_rule_that_is_switched_off_ends_its_alert_at_once() -> None:
    watch = Watch(after=0)
    assert watch.changes("+") == "F"
    watch.stored[DEPTH] = StoredRule(check=DEPTH, edited=AlertTerms(is_on=False))
    assert watch.changes("++") == "O."


def test_a_silenced_alert_is_recorded_and_notified_when_the_silence_ends() -> None:
    watch = Watch(after=0)
    watch.silence(4 * MINUTE)
    (fired,) = watch.look(DEEP).changes
    assert (fired.is_fired, fired.is_silenced) == (True, True)
    assert watch.alert.is_silenced
    assert watch.changes("++") == ".."
    (again,) = watch.look(DEEP).changes
    assert (again.is_fired, again.is_silenced) == (True, False)
    assert watch.changes("++") == ".."


def test_an_alert_that_was_never_notified_ends_silently() -> None:
    watch = Watch(after=0, resolve_after=0)
    watch.silence(None)
    watch.look(DEEP)
    (over,) = watch.look().changes
    assert (over.is_fired, over.is_silenced) == (False, True)


def test_the_end_of_an_alert_is_notified_although_it_was_silenced_meanwhile() -> None:
    watch = Watch(after=0, resolve_after=0)
    watch.look(DEEP)
    watch.silence(None)
    (over,) = watch.look().changes
    assert not over.is_silenced


def test_alerts_of_two_queues_are_two() -> None:
    watch = Watch(after=0)
    done = watch.look(DEEP, replace(DEEP, subject="mail"))
    assert [change.alert.subject for change in done.changes] == ["bulk", "mail"]


def test_every_check_has_a_state_and_the_end_of_a_subject_is_shown_for_a_day() -> None:
    watch = Watch(after=0, resolve_after=0)
    watch.changes("+-")
    assert {alert.check for alert in watch.alerts} == set(Check)
    assert watch.alert.state is AlertState.OK
    watch.now += ENDED_KEPT
    watch.look()
    assert not [alert for alert in watch.alerts if alert.subject]


def test_what_is_found_after_a_time_without_evaluation_began_then() -> None:
    watch = Watch(after=2)
    (change,) = watch.look(DEEP, unseen_since=NOON - 5 * MINUTE).changes
    assert change.alert.since == NOON - 5 * MINUTE


def test_what_was_never_evaluated_fires_at_once() -> None:
    assert Watch(after=60).look(DEEP, at_once=True).changes


# Rules


def test_terms_of_a_person_win_over_the_code_and_that_over_the_defaults() -> None:
    kept = StoredRule(check=DEPTH, in_code=AlertTerms(threshold=5.0, after=MINUTE), edited=AlertTerms(threshold=7.0))
    rule = find_rules({DEPTH: kept}, NOON)[DEPTH]
    assert (rule.threshold, rule.after, rule.resolve_after) == (7.0, MINUTE, 5 * MINUTE)
    assert (rule.is_in_code, rule.is_edited) == (True, True)
    assert find_rules({DEPTH: kept}, NOON, {})[DEPTH].after == OF_CHECKS[DEPTH].after


def test_the_defaults_are_those_of_the_doctor() -> None:
    rules = find_rules({}, NOON)
    assert to_limits(rules.values()) == Limits()
    assert set(rules) == set(Check)
    assert all(rule.is_on for rule in rules.values())


def test_every_threshold_reaches_the_doctor() -> None:
    def doubled(rule: AlertRule) -> AlertRule:
        return rule if rule.threshold is None else replace(rule, threshold=rule.threshold * 2)

    limits = to_limits(doubled(rule) for rule in find_rules({}, NOON).values())
    for threshold in THRESHOLDS.values():
        assert getattr(limits, threshold.field) == 2 * getattr(Limits(), threshold.field)
        assert type(getattr(limits, threshold.field)) is type(getattr(Limits(), threshold.field))


def test_what_costs_is_examined_only_for_a_rule_that_can_fire() -> None:
    assert unused_checks(find_rules({}, NOON).values()) == {Check.JOBS_FAILED, Check.POSTGRES_NOTIFY}
    warned = StoredRule(check=Check.JOBS_FAILED, edited=AlertTerms(level=Level.WARNING))
    assert unused_checks(find_rules({Check.JOBS_FAILED: warned}, NOON).values()) == {Check.POSTGRES_NOTIFY}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"check": "jobs.dept"}, "no check is named 'jobs.dept'; did you mean 'jobs.depth'?"),
        ({"check": "jobs.depth", "threshold": 0}, "a number (jobs) from 1 to 1,000,000,000"),
        ({"check": "jobs.depth", "threshold": 1.5}, "threshold is 1.5, but it must be an integer"),
        ({"check": "jobs.depth", "threshold": "many"}, "threshold is 'many', but it must be a number (jobs)"),
        ({"check": "jobs.waiting", "threshold": "soon"}, "'soon' is not a duration"),
        ({"check": "jobs.waiting", "threshold": "100d"}, "a duration from 1s to 30d"),
        ({"check": "jobs.failing", "threshold": 2}, "a number (ratio) from 0.001 to 1"),
        ({"check": "workers.alive", "threshold": 1}, "check workers.alive has no threshold"),
        ({"check": "jobs.depth", "level": "ok"}, "level is 'ok', but it must be one of 'warning', 'problem'"),
        ({"check": "jobs.depth", "after": "8d"}, "after is 8d, but it must be at most 7d"),
        ({"check": "jobs.depth", "resolve_after": -1}, "-1 is not a duration"),
        ({"check": "jobs.depth", "is_on": "yes"}, "is_on is 'yes', but it must be True or False"),
    ],
)
def test_terms_that_cannot_work_are_refused_in_code_and_at_run_time(
    given: dict[str, Any], message: str, app: App
) -> None:
    with pytest.raises(BadAlert) as in_code:
        Alert(**given)
    with pytest.raises((BadAlertTerm, UnknownCheck)) as at_run_time:
        app.set_alert(**given)
    for raised in (in_code, at_run_time):
        assert message in str(raised.value)


def test_two_alerts_of_one_check_are_refused() -> None:
    with pytest.raises(BadAlert, match=r"two alerts are about jobs\.depth"):
        App("sqlite:///:memory:", alerts=[Alert("jobs.depth"), Alert("jobs.depth")])
    with pytest.raises(BadAlert, match=r"'jobs.depth' is no Alert\(…\)"):
        App("sqlite:///:memory:", alerts=["jobs.depth"])  # type: ignore[list-item]


def test_values_are_written_with_their_units() -> None:
    assert describe_value(12_000, "jobs") == "12,000 jobs"
    assert describe_value(1_000, "seconds") == "16m 40s"
    assert describe_value(0.3125, "ratio") == "31%"
    assert describe_value(6.5, "times") == "6.5 times"
    assert describe_value(None, "jobs") == ""
