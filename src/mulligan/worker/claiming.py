"""Claiming: when a worker claims and how many jobs, and how it recovers jobs whose claim replies were lost."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from mulligan.errors import StoreClosed
from mulligan.records.job import Lease
from mulligan.store.messages import Claim, Claimed, WorkerRecord
from mulligan.store.promote import PROMOTE_PASS
from mulligan.store.store import Store
from mulligan.values.clock import Clock
from mulligan.worker.log import log_service_changes
from mulligan.worker.settler import Settler
from mulligan.worker.slots import Slots
from mulligan.worker.store_calls import StoreCalls

# Jobs that will have ended before another claim could return new ones are claimed ahead.
AHEAD_SECONDS = 0.1
POLL_SECONDS = 1.0
SHORTEST_REST = 0.001
NOW = timedelta(0)
# If none of this many attempts asked for the record of its job, claims no longer return the records.
LEARNED = 100


@dataclass(slots=True, eq=False, kw_only=True)
class Claimer:
    store: Store
    calls: StoreCalls
    slots: Slots
    settler: Settler
    clock: Clock
    worker: WorkerRecord
    lease: timedelta
    version: str | None
    at_once: int
    fair_queues: Callable[[], Sequence[str]]
    _number: int = field(default=0, init=False)
    """Of the last claim."""
    _adopt_at: float = field(init=False)
    _promoting: "asyncio.Task[None] | None" = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._adopt_at = self.clock.monotonic() + self.lease.total_seconds()

    async def claim(self) -> float:
        """Claim while there is room and there may be more jobs. Returns the seconds to rest before the next claim.

        Raises StoreSilent when the worker stops waiting; the claim may still take jobs then.
        """
        limit = self._room()
        if limit <= 0:
            return POLL_SECONDS
        claimed = await self._claim(limit)
        while self.slots.may_be_more:
            is_last = self.slots.is_stopping or self._must_adopt
            limit = 0 if is_last else self._room(coming=len(claimed.leases))
            if limit <= 0:
                await self._take(claimed)
                return 0.0 if self._room() > 0 else POLL_SECONDS
            claimed = await self._take_during(claimed, self._claim(limit))
        await self._take(claimed)
        due = POLL_SECONDS if claimed.next_due is None else claimed.next_due.total_seconds()
        return min(POLL_SECONDS, max(due, SHORTEST_REST))

    def _room(self, coming: int = 0) -> int:
        """Free slots, and those that will be free before another claim is answered; none while settles lag behind."""
        most = self.at_once
        if len(self.settler) > 3 * most:
            return 0
        slots = self.slots.usable
        # The first to end are the quick ones, so claim ahead at most as many as have ended.
        quick = int(slots * AHEAD_SECONDS / max(self.slots.usual_seconds, 1e-6))
        ahead = min(2 * most, self.slots.ended_count, quick)
        waiting = self.slots.waiting + coming
        wanted = min(most, slots + ahead - len(self.slots) - waiting)
        # While jobs are waiting there is time: few large claims cost less than many small ones.
        return wanted if not waiting or wanted >= min(most, (slots + ahead) // 2) else 0

    async def _claim(self, limit: int) -> Claimed:
        self._number += 1
        claim = Claim(
            incarnation=self.worker.incarnation,
            number=self._number,
            kinds=self.worker.kinds,
            queues=self.worker.queues,
            limit=limit,
            lease=self.lease,
            version=self.version,
            whole=self.slots.has_looked or self.settler.mostly_fails or self.slots.ended_count < LEARNED,
            fair=self.fair_queues(),
        )
        # The number stays the same until there is an answer: if only the reply was lost, the same jobs come back.
        claimed = await self.calls.ask(lambda: self.store.claim(claim), kind="claim")
        self.slots.may_be_more = len(claimed.leases) >= limit
        if claimed.next_due == NOW:
            self._promote_rest()
        return claimed

    # Many due jobs

    def _promote_rest(self) -> None:
        """More jobs are due than one claim promotes: promote them while claims go on."""
        if self._promoting is None or self._promoting.done():
            self._promoting = asyncio.create_task(self._promote_all())

    async def _promote_all(self) -> None:
        with contextlib.suppress(StoreClosed):
            while await self.calls.persist(lambda: self.store.promote(limit=PROMOTE_PASS), kind="promote"):
                pass

    def stop(self) -> None:
        if self._promoting is not None:
            self._promoting.cancel()

    async def _take_during(self, claimed: Claimed, following: Coroutine[Any, Any, Claimed]) -> Claimed:
        """Start what was claimed while the store works on the next claim."""
        claiming = asyncio.create_task(following)
        try:
            try:
                # The call to the store goes out first.
                await asyncio.sleep(0)
            finally:
                self._add(claimed)
            return await claiming
        finally:
            claiming.cancel()

    async def _take(self, claimed: Claimed) -> None:
        self._add(claimed)
        if self._must_adopt:
            await self._adopt()

    def _add(self, claimed: Claimed) -> None:
        log_service_changes(claimed.changes)
        self.slots.add(claimed.leases)

    # Lost replies

    @property
    def _must_adopt(self) -> bool:
        return self.calls.may_have_lost_replies or self.clock.monotonic() >= self._adopt_at

    async def _adopt(self) -> None:
        """Take up the jobs of earlier claims whose replies were lost."""
        self.slots.add(await self.calls.ask(self._lost_leases(before=self._number), kind="adopt"))
        self.calls.may_have_lost_replies = False
        self._adopt_at = self.clock.monotonic() + self.lease.total_seconds()

    async def release_late(self) -> None:
        """Give back what the last claim took after all. Otherwise its jobs would wait for a whole lease and count as
        lost. Runs until it is cancelled."""
        while True:
            lost = self._lost_leases(before=self._number + 1)
            self.slots.add(await self.calls.persist(lost, kind="adopt"))
            self.slots.release_waiting()
            await asyncio.sleep(POLL_SECONDS)

    def _lost_leases(self, *, before: int) -> Callable[[], list[Lease]]:
        """A store call for the leases of earlier claims that this worker does not hold."""
        held = [running.lease.fence for running in self.slots.held()]
        return lambda: self.store.adopt(self.worker.incarnation, before=before, held=held)
