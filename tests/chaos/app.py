"""The tasks the workers of the chaos run: every attempt writes into the ledger when it begins and when it ends."""

import asyncio
import os
import socket
import time
from datetime import timedelta

from chaos.ledger import noted
from mulligan import App, FinalError, Fixed, RetryPolicy, attempt

MAX_ATTEMPTS = 3

if host := os.environ.get("CHAOS_HOST"):
    # Two machines in one: everything else a worker knows of its host is the process id.
    socket.gethostname = lambda: host

app = App()
policy = RetryPolicy(max_attempts=MAX_ATTEMPTS, backoff=Fixed(timedelta(milliseconds=100)))


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
