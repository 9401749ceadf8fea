"""The last beat of a worker that leaves."""

import asyncio
import threading
from pathlib import Path

from mulligan import App
from mulligan.store.messages import Beat, BeatReply
from mulligan.store.sqlite import SqliteStore
from mulligan.wiring import AppParts
from mulligan.worker.drivers import ThreadDriver

PATIENCE = 60


class SlowToBeat(SqliteStore):
    """Holds the first beat back until the worker leaves."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.has_begun, self.may_go_on, self.is_over = threading.Event(), threading.Event(), threading.Event()

    def beat(self, beat: Beat) -> BeatReply:
        self.has_begun.set()
        assert self.may_go_on.wait(PATIENCE)
        try:
            return super().beat(beat)
        finally:
            self.is_over.set()

    def leave(self, incarnation: str) -> None:
        super().leave(incarnation)
        self.may_go_on.set()


def test_a_worker_signs_off_after_its_last_beat(tmp_path: Path) -> None:
    """A beat that is stored later would make it look alive again."""
    store = SlowToBeat(f"sqlite:///{tmp_path / 'jobs.db'}")

    class Driver(ThreadDriver):
        async def end_beats(self) -> None:
            store.may_go_on.set()
            await super().end_beats()

    async def work_and_leave(app: App) -> None:
        async with app.worker():
            assert await asyncio.to_thread(store.has_begun.wait, PATIENCE)

    app = App(f"sqlite:///{tmp_path / 'jobs.db'}")
    with app.wiring.use(AppParts(open_store=lambda _url, _services: store, driver=Driver)):
        app.migrate()
        asyncio.run(work_and_leave(app))
        assert store.is_over.wait(PATIENCE)
        assert app.workers() == []
