"""Counts and pages in a store that holds many jobs, of which one in ten has failed."""

import time
from collections.abc import Callable
from statistics import median
from typing import Protocol, runtime_checkable

from bench.measurement import Figures, Measurement
from bench.peer import Backlogs, vacuum

REPEATS = 15


@runtime_checkable
class Queries(Protocol):
    def queries(self) -> dict[str, Callable[[], object]]: ...


async def reading(measurement: Measurement) -> Figures:
    """Milliseconds of each query."""
    peer = measurement.peer
    assert isinstance(peer, Backlogs)
    assert isinstance(peer, Queries)
    await peer.fill("ended", measurement.sizes.reading)
    await vacuum(peer)
    return {name: _milliseconds(query) for name, query in peer.queries().items()}


def _milliseconds(query: Callable[[], object]) -> float:
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        query()
        times.append(time.perf_counter() - start)
    return median(times) * 1_000
