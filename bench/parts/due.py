"""Many jobs that are due at the same moment: how soon all of them are ready, and whether claims go on meanwhile."""

import asyncio
import time
from itertools import pairwise

from bench.measurement import LOOK_SECONDS, Figures, Measurement
from bench.peer import Later, Waits, vacuum
from bench.processes import Stuck

CALL = 1_000
MARGIN_SECONDS = 3
# Jobs a second that can be enqueued for sure.
SLOWEST_RATE = 2_000


async def due_at_once(measurement: Measurement) -> Figures:
    peer, jobs = measurement.peer, measurement.sizes.due
    assert isinstance(peer, Later)
    assert isinstance(peer, Waits)
    due_at = time.monotonic() + jobs / SLOWEST_RATE + MARGIN_SECONDS
    for first in range(0, jobs, CALL):
        numbers = range(first, min(jobs, first + CALL))
        await peer.enqueue_later(numbers, seconds=due_at - time.monotonic())
    await vacuum(peer)
    if time.monotonic() > due_at:
        raise Stuck("the jobs were due before all of them were enqueued")
    with measurement.start_workers() as workers:
        await measurement.wait(lambda: time.monotonic() >= due_at, workers, seconds=3_600)
        while await peer.has_jobs_waiting():
            workers.check()
            if time.monotonic() > due_at + measurement.sizes.drain_seconds:
                raise Stuck("jobs are due and still wait")
            await asyncio.sleep(LOOK_SECONDS)
        promoted_at = time.monotonic()
        await measurement.wait(lambda: measurement.marks.done(jobs) == jobs, workers)
    began = sorted(began for began in measurement.marks.beginnings(jobs) if began)
    meanwhile = [due_at, *(moment for moment in began if moment < promoted_at), promoted_at]
    return {
        "promoted s": promoted_at - due_at,
        "run meanwhile": len(meanwhile) - 2,
        "longest gap s": max(later - earlier for earlier, later in pairwise(meanwhile)),
        "all run s": began[-1] - due_at,
    }
