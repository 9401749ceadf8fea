"""The breaker, the budget and the pace of a service, step by step."""

from datetime import timedelta
from typing import Any

import pytest
from service_worlds import SECOND, World

from mulligan.errors import BadPolicy
from mulligan.failure.error_codes import Catalogue, ErrorClass, ErrorCode
from mulligan.service.allowance import FLOOR, claim_allowance, fails_fast, service_open_verdict
from mulligan.service.config import Service, ServiceBook
from mulligan.service.pace import CALM, CEILING, HEADROOM
from mulligan.service.state import BreakerState, ServiceState, is_restricted
from mulligan.service.window import CallCounts, ServiceCall, Slot, compute_figures, width_of


def world(**given: Any) -> World:
    return World(Service("gateway", **given))


def opened(**given: Any) -> World:
    found = world(**given)
    found.call(*[False] * found.service.min_calls)
    assert found.state.breaker is BreakerState.OPEN
    return found


def half_open(**given: Any) -> World:
    found = opened(**given)
    found.wait(30)
    found.claim(0)
    assert found.state.breaker is BreakerState.HALF_OPEN
    return found


# What it is told to be


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"name": ""}, "the name of a service is '', but it must be 1 to 200 printable characters"),
        ({"name": "x" * 201}, "the name of a service"),
        ({"name": "a*b"}, "the name of a service"),
        ({"name": "two\nlines"}, "the name of a service"),
        ({"name": None}, "the name of a service"),
        ({"mode": "drop"}, "mode of service 'gateway' is 'drop', but it must be one of 'hold', 'fail_fast'"),
        ({"window": 0}, "window of service 'gateway' is 0"),
        ({"window": True}, "window"),
        ({"window": "20"}, "window"),
        ({"window": "2h"}, "a duration from 1s to 1h such as '2m'"),
        (
            {"window": 5, "min_calls": 6},
            "min_calls of service 'gateway' is 6, but it must be an integer from 1 to 5",
        ),
        ({"open_at": 0}, "a fraction above 0"),
        ({"open_at": 1.5}, "open_at"),
        ({"cooldown": "0s"}, "cooldown of service 'gateway' is '0s', but it must be a duration from 100ms"),
        ({"probes": 0}, "probes"),
        ({"budget": -0.1}, "budget"),
        ({"rate": "10"}, "rate of service 'gateway' is '10', but it must be a rate such as '50/s'"),
        ({"rate": 0}, "rate"),
        ({"probe": "http://x"}, "probe"),
        ({"fail_code": "no good"}, "fail_code"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadPolicy) as raised:
        Service(**{"name": "gateway", **given})
    assert said in str(raised.value)


def test_a_small_window_needs_no_more_calls_than_it_has() -> None:
    assert Service("gateway", window=5).min_calls == 5
    assert Service("gateway", min_calls=10).with_changes(window=5).min_calls == 5
    assert Service("gateway", window=20).with_changes(min_calls=40).window == 40


@pytest.mark.parametrize(("rate", "calls"), [("10/s", 10), ("600/m", 10), ("36/h", 0.01), (2.5, 2.5), (None, None)])
def test_a_rate_is_calls_a_second(rate: Any, calls: float | None) -> None:
    assert Service("gateway", rate=rate).rate == calls


def test_a_service_is_found_by_its_name_then_by_the_longest_pattern_else_it_is_the_default() -> None:
    exact, site, shop, default = Service("site:a"), Service("site:*"), Service("site:shop.*"), Service("*", probes=3)
    book = ServiceBook([site, exact, shop], default=default)
    names = ["site:a", "site:b", "site:shop.example", "gateway"]
    assert [book.of(name) for name in names] == [exact, site, shop, default]
    assert [book.of(name) for name in names] == [exact, site, shop, default]


def test_a_book_remembers_no_more_names_than_it_should() -> None:
    book = ServiceBook([Service("site:*")])
    for number in range(5_000):
        book.of(f"site:{number}")
    assert len(book._known) <= 1_000


def test_a_name_stands_once_in_a_book() -> None:
    with pytest.raises(BadPolicy, match=r"'a', but it must be given once"):
        ServiceBook([Service("a"), Service("a", probes=2)])


# Opening


def test_a_service_of_which_nothing_is_stored_is_closed_and_unrestricted() -> None:
    plain = ServiceState.initial("gateway")
    assert plain.breaker is BreakerState.CLOSED
    assert plain.epoch == 0
    assert not is_restricted(Service("gateway"), plain)
    assert is_restricted(Service("gateway", rate=5), plain)


def test_it_opens_at_the_share_of_failures_once_there_are_enough_calls() -> None:
    found = world()
    found.call(*[True, False] * 4, True)
    assert found.state.breaker is BreakerState.CLOSED
    found.call(False)
    assert found.state.breaker is BreakerState.OPEN  # type: ignore[comparison-overlap]
    assert found.changes[0].data == {
        "because": "share",
        "calls": 10,
        "failures": 5,
        "share": 0.5,
        "in_a_row": 1,
        "window": 20,
        "cooldown": 30.0,
        "rate_before": 2.5,
    }


def test_it_opens_after_failures_in_a_row_whatever_the_window_says() -> None:
    found = world(window="2m")
    found.call(*[True] * 500)
    found.call(*[False] * 9)
    assert found.state.breaker is BreakerState.CLOSED
    found.call(False)
    assert found.state.breaker is BreakerState.OPEN  # type: ignore[comparison-overlap]
    assert found.changes[0].data["because"] == "in_a_row"
    assert found.changes[0].data["window"] == "120s"


def test_a_window_of_time_forgets_what_is_older() -> None:
    found = world(window="2m", open_at=0.3)
    found.call(*[True] * 100)
    found.wait(180)
    found.call(*[True] * 7, *[False] * 2)
    assert found.state.breaker is BreakerState.CLOSED
    found.call(False)
    assert found.state.breaker is BreakerState.OPEN  # type: ignore[comparison-overlap]


def test_what_several_workers_hear_counts_together() -> None:
    found = world()
    for worker in "abcde":
        found.call(False, False, worker=worker)
    assert found.state.breaker is BreakerState.OPEN


def test_a_service_that_recovers_in_the_window_does_not_open_by_a_success() -> None:
    found = world(window=20, open_at=0.5, min_calls=10)
    found.hear("a", [ServiceCall(found.now, ok=False)] * 9)
    found.call(True)
    assert found.state.breaker is BreakerState.CLOSED


def test_each_change_of_state_raises_the_epoch_and_is_an_event() -> None:
    found = half_open()
    found.settle(found.claim(), ok=True)
    assert found.types == ["service.opened", "service.half_opened", "service.closed"]
    assert found.state.epoch == 3


# Open


def test_nothing_of_an_open_service_is_claimed_until_its_time_has_come() -> None:
    found = opened(cooldown="30s")
    found.wait(29)
    assert found.claim(5) == []
    assert found.ask(5).again_in == SECOND
    found.wait(1)
    assert len(found.claim(5)) == 1


def test_a_time_further_ahead_than_it_was_opened_for_is_over() -> None:
    found = opened()
    found.wait(-3_600)
    assert len(found.claim(5)) == 1


def test_results_from_before_the_opening_change_nothing() -> None:
    found = opened()
    before = found.state
    found.hear("a", [ServiceCall(found.now, ok=True, epoch=0)] * 50)
    assert found.state == before
    found.wait(30)
    found.claim(0)
    before = found.state
    found.hear("b", [ServiceCall(found.now, ok, epoch=0) for ok in (True, False) * 20])
    assert found.state == before


def test_results_of_an_idle_worker_from_before_the_clock_was_set_back_hide_nothing() -> None:
    found = world()
    found.call(*[True] * 30, worker="idle")
    found.wait(-3_600)
    found.call(*[False] * 10)
    assert found.state.breaker is BreakerState.OPEN


def test_only_first_tries_since_it_is_failing_pay_for_retries() -> None:
    found = world(open_at=1.0)
    found.call(*[True] * 1_000)
    found.wait(2)
    found.call(*[number % 10 > 2 for number in range(20)])
    assert found.state.is_failing
    assert found.retries() == FLOOR


# Half-open


def test_no_more_than_the_permits_run_at_once() -> None:
    found = half_open(probes=2)
    assert len(found.claim(5)) == 2
    assert found.claim(5) == []


def test_a_probe_that_fails_opens_it_again_for_the_whole_cooldown() -> None:
    found = half_open()
    found.settle(found.claim(), ok=False)
    assert found.state.breaker is BreakerState.OPEN
    assert found.state.held_until(found.now) == found.now + 30 * SECOND
    assert found.changes[-1].data["because"] == "probe"


def test_a_probe_that_said_nothing_is_followed_by_another() -> None:
    found = half_open()
    found.running.remove(found.claim()[0])
    assert len(found.claim()) == 1


def test_it_closes_when_all_probes_succeeded() -> None:
    found = half_open(probes=2)
    first, second = found.claim(2)
    found.settle([first], ok=True)
    assert found.state.breaker is BreakerState.HALF_OPEN
    found.settle([second], ok=True)
    assert found.state.breaker is BreakerState.CLOSED  # type: ignore[comparison-overlap]


# Health checks


def checked(**given: Any) -> World:
    found = half_open(probe=lambda: True, **given)
    found.check()
    assert (found.state.breaker, found.state.is_checked) == (BreakerState.HALF_OPEN, True)
    return found


def test_a_health_check_closes_a_service_that_no_job_waits_for() -> None:
    found = half_open(probe=lambda: True)
    found.check(is_awaited=False)
    assert found.state.breaker is BreakerState.CLOSED


def test_after_a_health_check_as_many_jobs_try_it_as_show_that_the_check_is_wrong() -> None:
    found = checked(min_calls=4)
    assert len(found.claim(9)) == 4
    assert found.claim() == []


def test_after_a_health_check_one_success_of_a_job_closes_it() -> None:
    found = checked()
    first, second, *_ = found.claim(3)
    found.settle([first], ok=False)
    assert found.state.breaker is BreakerState.HALF_OPEN, "the failure may be that of the job"
    found.settle([second], ok=True)
    assert found.state.breaker is BreakerState.CLOSED  # type: ignore[comparison-overlap]
    assert found.state.pace is not None


def test_after_a_health_check_enough_failures_of_jobs_open_it_and_the_outage_goes_on() -> None:
    found = checked(min_calls=3)
    began = found.state.outage_since
    for job in found.claim(3):
        assert found.state.breaker is BreakerState.HALF_OPEN
        found.settle([job], ok=False)
    assert found.state.breaker is BreakerState.OPEN
    assert (found.state.outage_since, found.state.probes_failed, found.state.is_checked) == (began, 1, False)


def test_failures_after_a_health_check_count_although_the_clock_was_set_back() -> None:
    found = checked(min_calls=3)
    found.wait(-0.5)
    jobs = [found.claim(1, worker=worker)[0] for worker in "bcd"]
    assert found.claim() == [], "three in all"
    for job in jobs:
        found.settle([job], ok=False)
    assert found.state.breaker is BreakerState.OPEN


def test_a_health_check_that_fails_later_opens_it() -> None:
    found = checked()
    found.check(ok=False)
    assert found.state.breaker is BreakerState.OPEN


def test_each_of_several_probes_may_be_a_health_check() -> None:
    found = half_open(probe=lambda: True, probes=2)
    found.check()
    assert not found.state.is_checked
    found.check()
    assert found.state.is_checked


# Pace


def steady(found: World, seconds: float, *, ok: bool = True, rate: float = 40, at_once: int = 1) -> None:
    """As many calls as it is allowed, at most that rate, `at_once` in a claim."""
    for _ in range(round(seconds * rate / at_once)):
        found.wait(at_once / rate)
        if jobs := found.claim(at_once):
            found.settle(jobs, ok=ok)


def recovered(**given: Any) -> World:
    found = world(**given)
    steady(found, 20)
    found.call(*[False] * 10)
    found.wait(30)
    found.settle(found.claim(), ok=True)
    assert found.state.breaker is BreakerState.CLOSED
    return found


def pace_of(found: World) -> float | None:
    return None if found.state.pace is None else found.state.pace.rate


def test_after_an_outage_it_starts_below_the_previous_rate_and_grows_up_to_it() -> None:
    found = recovered()
    assert found.state.rate_before == 40
    assert pace_of(found) == 10
    steady(found, 5)
    assert pace_of(found) == pytest.approx(40 * HEADROOM)


def test_it_is_asked_more_and_more_while_jobs_wait_and_it_keeps_up() -> None:
    found = recovered()
    steady(found, 10, rate=200)
    assert 50 < (pace_of(found) or 0) < 70
    steady(found, 15, rate=200)
    assert (pace_of(found) or 0) > 150


def test_it_is_asked_no_more_than_before_while_no_job_waits() -> None:
    found = recovered()
    steady(found, 50, rate=35)
    assert pace_of(found) == pytest.approx(40 * HEADROOM, rel=0.06)


def test_jobs_that_come_in_groups_say_nothing_about_what_it_can_do() -> None:
    """Each group waits a moment for the pace. All calls are answered, and they are fewer than the pace allows."""
    found = recovered()
    steady(found, 8)
    for _ in range(50):
        waiting = 20
        while waiting:
            found.wait(0.05)
            jobs = found.claim(waiting)
            found.settle(jobs, ok=True)
            waiting -= len(jobs)
        found.wait(0.6)
    assert found.state.ceiling is None
    assert (pace_of(found) or 0) >= 40 * HEADROOM


def overtaxed(found: World, seconds: float, *, answers: float, rate: float = 200) -> None:
    """As many calls as it is allowed, of which it answers so many a second."""
    open_calls, answered = list(found.running), 0.0
    for _ in range(round(seconds * rate)):
        found.wait(1 / rate)
        open_calls += found.claim(1)
        answered = min(answered + answers / rate, len(open_calls))
        if answered >= 1:
            answered -= 1
            found.settle([open_calls.pop(0)], ok=True)


def test_it_is_not_asked_for_more_than_it_answers() -> None:
    found = recovered()
    overtaxed(found, 30, answers=50)
    assert 40 * HEADROOM <= (pace_of(found) or 0) <= 50


def test_below_the_previous_rate_too_the_pace_waits_until_the_service_keeps_up() -> None:
    """It may answer its probe and still be slow: asked for all it could do before, its calls would time out."""
    found = recovered()
    overtaxed(found, 5, answers=12)
    assert (pace_of(found) or 0) <= 0.5 * 40 * HEADROOM + 1
    overtaxed(found, 10, answers=400)
    assert (pace_of(found) or 0) >= 40 * HEADROOM


def test_a_service_of_few_calls_comes_back_although_its_answers_say_little() -> None:
    found = world()
    steady(found, 40, rate=4)
    found.call(*[False] * 10)
    found.wait(30)
    found.settle(found.claim(), ok=True)
    overtaxed(found, 10, answers=1, rate=20)
    assert (pace_of(found) or 0) >= 4


def test_a_pace_that_limits_no_call_is_lifted() -> None:
    found = recovered()
    steady(found, 70, rate=20)
    assert pace_of(found) is None
    assert found.changes[-1].type == "service.paced"
    assert found.changes[-1].data["how"] == "lifted"
    assert not is_restricted(found.service, found.state)


def test_a_pace_that_holds_back_what_is_waiting_is_not_lifted() -> None:
    found = recovered()
    steady(found, 70, rate=200)
    assert pace_of(found) is not None


def test_a_pace_that_failed_above_the_previous_rate_is_not_tried_again() -> None:
    found = recovered(open_at=1.0, budget=None)
    steady(found, 20, rate=400)
    fast = pace_of(found) or 0
    for number in range(40):
        found.wait(1 / 40)
        found.call(number % 2 > 0)
    assert (pace_of(found) or 0) < fast
    steady(found, 200, rate=400, at_once=10)
    assert 40 * HEADROOM < (pace_of(found) or 0) < CEILING * fast
    steady(found, 500, rate=400, at_once=10)
    assert (pace_of(found) or 0) > fast


@pytest.mark.parametrize(
    ("counts", "rate"),
    [
        # Half of the slots a little above, half a little below: what all know, and not what the middle one had.
        ([152] * 7 + [168] * 8, 80.4),
        # The two in which an outage began, or a worker, say nothing.
        ([160] * 13 + [3, 40], 80),
        ([5, 160, 160, 160, 160], 80),
        ([160, 20], 45),
    ],
)
def test_the_previous_rate_is_that_of_most_of_its_last_half_minute(counts: list[int], rate: float) -> None:
    service = Service("gateway")
    width = width_of(service)
    slots = tuple(Slot(number, ok=count) for number, count in enumerate(counts, start=100))
    told = compute_figures(service, [CallCounts(width=width, slots=slots)], epoch=0, now=(100 + len(counts)) * width)
    assert told.rate == pytest.approx(rate, rel=0.003)


def test_without_a_previous_rate_it_begins_with_one_call_a_second() -> None:
    found = half_open()
    found.settle(found.claim(), ok=True)
    assert found.state.rate_before is None
    assert pace_of(found) == 1
    steady(found, 30, rate=50)
    assert pace_of(found) is None


def test_failures_halve_the_pace() -> None:
    found = recovered()
    steady(found, 5)
    found.wait(1)
    found.hear("a", [ServiceCall(found.now, number > 4, epoch=found.state.epoch) for number in range(10)])
    assert pace_of(found) == pytest.approx(20 * HEADROOM)
    assert found.changes[-1].data == {
        "how": "halved",
        "pace": pace_of(found),
        "from": 40 * HEADROOM,
        "calls": found.changes[-1].data["calls"],
        "failures": 5,
        "rate_before": 40.0,
    }


def test_a_pace_gives_no_burst_after_a_pause() -> None:
    found = recovered()
    assert len(found.claim(100)) == 1
    found.wait(60)
    assert len(found.claim(100)) == 2
    given = found.ask(100)
    assert given.number == 0
    assert given.again_in == 100_000


def test_a_call_that_comes_too_early_leaves_nothing_to_write() -> None:
    """Else two workers that wait for a pace wake each other for ever by what they write."""
    found = recovered()
    found.claim(100)
    found.claim(100)
    before = found.state
    for _ in range(10):
        found.wait(0.001)
        assert found.claim(100) == []
    assert found.state == before
    found.wait(60)
    assert len(found.claim(100)) == 2


def test_the_previous_rate_survives_an_outage_after_the_outage() -> None:
    found = recovered()
    steady(found, 1)
    found.call(*[False] * 10)
    assert found.state.breaker is BreakerState.OPEN
    assert found.state.rate_before == 40


def test_what_an_allowance_did_not_use_it_gives_back() -> None:
    found = world(rate=100)
    found.claim(1)
    found.wait(10)
    given = found.ask(10)
    assert given.number == 10
    bucket = given.without(4).state.bucket
    assert bucket is not None
    assert bucket.tokens == pytest.approx(5)


def test_a_fixed_rate_holds_always() -> None:
    found = world(rate="10/s")
    taken = 0
    for _ in range(1_000):
        found.wait(0.01)
        taken += len(found.claim(5))
    assert taken == pytest.approx(100, abs=2)


def test_the_clock_going_back_stops_no_pace() -> None:
    found = recovered()
    found.wait(-3_600)
    steady(found, 80, rate=20)
    assert found.state.pace is None


def test_the_clock_going_back_gives_no_calls() -> None:
    found = world(rate="10/s")
    assert len(found.claim(5)) == 1
    for _ in range(10):
        found.wait(-1)
        assert found.claim(5) == []
    found.wait(0.1)
    assert len(found.claim(5)) == 1


# Budget


def failing(**given: Any) -> World:
    """30 % failed, of 100 first tries since it is failing."""
    found = world(open_at=1.0, **given)
    found.wait(0.5)
    found.call(*[number % 10 > 2 for number in range(20)])
    found.wait(10)
    found.call(*[number % 10 > 2 for number in range(100)])
    assert found.state.is_failing
    return found


def test_retries_are_not_limited_while_the_service_is_well() -> None:
    found = world()
    found.call(*[True] * 19, False)
    assert found.retries() is None


def test_retries_are_a_share_of_first_tries_while_it_is_failing() -> None:
    found = failing(budget=0.2)
    assert found.retries() == 20
    assert found.retries(in_flight=15) == 5
    found.hear("a", [ServiceCall(found.now, n % 2 > 0, is_retry=True) for n in range(12)])
    assert found.retries(in_flight=15) == 0


def test_a_few_retries_are_always_allowed() -> None:
    assert failing(budget=0.0).retries() == FLOOR


def test_the_budget_ends_when_the_window_is_well_again() -> None:
    found = failing()
    found.call(*[True] * 20)
    assert found.retries() is None


def test_without_a_budget_there_is_none() -> None:
    found = world(open_at=1.0, budget=None)
    found.call(*[False, True] * 20)
    assert found.retries() is None


# Held, forced, failing fast


def test_a_service_that_asks_for_quiet_is_held_for_that_long() -> None:
    found = world()
    found.hold(90)
    found.wait(89)
    assert found.claim(5) == []
    found.wait(1)
    assert len(found.claim(5)) == 1
    assert found.changes[0].data["because"] == "asked"
    assert found.changes[0].data["cooldown"] == 90


def test_a_longer_wish_prolongs_the_hold_and_a_shorter_one_does_not() -> None:
    found = opened()
    found.hold(90, epoch=0)
    found.hold(10, epoch=0)
    assert found.state.held_until(found.now) == found.now + 90 * SECOND
    assert found.types == ["service.opened"]


def test_a_request_from_before_the_opening_does_not_open_it_again() -> None:
    found = half_open()
    found.hold(90, epoch=0)
    assert found.state.breaker is BreakerState.HALF_OPEN


def test_a_wish_for_more_than_a_day_is_a_wish_for_a_day() -> None:
    found = world()
    found.hold(10 * 86_400)
    assert found.state.held_until(found.now) == found.now + 86_400 * SECOND


def test_a_wish_for_no_quiet_changes_nothing() -> None:
    found = world()
    found.hold(0)
    assert found.changes == []


def test_forced_open_stays_open_whatever_happens() -> None:
    found = world()
    found.force("open")
    found.wait(100_000)
    assert found.claim(5) == []
    assert found.ask(5).again_in is None
    assert found.state.forced_by == "ann"
    assert found.changes[-1].data == {"to": "open", "from": "closed", "actor": "ann", "reason": "drill"}


def test_forced_closed_stays_closed_whatever_happens() -> None:
    found = opened()
    found.force("closed")
    found.call(*[False] * 100)
    found.hold(90)
    assert len(found.claim(5)) == 5
    assert found.retries() is None


def test_after_forced_open_comes_a_probe() -> None:
    found = world()
    found.force("open")
    found.force(None)
    assert len(found.claim(5)) == 1
    assert found.state.forced is None
    assert found.changes[-1].data["to"] == "auto"


def test_not_forced_cannot_be_forced_less() -> None:
    found = opened()
    before = found.state
    found.force(None)
    assert found.state == before


def test_only_a_state_can_be_forced() -> None:
    with pytest.raises(BadPolicy, match="'open', 'closed' or None"):
        world().force("half_open")


def test_a_service_that_fails_fast_says_so_while_it_is_open() -> None:
    found = opened(mode="fail_fast")
    assert fails_fast(found.service, found.state, now=found.now)
    found.wait(30)
    assert not fails_fast(found.service, found.state, now=found.now)
    assert not fails_fast(opened().service, opened().state, now=found.now)


def test_failing_fast_is_final_and_says_nothing_of_the_service() -> None:
    verdict = service_open_verdict(Service("gateway"), "gateway", kind="convert")
    assert (verdict.code, verdict.error_class, verdict.blames_service) == ("SERVICE_OPEN", ErrorClass.FINAL, None)
    assert "gateway" in verdict.detail


def test_failing_fast_can_have_a_code_of_ones_own() -> None:
    catalogue = Catalogue([ErrorCode("GW_5XX", "It is down. We'll retry shortly.", blames_service=True)])
    verdict = service_open_verdict(Service("gateway", fail_code="GW_5XX"), "gateway", catalogue=catalogue)
    assert (verdict.code, verdict.error_class, verdict.blames_service) == ("GW_5XX", ErrorClass.FINAL, None)
    assert verdict.message == "It is down."


def test_durations_are_what_they_say() -> None:
    service = Service("gateway", cooldown=timedelta(seconds=5), window="90s")
    assert service.cooldown == timedelta(seconds=5)
    assert service.window == timedelta(seconds=90)
    assert CALM == 60 * SECOND


def test_a_claim_that_waited_for_its_turn_gives_no_time_twice() -> None:
    """Its time is older than that of the claim it waited for."""
    service, state, taken = Service("gateway", rate="10/s"), ServiceState.initial("gateway"), 0
    for step in range(100):
        for now in (step * SECOND // 10, step * SECOND // 10 - SECOND // 20):
            allowed = claim_allowance(service, state, running=0, wanted=100, now=10 * SECOND + now)
            state, taken = allowed.state, taken + allowed.number
    assert 98 <= taken <= 103
