"""Counts and pages in a store that holds many jobs, of which one in ten has failed."""

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection
from statistics import median
from typing import Protocol, runtime_checkable

from bench.load import BadAnswer
from bench.measurement import Figures, Measurement
from bench.parts.http import serve
from bench.peer import Backlogs, Serves, vacuum
from bench.processes import Workers, server_seconds

REPEATS = 15
# CPU time is counted in hundredths of a second.
PAGE_REPEATS = 100
PAGE = 50
PAGES = {
    "GET /jobs": f"/api/v1/jobs?limit={PAGE}",
    "GET /jobs?state=failed": f"/api/v1/jobs?limit={PAGE}&state=failed",
}


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
    figures = {name: _milliseconds(query) for name, query in peer.queries().items()}
    if isinstance(peer, Serves):
        token = peer.reader()
        with serve(measurement) as (port, server):
            for name, path in PAGES.items():
                figures |= _page_figures(measurement, server, name, _page(port, path, token))
    return figures


def _page_figures(measurement: Measurement, server: Workers, name: str, ask: Callable[[], object]) -> Figures:
    """Also the CPU time, which a busy machine changes less."""
    store = measurement.place.server
    before = server.seconds(), server_seconds(store)
    milliseconds = _milliseconds(ask, PAGE_REPEATS)
    used = server.seconds() - before[0], server_seconds(store) - before[1]
    web, stored = (seconds / PAGE_REPEATS * 1_000 for seconds in used)
    return {name: milliseconds, f"{name}, web CPU": web, f"{name}, server CPU": stored}


def _page(port: int, path: str, token: str) -> Callable[[], object]:
    """A request on a connection that is kept. The first opens it."""
    connection = HTTPConnection("127.0.0.1", port)

    def ask() -> None:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        jobs = json.loads(answer.read())["jobs"]
        if answer.status != 200 or len(jobs) != PAGE:
            raise BadAnswer(f"status {answer.status}, {len(jobs)} jobs")

    ask()
    return ask


def _milliseconds(query: Callable[[], object], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        query()
        times.append(time.perf_counter() - start)
    return median(times) * 1_000
