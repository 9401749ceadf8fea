"""A worker that follows the configuration: it takes the queues of the categories that are allowed now."""

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from apps.runs.app import Verifier

logger = logging.getLogger("apps.runs")

LOOK_SECONDS = 0.5


async def work(verifier: Verifier, stop: threading.Event, *, concurrency: int) -> None:
    """Until `stop` is set. When the allowed categories change, running verifications end first."""
    while not stop.is_set():
        queues = verifier.queues
        logger.info("the worker takes %s", ", ".join(queues))
        async with verifier.app.worker(concurrency=concurrency, queues=queues):
            while not stop.is_set() and verifier.queues == queues:
                await asyncio.to_thread(stop.wait, LOOK_SECONDS)


@contextmanager
def run_worker(verifier: Verifier, *, concurrency: int) -> Iterator[None]:
    """Run it beside the block, in a thread of its own. A worker that cannot go on ends the process."""
    stop, raised = threading.Event(), list[BaseException]()

    def run() -> None:
        try:
            asyncio.run(work(verifier, stop, concurrency=concurrency))
        except BaseException as error:
            raised.append(error)
            os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=run, name="worker")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    if raised:
        raise raised[0]
