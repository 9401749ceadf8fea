"""`python -m mulligan.testing.simulation SEED`: run one world, or many, and say what happened."""

import argparse
import sys
import time

from mulligan.testing.simulation.run import Report, simulate
from mulligan.testing.simulation.sometimes import Reached


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mulligan.testing.simulation", description=__doc__)
    parser.add_argument("seeds", help="one seed, or a range: 0-999")
    parser.add_argument("--hours", type=float, default=1.0, help="simulated hours of each world (1)")
    parser.add_argument("--trace", action="store_true", help="tell the whole story, one line for each step")
    parser.add_argument("--bench", action="store_true", help="say how fast it went")
    given = parser.parse_args()
    first, _, last = given.seeds.partition("-")
    reports, began = [], time.process_time()
    for seed in range(int(first), int(last or first) + 1):
        report = simulate(seed, hours=given.hours, is_told=given.trace)
        reports.append(report)
        if given.trace:
            print("\n".join(report.story))
        if report.broken:
            print(f"seed {seed}: {report.broken}", flush=True)
    _sum_up(reports, time.process_time() - began if given.bench else None)
    return int(any(report.broken for report in reports))


def _sum_up(reports: list[Report], seconds: float | None) -> None:
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
    if seconds is not None:
        print(f"{seconds:.1f} s of CPU, {hours * 3600 / seconds:,.0f} times real time")


if __name__ == "__main__":
    sys.exit(main())
