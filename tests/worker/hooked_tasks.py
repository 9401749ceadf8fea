"""An app with hooks at the top of a module, as users write them: children import it."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from mulligan import App, FinalError, attempt
from mulligan.attempt import Attempt
from mulligan.settings import Settings

DIARY = Path("diary")


def note(line: str) -> None:
    with DIARY.open("a") as diary:
        diary.write(f"{os.getpid()} {line}\n")


def diary() -> list[tuple[int, str]]:
    lines = DIARY.read_text().splitlines() if DIARY.exists() else []
    return [(int(pid), line) for pid, _, line in (each.partition(" ") for each in lines)]


@asynccontextmanager
async def lifespan(app: App) -> AsyncIterator[dict[str, Any]]:
    if os.environ.get("HOOKED_TASKS_BROKEN"):
        raise ValueError("the pool is empty")
    note("begin")
    # Must be entered and left by one task.
    async with asyncio.TaskGroup() as group:
        idle = group.create_task(asyncio.Event().wait())
        yield {"pid": os.getpid(), "kinds": len(app.tasks)}
        idle.cancel()
    note("end")


app = App(settings=Settings(database_url="sqlite:///jobs.db", worker_lease_ttl=timedelta(seconds=5)), lifespan=lifespan)


@app.around
@asynccontextmanager
async def awaited(wrapped: Attempt) -> AsyncIterator[None]:
    await asyncio.sleep(0)
    note(f"awaited in {wrapped.job.kind}")
    try:
        yield
    finally:
        await asyncio.sleep(0)
        note(f"awaited out {wrapped.job.kind}")


@app.around
@contextmanager
def plain(wrapped: Attempt) -> Iterator[None]:
    thread = threading.get_ident()
    note(f"plain in {wrapped.job.kind}")
    try:
        yield
    except FinalError as error:
        note(f"plain saw {error}")
        raise
    assert thread == threading.get_ident()
    note(f"plain out {wrapped.job.kind}")


@app.task(isolate=True)
def in_child() -> list[Any]:
    # A plain function may run its own loop, whatever the hooks do.
    asyncio.run(asyncio.sleep(0))
    return [os.getpid(), attempt().resources["pid"]]


@app.task(isolate=True)
async def in_child_async() -> list[Any]:
    await asyncio.sleep(0)
    return [os.getpid(), attempt().resources["pid"]]


@app.task
def in_thread() -> list[Any]:
    return [os.getpid(), attempt().resources["pid"]]


@app.task(isolate=True)
def fails_in_child() -> None:
    raise FinalError("no such order")


@app.task(isolate=True, timeout="0.5s")
def hangs_in_child() -> None:
    threading.Event().wait(600)
