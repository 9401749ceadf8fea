"""The longest that one callback has kept an event loop, in CPU time: a busy machine does not change it much.

`watch(path)` in the process of the server; the file then has the milliseconds of the longest callback so far.
"""

import asyncio
import time
from pathlib import Path


def watch(path: Path) -> None:
    original, longest = asyncio.Handle._run, 0.0

    def run(handle: asyncio.Handle) -> None:
        nonlocal longest
        before = time.thread_time()
        original(handle)
        took = (time.thread_time() - before) * 1_000
        if took > longest + 1:
            longest = took
            path.write_text(f"{longest:.0f}")

    asyncio.Handle._run = run  # type: ignore[method-assign]
