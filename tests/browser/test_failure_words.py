"""What the pages of failures say in each state, and the geometry of their charts."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan.records.failure_group import FailureCount, FailureGroup, FailureSample, GroupState, NameCount
from mulligan.records.job import JobFilter
from mulligan.records.rate import parse_rate
from mulligan.records.redrive import Course, Match, Redrive, RedriveState
from mulligan.records.statistics import FailurePoint
from mulligan.web.pages.charts import HOUR, MINUTE, Axis, Flag, columns, flags, floor_time, ribbon, spark, spark_scale
from mulligan.web.pages.failure_marks import mark_of
from mulligan.web.pages.failure_words import Inbox, say_group, say_inbox
from mulligan.web.pages.redrive_words import name_redrive, say_redrive, say_rule, say_verdict
from mulligan.web.pages.tracebacks import short_title, traceback_lines

NOW = datetime(2026, 11, 16, 14, 32, tzinfo=UTC)
BEGAN = datetime(2026, 11, 16, 13, 59, tzinfo=UTC)


def seen(name: str, first: datetime = BEGAN, last: datetime = NOW, failures: int = 5) -> NameCount:
    return NameCount(name, failures, first, last)


def group(**changes: Any) -> FailureGroup:
    sample = FailureSample("job", BEGAN, 1, "HTTP_4XX", "final", "401", "Error: 401")
    found = FailureGroup(
        id="7e0b12",
        state=GroupState.OPEN,
        title="Error: 401",
        kind="charge",
        code="HTTP_4XX",
        error_class="final",
        impact=1.0,
        first_seen_at=BEGAN,
        last_seen_at=NOW,
        failures=498,
        jobs=498,
        failed=498,
        recovered=0,
        cost=0,
        owners=3,
        sample=sample,
        versions=(seen("1.8.2"),),
    )
    return replace(found, **changes)


def inbox(**changes: Any) -> Inbox:
    known = {"failed": 604, "groups": (group(),), "counts": {"open": 7}, "running": {}, "now": NOW, **changes}
    largest = max(known["groups"], key=lambda group: group.failed, default=None)
    return Inbox(**known, largest=largest, in_largest=largest.failed if largest else 0)


def said(**changes: Any) -> str:
    found = say_inbox(inbox(**changes))
    return " ".join(filter(None, (found.lead, found.rest, found.more)))


SINCE = "charge has failed with HTTP_4XX since 13:59. Only version 1.8.2 has it."
SMALL = group(failed=20, jobs=20)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, f"498 of 604 failed jobs have one cause. {SINCE}"),
        ({"failed": 498}, f"All 498 failed jobs have one cause. {SINCE}"),
        ({"failed": 1, "groups": (group(failed=1, jobs=1, failures=1),)}, f"1 job has failed. {SINCE}"),
        (
            {"failed": 10_001, "is_more": True},
            f"More than 10 k jobs have failed. The largest group that needs you has 498 of them: {SINCE}",
        ),
        ({"groups": (SMALL,)}, f"604 jobs have failed. The largest of 7 groups has 20 of them: {SINCE}"),
        (
            {"groups": (SMALL,), "counts": {"regressed": 1}},
            f"604 jobs have failed. The only open group has 20 of them: {SINCE}",
        ),
        (
            {"groups": (), "counts": {"open": 0, "ignored": 2}},
            "604 jobs have failed. No open group has them: what they failed with is ignored or resolved.",
        ),
        (
            {"failed": 3, "groups": (), "counts": {}},
            "3 jobs have failed. They belong to no group yet. Workers group failures about a second later.",
        ),
        (
            {"failed": 0, "groups": (group(failed=0, recovered=478),)},
            "Nothing has failed for good. 20 jobs failed an attempt and have not succeeded since: retries go on.",
        ),
        (
            {"failed": 0, "groups": (group(failed=0, recovered=497),)},
            "Nothing has failed for good. 1 job failed an attempt and has not succeeded since: retries go on.",
        ),
        ({"failed": 0, "groups": ()}, "Nothing needs you. Nothing has failed in the last 24 hours."),
        (
            {"failed": 0, "groups": (), "recent_recovered": 312},
            "Nothing needs you. In the last 24 hours 312 jobs failed at first and were recovered by retries.",
        ),
        (
            {"failed": 0, "groups": (), "recent_failed": 2, "recent_recovered": 1, "spoken": "the last hour"},
            (
                "Nothing needs you. In the last hour 2 jobs failed for good, but none is failed now. "
                "1 job failed at first and was recovered by retries."
            ),
        ),
    ],
)
def test_the_first_page_says_what_hurts(changes: dict[str, Any], expected: str) -> None:
    assert said(**changes) == expected


def test_the_first_page_says_which_version_is_clean() -> None:
    later = datetime(2026, 11, 16, 14, 26, tzinfo=UTC)
    quiet = group(last_seen_at=later)
    found = say_inbox(inbox(groups=(quiet,), running={"1.8.3": later, "1.8.0": BEGAN - timedelta(days=1)}))
    assert found.more == (
        "charge has failed with HTTP_4XX since 13:59; the last time was at 14:26. Only version 1.8.2 has it. "
        "Version 1.8.3, which has run since 14:26, does not have it."
    )


DECIDED = {"decided_at": BEGAN, "decided_by": "ann", "reason": "known"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "498 jobs failed for good within 33 min."),
        ({"last_seen_at": BEGAN, "failed": 1, "jobs": 1}, "1 job failed for good."),
        (
            {"jobs": 520, "recovered": 12},
            "498 jobs failed for good within 33 min; 12 recovered by retries and 10 may still recover.",
        ),
        (
            {"failed": 0, "jobs": 9, "recovered": 2},
            (
                "7 jobs failed an attempt within 33 min and may still recover; none has failed for good, "
                "and 2 recovered by retries."
            ),
        ),
        ({"failed": 0, "jobs": 9, "recovered": 9}, "All 9 jobs that failed within 33 min recovered by retries."),
        ({"failed": 0, "jobs": 1, "recovered": 1}, "The one job that failed recovered by a retry."),
        (
            {"state": GroupState.RESOLVED, **DECIDED},
            "498 jobs failed for good within 33 min. Resolved by ann at 13:59: known.",
        ),
        (
            {"state": GroupState.REGRESSED, **DECIDED, "regressed_at": NOW},
            "498 jobs failed for good within 33 min. It was resolved by ann at 13:59 and seen again at 14:32.",
        ),
        (
            {"state": GroupState.IGNORED, **DECIDED},
            "498 jobs failed for good within 33 min. Ignored by ann until it is reopened: known.",
        ),
        (
            {"state": GroupState.IGNORED, "ignored_until": NOW + timedelta(days=7), "ignored_below": 4980},
            "498 jobs failed for good within 33 min. Ignored until 14:32 on 23 Nov or until it has 4,980 failures.",
        ),
    ],
)
def test_a_group_says_what_it_did(changes: dict[str, Any], expected: str) -> None:
    assert say_group(group(versions=(), **changes), {}, NOW) == expected


def hours(*numbers: int) -> tuple[FailureCount, ...]:
    """The last one is that of now."""
    first = floor_time(NOW, HOUR) - (len(numbers) - 1) * HOUR
    return tuple(FailureCount(first + at * HOUR, number, 0) for at, number in enumerate(numbers))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"is_new": True}, "New in 1.8.2"),
        ({"is_new": True, "versions": (seen("1"), seen("2"))}, "New"),
        ({"is_new": True, "versions": (seen("1"),), "more": {"versions": 3}}, "New"),
        ({}, None),
        ({"is_rising": True}, "Rising"),
        ({"state": GroupState.REGRESSED}, "Back, was resolved"),
        ({"state": GroupState.RESOLVED}, "Resolved"),
        ({"state": GroupState.IGNORED, "ignored_until": NOW + HOUR}, "Ignored until 15:32"),
    ],
)
def test_a_group_is_marked(changes: dict[str, Any], expected: str | None) -> None:
    mark = mark_of(group(**changes), NOW)
    assert (mark and mark.text) == expected


# Redrives


def redrive(**changes: Any) -> Redrive:
    begun = Redrive(
        id="r",
        request_id="r",
        filter=JobFilter(state="failed", group="7e0b12"),
        owner=None,
        rate=parse_rate("50/s"),
        canary=5,
        abort_above=0.5,
        actor="ann",
        reason=None,
        state=RedriveState.RUNNING,
        matched=498,
        matches=(Match("charge", "HTTP_4XX", 498),),
        sample=(),
        began_at=NOW,
        course=Course(cursors={}, paced_at=NOW),
    )
    return replace(begun, **changes)


DONE, STOPPED, CANARY = RedriveState.DONE, RedriveState.STOPPED, RedriveState.CANARY


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            {"retried": 312, "succeeded": 58, "failed_again": 2},
            "312 of 498 jobs are retried. Of 60 answers, 58 are good. At 50/s, about 4 s are left.",
        ),
        ({"retried": 498, "succeeded": 60}, "498 of 498 jobs are retried. All 60 answers so far are good."),
        (
            {"state": CANARY, "retried": 5, "succeeded": 1},
            (
                "5 canaries go first. The answer so far is good. 493 jobs wait for them. "
                "The others follow once 3 of them have succeeded."
            ),
        ),
        (
            {"state": CANARY, "retried": 0, "canary": 1, "matched": 2, "abort_above": 0.0},
            "1 canary goes first. 1 job waits for it. The others follow once it has succeeded.",
        ),
        ({"state": DONE, "retried": 498}, "All 498 jobs were retried."),
        ({"state": DONE, "retried": 1, "matched": 1}, "The job was retried."),
        (
            {"state": DONE, "retried": 491, "succeeded": 9},
            "491 of 498 jobs were retried, 7 were skipped. All 9 answers so far are good.",
        ),
        ({"state": DONE, "matched": 0}, "No job matched. Nothing was changed."),
        (
            {"state": STOPPED, "retried": 5, "because": "4 of 5 canaries did not succeed"},
            "It stopped itself after 5 of 498 jobs. 4 of 5 canaries did not succeed. The others stay as they are.",
        ),
        (
            {"state": RedriveState.CANCELLED, "retried": 9, "because": "by ann: wrong group"},
            "It was stopped after 9 of 498 jobs. By ann: wrong group. What was retried stays retried.",
        ),
        ({"verb": "cancel", "retried": 2, "state": DONE, "matched": 2}, "All 2 jobs were cancelled."),
        (
            {"began_at": NOW - timedelta(minutes=2), "rate": parse_rate("500/s")},
            "0 of 498 jobs are retried. It waits for a worker.",
        ),
    ],
)
def test_a_redrive_says_how_it_goes(changes: dict[str, Any], expected: str) -> None:
    found = say_redrive(redrive(**changes), NOW)
    assert " ".join(filter(None, (found.lead, found.rest, found.more))) == expected


def test_a_redrive_is_named_by_what_it_matched() -> None:
    several = {"matches": (Match("a", "X", 1), Match("b", None, 2))}
    assert name_redrive(redrive()) == "Retry charge, HTTP_4XX"
    assert name_redrive(redrive(**several)) == "Retry failed jobs of group 7e0b12"
    assert name_redrive(redrive(**several, filter=JobFilter(state="failed"))) == "Retry failed jobs"
    snooze = redrive(**several, verb="snooze", filter=JobFilter(kind="a"), delay=HOUR)
    assert name_redrive(snooze) == "Postpone jobs of kind a"
    assert say_rule(snooze) == "498 jobs matched, by 1 h, at most 50/s"
    assert say_rule(redrive()) == "498 jobs matched, 5 canaries, at most 50/s, stops above 50 % bad answers"


def test_the_verdict_of_the_canaries() -> None:
    assert say_verdict(redrive(state=CANARY, retried=5)) == ""
    assert say_verdict(redrive(retried=9)) == "Enough of the 5 canaries succeeded, so the others followed."
    assert say_verdict(redrive(state=STOPPED, retried=4)).startswith("Too few canaries")
    assert say_verdict(redrive(state=DONE, retried=3, matched=3)) == ""


# Charts

AXIS = Axis(floor_time(NOW, HOUR) - 23 * HOUR, HOUR, 24, 240.0)


def test_the_ribbon_has_one_scale_for_both_halves() -> None:
    points = [FailurePoint(AXIS.since, 0, 400, 100), FailurePoint(AXIS.since + HOUR, 9, 1, 0)]
    found = ribbon(AXIS, points, every=6 * HOUR, outages=[("gateway", NOW - 30 * MINUTE)])
    heights = [float(height) for height in re.findall(r"v(-?[\d.]+)h", found.failed + found.recovered)]
    assert heights == [-60.0, -3.0, 30.0]
    assert [tick.label for tick in found.ticks] == ["18:00", "00:00", "06:00", "12:00"]
    assert found.spots[0].label == "15 Nov, 15:00 to 16:00 UTC: 400 jobs failed for good, 100 recovered"
    (stretch,) = found.stretches
    assert stretch.x + stretch.width == 240


def test_a_single_failure_is_visible_beside_a_million() -> None:
    found = ribbon(AXIS, [FailurePoint(AXIS.since, 0, 10**6), FailurePoint(NOW - HOUR, 0, 1)], every=HOUR)
    assert "v-2.0h" in found.failed


def test_points_outside_of_the_axis_are_left_out_and_shorter_steps_added_up() -> None:
    at = AXIS.since + HOUR
    points = [
        FailurePoint(at, failed=1),
        FailurePoint(at + 10 * MINUTE, failed=3),
        FailurePoint(at + 90 * HOUR, failed=9),
    ]
    (spot,) = ribbon(AXIS, points, every=HOUR).spots
    assert "4 jobs failed" in spot.label


def test_labels_of_versions_do_not_overlap() -> None:
    versions = {f"1.{number}": NOW - number * MINUTE for number in range(9)} | {
        "0.1": NOW - 20 * HOUR,
        "old": BEGAN - 90 * HOUR,
    }
    found = flags(AXIS, versions)
    assert [(flag.name, flag.row) for flag in found] == [("1.0", 0), ("1.1", 1), ("0.1", 0)]
    assert [flag.is_left for flag in found] == [True, True, False]


def test_a_label_on_the_left_of_its_line_does_not_overlap_one_on_the_right_of_an_earlier_line() -> None:
    versions = {"1.8.1": AXIS.since + 15 * HOUR, "1.8.2": AXIS.since + 23.5 * HOUR}
    assert flags(AXIS, versions) == [Flag(235.0, "1.8.2", 0, is_left=True), Flag(150.0, "1.8.1", 1)]


def test_sparks_of_all_rows_have_one_scale() -> None:
    one, other = hours(0, 400), hours(100)
    scale = spark_scale((one, other), NOW)
    assert [re.findall(r"v(-[\d.]+)h", spark(each, NOW, scale)) for each in (one, other)] == [["-25.0"], ["-12.5"]]
    assert spark(hours(), NOW, spark_scale((), NOW)) == ""


def test_retried_attempts_stand_on_those_that_failed_for_good() -> None:
    counts = [FailureCount(AXIS.since, 4, 1), FailureCount(AXIS.since - HOUR, 99, 0)]
    found = columns(AXIS, counts, every=HOUR, versions={})
    assert (found.failed, found.retried) == ("M0.0 74v-11.5h7.2v11.5", "M0.0 62.5v-34.5h7.2v34.5")
    assert found.highest == 4


# Tracebacks

DETAIL = """Traceback (most recent call last):
  File "/app/venv/lib/python3.12/site-packages/mulligan/worker/run.py", line 43, in run
    value = await call()
  File "/app/shop/tasks.py", line 88, in charge
    payments.capture(order)
  File "/app/venv/lib/python3.12/site-packages/httpx/client.py", line 4, in post
    response.raise_for_status()
HTTPStatusError: 401 Unauthorized
  for url <script>alert(1)</script>
"""


def test_a_traceback_has_no_frames_of_the_worker_and_marks_the_users_code() -> None:
    assert [(line.tone, line.text.strip()) for line in traceback_lines(DETAIL)] == [
        ("others", "Traceback (most recent call last):"),
        ("others", 'File "/app/shop/tasks.py", line 88, in charge'),
        ("mine", "payments.capture(order)"),
        ("others", 'File "/app/venv/lib/python3.12/site-packages/httpx/client.py", line 4, in post'),
        ("others", "response.raise_for_status()"),
        ("", "HTTPStatusError: 401 Unauthorized"),
        ("", "for url <script>alert(1)</script>"),
    ]
    assert [line.text for line in traceback_lines("ValueError: x")] == ["ValueError: x"]


def test_a_title_has_no_name_of_an_error_that_says_only_how_to_go_on() -> None:
    assert short_title("mulligan.errors.FinalError: not a PDF") == "not a PDF"
    assert short_title("httpx.ReadTimeout: mulligan.errors.FinalError: x").startswith("httpx")
