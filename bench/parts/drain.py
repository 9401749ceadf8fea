"""Jobs that were enqueued before the workers start, until the store says that nothing is left."""

import time

from bench.measurement import Figures, Measurement
from bench.peer import FAIL_TWICE, SUCCEED, Batches, preload
from bench.processes import Workers, server_seconds

CALL = 1_000


async def one_worker(measurement: Measurement) -> Figures:
    jobs = measurement.sizes.drain(measurement.entry.drained)
    await preload(measurement.peer, SUCCEED, jobs)
    return await drain(measurement, jobs)


async def two_workers(measurement: Measurement) -> Figures:
    jobs = measurement.sizes.drain(measurement.entry.drained)
    await preload(measurement.peer, SUCCEED, jobs)
    return await drain(measurement, jobs, workers=2)


async def failing(measurement: Measurement) -> Figures:
    """Each body raises twice and then succeeds; the delay is zero, or the least that the peer takes."""
    jobs = measurement.sizes.drain(measurement.entry.failing)
    await preload(measurement.peer, FAIL_TWICE, jobs)
    return await drain(measurement, jobs, tries=3)


async def batch(measurement: Measurement) -> Figures:
    """The same jobs as members of one batch, until it is settled."""
    assert isinstance(measurement.peer, Batches)
    jobs = measurement.sizes.drain(measurement.entry.drained)
    await measurement.peer.draft()
    await preload(measurement.peer, SUCCEED, jobs)
    await measurement.peer.publish()
    return await drain(measurement, jobs)


async def peak(measurement: Measurement) -> Figures:
    """Memory with many jobs ahead."""
    jobs = measurement.sizes.peak
    await preload(measurement.peer, SUCCEED, jobs)
    figures = await drain(measurement, jobs)
    return {name: figures[name] for name in ("peak MiB", "jobs/s")}


async def drain(measurement: Measurement, jobs: int, *, workers: int = 1, tries: int = 1) -> Figures:
    """The clock runs from the first body's start."""
    marks, server = measurement.marks, measurement.place.server
    with measurement.start_workers(workers) as running:
        await _wait_for_first(measurement, jobs, running)
        worker_before, server_before = running.seconds(), server_seconds(server)
        await measurement.wait(lambda: marks.done(jobs) == jobs, running)
        await measurement.wait_for_store(running)
        end = time.monotonic()
        used = running.seconds() - worker_before, server_seconds(server) - server_before
        memory = running.peak()
    first = min(began for began in marks.beginnings(jobs) if began)
    return {
        "jobs/s": jobs / (end - first),
        "seconds": end - first,
        "peak MiB": memory,
        "worker CPU µs": used[0] / jobs * 1e6,
        **({"server CPU µs": used[1] / jobs * 1e6} if server else {}),
        "jobs": jobs,
        "run too often": marks.tried_more_than(tries, jobs),
    }


async def _wait_for_first(measurement: Measurement, jobs: int, workers: Workers) -> None:
    await measurement.wait(lambda: measurement.marks.has_begun(jobs), workers)
