"""A shop whose gateway is down: jobs in every state, with the past of forty minutes. For tests and for pictures."""

from datetime import UTC, datetime, timedelta
from typing import Any

from virtual_past import Past, past

from mulligan import App, FinalError, Fixed, Job, JobFilter, Queue, RateLimitedError, RetryPolicy, Service, Snooze
from mulligan.attempt import attempt
from mulligan.failure.backoff import Exponential
from mulligan.store.messages import Beat, Claim, ReportedProgress, WorkerRecord

MINUTE, SECOND, HOUR = timedelta(minutes=1), timedelta(seconds=1), timedelta(hours=1)
OWNERS = ("acme", "globex", "initech")


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

        @app.task(timeout="10m")
        def report(month: str) -> str:
            return month

        @app.task(timeout="10m")
        def crawl(site: str) -> str:
            return site

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
        end = datetime.now(UTC).replace(microsecond=0)
        with past(self.app, self.url, end=end, length=40 * MINUTE) as self.box:
            self._live(self.box, failed)
        self.box = None
        return self

    def _live(self, box: Past, failed: int) -> None:
        self._lose_a_worker(box)
        for number in range(6):
            self.add(f"converted-{number}", "convert", f"in/2026-11/880{number}.pdf")
        self.add("recovered", "notify", "initech", options={"owner": "initech", "tags": ["eu", "mail"]})
        box.at(30 * MINUTE)
        self.is_down = True
        self.add("held", "convert", "in/2026-11/8812.pdf", token="tok-secret-value", options=self._of_batch())
        for number in range(7):
            self.add(f"held-{number}", "convert", f"in/2026-11/88{20 + number}.pdf", options={"owner": OWNERS[number % 3]})
        self.add("bill", "bill", "2026-10", options={"owner": "globex", "dedupe_key": "bill 2026-10"})
        self.add("slowed", "sync", "north", options={"owner": "globex"})
        box.at(12 * MINUTE)
        for number in range(failed):
            options = {"owner": OWNERS[number % 3], "tags": ["eu"]}
            self.add(f"charge-{number}", "charge", 4711 + number, card="4242", options=options)
            box.advance("17s")
        self.app.retry(self.jobs["charge-0"], actor="ann", reason="the key was renewed")
        self.app.cancel(self.add("cancelled", "report", "2026-08").id, actor="ann", reason="wrong month")
        self.add("delayed", "archive", "2026-09", options={"delay": "3h", "deadline": "5h"})
        self.app.pause(queue="bulk", duration="2h", actor="ann", reason="a migration runs")
        self.add("paused", "archive", "2026-07", options={"queue": "bulk", "owner": "globex"})
        self._run_some(box)
        self.add("queued", "archive", "2026-06", options={"priority": "high"})
        self._beat(box)

    def _of_batch(self) -> dict[str, Any]:
        return {"tags": ["eu", "invoice"], "deadline": "6h"}

    def _lose_a_worker(self, box: Past) -> None:
        self.add("lost", "report", "2026-05")
        self._claim("eu-2", 1, "report")
        box.clock.advance(2 * MINUTE)
        self.app.run_until_idle()

    def _claim(self, worker: str, number: int, kind: str) -> Any:
        claim = Claim(
            incarnation=worker, number=number, kinds=[kind], limit=1, lease=MINUTE, version="1.8.1", queues=None
        )
        (lease,) = self.app.store.claim(claim).leases
        return lease

    def _run_some(self, box: Past) -> None:
        box.at(8 * MINUTE)
        self.add("running", "report", "2026-10")
        self.add("stuck", "crawl", "shop.example", options={"owner": "globex"})

    def _beat(self, box: Past) -> None:
        """Two attempts under way: one long ago, and one with progress. The worker is alive for the tests."""
        raise NotImplementedError


__all__ = ["JobFilter", "Shop"]
