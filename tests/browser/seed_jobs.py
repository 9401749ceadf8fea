"""A shop whose gateway is down: jobs in every state, with the past of forty minutes. For tests and for pictures."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from virtual_past import Past, past

from mulligan import App, FinalError, Fixed, Job, Queue, RateLimitedError, RetryPolicy, Service, Snooze
from mulligan.attempt import attempt
from mulligan.failure.backoff import Exponential
from mulligan.records.job import Lease, NewJob
from mulligan.store.messages import Beat, Claim, ReportedProgress, WorkerRecord

MINUTE, SECOND, HOUR = timedelta(minutes=1), timedelta(seconds=1), timedelta(hours=1)
WORKER = "eu-1-4711-1"
OWNERS = ("acme", "globex", "initech")


def apart(call: Callable[[], object]) -> None:
    """In a thread of its own: a test with a browser has an event loop in this one."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result()


class HTTPStatusError(Exception):
    """As an HTTP client raises it."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status_code = status


class Shop:
    """`jobs` names one job of each interesting sort."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.box: Past | None = None
        self.is_down = False
        self.jobs: dict[str, str] = {}
        self._claims = 0
        self.app = App(
            url,
            version="1.8.2",
            services=[Service("gateway", min_calls=8, cooldown="5m"), Service("mail")],
            queues=[Queue("bulk"), Queue("exports", concurrency=1)],
        )
        self._declare()

    def take(self, seconds: float) -> None:
        """The time that a task takes."""
        if self.box is not None:
            self.box.clock.advance(timedelta(seconds=seconds))

    def _declare(self) -> None:
        app = self.app

        @app.task(service="gateway", retry=RetryPolicy(max_attempts=6, backoff=Exponential("15s", cap="10m")))
        def convert(pdf: str, mapping: str = "invoice", token: str = "") -> str:
            self.take(30)
            if self.is_down:
                raise HTTPStatusError(503, "503 Service Unavailable for url 'https://gateway.example/convert'")
            return f"out/{pdf}"

        @app.task(retry=RetryPolicy(max_attempts=4))
        def charge(order: int, card: str = "") -> str:
            self.take(0.2)
            attempt().called("payments", ok=True, status=401)
            raise HTTPStatusError(401, "401 Unauthorized: the API key is not valid")

        @app.task(retry=RetryPolicy(max_attempts=5, backoff=Fixed("20s")))
        def notify(customer: str) -> dict[str, Any]:
            self.take(1.3)
            if attempt().job.failures < 2:
                raise ConnectionResetError(104, "Connection reset by peer")
            return {"customer": customer, "message": "sent", "password": "hunter2"}

        @app.task(retry=RetryPolicy(max_attempts=3))
        def sync(shop: str) -> None:
            self.take(2)
            if attempt().job.snoozes < 1:
                raise RateLimitedError("429 Too Many Requests", retry_after="2m")
            raise Snooze("2h")

        @app.task(retry=RetryPolicy(max_attempts=6, backoff=Exponential("2m", jitter=None)))
        def transfer(file: str) -> None:
            self.take(41)
            raise TimeoutError(f"the upload of {file} did not end within 40 s")

        @app.task(retry=RetryPolicy(max_attempts=4, backoff=Fixed("30s")))
        def import_rows(table: str) -> None:
            self.take(7)
            raise ConnectionRefusedError(111, f"Connection refused while reading {table}")

        @app.task(timeout="10m")
        def report(month: str) -> str:
            return month

        @app.task
        def archive(month: str) -> str:
            return month

        @app.task
        def bill(month: str) -> None:
            raise FinalError(f"the bill of {month} has no lines", code="NO_LINES")

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    def add(self, name: str, kind: str, *args: Any, options: dict[str, Any] | None = None, **kwargs: Any) -> Job[Any]:
        job: Job[Any] = self.task(kind).options(**{"owner": "acme", **(options or {})}).enqueue(*args, **kwargs)
        self.jobs[name] = job.id
        return job

    def seed(self, *, failed: int = 14) -> "Shop":
        """`failed` is how many charges fail."""
        apart(lambda: self._seed(failed))
        return self

    def run(self) -> None:
        """Run what is due."""
        apart(self.app.run_until_idle)

    def _seed(self, failed: int) -> None:
        end = datetime.now(UTC).replace(microsecond=0)
        with past(self.app, self.url, end=end, length=40 * MINUTE) as self.box:
            self._live(self.box, failed)
        self.box = None

    def _live(self, box: Past, failed: int) -> None:
        self._lose_a_worker(box)
        stuck = self._begin("stuck", "crawl", "globex", site="shop.example")
        for number in range(6):
            self.add(f"converted-{number}", "convert", f"in/2026-11/880{number}.pdf")
        self.add("recovered", "notify", "initech", options={"owner": "initech", "tags": ["eu", "mail"]})
        box.at(30 * MINUTE)
        self._break_the_gateway()
        box.at(12 * MINUTE)
        self._fail_charges(box, failed)
        self._move_some()
        box.at(3 * MINUTE)
        running = self._begin("running", "render", "acme", month="2026-10")
        self.add("queued", "archive", "2026-06", options={"priority": "high"})
        box.clock.advance(box.end - box.now)
        self._beat(box, [stuck, running])

    def _break_the_gateway(self) -> None:
        self.is_down = True
        options = {"tags": ["eu", "invoice"], "deadline": "6h"}
        self.add("held", "convert", "in/2026-11/8812.pdf", token="tok-secret-value", options=options)
        for number in range(9):
            options = {"owner": OWNERS[number % 3]}
            self.add(f"held-{number}", "convert", f"in/2026-11/88{20 + number}.pdf", options=options)
        self.add("bill", "bill", "2026-10", options={"owner": "globex", "dedupe": "bill 2026-10"})
        self.add("retrying", "transfer", "media/4711.mp4", options={"tags": ["media"], "deadline": "3h"})
        self.add("exhausted", "import_rows", "customers", options={"owner": "initech"})
        self.add("slowed", "sync", "north", options={"owner": "globex"})

    def _fail_charges(self, box: Past, failed: int) -> None:
        for number in range(failed):
            options = {"owner": OWNERS[number % 3], "tags": ["eu"]}
            self.add(f"charge-{number}", "charge", 4711 + number, card="4242", options=options)
            box.advance("17s")
        self.app.retry(self.jobs["charge-0"], actor="ann", reason="the key was renewed")
        box.advance("1s")

    def _move_some(self) -> None:
        cancelled = self.add("cancelled", "report", "2026-08", options={"delay": "1h"})
        self.app.cancel(cancelled.id, actor="ann", reason="wrong month")
        self.add("delayed", "archive", "2026-09", options={"delay": "3h", "deadline": "5h"})
        self.app.pause(queue="bulk", duration="2h", actor="ann", reason="a migration runs")
        self.add("paused", "archive", "2026-07", options={"queue": "bulk", "owner": "globex"})

    def _lose_a_worker(self, box: Past) -> None:
        self.add("lost", "report", "2026-05")
        self._claim("report", MINUTE)
        box.advance("3m")

    def _begin(self, name: str, kind: str, owner: str, **arguments: Any) -> Lease:
        """A job that a worker has begun and not ended. This app has no such task, and does not wait for it."""
        new = NewJob(id=self.app.wiring.new_id(), kind=kind, owner=owner, arguments=json.dumps(arguments))
        self.jobs[name] = new.id
        self.app.store.enqueue([new])
        return self._claim(kind, 9 * HOUR)

    def _claim(self, kind: str, lease: timedelta) -> Lease:
        self._claims += 1
        claim = Claim(incarnation=WORKER, number=self._claims, kinds=[kind], limit=1, lease=lease, version="1.8.2")
        (found,) = self.app.store.claim(claim).leases
        return found

    def _beat(self, box: Past, leases: list[Lease]) -> None:
        """The worker is alive, also for a test that takes a while."""
        box.clock.advance(HOUR)
        kinds = (*self.app.tasks, "crawl", "render")
        worker = WorkerRecord(
            incarnation=WORKER, host="eu-1", pid=4711, queues=None, kinds=kinds, concurrency=8, version="1.8.2"
        )
        progress = [ReportedProgress(leases[-1].fence, 0.62, "page 18 of 29")]
        fences = [lease.fence for lease in leases]
        self.app.store.beat(Beat(worker=worker, lease=9 * HOUR, extend=fences, progress=progress))
