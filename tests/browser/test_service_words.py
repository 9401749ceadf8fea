"""Batches and services in words: the sentence of each state, what happened, and the chart of a service."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.event import Event
from mulligan.records.pause import Pause
from mulligan.records.statistics import BUCKETS, Statistic
from mulligan.service.records import ServiceStatus
from mulligan.web.pages import batch_words, service_chart, service_words
from mulligan.web.pages.sentence import Sentence, plain
from mulligan.web.pages.service_chart import Band, Point, draw, nice_top, to_course, to_data
from mulligan.web.pages.words import NOTHING

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)

BATCH = BatchRecord(
    id="b1",
    name="spring",
    owner="globex",
    state=BatchState.PARTIAL,
    generation=1,
    total=4_230,
    succeeded=4_187,
    failed=40,
    cancelled=3,
    success_at=1.0,
    abort_above=None,
    created_at=NOW - HOUR,
    published_at=NOW - HOUR,
    settled_at=NOW - MINUTE,
    aborted_at=None,
    expires_at=None,
)


def batch(state: str, **changes: Any) -> BatchRecord:
    return replace(BATCH, state=BatchState(state), **changes)


def read(sentence: Sentence) -> tuple[str, str]:
    return plain(sentence.title, NOW), plain(sentence.lead, NOW)


NONE_OVER = {"succeeded": 0, "failed": 0, "cancelled": 0, "settled_at": None}
ALL_WELL = {"total": 5, "succeeded": 5, "failed": 0, "cancelled": 0}


@pytest.mark.parametrize(
    ("given", "title", "lead"),
    [
        (
            batch("draft", **NONE_OVER, total=40),
            "It is a draft with 40 members.",
            "None of them runs before the batch is published.",
        ),
        (
            batch("draft", **NONE_OVER, total=0),
            "It is a draft without members.",
            "A program adds them, and then publishes the batch.",
        ),
        (
            batch("processing", **NONE_OVER, total=1),
            "None of 1 member is over yet.",
            "Published at 11:00:00.",
        ),
        (
            batch("processing", succeeded=3_000, failed=12, cancelled=0, settled_at=None),
            "3,000 of 4,230 succeeded, 12 failed, 1,218 are left.",
            "Published at 11:00:00.",
        ),
        (
            batch("processing", succeeded=0, failed=9, cancelled=1, total=11, aborted_at=NOW, abort_above=0.1),
            "None of 11 members succeeded, 9 failed, 1 was cancelled, 1 is left.",
            "It was aborted at 12:00:00, when more than 10 % had failed. Members that had not started are cancelled.",
        ),
        (batch("ready", **ALL_WELL), "All 5 members succeeded.", "Settled at 11:59:00."),
        (
            batch("ready", **{**ALL_WELL, "total": 1, "succeeded": 1}),
            "Its one member succeeded.",
            "Settled at 11:59:00.",
        ),
        (
            batch("ready", **{**ALL_WELL, "total": 0, "succeeded": 0}),
            "It was published without members.",
            "Settled at 11:59:00.",
        ),
        (
            batch("ready", success_at=0.9),
            "4,187 of 4,230 succeeded, 40 failed, 3 were cancelled, which is enough.",
            "At least 90 % had to succeed. Settled at 11:59:00.",
        ),
        (
            batch("partial"),
            "4,187 of 4,230 succeeded, 40 failed, 3 were cancelled.",
            "All had to succeed. Settled at 11:59:00.",
        ),
        (
            batch("partial", expires_at=NOW - timedelta(seconds=30)),
            "4,187 of 4,230 succeeded, 40 failed, 3 were cancelled.",
            "All had to succeed. Settled at 11:59:00. It expired at 11:59:30, so its members cannot be retried.",
        ),
        (
            batch("failed", succeeded=0, failed=2, cancelled=0, total=2),
            "None of 2 members succeeded, 2 failed.",
            "All had to succeed. Settled at 11:59:00.",
        ),
        (
            batch("expired", expires_at=NOW),
            "4,187 of 4,230 succeeded, 40 failed, 3 were cancelled.",
            "It expired at 12:00:00, so its members cannot be retried.",
        ),
    ],
)
def test_the_page_of_a_batch_opens_with_its_outcome(given: BatchRecord, title: str, lead: str) -> None:
    assert read(batch_words.open_batch(given, NOW)) == (title, lead)


@pytest.mark.parametrize(
    ("batches", "terms", "title"),
    [
        ([], {}, "There are no batches yet."),
        ([], {"owner": "acme"}, "There are no batches of acme yet."),
        ([], {"state": BatchState.PARTIAL}, "There are no batches that are partial."),
        ([batch("partial")], {}, "Of 1 batch, 1 succeeded in part."),
        ([batch("partial"), batch("failed"), batch("failed")], {}, "Of 3 batches, 1 succeeded in part, 2 failed."),
        ([batch("failed")], {"owner": "acme", "is_part": True}, "Of 1 batch of acme here, 1 failed."),
        ([batch("ready")] * 2, {}, "Of 2 batches, none calls for attention."),
        ([batch("draft")], {"state": BatchState.DRAFT}, "1 batch is not published yet."),
        (
            [batch("processing")] * 2,
            {"state": BatchState.PROCESSING, "is_part": True},
            "2 or more batches are being processed.",
        ),
    ],
)
def test_the_list_of_batches_opens_with_those_that_call_for_attention(
    batches: list[BatchRecord], terms: dict[str, Any], title: str
) -> None:
    given = {"state": None, "owner": "", "is_part": False} | terms
    state = given.pop("state")
    assert plain(batch_words.open_batches(batches, state, **given).title, NOW) == title


def test_what_happened_to_a_batch_is_told_in_words() -> None:
    counts = {"total": 40, "succeeded": 30, "failed": 10, "cancelled": 0, "generation": 2}
    events = [
        event("batch.settled", state="partial", **counts),
        event("batch.retry_requested", actor="ann", did=1, reason="mended", **counts),
        event("batch.reopened", state="processing", **counts),
        event("batch.aborted", state="processing", **counts),
        event("batch.published", actor="ann", **counts),
        event("batch.expired", **counts),
        event("batch.settled", state="odd"),
    ]
    told = [(chapter.sign, chapter.text, chapter.note) for chapter in batch_words.tell(events)]
    assert told == [
        ("partial", "Generation 2 settled, partial: 30 of 40 succeeded", ""),
        ("hand", "1 member retried by ann", "mended"),
        ("held", "Aborted: 10 had failed", ""),
        ("in", "Published by ann with 40 members", ""),
        ("cancelled", "Expired", ""),
        ("cancelled", f"Generation 1 settled, odd: {NOTHING} of {NOTHING} succeeded", ""),
    ]


def test_a_retry_says_whether_the_batch_is_settled_once_more() -> None:
    assert "generation 2" in batch_words.describe_retry(BATCH)
    assert batch_words.describe_retry(batch("processing", failed=1)).startswith("It goes back in one step")
    assert "still being processed" in batch_words.describe_retry(batch("processing"))


# Services


def event(type_: str, at: datetime = NOW, actor: str | None = None, **data: Any) -> Event:
    return Event(int(at.timestamp()), type_, "", "", "", 0, at, actor, None, data)


WELL = ServiceStatus(
    name="gateway",
    state="closed",
    since=None,
    open_until=None,
    is_due=False,
    forced=None,
    actor=None,
    reason=None,
    is_failing=False,
    calls=0,
    failures=0,
    share=0.0,
    rate=None,
    pace=None,
    rate_before=None,
    firsts=0,
    retries=0,
    probes_succeeded=0,
    is_checked=False,
    trouble=None,
    ready=0,
    parked=0,
    paused=None,
    mode="hold",
    fail_code="SERVICE_OPEN",
    cooldown=timedelta(minutes=2),
    probes=1,
    has_probe=False,
    budget=0.1,
    window="20 calls",
    min_calls=10,
    open_at=0.5,
    most_a_second=None,
    is_known=True,
)
DOWN = {
    "state": "open",
    "since": NOW - 27 * MINUTE,
    "open_until": NOW + 65 * timedelta(seconds=1),
    "trouble": {"because": "share", "calls": 20, "failures": 16},
    "ready": 1_200,
    "parked": 4,
}
FORCED = {"actor": "ann", "reason": "they asked us", "since": NOW - HOUR}
PAUSE = Pause(what="service", name="gateway", since=NOW, until=NOW + HOUR, actor="ann", reason=None)


def service(**changes: Any) -> ServiceStatus:
    return replace(WELL, **changes)


@pytest.mark.parametrize(
    ("given", "name", "title", "lead"),
    [
        (
            service(**DOWN),
            "open",
            "gateway has been down since 11:33:00. 1,204 jobs wait for it.",
            "16 of its last 20 calls failed, so only probes are sent. The next probe is in 1 min, at 12:01:05.",
        ),
        (
            service(**DOWN | {"open_until": None, "ready": 0, "parked": 1, "trouble": {"because": "probe"}}),
            "open",
            "gateway has been down since 11:33:00. 1 job waits for it.",
            "Only probes are sent, and the last one failed. The next probe is due: a worker sends it.",
        ),
        (
            service(**DOWN | {"mode": "fail_fast", "trouble": None, "paused": PAUSE}),
            "open",
            "gateway has been down since 11:33:00. Its jobs fail at once with SERVICE_OPEN.",
            "Only probes are sent. The next probe is in 1 min, at 12:01:05. It is also paused until 13:00:00.",
        ),
        (
            service(state="open", forced="open", **FORCED),
            "kept_open",
            "gateway has been kept open since 11:00:00. No job waits for it.",
            "By ann: “they asked us”. It stays so until it is set to automatic or kept closed.",
        ),
        (
            service(state="half_open", ready=10_000, probes=3, probes_succeeded=1),
            "probed",
            "gateway is being probed. 10 k or more jobs wait for it.",
            (
                "3 jobs try it, and 1 of 3 succeeded so far. It closes when the probes succeed, and opens again when "
                "one fails."
            ),
        ),
        (
            service(state="half_open", has_probe=True, is_checked=True, ready=3),
            "probed",
            "gateway is being probed. 3 jobs wait for it.",
            (
                "Its own probe succeeded. 10 jobs at most try it at once. It closes when one of them succeeds, and "
                "opens again when they all fail."
            ),
        ),
        (
            service(state="half_open", has_probe=True),
            "probed",
            "gateway is being probed. No job waits for it.",
            "Its own probe is sent. It closes when the probes succeed, and opens again when one fails.",
        ),
        (
            service(pace=12.0, rate_before=40.0, ready=31),
            "recovering",
            "gateway is back, at 12/s, of 40/s before the outage.",
            "Its pace rises step by step while its calls succeed. 31 jobs wait for their turn.",
        ),
        (
            service(pace=0.5),
            "recovering",
            "gateway is back, at 30/min.",
            "Its pace rises step by step while its calls succeed.",
        ),
        (
            service(is_failing=True, calls=20, failures=6, share=0.3, firsts=50, retries=1, parked=2),
            "failing",
            "gateway fails 30 % of its calls.",
            (
                "6 of its last 20 calls failed. Its retries are limited to 10 % of first attempts: 1 retry for 50 "
                "first attempts, and 2 wait for the budget."
            ),
        ),
        (
            service(paused=PAUSE, ready=2),
            "paused",
            "gateway is paused until 13:00:00. 2 jobs wait for it.",
            "By ann. Jobs that run go on.",
        ),
        (
            service(paused=replace(PAUSE, until=None, actor=None, reason="moving")),
            "paused",
            "gateway is paused until it is resumed. No job waits for it.",
            "By an operator: “moving”. Jobs that run go on.",
        ),
        (
            service(forced="closed", **FORCED),
            "kept_closed",
            "gateway has been kept closed since 11:00:00.",
            "By ann: “they asked us”. Its jobs run, even if calls fail, until it is set to automatic.",
        ),
        (service(), "well", "gateway is well.", "No failed call is known."),
        (
            service(calls=20, failures=1, share=0.05, ready=1),
            "well",
            "gateway is well.",
            "1 of its last 20 calls failed. 1 job is ready.",
        ),
        (
            service(name="site:*"),
            "well",
            "site:* is a pattern.",
            "Its rules apply to every service whose name begins so. Names above its limit share it.",
        ),
    ],
)
def test_the_page_of_a_service_opens_with_what_is_the_matter(
    given: ServiceStatus, name: str, title: str, lead: str
) -> None:
    assert service_words.condition(given).name == name
    assert read(service_words.open_service(given)) == (title, lead)


@pytest.mark.parametrize(
    ("services", "title", "lead"),
    [
        ([], "No task has a service yet.", ""),
        ([service()], "The one service is well.", ""),
        ([service(), service(name="smtp")], "All 2 services are well.", ""),
        (
            [service(**DOWN), service(name="a"), service(name="b", pace=1.0)],
            "gateway is down. 1,204 jobs wait for it.",
            "Of the others: 1 recovering, 1 well.",
        ),
        (
            [service(**DOWN), service(name="a", state="open", forced="open")],
            "2 of 2 services are down or kept open. 1,204 jobs wait for them.",
            "",
        ),
        (
            [service(name="a", state="open", forced="open")],
            "a is kept open. No job waits for it.",
            "",
        ),
        (
            [service(is_failing=True), service(name="a")],
            "gateway is not quite well.",
            "1 failing, 1 well.",
        ),
    ],
)
def test_the_list_of_services_opens_with_those_that_are_down(
    services: list[ServiceStatus], title: str, lead: str
) -> None:
    assert read(service_words.open_services(services)) == (title, lead)


def test_what_forcing_would_do_is_said_before() -> None:
    would = service_words.describe_force(service(**DOWN))
    assert would["open"].startswith("Its jobs wait, and no attempt is used up.")
    assert "1,204 jobs wait now" in would["close"] and "16 of its last 20 calls failed" in would["close"]
    assert would["auto"] == "Its calls decide again when it opens."
    fast = service_words.describe_force(service(mode="fail_fast", state="open", forced="open"))
    assert fast["open"].startswith("Its jobs fail at once with SERVICE_OPEN")
    assert fast["auto"].startswith("A probe comes first.")


def at(minutes: float) -> datetime:
    return NOW - minutes * MINUTE


OUTAGE = [
    event("service.half_opened", at(1), probes=1),
    event("service.opened", at(2), because="probe", probes_failed=3, cooldown=120.0, held=812),
    event("service.half_opened", at(2.1), probes=1),
    event("service.opened", at(4), because="probe", probes_failed=2, cooldown=120.0),
    event("service.opened", at(6), because="probe", probes_failed=1, cooldown=120.0),
    event("service.opened", at(8), because="share", calls=20, failures=16, cooldown=120.0),
    event("service.paced", at(50), how="lifted", pace=None),
    event("service.paced", at(56), how="halved", pace=5.0, calls=12, failures=3),
    event("service.paced", at(57), how="halved", pace=10.0, calls=1, failures=1),
    event("service.closed", at(58), probes=1, pace=10.0, rate_before=40.0, outage=90.0),
    event("service.opened", at(60), because="asked"),
    event("service.forced", at(70), actor="ann", to="auto", reason="enough"),
    event("service.forced", at(75), actor="ann", to="open", reason="they asked us"),
    event("service.resumed", at(80), actor="ann"),
    event("service.paused", at(85), actor="ann", **{"for": 1_800.0, "reason": "moving"}),
]


def test_what_happened_to_a_service_is_told_in_words_and_what_is_alike_together() -> None:
    told = [(chapter.title, chapter.said, chapter.note) for chapter in service_words.tell(OUTAGE)]
    assert told == [
        ("A probe is sent", "", ""),
        ("Probe 3 failed", "Open for another 2 min. 812 jobs waited.", ""),
        ("A probe failed 2 times before", "", ""),
        ("Opened", "16 of its last 20 calls failed.", ""),
        ("Back without a limited pace", "", ""),
        ("Its pace was halved to 5/s", "3 of 12 calls failed.", ""),
        ("It was halved once before", "", ""),
        ("Closed after 1 min 30 s", "Its probe succeeded. It goes on with 10/s, of 40/s before.", ""),
        ("Opened", "It asked to be left alone.", ""),
        ("Set to automatic by ann", "", "enough"),
        ("Kept open by ann", "", "they asked us"),
        ("Resumed by ann", "", ""),
        ("Paused by ann for 30 min", "", "moving"),
    ]
    assert service_words.tell([]) == []


# The chart


def row(minutes: float, outcome: str, number: int) -> Statistic:
    moment = at(minutes)
    return Statistic(
        at=moment - timedelta(seconds=moment.timestamp() % 60),
        kind="convert",
        owner="",
        service="gateway",
        outcome=outcome,
        code="",
        attempt=1,
        is_other=False,
        number=number,
        seconds=1.0,
        cost=0,
        histogram=(0,) * BUCKETS,
    )


def test_the_course_of_a_service_counts_attempts_and_knows_when_it_was_down() -> None:
    rows = [row(3, "succeeded", 5), row(3, "retried", 2), row(3, "started", 9), row(3, "failed", 1)]
    course = to_course(rows, OUTAGE, since=NOW - 90 * MINUTE, until=NOW, step=MINUTE)
    assert Point(at(3), 8.0, 3.0) in course.points and course.highest == 8.0
    assert len(course.points) == 90
    assert course.bands == (
        Band("open", at(75), at(58)),
        Band("recovering", at(58), at(50)),
        Band("open", at(8), None),
    )
    assert [probe.is_ok for probe in course.probes] == [True, False, False, False]
    # What was before is cut off, and what is not counted yet is not drawn as nothing.
    late = to_course(rows, OUTAGE, since=NOW - 55 * MINUTE, until=NOW, step=MINUTE, counted_until=at(10))
    assert late.bands[0] == Band("recovering", at(55), at(50))
    assert late.points[-1].at == at(11)


def test_a_bucket_that_has_just_begun_is_not_drawn() -> None:
    course = to_course([], [], since=NOW - 5 * MINUTE, until=NOW + timedelta(seconds=10), step=MINUTE)
    assert course.points[-1].at == at(1)
    course = to_course([row(0, "succeeded", 5)], [], since=at(5), until=NOW + timedelta(seconds=30), step=MINUTE)
    assert course.points[-1] == Point(NOW, 10.0, 0.0)


def test_the_drawing_stays_within_its_frame() -> None:
    course = to_course([row(3, "succeeded", 50)], OUTAGE, since=NOW - 90 * MINUTE, until=NOW, step=MINUTE)
    for width in (service_chart.WIDE, service_chart.NARROW):
        drawing = draw(course, width)
        assert all(rect.x >= 38 and rect.x + rect.width <= width + 2 for rect in drawing.bands)
        assert all(38 <= label.at <= width for label in drawing.times) and drawing.times
        assert [label.text for label in drawing.grid] == ["0", "30", "60"]
        assert drawing.line.startswith("M") and drawing.area == ""
    data = msgspec.json.decode(to_data(course))
    assert len(data["times"]) == len(data["ended"]) == len(data["failed"]) == 90
    assert data["bands"][-1] == ["open", at(8).timestamp(), NOW.timestamp()]


@pytest.mark.parametrize(("highest", "top"), [(0, 1), (0.3, 0.3), (1, 1), (7, 8), (62, 80), (100, 100), (1_001, 2_000)])
def test_the_axis_ends_at_a_round_number(highest: float, top: float) -> None:
    assert nice_top(highest) == pytest.approx(top)
