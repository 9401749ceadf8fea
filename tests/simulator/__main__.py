"""`make simulate SEED=17`: run one world, or many, and say what happened."""

import argparse
import os
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from mulligan.values.clock import SystemClock
from simulator.run import Report, simulate
from simulator.sometimes import Reached


def main() -> int:
    parser = argparse.ArgumentParser(prog="make simulate", description=__doc__)
    parser.add_argument("seeds", help="one seed, or a range: 0-999")
    parser.add_argument("--hours", type=float, default=1.0, help="simulated hours of each world (1)")
    parser.add_argument("--trace", action="store_true", help="tell the whole story, one line for each step")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="worlds at a time (one for each core)")
    parser.add_argument("--bench", action="store_true", help="say how fast it went")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    clock = SystemClock()
    processes, began = max(1, min(given.processes, len(seeds))), clock.monotonic()
    reports = []
    for report in _reports(seeds, partial(simulate, hours=given.hours, is_told=given.trace), processes):
        reports.append(report)
        if given.trace:
            print("\n".join(report.story))
        if report.broken:
            print(f"seed {report.seed}: {report.broken}", flush=True)
    _sum_up(reports)
    if given.bench:
        _say_speed(sum(report.hours for report in reports), clock.monotonic() - began, processes)
    return int(any(report.broken for report in reports))


def _reports(seeds: range, world: "partial[Report]", processes: int) -> Iterable[Report]:
    if processes == 1:
        yield from map(world, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(world, seeds)


def _say_speed(hours: float, seconds: float, processes: int) -> None:
    speed = hours * 3600 / seconds
    each = f"; {speed / processes:,.0f} times in each of {processes} processes" if processes > 1 else ""
    print(f"{seconds:.1f} s, {speed:,.0f} times real time{each}")


def _sum_up(reports: list[Report]) -> None:
    reached = Reached()
    for report in reports:
        reached.update(report.reached)
    hours = sum(report.hours for report in reports)
    broken = sum(report.broken is not None for report in reports)
    jobs, events = (sum(getattr(report, name) for report in reports) for name in ("jobs", "events"))
    print(f"{len(reports)} worlds, {hours:.1f} hours, {jobs:,} jobs, {events:,} events, {broken} broken promises")
    if len(reports) == 1:
        print(f"the log's digest: {reports[0].digest}")
    for point in reached.missing if len(reports) > 1 else ():
        print(f"never reached: {point}")


if __name__ == "__main__":
    sys.exit(main())
