"""A shop with services in every condition, batches in every state, and retries of every sort: for the pages Batches,
Services and Retries, and for pictures of them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from virtual_past import past

from mulligan import App, ErrorCode, Exponential, FinalError, Fixed, RetryableError, RetryPolicy, Service
from mulligan.testing.sandbox import Sandbox


@dataclass
class Weather:
    """What the services of the shop do. A name in `down` does not answer; calls take `seconds`, by name."""

    random: Random = field(default_factory=lambda: Random(7))
    down: set[str] = field(default_factory=set)
    failing: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    async def call(self, name: str, code: str) -> None:
        await self.work(name)
        if name in self.down or self.random.random() < self.failing.get(name, 0.0):
            raise RetryableError(f"503 Service Unavailable from {name}", code=code)

    async def work(self, name: str) -> None:
        if seconds := self.seconds.get(name):
            await asyncio.sleep(seconds * self.random.uniform(0.5, 1.5))


@dataclass
class Shop:
    app: App
    weather: Weather
    tasks: dict[str, Any]

    def run(self) -> None:
        """Run what is due. In a thread, because a browser under test has an event loop in the main one."""
        with ThreadPoolExecutor(1) as pool:
            pool.submit(self.app.run_until_idle).result()


SERVICES = [
    Service("gateway", window=20, cooldown="2m", rate="50/s"),
    Service("smtp", window=20, cooldown="1m"),
    Service("payments", budget=0.2, open_at=0.9),
    Service("ledger", mode="fail_fast"),
    Service("maps", window="2m"),
    Service("site:*", cooldown="5m"),
]

CODES = [
    ErrorCode("SMTP_4XX", "The mail server is busy.", "retryable", blames_service=True),
    ErrorCode("PAY_5XX", "The payment provider has an issue.", "retryable", blames_service=True),
    ErrorCode("NO_FUNDS", "The account has no funds.", "retryable", blames_service=False),
    ErrorCode("MAILBOX_FULL", "The mailbox is full.", "final"),
]
SECONDS = {"gateway": 4.0, "smtp": 0.6, "payments": 1.2, "screenshot": 9.0, "watermark": 3.0, "import_feed": 5.0}


def open_shop(url: str) -> Shop:
    app = App(url, services=SERVICES, catalogue=CODES)
    weather = Weather()
    tasks: dict[str, Any] = {}

    def task(**options: Any) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            tasks[function.__name__] = app.task(**options)(function)
            return tasks[function.__name__]

        return register

    @task(service="gateway", retry=RetryPolicy(max_attempts=4, backoff=Fixed("20s")))
    async def convert(number: int) -> int:
        await weather.call("gateway", "GW_5XX")
        return number

    @task(service="smtp", retry=RetryPolicy(max_attempts=6, backoff=Exponential("30s")))
    async def send_mail(number: int) -> int:
        await weather.call("smtp", "SMTP_4XX")
        return number

    @task(service="payments", retry=RetryPolicy(max_attempts=3, backoff=Fixed("30s")))
    async def charge(number: int) -> int:
        await weather.call("payments", "PAY_5XX")
        if number % 9 == 0:
            raise RetryableError("the account has no funds", code="NO_FUNDS")
        return number

    @task(service=lambda site: f"site:{site}", retry=RetryPolicy(max_attempts=8, backoff=Fixed("1m")))
    async def screenshot(site: str) -> str:
        await weather.call("screenshot", "PAGE_TIMEOUT")
        return site

    @task(retry=RetryPolicy(max_attempts=3, backoff=Fixed("10s")))
    async def watermark(number: int) -> int:
        await weather.work("watermark")
        if number % 4 == 0:
            raise RetryableError("ffmpeg: exit 1, moov atom not found", code="PROGRAM_FAILED")
        if number % 7 == 3:
            raise FinalError("452 4.2.2 Mailbox full", code="MAILBOX_FULL")
        return number

    @task(retry=RetryPolicy(max_attempts=3, backoff=Fixed("10s")))
    async def import_feed(number: int) -> int:
        await weather.work("import_feed")
        raise ValueError(f"line {number} makes no sense")

    return Shop(app, weather, tasks)


def fill(shop: Shop, *, hours: float = 3.5, sites: int = 12, takes_time: bool = False) -> None:
    """Hours of work: an outage of the gateway that is over, one that lasts, and retries that help or do not. With
    `takes_time`, attempts take seconds of virtual time, and filling takes a minute of real time."""
    url = shop.app.settings.database_url
    with past(shop.app, url, end=datetime.now(UTC), length=timedelta(hours=hours)) as box:
        began, minutes = box.now, int(hours * 60)
        shop.weather.seconds = SECONDS if takes_time else {}
        shop.weather.failing = {"screenshot": 0.6, "smtp": 0.1, "payments": 0.02, "gateway": 0.03}
        for minute in range(minutes - 2):
            left = minutes - minute
            _change_weather(shop, left)
            _enqueue_minute(shop, minute, sites)
            # Attempts that were under way have moved the clock.
            box.advance(max(began + timedelta(minutes=minute + 1) - box.now, timedelta(0)))
        _settle(shop, box)
        shop.app.run_duty("project")
    shop.weather.seconds = {}


def _change_weather(shop: Shop, left: int) -> None:
    """By the minutes that are left until now."""
    down = {150: {"gateway"}, 135: set(), 27: {"gateway"}, 9: {"gateway", "smtp"}, 2: {"gateway"}}
    if left in down:
        shop.weather.down = down[left]
    if left == 12:
        shop.weather.failing["payments"] = 0.35


def _enqueue_minute(shop: Shop, minute: int, sites: int) -> None:
    tasks, bindings = shop.tasks, []
    for number in range(6):
        bindings.append(tasks["convert"].bind(minute * 6 + number))
    for number in range(3):
        bindings.append(tasks["charge"].bind(minute * 3 + number))
    bindings += [tasks["send_mail"].bind(minute), tasks["send_mail"].bind(minute)]
    if minute % 3 == 0:
        bindings.append(tasks["screenshot"].bind(f"shop-{minute % sites}.example"))
        bindings.append(tasks["watermark"].bind(minute))
    if minute % 30 == 0:
        bindings.append(tasks["import_feed"].bind(minute))
    shop.app.enqueue_many(bindings)


def _settle(shop: Shop, box: Sandbox) -> None:
    """What people did in the last minute, and the batches."""
    app = shop.app
    app.service("ledger").open(actor="on-call", reason="they asked us to stop")
    app.service("site:shop-0.example").close(actor="on-call", reason="its alarm is wrong")
    app.pause("2h", service="maps", actor="on-call", reason="moved to another region")
    make_batches(shop, box)
    box.advance("20s")


def make_batches(shop: Shop, box: Sandbox) -> None:
    """One in each state."""
    app, watermark, convert = shop.app, shop.tasks["watermark"], shop.tasks["convert"]

    def batch(name: str, calls: list[Any], **options: Any) -> Any:
        made = app.batch(name, owner="globex", **options)
        made.add(*calls)
        return made

    batch("not sent yet", [watermark.bind(number) for number in range(12)])
    good = [number for number in range(1, 120) if number % 4 and number % 7 != 3]
    batch("newsletter", [watermark.bind(number) for number in good]).publish()
    batch("enough of it", [watermark.bind(number) for number in range(1, 40)], success_at=0.5).publish()
    spring = batch("spring campaign", [watermark.bind(number) for number in range(1, 90)]).publish()
    batch("all wrong", [watermark.bind(number * 4) for number in range(6)]).publish()
    batch("given up", [watermark.bind(number * 4) for number in range(20)], abort_above=0.1).publish()
    old = batch("last year", [watermark.bind(1), watermark.bind(4)], expires_in="30s").publish()
    box.advance("40s")
    spring.retry_failed(actor="on-call", reason="source files uploaded again")
    box.advance("30s")
    batch("pdf archive", [*(watermark.bind(number) for number in good[:20]), *map(convert.bind, range(25))]).publish()
    assert old
