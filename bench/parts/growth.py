"""How fast the first jobs run beside a backlog of others: as a ratio of the same on an empty table."""

import time
from statistics import median

from bench.measurement import Figures, Measurement, Part
from bench.peer import SUCCEED, Backlogs, Bulk, Owners, vacuum

CALL = 1_000
REPEATS = 3
JOBS_OF_AN_OWNER = 10
EMPTY = "empty"


def beside(backlog: str) -> Part:
    async def measure(measurement: Measurement) -> Figures:
        peer, size = measurement.peer, _backlog(measurement) if backlog != EMPTY else 0
        assert isinstance(peer, Backlogs)
        start = time.monotonic()
        await peer.fill(backlog, size)
        seconds = time.monotonic() - start
        rates = [await _enqueue_and_drain(measurement, is_first=number == 0) for number in range(REPEATS)]
        return {
            "jobs/s": median(rates),
            "first jobs/s": rates[0],
            "last jobs/s": rates[-1],
            "backlog": size,
            "fill seconds": seconds,
        }

    return measure


async def many_owners(measurement: Measurement) -> Figures:
    """A fair queue whose jobs belong to many owners."""
    peer, owners = measurement.peer, measurement.sizes.owners
    assert isinstance(peer, Owners)
    jobs = owners * JOBS_OF_AN_OWNER if measurement.entry.store == "postgres" else owners * 2
    for first in range(0, jobs, CALL):
        await peer.enqueue_owned(range(first, min(jobs, first + CALL)), owners=owners)
    await vacuum(peer)
    rate = await _drain_first(measurement, jobs)
    return {"jobs/s": rate, "backlog": jobs}


async def _enqueue_and_drain(measurement: Measurement, *, is_first: bool) -> float:
    """Only the first time the tables are vacuumed, because no vacuum runs between two bursts."""
    jobs = measurement.sizes.ahead
    measurement.marks.clear()
    assert isinstance(measurement.peer, Bulk)
    for first in range(0, jobs, CALL):
        await measurement.peer.enqueue_many(SUCCEED, range(first, min(jobs, first + CALL)))
    if is_first:
        await vacuum(measurement.peer)
    return await _drain_first(measurement, jobs)


async def _drain_first(measurement: Measurement, jobs: int) -> float:
    """Bodies a second, from the first that starts to the last of those that are measured."""
    marks, ahead = measurement.marks, min(jobs, measurement.sizes.ahead)
    with measurement.start_workers() as workers:
        await measurement.wait(lambda: marks.done(jobs) >= ahead, workers)
    began = sorted(began for began in marks.beginnings(jobs) if began)[:ahead]
    return len(began) / (began[-1] - began[0])


def _backlog(measurement: Measurement) -> int:
    size = measurement.sizes.backlog
    return size if measurement.entry.store == "postgres" else size // 5
