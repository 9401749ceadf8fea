"""The filter of the jobs page in its address and as text; and the chart of a job's life."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mulligan import BadFilter, JobFilter, State
from mulligan.explain import Hold, HoldCode
from mulligan.web.pages.job_filter import Params, address, params_of, read_text, to_filter, tokens_of
from mulligan.web.pages.jobs import JobsQuery
from mulligan.web.pages.life import spans_of
from mulligan.web.pages.life_chart import draw_life
from test_explain import BY_WORKER, MINUTE, NOW, a_job, an_event

SECOND = timedelta(seconds=1)


def params(**given: Any) -> Params:
    return params_of(JobsQuery(**given))


def test_an_address_has_the_fields_of_a_filter() -> None:
    given = params(state=[State.FAILED], kind="charge", owner="acme", since="2h", tag=" late ", version="")
    assert given == {
        "state": ["failed"],
        "kind": ["charge"],
        "owner": ["acme"],
        "tag": ["late"],
        "since": ["2h"],
    }
    assert to_filter(given, NOW) == JobFilter(
        state=State.FAILED, kind="charge", owner="acme", tag="late", since=NOW - timedelta(hours=2)
    )


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90s", NOW - 90 * SECOND),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_time_is_a_moment_or_a_duration_before_now(text: str, moment: datetime) -> None:
    assert to_filter({"until": [text]}, NOW).until == moment


@pytest.mark.parametrize("given", [{"since": ["yesterday"]}, {"error_class": ["odd"]}, {"finished_since": ["-5m"]}])
def test_a_value_that_does_not_fit_says_what_is_possible(given: Params) -> None:
    with pytest.raises(BadFilter, match="but it must be"):
        to_filter(given, NOW)


def test_what_a_person_types_are_the_same_fields() -> None:
    typed = read_text('kind:charge  Tag:"late ones" finished-since:1h state:Failed')
    assert typed == {"kind": ["charge"], "tag": ["late ones"], "finished_since": ["1h"], "state": ["failed"]}


@pytest.mark.parametrize("text", ["charge", "kind:", "color:red", 'kind:"', "state:gone"])
def test_a_word_that_names_no_field_is_refused(text: str) -> None:
    if text == 'kind:"':
        # A quote without its twin is a part of the value.
        assert read_text(text) == {"kind": ['"']}
    else:
        with pytest.raises(BadFilter):
            read_text(text)


def test_each_token_leads_to_the_list_without_it() -> None:
    first, second = tokens_of(params(state=[State.FAILED], kind="a&b", code="X"))
    assert (first.label, first.value, first.without) == ("kind", "a&b", "/jobs?state=failed&code=X")
    assert second.without == "/jobs?state=failed&kind=a%26b"
    assert address("/jobs", {}, cursor=None) == "/jobs"


# The life of a job


def lived(*, until: timedelta | None = None) -> Any:
    events = [
        an_event("job.enqueued", at=NOW - 10 * MINUTE),
        an_event("job.started", BY_WORKER, at=NOW - 9 * MINUTE),
        an_event("job.retried", {**BY_WORKER, "delay": 60}, at=NOW - 8 * MINUTE),
        an_event("job.queued", at=NOW - 7 * MINUTE),
        an_event("job.started", BY_WORKER, attempt=2, at=NOW - 6 * MINUTE),
        an_event("job.cancel_requested", attempt=2, at=NOW - 5 * MINUTE - 30 * SECOND, actor="anna"),
        an_event("job.parked", BY_WORKER, attempt=2, at=NOW - 5 * MINUTE),
    ]
    hold = Hold(code=HoldCode.SERVICE_OPEN, sentence="", since=NOW - 4 * MINUTE)
    job = a_job(State.WAITING, enqueued_at=NOW - 10 * MINUTE)
    spans = spans_of(job, events, hold, NOW)
    return spans, draw_life(spans, width=1120, now=NOW, until=None if until is None else NOW + until, held="held")


def test_a_life_is_made_of_spans() -> None:
    spans, _ = lived()
    assert [(span.sort, span.tone, (span.end - span.start) / MINUTE) for span in spans] == [
        ("queued", "", 1),
        ("run", "failed", 1),
        ("waiting", "", 1),
        ("queued", "", 1),
        ("run", "held", 1),
        ("waiting", "", 1),
        ("held", "", 4),
    ]


def test_the_chart_keeps_the_proportions_and_marks_the_present() -> None:
    _, chart = lived(until=2 * MINUTE)
    widths = [bar.width for bar in chart.bars]
    assert widths[-1] == pytest.approx(4 * widths[0], abs=0.5)
    assert chart.bars[-1].x + widths[-1] == pytest.approx(chart.now, abs=0.5)
    assert chart.now < chart.next.x < chart.width and chart.next.label == "12:02"
    assert [label.label for label in chart.labels] == ["1", "2"]
    assert chart.held.label == "held"
    assert all(0 < tick.x < chart.width for tick in chart.ticks) and chart.ticks[0].label == "11:50"


def test_what_is_far_ahead_does_not_squash_the_life() -> None:
    assert lived(until=timedelta(days=3))[1].next is None


def test_a_run_that_took_no_time_is_seen_and_an_empty_life_has_no_chart() -> None:
    events = [
        an_event("job.enqueued", at=NOW),
        an_event("job.started", at=NOW),
        an_event("job.succeeded", BY_WORKER, at=NOW),
    ]
    spans = spans_of(a_job(State.SUCCEEDED, enqueued_at=NOW), events, None, NOW + MINUTE)
    chart = draw_life(spans, width=358, now=None, until=None)
    assert chart is not None and [bar.width for bar in chart.bars] == [3.0]
    assert draw_life([], width=358, now=None, until=None) is None
