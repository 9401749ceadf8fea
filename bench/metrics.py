"""What a scrape of the metrics costs, while very many jobs wait.

    python -m bench.metrics --jobs 1000000 [sqlite:///FILE]

Without a URL it starts a PostgreSQL server of its own. CPU seconds are those of this process and of the server; on a
busy machine they say more than the clock.
"""

import argparse
from datetime import timedelta

from bench.projection import Meter, places
from mulligan import App
from mulligan.duties.project import Project
from mulligan.failure.decision import Decision, Fail, Retry, Succeed
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Verdict
from mulligan.projections.fold import fold
from mulligan.records.job import NewJob
from mulligan.settings import Settings
from mulligan.store.messages import Claim, Outcome
from mulligan.store.store import Store
from mulligan.values.clock import SystemClock

CALL = 1_000
KINDS, CODES, SERVICES = 60, 8, 40
SCRAPES = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--jobs", type=int, default=1_000_000)
    given = parser.parse_args()
    with places(given.url) as (url, server):
        measure(url("metrics"), server, given.jobs)


def measure(url: str, server: int | None, jobs: int) -> None:
    """Half of the jobs are ready, half are for later. Some have ended in every way, so that there are many series."""
    with App(url, settings=Settings(database_url=url)) as app:
        app.migrate()
        end_some(app.store, 20 * KINDS)
        for begin in range(0, jobs, CALL):
            app.store.enqueue([_new(number, jobs) for number in range(begin, min(begin + CALL, jobs))])
        project = Project(app.store, fold, SystemClock(), interval=1.0, limit=app.settings.duty_project_limit)
        meter = Meter(server)
        events = project.catch_up()
        print("fold:", meter.describe("events", events), flush=True)
        text = app.metrics()
        meter = Meter(server)
        for _ in range(SCRAPES):
            text = app.metrics()
        print(f"{jobs:,} jobs, {text.count(chr(10)):,} lines:", meter.describe("scrapes", SCRAPES), flush=True)
        print(*(line for line in text.splitlines() if line.startswith("mulligan_queue_depth")), sep="\n")


def end_some(store: Store, number: int) -> None:
    kinds = [f"kind-{n}" for n in range(KINDS)]
    jobs = [
        NewJob(id=f"ended-{n}", kind=kinds[n % KINDS], arguments="{}", service=f"service-{n % SERVICES}")
        for n in range(number)
    ]
    store.enqueue(jobs)
    claim = Claim(
        incarnation="bench", number=1, kinds=kinds, queues=None, limit=number, lease=timedelta(minutes=5), whole=True
    )
    leases = store.claim(claim).leases
    store.settle([Outcome(lease, _end(n), seconds=n / 100) for n, lease in enumerate(leases)])


def _end(number: int) -> Decision:
    error_class = ErrorClass.FINAL if number % 2 else ErrorClass.RETRYABLE
    code, group = f"CODE_{number // KINDS % CODES}", f"{number % 50:012x}"
    verdict = Verdict(code=code, error_class=error_class, message="It failed.", group=group)
    match number % 3:
        case 0:
            return Succeed("null")
        case 1:
            return Retry(timedelta(hours=1), verdict, {"failure": 1})
    return Fail(verdict, {"failure": 1})


def _new(number: int, jobs: int) -> NewJob:
    delay = timedelta(hours=1) if number < jobs // 2 else timedelta(0)
    return NewJob(id=f"job-{number:09}", kind=f"kind-{number % KINDS}", arguments="{}", delay=delay)


if __name__ == "__main__":
    main()
