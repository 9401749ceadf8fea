"""What every part needs: the peer, its entry, the marks, the sizes, and a way to wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from bench.lineup import Entry
from bench.marks import Marks
from bench.peer import Peer
from bench.place import Place
from bench.processes import Stuck, Workers, start
from bench.sizes import Sizes

LOOK_SECONDS = 0.005
FIRST_JOB_SECONDS = 20

Figures = dict[str, float]


@dataclass(frozen=True)
class Measurement:
    """One part of one peer, on a store that was just made."""

    entry: Entry
    peer: Peer
    marks: Marks
    sizes: Sizes
    place: Place

    def start_workers(self, count: int = 1) -> AbstractContextManager[Workers]:
        return start([self.peer.worker() for _ in range(count)], self.place.folder / f"{self.entry.name}.log")

    async def wait(self, is_so: Callable[[], bool], workers: Workers, *, seconds: float | None = None) -> None:
        """Until it is so, or Stuck."""
        limit = self.sizes.drain_seconds if seconds is None else seconds
        end = time.monotonic() + limit
        while not is_so():
            workers.check()
            if time.monotonic() > end:
                raise Stuck(f"not done after {limit:.0f} s")
            await asyncio.sleep(LOOK_SECONDS)

    async def wait_for_store(self, workers: Workers) -> None:
        """Until the store itself says that nothing is left, so that late acknowledgements count."""
        end = time.monotonic() + self.sizes.drain_seconds
        while await self.peer.has_jobs_left():
            workers.check()
            if time.monotonic() > end:
                raise Stuck("the bodies are done, but the store still holds jobs")
            await asyncio.sleep(LOOK_SECONDS)

    async def wait_for_job(self, number: int) -> None:
        end = time.monotonic() + FIRST_JOB_SECONDS
        while not self.marks.is_done(number):
            if time.monotonic() > end:
                raise Stuck(f"a single job was not run in {FIRST_JOB_SECONDS} s")
            await asyncio.sleep(0.0005)


Part = Callable[[Measurement], Awaitable[Figures]]
