"""An outage of 20 seconds at 80 % load, thousands of jobs waiting, in simulated time: six faults and their targets."""

from itertools import pairwise

import pytest
from drill import FAULTS, FIRST_SEED, SEEDS, Report, Setting, drill

from mulligan.service.config import Service


@pytest.fixture(scope="module", params=[(fault, number) for fault in FAULTS for number in range(3 * SEEDS)], ids=str)
def outage(request: pytest.FixtureRequest) -> Report:
    fault, number = request.param
    # Where in a cooldown the fault ends is luck.
    return drill(Setting(fault, seed=FIRST_SEED + number, lasts=20.0 + 2 * number))


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
    assert all(later - earlier >= 5 for earlier, later in pairwise(outage.opened))


def test_one_probe_runs_at_a_time(outage: Report) -> None:
    assert outage.most_probes == 1


def test_no_more_calls_are_open_than_the_workers_have_slots(outage: Report) -> None:
    assert outage.most_in_flight <= outage.setting.concurrency


@pytest.mark.parametrize("fault", FAULTS)
def test_backoff_alone_makes_the_outage_last(fault: str) -> None:
    report = drill(Setting(fault, service=None, ends=100.0))
    assert report.calls_into_the_outage > 3_000
    assert report.amplification > 2
    assert report.recovery == float("inf")


def test_where_the_breaker_does_not_open_the_budget_bounds_the_retries() -> None:
    service = Service("gateway", cooldown="5s", open_at=0.9, window=100, min_calls=40)
    report = drill(Setting("50 % errors", service=service, waiting=0, slots=25))
    assert report.openings() == 0
    assert report.calls_into_the_outage > 1_000
    assert report.amplification_of_the_outage <= 1.10 + 10 / 1_600


@pytest.mark.parametrize(("load", "seconds"), [(0.2, 25), (0.05, 60)])
def test_a_service_that_was_hardly_used_is_soon_asked_for_what_it_can_do(load: float, seconds: int) -> None:
    report = drill(Setting("dead", load=load, waiting=9_000))
    assert report.search <= seconds
    assert report.failed_after == 0


def test_what_waits_is_worked_off_with_one_trial_of_more_than_it_can_bear() -> None:
    report = drill(Setting("dead", waiting=12_000, ends=500.0))
    assert report.openings(start=61) <= 1
    assert report.rate_at_the_end >= 1.12


def test_a_day_of_outage_costs_a_probe_each_cooldown() -> None:
    day, waiting = 24 * 3600.0, 300
    service = Service("gateway", cooldown="1m")
    report = drill(Setting("dead", load=0.001, lasts=day, ends=day + 400, waiting=waiting, service=service))
    assert report.calls_into_the_outage <= day / 60 + waiting + report.most_into_the_outage
    assert report.most_probes == 1
    assert sum(report.good.values()) > waiting, "it is back afterwards"
