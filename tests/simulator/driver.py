"""The simulated driver: what a worker needs of the outside, in simulated time."""

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from mulligan.store.store import Store
from mulligan.worker.drivers import Interrupt
from mulligan.worker.keeper import Keeper
from simulator.strand import Strand

if TYPE_CHECKING:
    from simulator.participants import Participant

T = TypeVar("T")


class SimulatedDriver:
    """Store calls, the keeper and plain tasks each in a strand: they wait at every store call, side by side."""

    def __init__(self, participant: "Participant") -> None:
        self._participant = participant
        self._keeping: asyncio.Task[None] | None = None
        self._beats_ended = asyncio.Event()
        self.wake: Callable[[], None] | None = None

    async def blocking(self, function: Callable[[], T]) -> T:
        if not self._participant.world.faults.has_faults:
            # Nothing would strike: no need to make it possible.
            return function()
        result: T = await Strand(function, self._participant.loop).future
        return result

    async def call(self, function: Callable[[], T], on_start: Callable[[Interrupt], None], /) -> T:
        strand = Strand(function, self._participant.loop)
        on_start(strand.interrupt)
        result: T = await asyncio.shield(strand.future)
        return result

    def start(self, store: Store, keeper: Keeper, wake: Callable[[], None]) -> None:  # noqa: ARG002
        self.wake = wake
        self._keeping = self._participant.loop.create_task(self._keep(keeper))

    async def end_beats(self) -> None:
        self._beats_ended.set()
        if self._keeping is not None:
            await asyncio.shield(self._keeping)

    def stop(self) -> None:
        self.wake = None
        if self._keeping is not None:
            self._keeping.cancel()

    async def _keep(self, keeper: Keeper) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            while not self._beats_ended.is_set():
                await self.blocking(keeper.step)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(keeper.interval):
                        await self._beats_ended.wait()
