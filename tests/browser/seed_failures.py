"""A shop whose jobs fail in many ways, with a day of history: for tests and pictures of the pages of failures."""

import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

from mulligan import App, FinalError, Fixed, RetryableError, RetryPolicy, Service
from mulligan.failure.fingerprint import fingerprint
from mulligan.projections.fold import fold
from mulligan.records.log_entry import Entry, Facts
from mulligan.values.ids import id_from

ONCE = RetryPolicy(max_attempts=1)
TWICE = RetryPolicy(max_attempts=2, backoff=Fixed("1ms", jitter=None))
OWNERS = ("acme", "globex", "initech", *(f"customer-{number}" for number in range(40)))
UNAUTHORIZED = "401 Unauthorized: the API key is not valid"


class Shop:
    """Its tasks fail until `is_fixed`. The gateway fails until `is_gateway_up`."""

    def __init__(self, url: str, version: str | None = "1.8.2") -> None:
        self.app = App(
            url,
            version=version,
            services=[Service("gateway", window=10, min_calls=4, open_at=0.5, cooldown="2h"), Service("payments")],
        )
        self.is_fixed, self.is_gateway_up = False, False
        self._define()

    def _define(self) -> None:
        app = self.app

        @app.task(retry=ONCE, service="payments")
        def charge(order: int) -> str:
            if not self.is_fixed:
                raise FinalError(UNAUTHORIZED, code="HTTP_4XX")
            return f"charged {order}"

        @app.task(retry=ONCE)
        def watermark(video: int) -> None:
            raise FinalError(f"ffmpeg: exit 1, moov atom not found in /videos/{video}.mp4", code="PROGRAM_FAILED")

        @app.task(retry=ONCE)
        def import_feed(feed: int) -> None:
            raise KeyError("sku")

        @app.task(retry=TWICE, service="gateway")
        def convert(page: int) -> None:
            if not self.is_gateway_up:
                raise RetryableError("503 Service Unavailable from gateway", code="GW_5XX")

        @app.task
        def hello(name: str) -> str:
            return f"hello {name}"

    def task(self, name: str) -> Any:
        return self.app.tasks[name]

    def fail(self, kind: str, number: int, *, began: timedelta | None = None, **options: Any) -> None:
        """Jobs of many owners that fail now, or seem to have failed since some time ago."""
        draw = random.Random(number)
        task = self.task(kind)
        if began is not None:
            self.app.pause(duty="project")
        names = [draw.choices(OWNERS, [90, 40, 20, *[1] * 40])[0] for _ in range(number)]
        self.app.enqueue_many([task.options(owner=owner, **options).bind(at) for at, owner in enumerate(names)])
        run_until_idle(self.app)
        if began is not None:
            self._fold_spread(began)
            self.app.resume(duty="project")
        self.app.run_duty("project")

    def _fold_spread(self, began: timedelta) -> None:
        """Fold the newest events with times between then and six minutes ago."""
        ago, last, number = began.total_seconds(), min(360.0, began.total_seconds() / 2), 0
        total = self.app.last_position() - self.app.store.next_entries(limit=1).after
        while (page := self.app.store.next_entries(limit=1_000)).entries:
            spread = []
            for entry in page.entries:
                spread.append(entry._replace(at=int(entry.at - (ago - number * (ago - last) / total) * 1e6)))
                number += 1
            assert self.app.store.apply_folded(page, fold(spread))


def run_until_idle(app: App) -> None:
    """In a thread: a driver of browsers has a loop in the thread of the tests."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: app.run_until_idle(retries=True)).result()


def add_history(app: App, entries: Iterable[Entry]) -> None:
    """Fold events of earlier days, which the log does not have any more, into groups and statistics."""
    app.run_duty("project")
    page = app.store.next_entries(limit=1)
    assert app.store.apply_folded(page, fold(list(entries)))


def a_day(now: datetime, seed: int = 3) -> list[Entry]:
    """A usual day: a few failures, most of which recover, with some bad hours."""
    draw, entries = random.Random(seed), []
    for minute in range(60, 24 * 60, 4):
        at = now - timedelta(minutes=minute)
        bad = at.hour in (6, 21) and at.minute < 40
        for _ in range(draw.randrange(2, 9) if bad else draw.randrange(0, 3)):
            entries += _recovering("sync_stock", "deadlock detected", "DATABASE_BUSY", at, draw)
        if draw.random() < (0.8 if bad else 0.12):
            entries += _failing("send_mail", "452 4.2.2 Mailbox full", "MAILBOX_FULL", at, draw)
        if draw.random() < 0.05:
            entries += _failing("screenshot", "No answer within 30 s", "TIMEOUT", at, draw)
    for days in range(1, 20):
        at = now - timedelta(days=days, hours=draw.randrange(5))
        entries += _failing("screenshot", "No answer within 30 s", "TIMEOUT", at, draw)
        entries += _recovering("sync_stock", "deadlock detected", "DATABASE_BUSY", at, draw)
    return sorted(entries, key=lambda entry: entry.at)


def _event(type_: str, kind: str, job: str, at: datetime, attempt: int, owner: str, **more: Any) -> Entry:
    facts = more.pop("facts", Facts(0.4))
    moment = int(at.timestamp() * 1e6)
    known = {"code": None, "version": "1.8.1"} | more
    return Entry(0, type_, job, kind, owner, attempt, moment, known["code"], "", 1, moment, known["version"], facts)


def _failure(kind: str, message: str, error_class: str) -> Facts:
    return Facts(1.5, error_class, message, fingerprint("Error", message, kind=kind), f"Error: {message}")


def _failing(kind: str, message: str, code: str, at: datetime, draw: random.Random) -> list[Entry]:
    job, owner = id_from(f"{kind}{at}{draw.random()}"), draw.choice(OWNERS[:3])
    facts = _failure(kind, message, "retryable")
    return [_event("job.failed", kind, job, at, 1, owner, code=code, facts=facts)]


def _recovering(kind: str, message: str, code: str, at: datetime, draw: random.Random) -> list[Entry]:
    job, owner = id_from(f"{kind}{at}{draw.random()}"), draw.choice(OWNERS[:3])
    facts = _failure(kind, message, "retryable")
    return [
        _event("job.retried", kind, job, at, 1, owner, code=code, facts=facts),
        _event("job.succeeded", kind, job, at + timedelta(seconds=20), 2, owner),
    ]


def an_incident(url: str, jobs: int = 498) -> Shop:
    """A usual day, and then: a version whose key is wrong, a gateway that is down, an old failure that is back."""
    shop = Shop(url)
    app = shop.app
    app.migrate()
    app.enqueue_many([shop.task("hello").bind(name) for name in OWNERS])
    run_until_idle(app)
    add_history(app, a_day(app.store.now()))
    shop.fail("watermark", 41, began=timedelta(hours=6))
    (watermark,) = app.failures(kind="watermark").groups
    app.resolve_failure(watermark.id, actor="ann", reason="fixed in 1.8.0")
    shop.fail("import_feed", 7)
    (feed,) = app.failures(kind="import_feed").groups
    app.ignore_failure(feed.id, "7d", growth=10, actor="ann", reason="the customer knows")
    shop.fail("charge", jobs, began=timedelta(minutes=33), tags=["order"])
    shop.fail("convert", 12, began=timedelta(minutes=27))
    older = Shop(url, version="1.9.0")
    older.fail("watermark", 3)
    older.app.close()
    app.enqueue_many([shop.task("convert").options(owner="acme").bind(page) for page in range(204)])
    return shop
