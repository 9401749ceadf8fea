"""From the call of enqueue to the first line of the body, one job at a time."""

import asyncio
import time

from bench.measurement import Figures, Measurement
from bench.peer import SUCCEED
from bench.statistics import percentile

WARM_UP = 5
REST_SECONDS = 1.5
SHORT, IDLE = 0.01, 0.1


async def latency(measurement: Measurement) -> Figures:
    """With short gaps, and with a worker that has become idle."""
    with measurement.start_workers() as workers:
        for number in range(WARM_UP):
            await measurement.peer.enqueue(SUCCEED, number)
            await measurement.wait_for_job(number)
        await asyncio.sleep(REST_SECONDS)
        memory = workers.memory()
        idle = await _latencies(measurement, measurement.sizes.latencies // 2, gap=IDLE)
        short = await _latencies(measurement, measurement.sizes.latencies, gap=SHORT)
    return {
        "10 ms gaps p50 ms": percentile(short, 50),
        "10 ms gaps p99 ms": percentile(short, 99),
        "idle p50 ms": percentile(idle, 50),
        "idle p99 ms": percentile(idle, 99),
        "idle MiB": memory,
    }


async def _latencies(measurement: Measurement, jobs: int, *, gap: float) -> list[float]:
    """In milliseconds. The gap is between the end of one body and the next call."""
    measurement.marks.clear()
    calls = []
    for number in range(jobs):
        calls.append(time.monotonic())
        await measurement.peer.enqueue(SUCCEED, number)
        await measurement.wait_for_job(number)
        await asyncio.sleep(gap)
    return [(began - called) * 1_000 for began, called in zip(measurement.marks.beginnings(jobs), calls, strict=True)]
