"""Claiming: when a worker claims and how many jobs, and how it recovers jobs whose claim replies were lost."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any

from mulligan.records.job import Lease
from mulligan.store.messages import Claim, Claimed, WorkerRecord
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
# If none of so many attempts asked for the record of its job, claims no longer return the records.
LEARNED = 1_000


class Claimer:
    def __init__(
        self,
        *,
        store: Store,
        calls: StoreCalls,
        slots: Slots,
        settler: Settler,
        clock: Clock,
        worker: WorkerRecord,
        lease: timedelta,
        version: str | None,
        at_once: int,
        fair_queues: Callable[[], Sequence[str]],
    ) -> None:
        self._store = store
        self._calls = calls
        self._slots = slots
        self._settler = settler
        self._clock = clock
        self._worker = worker
        self._lease = lease
        self._version = version
        self._at_once = at_once
        self._fair_queues = fair_queues
        self._number = 0
        """Of the last claim."""
        self._adopt_at = clock.monotonic() + lease.total_seconds()

    async def claim(self) -> float:
        """Claim while there is room and there may be more jobs. Returns the seconds to rest before the next claim.

        Raises StoreSilent when the worker stops waiting; the claim may still take jobs then.
        """
        limit = self._room()
        if limit <= 0:
            return POLL_SECONDS
        claimed = await self._claim(limit)
        while self._slots.may_be_more:
            is_last = self._slots.is_stopping or self._must_adopt
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
        most = self._at_once
        if len(self._settler) > 3 * most:
            return 0
        slots = self._slots.usable
        # The first to end are the quick ones, so claim ahead at most as many as have ended.
        quick = int(slots * AHEAD_SECONDS / max(self._slots.usual_seconds, 1e-6))
        ahead = min(2 * most, self._slots.ended_count, quick)
        waiting = self._slots.waiting + coming
        wanted = min(most, slots + ahead - len(self._slots) - waiting)
        # While jobs are waiting there is time: few large claims cost less than many small ones.
        return wanted if not waiting or wanted >= min(most, (slots + ahead) // 2) else 0

    async def _claim(self, limit: int) -> Claimed:
        self._number += 1
        claim = Claim(
            incarnation=self._worker.incarnation,
            number=self._number,
            kinds=self._worker.kinds,
            queues=self._worker.queues,
            limit=limit,
            lease=self._lease,
            version=self._version,
            whole=self._slots.has_looked or self._settler.mostly_fails or self._slots.ended_count < LEARNED,
            fair=self._fair_queues(),
        )
        # The number stays the same until there is an answer: if only the reply was lost, the same jobs come back.
        claimed = await self._calls.ask(lambda: self._store.claim(claim), kind="claim")
        self._slots.may_be_more = len(claimed.leases) >= limit
        return claimed

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
        self._slots.add(claimed.leases)

    # Lost replies

    @property
    def _must_adopt(self) -> bool:
        return self._calls.may_have_lost_replies or self._clock.monotonic() >= self._adopt_at

    async def _adopt(self) -> None:
        """Take up the jobs of earlier claims whose replies were lost."""
        self._slots.add(await self._calls.ask(self._lost_leases(before=self._number), kind="adopt"))
        self._calls.may_have_lost_replies = False
        self._adopt_at = self._clock.monotonic() + self._lease.total_seconds()

    async def release_late(self) -> None:
        """Give back what the last claim took after all. Otherwise its jobs would wait for a whole lease and count as
        lost. Runs until it is cancelled."""
        while True:
            lost = self._lost_leases(before=self._number + 1)
            self._slots.add(await self._calls.persist(lost, kind="adopt"))
            self._slots.release_waiting()
            await asyncio.sleep(POLL_SECONDS)

    def _lost_leases(self, *, before: int) -> Callable[[], list[Lease]]:
        """A store call for the leases of earlier claims that this worker does not hold."""
        held = [running.lease.fence for running in self._slots.held()]
        return lambda: self._store.adopt(self._worker.incarnation, before=before, held=held)
