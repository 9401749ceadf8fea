"""Run a worker on an event loop: until a signal, alongside other work, or while there are jobs."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from mulligan.values.duration import describe
from mulligan.worker.forks import Executor, hide_signals_from_forks
from mulligan.worker.hooks import Hooks, enter_lifespan
from mulligan.worker.loop_guard import guard_loop, run_to_end
from mulligan.worker.tuning import collect_every_second, collect_less, shorten_turns
from mulligan.worker.worker import WhenIdle, Worker

STOPPING = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class WorkerLoop:
    """`app` is passed to the lifespan hook."""

    app: object
    hooks: Hooks
    new_loop: Callable[[], asyncio.AbstractEventLoop]

    def run_until_signal(self, worker: Worker) -> None:
        before = {number: signal.getsignal(number) for number in STOPPING}
        try:
            with shorten_turns(), collect_less(), hide_signals_from_forks():
                self._run(self._serve(worker), goes_on=True)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _serve(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, worker.stop)
        loop.set_default_executor(Executor(thread_name_prefix="asyncio"))
        collecting = loop.create_task(collect_every_second())
        try:
            with guard_loop(loop, worker.stop):
                async with self._prepared(worker):
                    await worker.run()
        finally:
            collecting.cancel()
            # The worker has stopped: another signal must not interrupt the cleanup.
            for number in STOPPING:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)

    @asynccontextmanager
    async def run_alongside(self, worker: Worker) -> AsyncIterator[None]:
        """On the loop of the caller; leaving the block drains the worker."""
        loop = asyncio.get_running_loop()
        with guard_loop(loop, loop.stop):
            async with self._prepared(worker):
                running = asyncio.create_task(worker.run())
                try:
                    yield
                finally:
                    worker.stop()
                    await running

    def run_while_needed(
        self, worker: Worker, when_idle: WhenIdle, *, timeout: timedelta | None, unfinished: Callable[[], str]
    ) -> None:
        """Raises TimeoutError after `timeout`, with what `unfinished` says."""

        async def work() -> None:
            limit = asyncio.timeout(None if timeout is None else timeout.total_seconds())
            try:
                with guard_loop(asyncio.get_running_loop(), worker.stop):
                    async with self._prepared(worker), limit:
                        await worker.run(when_idle=when_idle)
            except TimeoutError:
                if timeout is None or not limit.expired():
                    raise
                raise TimeoutError(f"not idle after {describe(timeout)}: {unfinished()}") from None

        self._run(work())

    @asynccontextmanager
    async def _prepared(self, worker: Worker) -> AsyncIterator[None]:
        async with enter_lifespan(self.hooks.lifespan, self.app) as resources:
            await worker.prepare(resources)
            yield

    def _run(self, work: Coroutine[Any, Any, None], *, goes_on: bool = False) -> None:
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            run_to_end(runner, work, goes_on=goes_on)
