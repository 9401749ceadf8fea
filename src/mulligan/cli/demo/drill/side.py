"""One side of the drill: a service, a database, two workers and a producer. All are started and stopped here."""

import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

from mulligan.cli.demo.drill.gateway import DrillGateway
from mulligan.cli.demo.drill.plan import DrillPlan
from mulligan.cli.demo.drill.tasks import SERVICE, make_app
from mulligan.cli.demo.workers import Workers

WORKERS = 2
# Far more than the load needs, as usual where jobs wait for calls.
CONCURRENCY = 60
COMMAND = (
    *(sys.executable, "-m", "mulligan", "worker", "mulligan.cli.demo.drill.tasks:app"),
    *("--concurrency", str(CONCURRENCY)),
)
LEASE_SECONDS = 30


class Side:
    def __init__(self, plan: DrillPlan, folder: Path, *, has_service: bool) -> None:
        name = "service" if has_service else "backoff"
        url = f"sqlite:///{quote(str(folder / f'{name}.db'))}"
        self.gateway = DrillGateway(plan.step)
        self.enqueued = 0
        self._app = make_app(plan, has_service=has_service, url=url)
        environment = {
            "DRILL_SECONDS": str(plan.seconds),
            "DRILL_SERVICE": SERVICE if has_service else "",
            "DRILL_PORT": str(self.gateway.port),
            "MULLIGAN_DATABASE_URL": url,
            "MULLIGAN_WORKER_LEASE_TTL_SEC": str(LEASE_SECONDS),
        }
        self._workers = Workers(environment, folder / f"{name}.log", command=COMMAND)

    def start(self) -> None:
        self._workers.start(WORKERS)

    @property
    def is_ready(self) -> bool:
        self._workers.check()
        return {worker.pid for worker in self._app.workers()} >= set(self._workers.pids)

    def enqueue(self, number: int) -> None:
        if number > 0:
            ask = self._app.tasks["ask"]
            self._app.enqueue_many([ask.bind(self.enqueued + one) for one in range(number)])
            self.enqueued += number

    def stop(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._app.close)
            stack.callback(self.gateway.stop)
            self._workers.stop()
