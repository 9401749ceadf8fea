"""Tasks whose forks of the worker return to the worker's code."""

import asyncio
import concurrent.futures.thread  # while another thread forks it must not be imported for the first time
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mulligan import App, RetryPolicy

app = App("sqlite:///jobs.db")
once = RetryPolicy(1)
forking = multiprocessing.get_context("fork")


@app.around
@contextmanager
def noted() -> Iterator[None]:
    """Like a hook that commits: it must be left once."""
    yield
    with Path("left").open("a") as left:
        left.write(f"{os.getpid()}\n")


def _ended(pid: int) -> int:
    """Its exit status; 99 if it has not ended by itself."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return 99


@app.task(retry=once)
def in_a_thread() -> int:
    pid = os.fork()
    return _ended(pid) if pid else 0


@app.task(retry=once)
def exits_in_a_thread() -> int:
    pid = os.fork()
    return _ended(pid) if pid else sys.exit(3)


@app.task(retry=once)
def raises_in_a_thread() -> int:
    pid = os.fork()
    if not pid:
        raise ValueError("of the copy")
    return _ended(pid)


@app.task(retry=once)
async def on_the_loop() -> int:
    pid = os.fork()
    return await asyncio.to_thread(_ended, pid) if pid else 0


@app.task(retry=once)
async def on_the_loop_and_waits() -> int:
    pid = os.fork()
    if not pid:
        await asyncio.sleep(0)
        return 0
    return await asyncio.to_thread(_ended, pid)


@app.task(retry=once)
async def in_a_task_of_its_own() -> int:
    async def fork() -> int:
        return os.fork()

    async with asyncio.TaskGroup() as group:
        forked = group.create_task(fork())
    pid = forked.result()
    return await asyncio.to_thread(_ended, pid) if pid else 0


@app.task(retry=once)
async def in_a_thread_of_its_own() -> int:
    pid = await asyncio.to_thread(os.fork)
    return await asyncio.to_thread(_ended, pid) if pid else 0


@app.task(retry=once)
async def in_an_executor_of_its_own() -> int:
    """Its thread does not know its task."""
    with concurrent.futures.thread.ThreadPoolExecutor(1) as executor:
        pid = await asyncio.get_running_loop().run_in_executor(executor, os.fork)
        return await asyncio.to_thread(_ended, pid) if pid else 0


@app.task(retry=once, isolate=True)
def in_a_child() -> int:
    pid = os.fork()
    return _ended(pid) if pid else 0


@app.task(retry=once, isolate=True)
async def on_the_loop_of_a_child() -> int:
    pid = os.fork()
    if not pid:
        await asyncio.sleep(0)
        return 0
    return await asyncio.to_thread(_ended, pid)


# What must work as before


def _puts(results: Any) -> None:
    results.put(asyncio.run(asyncio.sleep(0, "done")))


@app.task(retry=once)
def by_multiprocessing() -> str:
    results = forking.SimpleQueue()
    process = forking.Process(target=_puts, args=(results,))
    process.start()
    result: str = results.get()
    process.join()
    return f"{result} {process.exitcode}"


@app.task(retry=once)
def terminates() -> int | None:
    """A signal to a fork ends the fork and does not reach the worker."""
    process = forking.Process(target=time.sleep, args=(60,))
    process.start()
    process.terminate()
    process.join(10)
    code = process.exitcode
    process.kill()
    return code


@app.task(retry=once)
def by_subprocess() -> str:
    return subprocess.run([sys.executable, "-c", "print('done')"], capture_output=True, text=True).stdout.strip()
