"""The task of the drill, with or without a service: `mulligan worker mulligan.cli.demo.drill.tasks:app` runs it."""

import asyncio
import os

from mulligan import App, Exponential, RetryPolicy
from mulligan.cli.demo.drill.plan import PATIENCE_SECONDS, DrillPlan
from mulligan.service.config import Service

SERVICE = "gateway"


async def ask(number: int) -> None:
    """Call the service. Errors propagate to the engine, which classifies them."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(os.environ["DRILL_PORT"]))
        try:
            writer.write(b"GET /%d HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % number)
            status = await reader.readline()
        finally:
            writer.close()
    if b" 200 " not in status:
        raise ConnectionResetError("no answer came")


def make_app(plan: DrillPlan, *, has_service: bool, url: str | None = None) -> App:
    app = App(url, services=[Service(SERVICE, cooldown=f"{5 * plan.step:.3f}s")])
    backoff = Exponential(f"{2 * plan.step:.3f}s", factor=2, cap="1m")
    app.task(
        "ask",
        retry=RetryPolicy(max_attempts=100, backoff=backoff),
        service=SERVICE if has_service else None,
        timeout="10s",
    )(ask)
    return app


# A worker learns from its environment which side it belongs to.
app = make_app(
    DrillPlan(float(os.environ.get("DRILL_SECONDS", "65"))), has_service=bool(os.environ.get("DRILL_SERVICE"))
)
