"""The engine through an outage of 20 seconds at 80 % load, in simulated time: six faults and their targets."""

from itertools import pairwise

import pytest
from drill import FAULTS, FIRST_SEED, SEEDS, Report
from engine_drill import engine_drill, sized

COOLDOWN = 5


@pytest.fixture(scope="module", params=[(fault, number) for fault in FAULTS for number in range(SEEDS)], ids=str)
def outage(request: pytest.FixtureRequest) -> Report:
    fault, number = request.param
    # Where in a cooldown the fault ends is luck.
    return engine_drill(sized(fault, seed=FIRST_SEED + number, lasts=20.0 + 2 * number))


def test_few_calls_go_into_the_outage(outage: Report) -> None:
    assert outage.calls_into_the_outage <= outage.most_into_the_outage


def test_every_job_costs_hardly_more_than_one_call(outage: Report) -> None:
    assert outage.amplification <= outage.most_amplification


def test_goodput_is_back_within_fifteen_seconds(outage: Report) -> None:
    assert outage.recovery <= 15


def test_it_is_soon_asked_for_what_it_can_do_while_jobs_wait(outage: Report) -> None:
    assert outage.search <= 10


def test_the_search_for_more_makes_no_call_fail(outage: Report) -> None:
    assert outage.failed_after == 0
    assert outage.peak <= outage.most_peak


def test_once_it_is_back_it_stays(outage: Report) -> None:
    assert outage.lowest_after >= 0.95
    assert outage.openings(start=outage.setting.recovers + outage.setting.timeout + 1) == 0


def test_it_opens_once_a_cooldown_at_most(outage: Report) -> None:
    assert outage.opened
    assert all(later - earlier >= COOLDOWN for earlier, later in pairwise(outage.opened))


def test_no_more_calls_are_open_than_the_workers_have_slots(outage: Report) -> None:
    assert outage.most_in_flight <= outage.setting.concurrency


def test_what_is_before_the_outage_is_the_load(outage: Report) -> None:
    assert outage.rate_before == pytest.approx(outage.setting.arrivals, rel=0.02)


def test_a_service_that_fails_at_once_does_not_use_up_the_backlog_before_a_slow_store_has_counted() -> None:
    given = {"begins": 5.0, "lasts": 8.0, "ends": 14.0}
    report = engine_drill(sized("dead", floods=0.1, away=0.05, **given))
    assert report.calls_into_the_outage <= report.setting.concurrency + 50


def test_the_same_engine_with_backoff_alone_goes_on_calling() -> None:
    given = {"waiting": 500, "begins": 5.0, "lasts": 8.0, "ends": 14.0}
    with_service, without = (engine_drill(sized("dead", **given, **more)) for more in ({}, {"service": None}))
    assert without.calls_into_the_outage > 20 * with_service.calls_into_the_outage
