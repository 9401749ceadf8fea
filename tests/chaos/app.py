"""The tasks the workers of the chaos run: every attempt writes into the ledger when it begins and when it ends."""

import asyncio
import contextlib
import fcntl
import os
import socket
import time
from datetime import timedelta
from pathlib import Path

from chaos.ledger import noted
from mulligan import App, ErrorCode, FinalError, Fixed, Owner, Queue, RetryableError, RetryPolicy, Service, attempt

MAX_ATTEMPTS = 3
PATIENCE = 1_000
FAIR = "fair"
WEIGHTS = {"ann": 1.0, "bob": 1.0, "eve": 3.0}
GATEWAY, PROBES = "gateway", 2
LIMITED_OWNER = "acme"
LIMITS = {"kind/narrow": 2, f"owner/{LIMITED_OWNER}": 3}

if host := os.environ.get("CHAOS_HOST"):
    # Two machines in one: everything else a worker knows of its host is the process id.
    socket.gethostname = lambda: host

app = App(
    services=[Service(GATEWAY, window=6, min_calls=3, cooldown="1s", probes=PROBES, budget=None)],
    queues=[Queue(FAIR, fair=True)],
    # A budget that is never out: what is spent is counted all the same.
    owners=[Owner(LIMITED_OWNER, concurrency=LIMITS[f"owner/{LIMITED_OWNER}"], retries_per_day=1_000_000)],
    catalogue=[ErrorCode("GATEWAY_DOWN", "The gateway is down.", "retryable", blames_service=True)],
)
backoff = Fixed(timedelta(milliseconds=100))
policy = RetryPolicy(max_attempts=MAX_ATTEMPTS, backoff=backoff)


@app.task(retry=policy)
async def quick(number: int) -> int:
    with noted():
        return number


@app.task(retry=policy)
def plain(number: int) -> int:
    with noted():
        time.sleep(0.002)
        return number


@app.task(retry=policy)
async def slow(number: int, milliseconds: int) -> int:
    with noted():
        await asyncio.sleep(milliseconds / 1000)
        return number


@app.task(retry=policy)
def heavy(number: int, milliseconds: int) -> int:
    with noted():
        time.sleep(milliseconds / 1000)
        return number


@app.task(retry=policy)
async def flaky(number: int, failures: int) -> int:
    """Fails so often, then succeeds; a lost worker is no failure."""
    with noted():
        await asyncio.sleep(0.02)
        if attempt().job.failures < failures:
            raise OSError("not yet")
        return number


@app.task(retry=policy)
def doomed(number: int) -> int:
    with noted():
        raise ValueError(f"never {number}")


@app.task(retry=policy)
async def refused(number: int) -> int:
    with noted():
        raise FinalError(f"not {number}", code="NOT_WANTED")


@app.task(retry=policy)
async def stubborn(number: int, milliseconds: int) -> int:
    """Offers its result although it was told to stop."""
    with noted():
        try:
            await asyncio.sleep(milliseconds / 1000)
        except asyncio.CancelledError:
            return number
        return number


@app.task(retry=policy, concurrency=LIMITS["kind/narrow"])
async def narrow(number: int, milliseconds: int) -> int:
    with noted():
        await asyncio.sleep(milliseconds / 1000)
        return number


@app.task(retry=policy, queue=FAIR)
async def shared(number: int, milliseconds: int) -> int:
    with noted():
        await asyncio.sleep(milliseconds / 1000)
        return number


@app.task(retry=RetryPolicy(max_attempts=PATIENCE, backoff=backoff), service=GATEWAY)
def calling(number: int) -> int:
    with noted():
        time.sleep(0.02)
        if is_unanswered(Path(os.environ["CHAOS_OUTAGE"])):
            raise RetryableError("nobody answers", code="GATEWAY_DOWN")
        return number


def is_unanswered(outage: Path) -> bool:
    """The file holds a byte for each call that is still to fail. By number, not for a time: on a slow machine it
    would be over before any call."""
    with contextlib.suppress(FileNotFoundError), outage.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        left = len(file.read())
        file.truncate(max(0, left - 1))
        return left > 0
    return False


@app.task(retry=policy)
def after(batch: str) -> str:
    """What follows a batch."""
    with noted():
        return batch
