"""Measure every page with many failures: time to the first byte, CPU and size. Not a test: times depend on the machine.

    .venv/bin/python tests/browser/measure_pages.py                         # a new database in a temporary folder
    .venv/bin/python tests/browser/measure_pages.py --database URL          # kept: the next run uses it again
    .venv/bin/python tests/browser/measure_pages.py --jobs 1000 --groups 100

Server and client are one process, so CPU is that of both. The numbers of the menu are counted for each request; a
server remembers them for two seconds.
"""

import argparse
import logging
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import httpx  # noqa: E402
from seed_failures import a_day, add_history, run_until_idle  # noqa: E402
from site_server import serve  # noqa: E402

from mulligan import App, FinalError, JobFilter, RetryPolicy, Service  # noqa: E402
from mulligan.web.pages import PAGES, menu  # noqa: E402

FIRST_BYTE, LARGEST = 50.0, 150_000
DOWNLOADS = ("/jobs/export",)
CHUNK, KINDS, OWNERS = 5_000, 20, 50
# Words without digits: numbers of messages are masked, and would make one group of all.
WORDS = ["".join(letters) for letters in product("bcdfghklmn", "aeiou", "prstvwxzlm", "aeiou", "bcdf")]

# What stands for a parameter of a path: found in the database, or None.
PARAMETERS: dict[str, Callable[[App], str | None]] = {
    "group": lambda app: next((group.id for group in app.failures(limit=1).groups), None),
    "redrive_id": lambda app: next((redrive.id for redrive in app.redrives(limit=1)), None),
    "job_id": lambda app: next((job.id for job in app.jobs(limit=1).jobs), None),
    "batch_id": lambda app: next((batch.id for batch in app.batches(limit=1)), None),
    "name": lambda app: next((service.name for service in app.services()), None),
    "kind": lambda app: next(iter(app.tasks)),
    "check": lambda app: str(app.alerts().rules[0].check),
    "delivery_id": lambda app: next((each.id for each in app.deliveries(limit=1)), None),
    "subscription_id": lambda app: next((each.id for each in app.subscriptions()), None),
}
# Addresses with terms, besides the plain ones.
MORE = (
    "/?state=all&order=failures&range=7d",
    "/?state=ignored",
    "/?kind=kind3&range=30d",
    "/?cursor=5000",
    "/find?q=CODE_3",
    "/find?q=nothing",
    "/find?q=abcdef",
    "/retry?code=CODE_3",
    "/jobs?state=failed&kind=kind3",
    "/jobs/bulk/run-now?state=failed",
)


def make_app(url: str, groups: int) -> App:
    app = App(url, version="1.8.2", services=[Service("gateway")])

    def fail(number: int) -> None:
        raise FinalError(f"cannot read the {WORDS[number % groups]} section", code=f"CODE_{number % 37}")

    for number in range(KINDS):
        app.task(name=f"kind{number}", retry=RetryPolicy(max_attempts=1))(fail)
    return app


def fill(app: App, jobs: int, groups: int) -> None:
    """Jobs that failed, by the real way: enqueued, run, settled and folded."""
    add_history(app, a_day(app.store.now()))
    for first in range(0, jobs, CHUNK):
        bound = [
            app.tasks[f"kind{number % groups % KINDS}"].options(owner=f"owner{number % OWNERS}").bind(number)
            for number in range(first, min(jobs, first + CHUNK))
        ]
        app.enqueue_many(bound)
        run_until_idle(app)
        print(f"\r{first + len(bound):,} of {jobs:,} jobs", end="", file=sys.stderr, flush=True)
    app.run_duty("project")
    print(file=sys.stderr)
    add_one_of_each(app)


def add_one_of_each(app: App) -> None:
    """What else a page is about."""
    app.redrive(JobFilter(code="CODE_3"), reason="measured")
    app.service("gateway").open(actor="measure", reason="measured")
    batch = app.batch("measured")
    batch.add(*(app.tasks["kind0"].bind(number) for number in range(1_000)))
    batch.publish()
    to = app.subscribe("measured", types=["job.failed"], channel="email", to="on-call@example.org").subscription
    app.test_subscription(to.id)


def addresses(app: App) -> list[str]:
    """Every page, with something that exists for each parameter, and some with terms."""
    found = []
    for page in PAGES:
        if page.is_change:
            continue
        names = re.findall(r"{(\w+)(?::\w+)?}", page.path)
        values = {name: PARAMETERS.get(name, lambda _: None)(app) for name in names}
        if None in values.values():
            print(f"left out, nothing to show: {page.path}", file=sys.stderr)
            continue
        found.append(re.sub(r"{(\w+)(?::\w+)?}", lambda match, values=values: str(values[match[1]]), page.path))
    return [*found, *MORE]


class Measured(NamedTuple):
    path: str
    status: int
    size: int
    first_byte: float
    cpu: float

    @property
    def is_over(self) -> bool:
        """A download may have any size."""
        return self.first_byte > FIRST_BYTE or (self.size > LARGEST and self.path not in DOWNLOADS)


def measure(client: httpx.Client, path: str, times: int) -> Measured:
    """The medians in milliseconds."""
    spent: list[tuple[float, float]] = []
    for _ in range(times):
        began, cpu = time.perf_counter(), time.process_time()
        with client.stream("GET", path) as response:
            first_byte = time.perf_counter() - began
            size = len(response.read())
        spent.append((first_byte * 1000, (time.process_time() - cpu) * 1000))
    first_bytes, cpus = zip(*spent, strict=True)
    return Measured(path, response.status_code, size, statistics.median(first_bytes), statistics.median(cpus))


def main() -> int:
    options = parse()
    logging.disable(logging.CRITICAL)
    # Each request counts what the menu shows.
    menu.REMEMBERED = 0.0
    with tempfile.TemporaryDirectory() as folder:
        app = make_app(options.database or f"sqlite:///{folder}/jobs.db", options.groups)
        app.migrate()
        if not app.failures(limit=1).groups:
            fill(app, options.jobs, options.groups)
        with serve(app) as site:
            client = site.client()
            client.follow_redirects = False
            found = [measure(client, path, options.times) for path in addresses(app)]
        app.close()
    print(f"{'first byte':>10} {'CPU':>8} {'size':>9}  page")
    for each in sorted(found, key=lambda each: -each.cpu):
        mark = " <- over" if each.is_over else f" ({each.status})" if each.status != 200 else ""
        print(f"{each.first_byte:7.1f} ms {each.cpu:5.1f} ms {each.size / 1000:6.1f} kB  {each.path}{mark}")
    return any(each.is_over or each.status >= 400 for each in found)


def parse() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", help="its URL; a new one is filled")
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--groups", type=int, default=len(WORDS))
    parser.add_argument("--times", type=int, default=15)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
