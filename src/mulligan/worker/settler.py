"""Attempts that have ended are judged and settled here: many at once, in the order of their ends."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import NamedTuple

from mulligan.clock import Clock
from mulligan.errors import StoreClosed
from mulligan.failure.classify import Verdict
from mulligan.failure.policy import Cancel, Decision, Release, Succeed
from mulligan.judge import Judge
from mulligan.store.protocols import Outcome, Settled, Store
from mulligan.worker import said
from mulligan.worker.caller import Caller
from mulligan.worker.ended import Ended, Failed, Interruption, Judged, Success, Why
from mulligan.worker.running import Running

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
    epoch; `settled` is called when the store has heard."""

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
    ) -> None:
        self._store = store
        self._judge = judge
        self._clock = clock
        self._caller = caller
        self._is_more_to_come = is_more_to_come
        self._let_go = let_go
        self._settled = settled
        self._ends: deque[End] = deque()
        self._settling: list[Running] = []
        self._has_ends = asyncio.Event()
        self._unheard: Counter[str] = Counter()
        """By service."""
        self.mostly_fails = False

    def __len__(self) -> int:
        """How many are not settled yet."""
        return len(self._ends) + len(self._settling)

    def held(self) -> list[Running]:
        """Those whose leases must be kept; called from the keeper's thread too."""
        return [*(end.running for end in list(self._ends)), *self._settling]

    def offer(self, running: Running, ended: Ended, seconds: float | None = None) -> None:
        if type(ended) is Interruption and ended.why is Why.LOST:
            return  # another holds the job by now: there is nothing to say
        if seconds is not None and speaks_of_service(running, ended):
            self._unheard[running.lease.service] += 1
        self._ends.append(End(running, ended, seconds))
        self._has_ends.set()

    def doubted(self) -> set[str]:
        """Services of whose failures the store is to hear before more of their jobs begin."""
        if not self._unheard:
            return set()
        return {service for service, number in self._unheard.items() if number >= MOST_UNHEARD}

    async def run(self) -> None:
        while True:
            await self._has_ends.wait()
            self._has_ends.clear()
            while self._ends:
                if self._is_more_to_come() and len(self._ends) < BATCH:
                    # A moment's wait makes one large settle out of several small ones.
                    await asyncio.sleep(GATHER_SECONDS)
                await self._settle_batch()
                self._settled()

    async def _settle_batch(self) -> None:
        batch = [self._ends.popleft() for _ in range(min(BATCH, len(self._ends)))]
        self._settling = [end.running for end in batch]
        try:
            await self._settle(batch)
        except StoreClosed:
            raise
        except Exception:
            await self._settle_one_by_one(batch)
        finally:
            self._settling = []

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
        answers = await self._caller.persist(lambda: self._store.settle(outcomes))
        said.changed(answers.changes)
        if answers.held:
            self._let_go(answers.held)
        if self._unheard:
            self._heard()
            self._settled()
        for outcome, answer in zip(outcomes, answers, strict=True):
            if answer in (Settled.REFUSED, Settled.UNSTORABLE):
                said.answered(outcome, answer)

    def _heard(self) -> None:
        """The store has heard of all but those that ended meanwhile."""
        self._unheard = Counter(end.running.lease.service for end in self._ends if speaks_of_service(*end[:2]))

    async def _load(self, batch: Sequence[End]) -> None:
        """The records of jobs that failed, as far as they are missing, all at once."""
        failed = [end.running.lease for end in batch if isinstance(end.ended, Failed | Judged)]
        if missing := [lease for lease in failed if not lease.is_whole]:
            await self._caller.persist(lambda: self._store.load(missing))
        self.mostly_fails = len(failed) > len(batch) / 2

    def _outcome(self, end: End) -> Outcome:
        decision = self._decision(end)
        said.decided(end.running.lease, decision, end.seconds)
        return Outcome(end.running.lease, decision, end.seconds, calls=end.running.attempt.calls)

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
