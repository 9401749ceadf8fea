"""Tasks that try to end the event loop or the process."""

import asyncio
import sys
from typing import Any

from mulligan import App, RetryPolicy

app = App("sqlite:///jobs.db")
once = RetryPolicy(1)


async def _exit() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


async def _interrupt() -> None:
    raise KeyboardInterrupt


@app.task(retry=once)
async def stops() -> None:
    asyncio.get_running_loop().stop()


@app.task(retry=once)
async def closes() -> None:
    asyncio.get_running_loop().close()


@app.task(retry=once)
async def exits() -> None:
    sys.exit(3)


@app.task(retry=once)
def exits_in_a_thread() -> None:
    raise SystemExit


@app.task(retry=once)
def interrupts_in_a_thread() -> None:
    raise KeyboardInterrupt


@app.task(retry=once)
async def exits_in_a_task_of_its_own() -> None:
    await asyncio.create_task(_exit())


@app.task(retry=once)
async def interrupts_in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(_interrupt())


@app.task(retry=once, isolate=True)
async def stops_in_a_child() -> None:
    asyncio.get_running_loop().stop()


@app.task(retry=once, isolate=True)
async def exits_in_a_child() -> None:
    await asyncio.create_task(_exit())


@app.task(retry=once)
async def stops_in_a_callback() -> str:
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.stop)
    await asyncio.sleep(0.01)
    return "went on"


@app.task(retry=once)
async def cancels_all() -> None:
    """Like code that expects to own the loop."""
    for task in asyncio.all_tasks():
        task.cancel()


def _stop_elsewhere(loop: Any) -> None:
    loop.call_soon_threadsafe(loop.stop)


@app.task(retry=once)
async def beside() -> str:
    await asyncio.sleep(0.3)
    return "finished"


@app.task(retry=once)
async def leaves_a_thread_that_stops() -> str:
    """Its thread does not know its task, so the worker stops as if told to."""
    import threading

    threading.Thread(target=_stop_elsewhere, args=(asyncio.get_running_loop(),)).start()
    await asyncio.sleep(0.1)
    return "finished"
