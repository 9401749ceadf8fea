"""Jobs enqueued over HTTP by many clients at once, through one server process."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager

from bench.load import Answers, Load
from bench.measurement import Figures, Measurement
from bench.peer import Serves
from bench.processes import Stuck, Workers, server_seconds, start

CLIENTS = 32
START_SECONDS = 20
WARM_UP_SECONDS = 0.5


async def post_jobs(measurement: Measurement) -> Figures:
    """With an Idempotency-Key in each request, as clients should; and without."""
    peer = measurement.peer
    assert isinstance(peer, Serves)
    tokens = peer.tokens(CLIENTS)
    with serve(measurement) as (port, server):
        for has_keys in (True, False):
            await _run(Load(port, peer.path, tokens, WARM_UP_SECONDS, has_keys=has_keys))
        before = peer.count_jobs()
        keyed, used = await _measure(measurement, server, Load(port, peer.path, tokens, measurement.sizes.http_seconds))
        plain_load = Load(port, peer.path, tokens, measurement.sizes.http_seconds, has_keys=False)
        plain, used_plain = await _measure(measurement, server, plain_load)
        stored, memory = peer.count_jobs() - before, server.peak()
    if stored != keyed.count + plain.count:
        raise Stuck(f"{keyed.count + plain.count} requests were answered, but {stored} jobs are stored")
    return {
        **_figures(keyed, used),
        **{f"without key, {name}": value for name, value in _figures(plain, used_plain).items()},
        "peak MiB": memory,
    }


async def _measure(measurement: Measurement, server: Workers, load: Load) -> tuple[Answers, tuple[float, float]]:
    store = measurement.place.server
    before = server.seconds(), server_seconds(store)
    answers = await _run(load)
    return answers, (server.seconds() - before[0], server_seconds(store) - before[1])


def _figures(answers: Answers, used: tuple[float, float]) -> Figures:
    return {
        "requests/s": answers.count / answers.seconds,
        "p50 ms": answers.p50,
        "p99 ms": answers.p99,
        "web CPU µs": used[0] / answers.count * 1e6,
        "server CPU µs": used[1] / answers.count * 1e6,
        "client CPU µs": answers.cpu / answers.count * 1e6,
    }


async def _run(load: Load) -> Answers:
    return await asyncio.to_thread(load.run)


@contextmanager
def serve(measurement: Measurement) -> Iterator[tuple[int, Workers]]:
    """Run the peer's server. Yield its port once it listens."""
    assert isinstance(measurement.peer, Serves)
    port = _free_port()
    with start([measurement.peer.server(port)], measurement.place.folder / f"{measurement.entry.name}.log") as server:
        _wait_for(port, server)
        yield port, server


def _wait_for(port: int, server: Workers) -> None:
    end = time.monotonic() + START_SECONDS
    while True:
        with closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        server.check()
        if time.monotonic() > end:
            raise Stuck(f"the server does not listen after {START_SECONDS} s")
        time.sleep(0.02)


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
