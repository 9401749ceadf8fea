"""Whole days in the sandbox, event by event: what it skips because nothing can have changed changes no event.

`python tests/test_sandbox_days.py` writes the log again, after a change of what jobs do. With `--minutely` it prints
how many seconds of CPU time a day takes that has a tick each minute.
"""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mulligan import (
    App,
    Exponential,
    FinalError,
    Fixed,
    JobFilter,
    Owner,
    Queue,
    RetryPolicy,
    Service,
    Snooze,
    State,
    attempt,
)
from mulligan.records.event import Event
from mulligan.testing import sandbox
from mulligan.testing.virtual import START

LOG = Path(__file__).parent / "golden" / "sandbox_days.txt"


def schedules() -> list[Event]:
    app = App("sqlite:///:memory:")

    @app.cron("*/20 * * * *")
    @app.cron("0 4 * * *", name="nightly", timezone="Europe/Berlin")
    @app.task
    def report() -> None: ...

    @app.cron("0 * * * *", missed="all")
    @app.task
    def hourly() -> None: ...

    with sandbox(app) as box:
        box.advance("3h5m")
        app.pause("150m", schedule="hourly")
        app.pause("1h", kind="report")
        box.advance("20h55m")
        return events_of(app)


def retries() -> list[Event]:
    app = App("sqlite:///:memory:")

    @app.task
    def clean_up(job_id: str) -> None: ...

    @app.task(retry=RetryPolicy(8, Exponential("10s", jitter=0.5)), on_failed=clean_up)
    async def unsteady(good: int) -> None:
        if attempt().number < good:
            raise RuntimeError("not yet")

    @app.task(retry=RetryPolicy(3, Fixed(0)), timeout="5m")
    async def hasty() -> None:
        await asyncio.sleep(120 * attempt().number)
        raise TimeoutError

    @app.task(retry=RetryPolicy(20, Fixed("1h")))
    def patient() -> None:
        raise ConnectionResetError

    @app.cron("30 * * * *")
    @app.task
    def parent() -> None:
        unsteady.options(delay="10m").enqueue(2)

    with sandbox(app) as box:
        app.enqueue_many([unsteady.bind(good) for good in (1, 3, 5, 99)])
        hasty.enqueue()
        patient.options(deadline="6h").enqueue()
        box.advance("2h")
        app.pause("90m", duty="retry")
        box.advance("9h")
        app.redrive(JobFilter(kind="unsteady", state=State.FAILED), rate="1/s", canary=1)
        box.advance("13h")
        return events_of(app)


def snoozes() -> list[Event]:
    app = App("sqlite:///:memory:")

    @app.task
    def poll(times: int) -> None:
        if attempt().number < times:
            raise Snooze("45m")

    @app.task
    def cancelled() -> None: ...

    with sandbox(app) as box:
        jobs = [poll.enqueue(times) for times in (2, 5, 20)]
        late = cancelled.options(delay="10h").enqueue()
        box.advance("4h")
        app.run_now(jobs[2].id)
        app.cancel(late.id)
        box.advance("20h")
        return events_of(app)


def outages() -> list[Event]:
    app = App(
        "sqlite:///:memory:", services=[Service("gateway", min_calls=3, cooldown="30m"), Service("mail", budget=0.1)]
    )

    @app.task(service="gateway")
    def call() -> None:
        if 2 <= (box.now - START).total_seconds() / 3600 < 9:
            raise ConnectionRefusedError

    @app.task(service="mail", retry=RetryPolicy(5, Fixed("1m")))
    def send(number: int) -> None:
        if number % 3 == 0 and attempt().number < 3:
            raise ConnectionRefusedError

    @app.cron("*/30 * * * *")
    @app.task
    def spread() -> None:
        call.enqueue()
        send.enqueue((box.now - START).seconds // 1800)

    with sandbox(app) as box:
        app.enqueue_many([send.bind(number) for number in range(20)])
        box.advance("1d")
        return events_of(app)


def batches() -> list[Event]:
    app = App("sqlite:///:memory:")

    @app.task
    def announce(batch_id: str) -> None: ...

    @app.task(retry=RetryPolicy(3, Fixed("20m")))
    def convert(number: int) -> None:
        if number == 3:
            raise FinalError("it is broken")
        if number == 2 and attempt().number < 3:
            raise RuntimeError("not yet")

    with sandbox(app) as box:
        spring = app.batch("spring", expires_in="6h", on_settled=announce)
        spring.add(*(convert.bind(number) for number in range(4)))
        autumn = app.batch("autumn", on_settled=announce)
        autumn.add(*(convert.options(delay="2h").bind(number) for number in range(3)))
        box.advance("1h")
        spring.publish()
        box.advance("4h")
        autumn.publish()
        box.advance("19h")
        return events_of(app)


def limits() -> list[Event]:
    app = App(
        "sqlite:///:memory:",
        queues=[Queue("shared", fair=True, concurrency=3)],
        owners=[Owner("ann", concurrency=1), Owner("bob", retries_per_day=3)],
    )

    @app.task(queue="shared", concurrency=2, timeout="1h", retry=RetryPolicy(3, Fixed("10m")))
    async def slow(number: int) -> None:
        # No two end at the same moment: the order of equal timers is not defined.
        await asyncio.sleep(600 + number)
        if number % 2:
            raise RuntimeError("not yet")

    @app.cron("15 * * * *")
    @app.task(queue="shared")
    def quick() -> None: ...

    with sandbox(app) as box:
        owners = ("ann", "bob", "cyn") * 4
        app.enqueue_many([slow.options(owner=owner).bind(number) for number, owner in enumerate(owners)])
        box.advance("1d")
        return events_of(app)


DAYS: list[Callable[[], list[Event]]] = [schedules, retries, snoozes, outages, batches, limits]


def events_of(app: App) -> list[Event]:
    found: list[Event] = []
    while page := app.events(after=found[-1].position if found else 0, limit=1_000):
        found += page
    return found


def lines_of(day: Callable[[], list[Event]]) -> list[str]:
    """The log: at which second, what, of which job, counted in the order in which they are first named."""
    numbers: dict[str | None, int] = {None: 0}
    lines = []
    for event in day():
        number = numbers.setdefault(event.job, len(numbers))
        about = (event.kind, number and f"#{number}", event.attempt, event.code)
        lines.append(
            " ".join(
                [str(round((event.at - START).total_seconds())), event.type, *(str(each) for each in about if each)]
            )
        )
    return [f"{day.__name__}:", *(f"  {line}" for line in lines)]


@pytest.mark.parametrize("day", DAYS, ids=lambda day: day.__name__)
def test_a_day_has_the_events_it_had(day: Callable[[], list[Event]]) -> None:
    known = LOG.read_text("utf-8").split("\n\n")
    assert "\n".join(lines_of(day)) in known, f"write the log with: python tests/{Path(__file__).name}"


def cpu_seconds_of_minutely_day() -> float:
    app = App("sqlite:///:memory:")

    @app.cron("* * * * *")
    @app.task
    def report() -> None: ...

    with sandbox(app) as box:
        began = time.process_time()
        box.advance("1d")
        return time.process_time() - began


if __name__ == "__main__" and "--minutely" in sys.argv:
    print(f"{min(cpu_seconds_of_minutely_day() for _ in range(5)):.2f} s of CPU time, the least of five")
elif __name__ == "__main__":
    LOG.write_text("\n\n".join("\n".join(lines_of(day)) for day in DAYS) + "\n\n", "utf-8")
