"""Tasks of every kind that record when they run; children import them."""

import asyncio
import contextlib
import os
import sys
import time

from mulligan import App, RetryPolicy, attempt
from mulligan.cli import main as mulligan

app = App("sqlite:///jobs.db")


def _note(word: str) -> None:
    with open("notes", "a") as notes:  # noqa: PTH123
        notes.write(f"{word} {attempt().job.id} {attempt().number}\n")


@app.task
async def on_the_loop(seconds: float) -> None:
    _note("began")
    await asyncio.sleep(seconds)
    _note("ended")


@app.task
def in_a_thread(seconds: float) -> None:
    _note("began")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
    _note("ended")


@app.task(isolate=True)
def in_a_child(seconds: float) -> None:
    _note("began")
    time.sleep(seconds)
    _note("ended")


@app.task
def waits_for_a_word() -> str:
    _note("began")
    while not os.path.exists("finish"):  # noqa: PTH110
        time.sleep(0.01)
    return "finished"


@app.task(timeout="100ms", retry=RetryPolicy(1))
def stubborn_thread() -> None:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.05)


@app.task(timeout="100ms", retry=RetryPolicy(1))
async def stubborn_coroutine() -> None:
    while True:
        with contextlib.suppress(BaseException):
            await asyncio.sleep(0.05)


def main(*arguments: str) -> None:
    """A worker in a forked process that starts its children as programs."""
    sys.argv = ["mulligan", *arguments]
    mulligan()
