"""`python -m bench`: every part with every subject in turn, round after round, then the tables."""

import argparse
import json
import os
import platform
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import psutil

from bench import reading
from bench.lineup import Subject, all_subjects
from bench.marks import Marks
from bench.measure import FULL, QUICK, Bench, Stuck
from bench.place import SETTINGS, opened
from bench.report import Record, tables

PARTS = ("one", "bulk", "drain", "batch", "fail-twice", "latency")
PEERS = ("pgqueuer", "asyncpg", "uvloop", "huey", "psycopg")


def main() -> None:
    arguments = parse()
    # So that every `finally` ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    marks = Marks.make()
    records: list[Record] = []
    try:
        with opened() as place:
            if is_wanted("reading", arguments.parts):
                print(reading.measure(place, reading.QUICK_JOBS if arguments.quick else reading.JOBS))
            bench = Bench(place, marks, QUICK if arguments.quick else FULL)
            subjects = [s for s in all_subjects(place) if is_wanted(s.name, arguments.only)]
            parts = [part for part in PARTS if is_wanted(part, arguments.parts)]
            for number, part, subject in in_order(arguments.rounds, parts, subjects):
                records.append(run(number, part, bench, subject))
    except KeyboardInterrupt:
        say("stopped; what was measured so far:")
    finally:
        marks.remove()
    report(records, arguments.output)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="subjects, by the beginning of their names: mulligan,pgqueuer")
    parser.add_argument("--parts", help=f"some of reading,{','.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small numbers: shows that it runs, proves nothing")
    parser.add_argument("--output", type=Path, default=Path("bench-results.json"))
    return parser.parse_args()


def is_wanted(name: str, chosen: str | None) -> bool:
    return chosen is None or any(name.startswith(beginning) for beginning in chosen.split(","))


def in_order(rounds: int, parts: list[str], subjects: list[Subject]) -> Iterator[tuple[int, str, Subject]]:
    """Each round begins with another subject, so that none always follows the same one."""
    for number in range(rounds):
        first = number % len(subjects)
        for part in parts:
            for subject in subjects[first:] + subjects[:first]:
                if part in subject.parts:
                    yield number, part, subject


def run(number: int, part: str, bench: Bench, subject: Subject) -> Record:
    start, load = time.monotonic(), os.getloadavg()[0]
    psutil.cpu_percent()
    try:
        numbers, trouble = bench.measure(part, subject), None
    except Stuck as error:
        numbers, trouble = {}, str(error)
    seconds, busy = time.monotonic() - start, psutil.cpu_percent()
    shown = trouble or ", ".join(f"{name} {value:,.5g}" for name, value in numbers.items())
    say(f"round {number + 1} {part:<10} {subject.name:<16} {seconds:5.1f} s  {shown}")
    return Record(number, part, subject.name, numbers, trouble, load=load, cpu_percent=busy, seconds=seconds)


def report(records: list[Record], output: Path) -> None:
    print(tables(records))
    about = {
        "machine": f"{os.cpu_count()} cores, {platform.platform()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "versions": {name: version(name) for name in PEERS},
        "postgres": SETTINGS,
    }
    output.write_text(json.dumps({"about": about, "records": [record.__dict__ for record in records]}, indent=1))
    print(f"every number: {output}")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
