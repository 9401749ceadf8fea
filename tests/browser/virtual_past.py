"""A past for a database: what happens in the block happens in virtual time, in a file that a server opens later."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from mulligan import App
from mulligan.store.sqlite import SqliteStore
from mulligan.testing.sandbox import Sandbox
from mulligan.testing.virtual import VirtualClock, VirtualLoop
from mulligan.wiring import AppParts
from mulligan.worker.drivers import InlineDriver


class Past(Sandbox):
    """A sandbox that ends at a moment: `finish` moves there."""

    def __init__(self, app: App, clock: VirtualClock, end: datetime) -> None:
        super().__init__(app, clock)
        self.clock, self.end = clock, end

    def at(self, before: timedelta) -> None:
        """Move to this long before the end; jobs that come due run."""
        self.advance(max(self.end - before - self.now, timedelta(0)))


@contextmanager
def past(app: App, url: str, *, end: datetime, length: timedelta) -> Iterator[Past]:
    clock = VirtualClock(end - length)
    box = Past(app, clock, end)
    parts = AppParts(
        open_store=lambda _, services: SqliteStore(url, now=clock.now, threaded=False, services=services),
        changes=lambda _: box,
        driver=InlineDriver,
        loop=lambda: VirtualLoop(clock),
        clock=clock,
        randomness=random.Random(7),
        uses_connections=False,
        isolates=False,
    )
    with app.wiring.use(parts):
        app.migrate()
        yield box
