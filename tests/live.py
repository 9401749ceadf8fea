"""A real worker beside a test, and waiting for what it does."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mulligan import App

SOON = 30.0


def eventually(is_so: Callable[[], object], seconds: float = SOON) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)


@contextlib.contextmanager
def working(app: App, **options: Any) -> Iterator[None]:
    """A worker on a loop and thread of its own."""
    stop = threading.Event()
    raised: list[BaseException] = []

    async def work() -> None:
        async with app.worker(**options):
            await asyncio.to_thread(stop.wait)

    def serve() -> None:
        try:
            asyncio.run(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        assert not raised, raised


@contextlib.contextmanager
def started_worker(app: str, folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """`mulligan worker` as a process of its own; whatever it started is gone afterwards."""
    places = os.pathsep.join(place for place in sys.path if place)
    with subprocess.Popen(
        [sys.executable, "-m", "mulligan", "worker", app],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": places},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
