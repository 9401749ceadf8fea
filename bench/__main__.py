"""`python -m bench`: measure what is chosen, round after round, then print the tables.

`python -m bench report FILE …` writes docs/benchmarks.md and its picture from results.
"""

import argparse
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from bench.environments import ROOT
from bench.parts import PARTS
from bench.picture import picture
from bench.plan import Plan, choose_entries, choose_parts
from bench.records import read
from bench.report import document, tables
from bench.rounds import Bench
from bench.sizes import SMALL, WHOLE

DOCUMENT = ROOT / "docs" / "benchmarks.md"
PICTURE = ROOT / "docs" / "benchmarks.svg"
RESULTS = ROOT / "bench-results"


def main() -> None:
    # So that every `finally` ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if sys.argv[1:2] == ["report"]:
        write_document([Path(name) for name in sys.argv[2:]])
    else:
        measure(parse())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--parts", default="", help=f"some of: {' '.join(PARTS)} ('growth' for all of them)")
    parser.add_argument("--peers", default="", help="compare with these only, by the beginnings of their names")
    parser.add_argument("--store", choices=["postgres", "sqlite", "redis"])
    parser.add_argument("--small", action="store_true", help="few jobs: shows that everything runs, proves nothing")
    parser.add_argument("--json", action="store_true", help="print the results as JSON lines instead of tables")
    parser.add_argument("--results", type=Path, help="the file of JSON lines to write or to add to")
    parser.add_argument("--quiet-wait", type=float, default=10, help="seconds to wait for a quiet machine each time")
    return parser.parse_args()


def measure(arguments: argparse.Namespace) -> None:
    plan = make_plan(arguments)
    results = arguments.results or RESULTS / f"{datetime.now(UTC):%Y-%m-%d-%H%M%S}.jsonl"
    results.parent.mkdir(exist_ok=True)
    try:
        Bench(plan, results).run()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    print(results.read_text() if arguments.json else tables(*read([results])))
    print(f"results: {results}", file=sys.stderr)
    if not (arguments.parts or arguments.peers or arguments.store or arguments.small):
        write_document([results])
    else:
        print(f"this is a part of the whole; to write it down: make bench-report RESULTS={results}", file=sys.stderr)


def make_plan(arguments: argparse.Namespace) -> Plan:
    try:
        return Plan(
            entries=choose_entries(arguments.peers.split(), arguments.store),
            parts=choose_parts(arguments.parts.split()),
            rounds=arguments.rounds,
            sizes=SMALL if arguments.small else WHOLE,
            quiet_wait=arguments.quiet_wait,
        )
    except ValueError as error:
        sys.exit(str(error))


def write_document(results: Sequence[Path]) -> None:
    runs, records = read(results)
    DOCUMENT.write_text(document(runs, records))
    PICTURE.write_text(picture(records))
    print(f"written: {DOCUMENT.relative_to(ROOT)}, {PICTURE.relative_to(ROOT)}", file=sys.stderr)


if __name__ == "__main__":
    main()
