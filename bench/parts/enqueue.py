"""One producer: one call a job, each answered before the next, or 1,000 jobs a call."""

import time

from bench.measurement import Figures, Measurement
from bench.peer import SUCCEED, Blocking, Bulk

CALL = 1_000


async def one_by_one(measurement: Measurement) -> Figures:
    """Jobs a second through asyncio, through plain calls, or both."""
    figures: Figures = {}
    if isinstance(measurement.peer, Blocking):
        figures["sync jobs/s"] = _blocking(measurement.peer, measurement.sizes.enqueue_seconds)
    name = "async jobs/s" if measurement.entry.is_async else "sync jobs/s"
    figures[name] = await _awaited(measurement)
    return figures


async def _awaited(measurement: Measurement) -> float:
    enqueue = measurement.peer.enqueue
    await enqueue(SUCCEED, 0)
    count, start = 0, time.monotonic()
    while time.monotonic() - start < measurement.sizes.enqueue_seconds:
        await enqueue(SUCCEED, count)
        count += 1
    return count / (time.monotonic() - start)


def _blocking(peer: Blocking, seconds: float) -> float:
    peer.enqueue_blocking(SUCCEED, 0)
    count, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        peer.enqueue_blocking(SUCCEED, count)
        count += 1
    return count / (time.monotonic() - start)


async def bulk(measurement: Measurement) -> Figures:
    assert isinstance(measurement.peer, Bulk)
    jobs, start = measurement.sizes.bulk, time.monotonic()
    for first in range(0, jobs, CALL):
        await measurement.peer.enqueue_many(SUCCEED, range(first, first + CALL))
    return {"jobs/s": jobs / (time.monotonic() - start)}
