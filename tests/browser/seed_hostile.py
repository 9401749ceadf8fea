"""A site whose stored texts are attacks: each payload once, in every field that a user of the engine can set."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import cycle
from typing import Any
from urllib.parse import quote

from xss import MARK, PAYLOADS

from mulligan import App, FinalError, JobFilter, RetryPolicy, Service, attempt
from mulligan.store.messages import Beat, Claim, ReportedProgress, WorkerRecord

# Nothing in it can be broken by a page that does not say so.
LONG = "x" * 100
OWNER = f'"><img src=x onerror={MARK}>{LONG}'
KIND = f"kind'\"><script>{MARK}</script>{LONG}"
SERVICE = f"service'\"><img src=x onerror={MARK}>{LONG}"
QUEUE = f"queue'\"><svg onload={MARK}>{LONG}"
HOUR = timedelta(hours=1)
SCHEDULE = f"schedule'\"><svg onload={MARK}>"


class Hostile:
    """`ids` has one value for each parameter of a path."""

    def __init__(self, url: str) -> None:
        self.app = App(url, services=[Service(SERVICE)], version=f'1"><script>{MARK}</script>')
        self.ids: dict[str, str] = {"kind": KIND, "name": SERVICE}
        self._texts: Iterator[str] = cycle(PAYLOADS)
        self._declare()

    def _declare(self) -> None:
        app = self.app

        @app.task(name=KIND, retry=RetryPolicy(max_attempts=1), service=SERVICE, queue=QUEUE)
        def fail(text: str, **more: Any) -> None:
            attempt().progress(0.5, text)
            raise FinalError(text, code="HOSTILE")

        @app.task(name=f"echo {KIND}")
        def echo(text: str) -> dict[str, str]:
            return {"result": text, text: "name of a field"}

        app.cron("0 3 * * *", name=SCHEDULE)(app.task(name=f"nightly {KIND}")(lambda: None))
        self.fail, self.echo = fail, echo

    def text(self) -> str:
        return next(self._texts)

    def seed(self) -> "Hostile":
        self.app.migrate()
        self._seed_jobs()
        self._seed_batch()
        self._seed_moves()
        self._seed_failures()
        self._seed_notifications()
        self._seed_operation()
        self._seed_workers()
        return self

    def run(self) -> None:
        # A thread of its own: a browser that is driven from here has a loop running.
        with ThreadPoolExecutor(1) as threads:
            threads.submit(self.app.run_until_idle).result()
        self.app.run_duty("project")

    def _seed_jobs(self) -> None:
        """A failed job for each payload, and one with all of them."""
        self.app.enqueue_many(
            [self.fail.options(owner=OWNER, tags=[each], dedupe=each).bind(each, name=each) for each in PAYLOADS]
        )
        self.app.enqueue_many([self.echo.options(owner=each).bind(each) for each in PAYLOADS[:60]])
        whole = self.fail.options(owner=OWNER, tags=PAYLOADS[:5]).enqueue("\n".join(PAYLOADS), all=PAYLOADS)
        self.ids["job_id"] = whole.id
        self.run()

    def _seed_batch(self) -> None:
        batch = self.app.batch(OWNER, owner=OWNER)
        batch.add(*(self.fail.options(owner=OWNER).bind(self.text()) for _ in range(2)))
        batch.add(self.echo.options(owner=OWNER).bind(self.text()))
        self.ids["batch_id"] = batch.id
        batch.publish()
        self.app.batch(self.text())
        self.run()

    def _seed_moves(self) -> None:
        waiting = [self.echo.options(owner=OWNER, delay="1h").enqueue(self.text()) for _ in range(3)]
        self.app.cancel(waiting[0].id, actor=self.text(), reason=self.text())
        self.app.snooze(waiting[1].id, "2h", actor=self.text(), reason=self.text())
        self.app.pause("1h", queue=QUEUE, actor=self.text(), reason=self.text())
        self.app.pause("1h", kind=f"echo {KIND}", actor=self.text(), reason=self.text())
        self.app.service(SERVICE).open(actor=self.text(), reason=self.text())

    def _seed_failures(self) -> None:
        first, second, third = self.app.failures(limit=3).groups
        self.ids["group"] = first.id
        self.app.ignore_failure(second.id, "7d", actor=self.text(), reason=self.text())
        self.app.resolve_failure(third.id, actor=self.text(), reason=self.text())
        wanted = JobFilter(code="HOSTILE", kind=KIND)
        self.ids["redrive_id"] = self.app.redrive(wanted, owner=OWNER, actor=self.text(), reason=self.text()).id or ""

    def _seed_notifications(self) -> None:
        to = f"https://hooks.example/{quote(self.text())}?x='onmouseover='{MARK}"
        made = self.app.subscribe(OWNER, types=["job.failed"], channel="webhook", to=to, owner=OWNER).subscription
        self.ids["subscription_id"] = made.id
        self.app.test_subscription(made.id)
        self.ids["delivery_id"] = self.app.deliveries(limit=1)[0].id
        off = self.app.subscribe(self.text(), types=["job.failed"], channel="webhook", to="https://hooks.example/x")
        self.app.disable_subscription(off.subscription.id, actor=self.text(), reason=self.text())
        self.app.create_hook(self.text(), group=self.ids["group"], owner=OWNER)

    def _seed_operation(self) -> None:
        self.app.create_key(owner=self.text(), name=self.text(), actor=self.text())
        gone = self.app.create_key(owner=None, name=self.text(), actor=self.text())
        self.app.revoke_key(gone.key.id, actor=self.text())
        self.ids["check"] = str(self.app.alerts().rules[0].check)
        self.app.run_duty("schedule")
        self.app.run_schedule(SCHEDULE, actor=self.text(), reason=self.text())

    def _seed_workers(self) -> None:
        """A worker with a hostile name on a hostile host, which runs a job and tells how far it is."""
        store, name = self.app.store, self.text()
        task = self.app.task(name=f"slow {KIND}")(lambda text: {"result": text})
        self.ids["running"] = task.options(owner=OWNER).enqueue(self.text()).id
        kinds = (task.name,)
        fences = [
            each.fence
            for each in store.claim(Claim(incarnation=name, number=1, kinds=kinds, limit=1, lease=HOUR)).leases
        ]
        worker = WorkerRecord(incarnation=name, host=self.text(), pid=1, queues=(QUEUE,), kinds=kinds, concurrency=1)
        progress = [ReportedProgress(fence, 0.5, self.text()) for fence in fences]
        store.beat(Beat(worker=worker, lease=HOUR, extend=fences, progress=progress))
