"""How many NOTIFYs a storm of enqueues sends. Each of them takes a lock that all commits of the server share."""

import asyncio
import threading
import time
from typing import Self

from bench.measurement import Figures, Measurement
from bench.peer import SUCCEED, Blocking, Notifies, Peer

PRODUCERS = 16
LAST_SECONDS = 0.5


async def storm(measurement: Measurement) -> Figures:
    peer, seconds = measurement.peer, measurement.sizes.storm_seconds
    assert isinstance(peer, Notifies)
    # What the first call of a process does once.
    await peer.enqueue(SUCCEED, 0)
    with Listener(peer) as listener:
        start = time.monotonic()
        if isinstance(peer, Blocking):
            sent = await asyncio.to_thread(_from_threads, peer, start + seconds)
        else:
            sent = await _from_tasks(peer, start + seconds)
        elapsed = time.monotonic() - start
    return {
        "jobs/s": sent / elapsed,
        "NOTIFY/s": listener.count / elapsed,
        "NOTIFY a job": listener.count / sent,
    }


async def _from_tasks(peer: Peer, end: float) -> int:
    async def produce() -> int:
        count = 0
        while time.monotonic() < end:
            await peer.enqueue(SUCCEED, 0)
            count += 1
        return count

    return sum(await asyncio.gather(*[produce() for _ in range(PRODUCERS)]))


def _from_threads(peer: Blocking, end: float) -> int:
    counts: list[int] = []

    def produce() -> None:
        count = 0
        while time.monotonic() < end:
            peer.enqueue_blocking(SUCCEED, 0)
            count += 1
        counts.append(count)

    threads = [threading.Thread(target=produce) for _ in range(PRODUCERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


class Listener:
    """Counts what arrives on a channel while it is entered."""

    def __init__(self, peer: Notifies) -> None:
        self._peer = peer
        self._is_over = threading.Event()
        self._listens = threading.Event()
        self._thread = threading.Thread(target=self._listen)
        self.count = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._listens.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _listen(self) -> None:
        import psycopg

        with psycopg.connect(self._peer.url, autocommit=True) as connection:
            connection.execute(f'LISTEN "{self._peer.channel}"'.encode())
            self._listens.set()
            while not self._is_over.is_set():
                self.count += sum(1 for _ in connection.notifies(timeout=LAST_SECONDS))
