"""Services under any steps in any order: whatever is claimed, recorded, lost, forced or set back, the promises hold."""

import tempfile
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from conformance.bench import HOUR, MINUTE, SECOND, failing, verdict
from conformance.examples import MachineTests, OneRuleMachine
from mulligan.failure.decision import Decision, Fail, Park, Postpone, Release, Retry, Succeed
from mulligan.lifecycle import Move, State
from mulligan.records.job import Job, JobFilter, Lease, NewJob
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import ServiceRecord, ServiceRequest
from mulligan.store.messages import Claim, Claimed, Outcome, Request, Settled
from mulligan.store.store import Store
from mulligan.testing.virtual import VirtualClock
from mulligan.values.clock import Ids

USUAL_EXAMPLES = 30
PROBES = {"one": 1, "two": 2, "fast": 1}
BOOK = ServiceBook(
    [
        Service("one", window=4, min_calls=2, cooldown="30s"),
        Service("two", window=4, min_calls=3, cooldown="5s", probes=2, open_at=1.0),
        Service("fast", window=4, min_calls=2, cooldown="30s", mode="fail_fast"),
    ]
)
NAMES = st.sampled_from(["one", "one", "two", "fast", ""])
BLAMING = verdict(blames_service=True)
# By a service in good health.
REFUSED = failing(blames_service=False)
# As `decide` says it of a call that the service may have to bear.
SPARED = Park(SECOND, timedelta(0), BLAMING, {})
DECISIONS: st.SearchStrategy[Decision] = st.sampled_from(
    [
        Succeed("1"),
        Succeed("1"),
        Retry(SECOND, BLAMING, {}),
        Retry(SECOND, BLAMING, {}),
        Fail(BLAMING, {}),
        Retry(SECOND, BLAMING, {}, 4, SPARED),
        Fail(BLAMING, {}, 4, SPARED),
        REFUSED,
        Release({}),
        Postpone(MINUTE, verdict("RATE_LIMITED", holds_service=True, retry_after=MINUTE), {}),
    ]
)
OpenServed = Callable[[Callable[[], datetime], Callable[[], ServiceBook], Path], Store]


def service_machine(open_store: OpenServed, *, examples: int | None = None) -> Any:
    """Tests for pytest. `open_store` gets the clock, the services and an empty folder."""

    class ServicesKeepTheirPromises(ServiceMachine):
        def open(self, folder: Path) -> Store:
            # Asked for anew each time: the clock may be set back.
            return open_store(lambda: self.clock.now(), lambda: BOOK, folder)

    class Promises(MachineTests):
        pass

    Promises.machine, Promises.examples = ServicesKeepTheirPromises, examples or USUAL_EXAMPLES
    return Promises


class ServiceMachine(OneRuleMachine):
    def open(self, folder: Path) -> Store:
        raise NotImplementedError

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="mulligan-services-")
        self.clock = VirtualClock()
        self.ids = Ids(self.clock, Random(1))
        self.numbers = count(1)
        self.store = self.open(Path(self._folder.name))
        self.running: dict[str, Lease] = {}
        self.claims: list[Claim] = []
        self.successes: Counter[tuple[str, int]] = Counter()
        self.states: dict[str, ServiceRecord] = {}

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        self.draw: Callable[[st.SearchStrategy[Any]], Any] = data.draw
        steps: dict[Callable[[], None], int] = {
            self.enqueue: 3,
            self.claim: 6,
            self.advance: 3,
            self.force: 1,
            self.set_back: 1,
        }
        if self.running:
            steps |= {self.settle: 8, self.reclaim: 1, self.cancel: 1}
        if self.claims:
            steps |= {self.claim_again: 1}
        if any(record.name == "one" and record.state != "closed" for record in self._records().values()):
            steps |= {self.day_of_outage: 1}
        data.draw(st.sampled_from([step for step, weight in steps.items() for _ in range(weight)]), label="step")()

    def enqueue(self) -> None:
        name, number = self.draw(NAMES), self.draw(st.integers(1, 4))
        kinds = [self.draw(st.sampled_from("ab")) for _ in range(number)]
        self.store.enqueue([NewJob(id=self.ids(), kind=kind, arguments="{}", service=name) for kind in kinds])

    # Claim

    def claim(self) -> None:
        self.claims.append(
            Claim(
                incarnation=self.draw(st.sampled_from(["w1", "w2"])),
                number=next(self.numbers),
                kinds=self.draw(st.sampled_from([("a", "b"), ("a",)])),
                limit=self.draw(st.sampled_from([1, 2, 5])),
                lease=MINUTE,
            )
        )
        self._claimed(self.store.claim(self.claims[-1]))
        self._no_job_is_blocked_without_reason()

    def claim_again(self) -> None:
        claim = self.draw(st.sampled_from(self.claims))
        held = {
            job
            for job, lease in self.running.items()
            if (lease.fence.incarnation, lease.fence.claim) == (claim.incarnation, claim.number)
        }
        claimed = self.store.claim(claim)
        assert not held or {lease.fence.id for lease in claimed.leases} == held
        self._claimed(claimed)

    def _claimed(self, claimed: Claimed) -> None:
        records = self._records()
        for lease in claimed.leases:
            record = records.get(lease.service)
            is_new = lease.fence.id not in self.running
            self.running[lease.fence.id] = lease
            if record is not None and record.state == "open" and is_new:
                assert lease.is_refused, "a job of an open service was claimed"
            if is_new:
                assert lease.service_epoch == (0 if record is None else record.epoch)

    def _no_job_is_blocked_without_reason(self) -> None:
        failing_now = {name for name, one in self._records().items() if one.is_failing or one.state != "closed"}
        jobs = self.store.jobs(JobFilter(state=State.WAITING), limit=1_000).jobs
        due = {job.service for job in jobs if job.due_at <= self.clock.now()}
        assert due <= failing_now

    # Settle

    def settle(self) -> None:
        lease, decision = self._one(), self.draw(DECISIONS)
        if lease.is_refused:
            decision = failing("SERVICE_OPEN")
        before = self.store.job(lease.fence.id)
        for _ in range(self.draw(st.sampled_from([1, 1, 1, 2]))):
            self.store.settle([Outcome(lease, decision)])
        del self.running[lease.fence.id]
        if isinstance(decision, Retry | Fail) and decision.spared and not before.cancel_requested:
            self._is_borne_by_whom_it_should(lease, before)
        if isinstance(decision, Succeed) or decision is REFUSED:
            self.successes[lease.service, lease.service_epoch] += 1

    def _is_borne_by_whom_it_should(self, lease: Lease, before: Job[Any]) -> None:
        """By the service if that is not closed, was not meanwhile, or is only just back; else by the job."""
        record, after = self._records().get(lease.service), self.store.job(lease.fence.id)
        is_well = record is None or (record.state == "closed" and record.epoch == lease.service_epoch)
        if is_well and (record is None or record.pace is None):
            assert after.failures == before.failures + 1
        else:
            assert (after.state, after.waiting_for, after.failures) == (State.WAITING, "service", before.failures)

    def reclaim(self) -> None:
        lease = self._one()
        (answer,) = self.store.settle([Outcome(lease, Release({}), reclaimed_by="r")])
        if answer is Settled.ACCEPTED:
            del self.running[lease.fence.id]

    def cancel(self) -> None:
        self.store.move(Request(id=self.ids(), move=Move.MANUAL_CANCEL, job=self._one().fence.id))

    def _one(self) -> Lease:
        chosen: str = self.draw(st.sampled_from(list(self.running)))
        return self.running[chosen]

    def day_of_outage(self) -> None:
        """Each call of one service fails for a day, and none is charged to its job. Other jobs wait meanwhile."""
        before = self._failures()
        for _ in range(24):
            self.clock.advance(HOUR)
            claim = Claim(incarnation="w3", number=next(self.numbers), kinds=("a", "b"), limit=5, lease=MINUTE)
            for lease in self.store.claim(claim).leases:
                decision = Fail(BLAMING, {}, 4, SPARED) if lease.service == "one" else Release({})
                self.store.settle([Outcome(lease, decision)])
        assert self._failures() == before

    def _failures(self) -> dict[str, tuple[int, bool]]:
        jobs = self.store.jobs(JobFilter(), limit=1_000).jobs
        return {job.id: (job.failures, job.state is State.FAILED) for job in jobs}

    # Manual changes, and time

    def force(self) -> None:
        name = self.draw(st.sampled_from(["one", "two"]))
        to = self.draw(st.sampled_from(["open", "closed", None, None]))
        self.store.force(ServiceRequest(id=self.ids(), name=name, to=to))
        self.states.pop(name, None)

    def advance(self) -> None:
        self.clock.advance(self.draw(st.sampled_from([SECOND, 5 * SECOND, 30 * SECOND, MINUTE, HOUR])))

    def set_back(self) -> None:
        self.clock = VirtualClock(self.clock.now() - self.draw(st.sampled_from([SECOND, MINUTE, HOUR])))

    # After each step

    @invariant()
    def no_more_probes_than_permits(self) -> None:
        for name, record in self._records().items():
            probing = [
                lease for lease in self.running.values() if (lease.service, lease.service_epoch) == (name, record.epoch)
            ]
            if record.state == "half_open":
                assert len(probing) + self.successes[name, record.epoch] <= PROBES[name]

    @invariant()
    def only_its_own_probes_close_a_service(self) -> None:
        for name, record in self._records().items():
            before = self.states.get(name)
            if before is not None and before.state != "closed" and record.state == "closed":
                assert record.epoch > before.epoch
                assert self.successes[name, record.epoch - 1] >= PROBES[name]
            self.states[name] = record

    def _records(self) -> dict[str, ServiceRecord]:
        return {record.name: record for record in self.store.services()}

    # In the end everything is tried again

    def teardown(self) -> None:
        try:
            self._all_comes_to_its_end()
        finally:
            self.store.close()
            self._folder.cleanup()

    def _all_comes_to_its_end(self) -> None:
        for name, record in self._records().items():
            if record.forced:
                self.store.force(ServiceRequest(id=self.ids(), name=name, to=None))
        self.clock.advance(timedelta(days=30))
        for lease in self.running.values():
            self.store.settle([Outcome(lease, Release({}), reclaimed_by="r")])
        for _ in range(400):
            self.clock.advance(10 * SECOND)
            claim = Claim(incarnation="w", number=next(self.numbers), kinds=["a", "b"], limit=50, lease=HOUR)
            leases = self.store.claim(claim).leases
            self.store.settle([Outcome(lease, Succeed("1")) for lease in leases])
            counts = Counter(state for states in self.store.counts().values() for state in states)
            if not counts.keys() & {"waiting", "queued", "running"}:
                return
        raise AssertionError(f"left behind: {self.store.counts()}")
