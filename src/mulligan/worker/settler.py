"""The settler: judges the attempts that have ended and settles them in batches."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import NamedTuple

from mulligan.errors import StoreClosed
from mulligan.failure.decision import Cancel, Decision, Release, Succeed
from mulligan.failure.verdict import Verdict
from mulligan.judge import Judge
from mulligan.store.messages import Outcome, Settled
from mulligan.store.service_calls import may_charge_service
from mulligan.store.store import Store
from mulligan.values.clock import Clock
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, StopReason, Success
from mulligan.worker.log import Summary, log_decision, log_refusal, log_service_changes
from mulligan.worker.running import Backlog, Running
from mulligan.worker.store_calls import StoreCalls

logger = logging.getLogger("mulligan.worker")

BATCH = 500
GATHER_SECONDS = 0.005
LOST = Interruption(StopReason.LOST)
# With this many unsettled failures of a service, no more of its jobs start until the store has counted those. Otherwise
# fast failures would go through everything that was claimed before the breaker can open.
MOST_UNSETTLED = 5


class End(NamedTuple):
    """An attempt that has ended but is not settled."""

    running: Running
    ended: Ended
    seconds: float | None


class Settler:
    """Settles at most `at_once` attempts in one call. `on_settled` is called after each batch.

    It waits a moment for more ends while there is a backlog, and releases the attempts in the backlog whose service
    has been blocked since they were claimed.
    """

    def __init__(
        self,
        *,
        store: Store,
        judge: Judge,
        clock: Clock,
        calls: StoreCalls,
        backlog: Backlog,
        summary: Summary,
        on_settled: Callable[[], None],
        at_once: int = BATCH,
    ) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._calls = calls
        self._backlog = backlog
        self._summary = summary
        self._on_settled = on_settled
        self._at_once = at_once
        self._ends: deque[End] = deque()
        self._under_way: list[Sequence[End]] = []
        """The batches that are being settled."""
        self._has_ends = asyncio.Event()
        self._has_batch = asyncio.Event()
        self._unsettled_failures: Counter[str] = Counter()
        """By service."""
        self.mostly_fails = False
        """More than half of the last batch failed."""

    def __len__(self) -> int:
        """How many are not settled yet."""
        return len(self._ends) + sum(map(len, self._under_way))

    def held(self) -> list[Running]:
        """The attempts that are not settled yet. Safe to call from any thread."""
        return [end.running for batch in (list(self._ends), *self._under_way) for end in batch]

    def offer(self, running: Running, ended: Ended, seconds: float | None = None) -> None:
        if type(ended) is Interruption and ended.why is StopReason.LOST:
            return  # another worker holds the job: there is nothing to settle
        if seconds is not None and concerns_service(running, ended):
            self._unsettled_failures[running.lease.service] += 1
        self._ends.append(End(running, ended, seconds))
        self._has_ends.set()
        if len(self._ends) >= self._at_once:
            self._has_batch.set()

    def drop(self, running: Running, why: StopReason) -> None:
        """End an attempt that was interrupted while it waited for a slot."""
        running.is_over = True
        self.offer(running, Interruption(why))

    def services_to_avoid(self) -> set[str]:
        """Services with so many unsettled failures that no more of their jobs may start."""
        if not self._unsettled_failures:
            return set()
        return {service for service, number in self._unsettled_failures.items() if number >= MOST_UNSETTLED}

    async def run(self) -> None:
        """Settle one batch after another. A full batch does not wait for the previous one. Raises StoreClosed."""
        try:
            async with asyncio.TaskGroup() as loops:
                loops.create_task(self._settle_from(1, self._has_ends))
                loops.create_task(self._settle_from(self._at_once, self._has_batch))
        except ExceptionGroup as group:
            # Both fail for the same reason, and callers catch it by its class.
            raise group.exceptions[0] from None

    async def _settle_from(self, least: int, has_so_many: asyncio.Event) -> None:
        while True:
            await has_so_many.wait()
            has_so_many.clear()
            while len(self._ends) >= least:
                if self._backlog and len(self._ends) < self._at_once:
                    # A short wait makes one large settle out of several small ones.
                    await asyncio.sleep(GATHER_SECONDS)
                # The other loop may have taken them.
                if self._ends:
                    await self._settle_batch()
                    self._on_settled()

    async def _settle_batch(self) -> None:
        batch = list(islice(self._ends, self._at_once))
        # First: the keeper's thread must find them at any moment.
        self._under_way.append(batch)
        for _ in batch:
            self._ends.popleft()
        left = deque(batch)
        try:
            await self._settle(batch)
            left.clear()
        except StoreClosed:
            raise
        except Exception:
            await self._settle_one_by_one(left)
        finally:
            # If the store was closed, some are left: the worker says how many.
            self._ends.extendleft(reversed(left))
            self._under_way.remove(batch)
            self._count_settled(batch)

    async def _settle_one_by_one(self, left: deque[End]) -> None:
        """One attempt that cannot be settled must not keep the others from being settled."""
        while left:
            try:
                await self._settle([left[0]])
            except StoreClosed:
                raise
            except Exception:
                lease = left[0].running.lease
                sentence = "the end of job %s (%s) cannot be settled: it runs again when its lease is over"
                logger.exception(sentence, lease.fence.id, lease.kind, extra=lease.fields)
            left.popleft()

    async def _settle(self, batch: Sequence[End]) -> None:
        await self._load(batch)
        outcomes = [self._outcome(end) for end in batch]
        for outcome in outcomes:
            if not may_charge_service(outcome):
                log_decision(outcome)
        began = self._clock.now()
        answers = await self._calls.persist(lambda: self._store.settle(outcomes), kind="settle")
        log_service_changes(answers.changes)
        if answers.not_closed:
            for running in self._backlog.take_stale(answers.not_closed):
                self.drop(running, StopReason.HELD)
        settled = [answers.spared.get(n, outcome) for n, outcome in enumerate(outcomes)]
        self._summary.count(settled, answers)
        self._trace(batch, settled, answers, began=began)
        for wanted, outcome, answer in zip(outcomes, settled, answers, strict=True):
            if may_charge_service(wanted):
                log_decision(outcome, service_state=answers.breakers.get(outcome.lease.service))
            if answer in (Settled.REFUSED, Settled.UNSTORABLE):
                log_refusal(outcome, answer)

    def _trace(
        self, batch: Sequence[End], settled: Sequence[Outcome], answers: Sequence[Settled], *, began: datetime
    ) -> None:
        for end, outcome, answer in zip(batch, settled, answers, strict=True):
            if end.running.trace is not None:
                end.running.trace.settle(outcome, answer, began=began, ended=self._clock.now())

    def _count_settled(self, batch: Sequence[End]) -> None:
        if self._unsettled_failures:
            self._unsettled_failures -= Counter(
                end.running.lease.service
                for end in batch
                if end.seconds is not None and concerns_service(end.running, end.ended)
            )

    async def _load(self, batch: Sequence[End]) -> None:
        """Load the records of failed jobs that the claim did not return, in one call."""
        failed = [end.running.lease for end in batch if isinstance(end.ended, Failed | Judged)]
        if missing := [lease for lease in failed if not lease.is_whole]:
            await self._calls.persist(lambda: self._store.load(missing), kind="settle")
        self.mostly_fails = len(failed) > len(batch) / 2

    def _outcome(self, end: End) -> Outcome:
        return Outcome(end.running.lease, self._decision(end), end.seconds, calls=end.running.attempt.calls)

    def _decision(self, end: End) -> Decision:
        lease = end.running.lease
        match end.ended:
            case Success(result=result):
                return Succeed(result)
            case Failed(what=what):
                return self._decide(end.running, self._judge.verdict(what, lease.kind, lease.owner))
            case Judged(verdict=verdict):
                return self._decide(end.running, verdict)
            case Interruption(why=StopReason.CANCELLED):
                return Cancel({"why": "cancelled by hand"})
            case Interruption(why=why):
                return Release({"why": str(why)})

    def _decide(self, running: Running, verdict: Verdict) -> Decision:
        lease = running.lease
        elapsed = timedelta(seconds=self._clock.monotonic() - running.claimed)
        return self._judge.decide_lease(verdict, lease, now=lease.claimed_at + elapsed)


def concerns_service(running: Running, ended: Ended) -> bool:
    """Whether it is a failure that may be charged to the job's service."""
    return bool(running.lease.service) and isinstance(ended, Failed | Judged)
