"""What the duty `project` costs: catching up with a long log, and running beside a drain.

    python -m bench.projection --jobs 50000 [--rounds 3] [sqlite:///FILE]

Without a URL it starts a PostgreSQL server of its own. CPU seconds are those of this process and of the server; on a
busy machine they say more than the clock.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import psycopg

from bench.processes import server_seconds
from bench.servers import postgres
from mulligan import App
from mulligan.duties.project import Project
from mulligan.failure.decision import Fail, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Verdict
from mulligan.projections.fold import fold
from mulligan.records.job import Lease
from mulligan.settings import Settings
from mulligan.store.messages import Claim, Outcome
from mulligan.values.clock import SystemClock

CALL = 500
NEVER = timedelta(days=1)
OWNERS = 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--jobs", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--failing", type=float, default=0.1, help="the fraction of attempts that fail")
    given = parser.parse_args()
    with places(given.url) as (url, server):
        catch_up(url("catch_up"), server, given.jobs, given.failing)
        drains(url, server, given.jobs, given.rounds)


@contextmanager
def places(url: str | None) -> Iterator[tuple[Callable[[str], str], int | None]]:
    if url is not None:
        yield (lambda name: url.replace(".db", f"-{name}.db")), None
        return
    with postgres() as server:

        def create(name: str) -> str:
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return f"{server.url.rpartition('/')[0]}/{name}"

        yield create, server.pid


class Meter:
    """Seconds by the clock, and of CPU here and in the server."""

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._began = self._read()

    def _read(self) -> tuple[float, float, float]:
        there = server_seconds(self._server) if self._server else 0.0
        return time.monotonic(), time.process_time(), there

    def describe(self, what: str, number: int) -> str:
        wall, here, there = (now - before for now, before in zip(self._read(), self._began, strict=True))
        rate = f"{number / wall:,.0f}/s by the clock"
        return f"{number:,} {what}: {rate}, CPU {here / number * 1e6:.1f} µs here, {there / number * 1e6:.1f} µs server"


def catch_up(url: str, server: int | None, jobs: int, failing: float) -> None:
    """Fold a log that no worker has folded."""
    with App(url, settings=Settings(database_url=url)) as app:
        app.migrate()
        fill(app, jobs, failing)
        project = Project(app.store, fold, SystemClock(), interval=1.0, limit=app.settings.duty_project_limit)
        meter = Meter(server)
        events = project.catch_up()
        print("catch up:", meter.describe("events", events), flush=True)


def fill(app: App, jobs: int, failing: float) -> None:
    """Jobs that succeed, and some that fail: once and then for good."""

    @app.task
    def work() -> None: ...

    store, number, done = app.store, 0, 0
    every = round(1 / failing) if failing else 0
    for begin in range(0, jobs, CALL):
        app.enqueue_many([work.options(owner=f"owner-{n % OWNERS}").bind() for n in range(begin, begin + CALL)])
    while True:
        number += 1
        claim = Claim(
            incarnation="bench",
            number=number,
            kinds=("work",),
            queues=None,
            limit=CALL,
            lease=timedelta(minutes=5),
            version="1.0",
            whole=bool(every),
        )
        leases = store.claim(claim).leases
        if not leases:
            return
        store.settle([_end(lease, done + index, every) for index, lease in enumerate(leases)])
        done += len(leases)


def _end(lease: Lease, number: int, every: int) -> Outcome:
    if not every or number % every:
        return Outcome(lease, Succeed("null"), seconds=0.01)
    verdict = Verdict(
        code="GW_5XX", error_class=ErrorClass.RETRYABLE, message="It failed.", group=f"{number % 50:012x}"
    )
    again = Retry(timedelta(0), verdict, {"failure": 1}) if not lease.is_retry else Fail(verdict, {"failure": 2})
    return Outcome(lease, again, seconds=0.01)


def drains(url: Callable[[str], str], server: int | None, jobs: int, rounds: int) -> None:
    """The same drain with and without the duty, in turns."""
    for number in range(rounds):
        for interval in (NEVER, timedelta(seconds=1)):
            name = f"drain_{number}_{interval.total_seconds():.0f}"
            print(
                f"drain, project every {interval.total_seconds():.0f} s:",
                drain(url(name), server, jobs, interval),
                flush=True,
            )


def drain(url: str, server: int | None, jobs: int, interval: timedelta) -> str:
    settings = Settings(database_url=url, duty_project_interval=interval)
    with App(url, settings=settings) as app:
        app.migrate()

        @app.task
        async def work() -> None: ...

        for begin in range(0, jobs, CALL):
            app.enqueue_many([work.bind() for _ in range(begin, begin + CALL)])
        meter = Meter(server)
        app.run_until_idle(concurrency=500)
        return meter.describe("jobs", jobs)


if __name__ == "__main__":
    main()
