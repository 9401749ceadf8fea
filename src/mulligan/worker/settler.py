"""Attempts that have ended are judged and settled here, many at once."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from itertools import islice
from typing import NamedTuple

from mulligan.errors import StoreClosed
from mulligan.failure.decision import Cancel, Decision, Release, Succeed
from mulligan.failure.verdict import Verdict
from mulligan.judge import Judge
from mulligan.store.protocols import Outcome, Settled, Store
from mulligan.store.service_charges import may_be_spared
from mulligan.values.clock import Clock
from mulligan.worker import log
from mulligan.worker.caller import Caller
from mulligan.worker.ending import Ended, Failed, Interruption, Judged, Success, Why
from mulligan.worker.running import Running
from mulligan.worker.summary import Summary

logger = logging.getLogger("mulligan.worker")

BATCH = 500
GATHER_SECONDS = 0.005
LOST = Interruption(Why.LOST)
# Failures of a service that the store has not heard of. With so many, no more of its jobs begin until it has: what
# fails at once would else go through all that was claimed before anybody can say that it is held.
MOST_UNHEARD = 5


class End(NamedTuple):
    """An attempt that has ended and is to be judged and settled."""

    running: Running
    ended: Ended
    seconds: float | None


class Settler:
    """`is_more_to_come` says whether others are about to end; `let_go` is told of services that are held since an
    epoch; `settled` is called when the store has heard. At most `at_once` are settled together."""

    def __init__(
        self,
        *,
        store: Store,
        judge: Judge,
        clock: Clock,
        caller: Caller,
        is_more_to_come: Callable[[], bool],
        let_go: Callable[[Mapping[str, int]], None],
        settled: Callable[[], None],
        summary: Summary,
        at_once: int = BATCH,
    ) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._caller = caller
        self._is_more_to_come = is_more_to_come
        self._let_go = let_go
        self._settled = settled
        self._summary = summary
        self._at_once = at_once
        self._ends: deque[End] = deque()
        self._under_way: list[Sequence[End]] = []
        """The batches of which the store is being told."""
        self._has_ends = asyncio.Event()
        self._has_batch = asyncio.Event()
        self._unheard: Counter[str] = Counter()
        """By service."""
        self.mostly_fails = False

    def __len__(self) -> int:
        """How many are not settled yet."""
        return len(self._ends) + sum(map(len, self._under_way))

    def held(self) -> list[Running]:
        """Those whose leases must be kept; called from the keeper's thread too."""
        return [end.running for batch in (list(self._ends), *self._under_way) for end in batch]

    def offer(self, running: Running, ended: Ended, seconds: float | None = None) -> None:
        if type(ended) is Interruption and ended.why is Why.LOST:
            return  # another holds the job by now: there is nothing to say
        if _is_to_be_heard(running, ended, seconds):
            self._unheard[running.lease.service] += 1
        self._ends.append(End(running, ended, seconds))
        self._has_ends.set()
        if len(self._ends) >= self._at_once:
            self._has_batch.set()

    def doubted(self) -> set[str]:
        """Services of whose failures the store is to hear before more of their jobs begin."""
        if not self._unheard:
            return set()
        return {service for service, number in self._unheard.items() if number >= MOST_UNHEARD}

    async def run(self) -> None:
        """Whatever there is, one batch after another; a full one does not wait for the one before it."""
        async with asyncio.TaskGroup() as hands:
            hands.create_task(self._settle_from(1, self._has_ends))
            hands.create_task(self._settle_from(self._at_once, self._has_batch))

    async def _settle_from(self, least: int, has_so_many: asyncio.Event) -> None:
        while True:
            await has_so_many.wait()
            has_so_many.clear()
            while len(self._ends) >= least:
                if self._is_more_to_come() and len(self._ends) < self._at_once:
                    # A moment's wait makes one large settle out of several small ones.
                    await asyncio.sleep(GATHER_SECONDS)
                # The other may have been faster.
                if self._ends:
                    await self._settle_batch()
                    self._settled()

    async def _settle_batch(self) -> None:
        batch = list(islice(self._ends, self._at_once))
        # First of all: the keeper's thread may look for them now.
        self._under_way.append(batch)
        for _ in batch:
            self._ends.popleft()
        try:
            await self._settle(batch)
        except StoreClosed:
            raise
        except Exception:
            await self._settle_one_by_one(batch)
        finally:
            self._under_way.remove(batch)
            self._heard(batch)

    async def _settle_one_by_one(self, batch: Sequence[End]) -> None:
        """Nothing that one attempt left behind keeps the others from being settled, or ends this worker in silence."""
        for end in batch:
            try:
                await self._settle([end])
            except StoreClosed:
                raise
            except Exception:
                lease = end.running.lease
                sentence = "the end of job %s (%s) cannot be settled: it runs again when its lease is over"
                logger.exception(sentence, lease.fence.id, lease.kind, extra=lease.fields)

    async def _settle(self, batch: Sequence[End]) -> None:
        await self._load(batch)
        outcomes = [self._outcome(end) for end in batch]
        for outcome in outcomes:
            if not may_be_spared(outcome):
                log.decided(outcome)
        answers = await self._caller.persist(lambda: self._store.settle(outcomes), kind="settle")
        log.changed(answers.changes)
        if answers.held:
            self._let_go(answers.held)
        settled = [answers.spared.get(n, outcome) for n, outcome in enumerate(outcomes)]
        self._summary.count(settled, answers)
        for wanted, outcome, answer in zip(outcomes, settled, answers, strict=True):
            if may_be_spared(wanted):
                log.decided(outcome)
            if answer in (Settled.REFUSED, Settled.UNSTORABLE):
                log.answered(outcome, answer)

    def _heard(self, batch: Sequence[End]) -> None:
        if self._unheard:
            self._unheard -= Counter(end.running.lease.service for end in batch if _is_to_be_heard(*end))

    async def _load(self, batch: Sequence[End]) -> None:
        """The records of jobs that failed, as far as they are missing, all at once."""
        failed = [end.running.lease for end in batch if isinstance(end.ended, Failed | Judged)]
        if missing := [lease for lease in failed if not lease.is_whole]:
            await self._caller.persist(lambda: self._store.load(missing), kind="settle")
        self.mostly_fails = len(failed) > len(batch) / 2

    def _outcome(self, end: End) -> Outcome:
        return Outcome(end.running.lease, self._decision(end), end.seconds, calls=end.running.attempt.calls)

    def _decision(self, end: End) -> Decision:
        lease = end.running.lease
        match end.ended:
            case Success(result=result):
                return Succeed(result)
            case Failed(what=what):
                return self._decided(end.running, self._judge.verdict(what, lease.kind, lease.owner))
            case Judged(verdict=verdict):
                return self._decided(end.running, verdict)
            case Interruption(why=Why.CANCELLED):
                return Cancel({"why": "cancelled by hand"})
            case Interruption(why=why):
                return Release({"why": str(why)})

    def _decided(self, running: Running, verdict: Verdict) -> Decision:
        lease = running.lease
        elapsed = timedelta(seconds=self._clock.monotonic() - running.claimed)
        return self._judge.decision(verdict, lease, now=lease.claimed_at + elapsed)


def speaks_of_service(running: Running, ended: Ended) -> bool:
    """Whether it is a failure that the service of the job may have to answer for."""
    return bool(running.lease.service) and isinstance(ended, Failed | Judged)


def _is_to_be_heard(running: Running, ended: Ended, seconds: float | None) -> bool:
    return seconds is not None and speaks_of_service(running, ended)
