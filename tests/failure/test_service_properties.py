"""What holds for a service whatever happens to it, and in whatever order: also when its clock is set back."""

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from service_worlds import SECOND, Running, World

from mulligan.service.allowance import FLOOR, claim_allowance
from mulligan.service.breaker import force, is_routine, record_calls
from mulligan.service.config import Service
from mulligan.service.state import BreakerState, ServiceState, decode_state, encode_state
from mulligan.service.window import (
    SLOTS,
    CallCounts,
    Figures,
    ServiceCall,
    compute_figures,
    decode_counts,
    encode_counts,
)

SERVICES = st.builds(
    Service,
    st.just("gateway"),
    window=st.sampled_from([5, 20, "10s", "2m"]),
    min_calls=st.integers(1, 5),
    open_at=st.floats(0.05, 1),
    cooldown=st.sampled_from(["1s", "30s"]),
    probes=st.integers(1, 4),
    budget=st.none() | st.floats(0, 1),
    rate=st.none() | st.sampled_from([0.5, 10, 1000]),
)
TIMES = st.integers(0, 4_000_000 * SECOND)
CALLS = st.lists(st.builds(ServiceCall, TIMES, st.booleans(), st.booleans(), st.integers(0, 3)), max_size=60)


class Life(RuleBasedStateMachine):
    """Claims, calls, losses, people and clocks, in any order."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Service("gateway", cooldown="10s", probes=2, window=10, min_calls=5))
        self.epochs = [0]

    @rule(wanted=st.integers(1, 8), worker=st.sampled_from("abc"), is_retry=st.booleans())
    def claim(self, wanted: int, worker: str, is_retry: bool) -> None:
        self.world.claim(wanted, worker=worker, is_retry=is_retry)

    @precondition(lambda self: self.world.running)
    @rule(data=st.data(), ok=st.booleans())
    def settle(self, data: st.DataObject, ok: bool) -> None:
        before, job = self.world.state, data.draw(st.sampled_from(self.world.running))
        self.world.settle([job], ok=ok)
        if job.epoch != before.epoch:
            assert self.world.state == before

    @precondition(lambda self: self.world.running)
    @rule(data=st.data())
    def say_nothing(self, data: st.DataObject) -> None:
        """Cancelled, lost, a bug: the job ends, and nothing is heard."""
        self.world.running.remove(data.draw(st.sampled_from(self.world.running)))

    @rule(seconds=st.floats(-3_600, 120))
    def time_passes(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(seconds=st.floats(0, 100), epoch=st.integers(0, 5))
    def asked_for_quiet(self, seconds: float, epoch: int) -> None:
        self.world.hold(seconds, epoch=epoch)

    @rule(to=st.sampled_from(["open", "closed", None]))
    def a_person_forces(self, to: str | None) -> None:
        self.world.force(to)

    @invariant()
    def no_more_probes_than_permits(self) -> None:
        if self.world.state.breaker is BreakerState.HALF_OPEN:
            assert self.world.running_now() <= self.world.service.probes

    @invariant()
    def every_change_of_state_raises_the_epoch(self) -> None:
        self.epochs.append(self.world.state.epoch)
        assert self.epochs == sorted(self.epochs)

    @invariant()
    def it_is_probed_again(self) -> None:
        """Whatever happened: when all that runs ends and its time comes, something can be claimed. It is held for 100
        seconds at most, and for as long again when the clock is set back in them."""
        state = self.world.state
        if state.forced:
            return
        later = World(self.world.service, now=self.world.now, state=state)
        for _ in range(21):
            later.wait(10)
            if later.claim(1):
                return
        raise AssertionError("it will never be probed again")

    @invariant()
    def forced_is_forced(self) -> None:
        state = self.world.state
        if state.forced == "open":
            assert self.world.ask(5).number == 0
        if state.forced == "closed":
            assert self.world.ask(5).number == 5

    @invariant()
    def it_can_be_stored(self) -> None:
        assert decode_state(encode_state(self.world.state)) == self.world.state
        for counts in self.world.counts.values():
            assert decode_counts(encode_counts(counts)) == counts
        for change in self.world.changes[-2:]:
            assert msgspec.json.decode(msgspec.json.encode(change.data)) == change.data

    @invariant()
    def retries_are_bounded(self) -> None:
        found, allowed = self.world.figures, self.world.retries()
        if allowed is not None and self.world.service.budget is not None:
            assert 0 <= allowed + found.retries <= max(self.world.service.budget * found.firsts, FLOOR, found.retries)


def test_whatever_happens_to_a_service_it_keeps_its_promises() -> None:
    run_state_machine_as_test(
        Life,
        settings=settings(max_examples=60, stateful_step_count=40, deadline=None),
    )


@given(SERVICES, CALLS, CALLS, TIMES)
def test_a_tally_is_bounded_and_can_be_stored(
    service: Service, first: list[ServiceCall], second: list[ServiceCall], now: int
) -> None:
    counts = CallCounts().add(first, service).add(second * 20, service)
    assert len(counts.slots) <= 2 * SLOTS + 1
    assert len(counts.last) <= 500
    assert decode_counts(encode_counts(counts)) == counts
    assert 0 <= compute_figures(service, [counts], epoch=counts.epoch, now=now).failure_ratio <= 1


@given(SERVICES, CALLS)
def test_a_tally_is_of_the_newest_epoch_alone(service: Service, calls: list[ServiceCall]) -> None:
    newest = max((call.epoch for call in calls), default=0)
    one_by_one = CallCounts()
    for call in calls:
        one_by_one = one_by_one.add([call], service)
    alone = CallCounts().add([call for call in calls if call.epoch == newest], service)
    assert one_by_one.last == CallCounts().add(calls, service).last == alone.last


@given(SERVICES, CALLS, st.integers(4, 9), TIMES)
def test_results_of_another_epoch_change_nothing(
    service: Service, calls: list[ServiceCall], epoch: int, now: int
) -> None:
    for state in BreakerState:
        before = ServiceState("gateway", breaker=state, epoch=epoch)
        worst = Figures(calls=500, failures=500, failures_in_a_row=500)
        turn = record_calls(service, before, worst, calls, now=now)
        assert turn.state == before
        assert turn.changes == ()


@given(SERVICES, CALLS, TIMES, st.sampled_from(BreakerState), st.sampled_from([None, "open", "closed"]), st.booleans())
def test_quiet_calls_change_nothing_whatever_the_figures_are(
    service: Service, calls: list[ServiceCall], now: int, state: BreakerState, force: Any, is_failing: bool
) -> None:
    failing_since = now if is_failing else None
    before = ServiceState("gateway", breaker=state, epoch=2, forced=force, failing_since=failing_since)
    for found in (Figures(calls=500, failures=500, failures_in_a_row=500), Figures(calls=500), Figures()):
        if is_routine(before, calls):
            assert record_calls(service, before, found, calls, now=now).state == before


@given(SERVICES, st.integers(0, 50), st.integers(0, 50), TIMES, st.lists(st.integers(-100, 100), max_size=30))
def test_no_clock_gives_more_than_the_rate(
    service: Service, running: int, wanted: int, now: int, steps: list[int]
) -> None:
    """In any order of times: no more than the burst, and the rate for the time that went forward."""
    state, taken, forward = ServiceState.initial("gateway"), 0, 0
    for step in steps:
        now += step * SECOND // 100
        forward += max(0, step * SECOND // 100)
        found = claim_allowance(service, state, running=running, wanted=wanted, now=now)
        assert 0 <= found.number <= wanted
        taken, state = taken + found.number, found.state
    if service.rate is not None:
        assert taken <= 1 + service.rate * (0.1 + forward / SECOND) + 0.01


@given(st.floats(0, 1), st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=200))
def test_retries_never_exceed_the_share_of_first_tries_or_the_floor(
    budget: float, calls: list[tuple[bool, bool]]
) -> None:
    """Jobs fail and come back, in any order: of the jobs promoted while it is failing, no more are retries."""
    world = World(Service("gateway", budget=budget, open_at=1.0, min_calls=5))
    world.state = msgspec.structs.replace(world.state, failing_since=world.now)
    firsts = retries = 0
    for is_retry, ok in calls:
        world.wait(0.01)
        allowed = world.retries()
        if is_retry and allowed is not None and allowed < 1:
            continue
        if allowed is None:
            return
        firsts, retries = firsts + (not is_retry), retries + is_retry
        world.settle([_begun(world, is_retry=is_retry)], ok=ok)
        if world.state.breaker is not BreakerState.CLOSED:
            return
        assert retries <= max(budget * firsts, FLOOR) + 1


def _begun(world: World, *, is_retry: bool) -> Running:
    world.running.append(Running(world.state.epoch, is_retry, "a"))
    return world.running[-1]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(SERVICES, st.integers(-10_000, 10_000))
def test_a_clock_set_to_any_time_hides_no_failures(service: Service, hours: int) -> None:
    world = World(service, now=10**16)
    world.call(*[True] * 30)
    world.wait(hours * 3_600)
    world.call(*[False] * service.min_calls)
    assert world.state.breaker is BreakerState.OPEN


@pytest.mark.parametrize("to", ["open", "closed"])
@given(SERVICES, CALLS, TIMES)
def test_forced_stays_forced_whatever_the_results_are(
    to: Any, service: Service, calls: list[ServiceCall], now: int
) -> None:
    before = force(ServiceState.initial("gateway"), to, actor="ann", now=now).state
    mine = [msgspec.structs.replace(call, epoch=before.epoch) for call in calls]
    worst = Figures(calls=500, failures=500, failures_in_a_row=500)
    assert record_calls(service, before, worst, mine, now=now).state == before
