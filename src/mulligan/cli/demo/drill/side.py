"""One side of the drill: a service, a database, two workers and a producer. All are started and stopped here."""

import json
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote

from mulligan import MulliganError
from mulligan.cli.demo.drill.figures import CallsByStep
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
PATIENCE = 2.0


class Side:
    def __init__(self, plan: DrillPlan, folder: Path, *, has_service: bool) -> None:
        name = "service" if has_service else "backoff"
        url = f"sqlite:///{quote(str(folder / f'{name}.db'))}"
        self.gateway = GatewayProcess(plan.step)
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
        for _ in range(WORKERS):
            self._workers.start()

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


class GatewayProcess:
    """In its own process group: Ctrl-C reaches the drill only, which ends the gateway by closing its input."""

    def __init__(self, step: float) -> None:
        self.seen = CallsByStep()
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "mulligan.cli.demo.drill.gateway", str(step)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        assert self._process.stdout is not None
        first = self._process.stdout.readline()
        if not first:
            raise MulliganError(f"the service of the drill ended with exit status {self._process.wait()}")
        self.port = int(json.loads(first)["port"])
        threading.Thread(target=self._listen, name="gateway", daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.seen = CallsByStep(**json.loads(line))

    def command(self, word: str) -> None:
        """Send `begin`, `down` or `up`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n".encode())
        self._process.stdin.flush()

    def stop(self) -> None:
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
