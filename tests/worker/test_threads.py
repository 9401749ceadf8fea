"""Threads for blocking calls: as many as there are calls at once, and no more."""

import asyncio

from mulligan.worker.drivers import Threads


def test_calls_one_after_another_need_one_thread() -> None:
    async def call() -> int:
        threads = Threads("test")
        for _ in range(2_000):
            await threads.run(lambda: None)
        threads.close()
        return threads._started

    assert asyncio.run(call()) == 1
