"""The parts of an app that a test may replace: store, clock, randomness, threads, event loop."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from mulligan.records.token import RandomBytes
from mulligan.service.config import ServiceBook
from mulligan.store.messages import Changes
from mulligan.store.store import Store
from mulligan.values.clock import Clock, SystemClock, system_randomness, system_secrets
from mulligan.worker.drivers import Driver, ThreadDriver
from mulligan.worker.settler import BATCH


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop if it is installed (`mulligan[fast]`), because it is faster for tiny jobs."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@dataclass(frozen=True, slots=True)
class AppParts:
    """The defaults are those of production; the sandbox replaces most of them."""

    open_store: Callable[[str, Callable[[], ServiceBook]], Store] | None = None
    """Called instead of opening the store that the URL names."""
    changes: Callable[[Store], Changes] = field(default=lambda store: store.changes())
    driver: Callable[[], Driver] = ThreadDriver
    loop: Callable[[], asyncio.AbstractEventLoop] = new_loop
    clock: Clock = field(default_factory=SystemClock)
    randomness: random.Random = field(default_factory=system_randomness)
    secrets: RandomBytes = system_secrets
    uses_connections: bool = True
    isolates: bool = True
    at_once: int = BATCH
    """How many jobs a worker claims or settles in one call."""
