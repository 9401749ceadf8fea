"""Interpreter settings for a process that only runs a worker. They are restored afterwards."""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# A thread with an answer from the store waits at most this long for a thread that computes. The default is 5 ms, and
# each claim would wait more than once.
TURN_SECONDS = 0.0005
# New objects before a collection of the young generation. The default of 700 is less than one claim creates.
YOUNG = 20_000
COLLECT_SECONDS = 1.0


@contextmanager
def shorten_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@contextmanager
def collect_less(young: int = YOUNG) -> Iterator[None]:
    """Collect garbage less often. Jobs leave few reference cycles."""
    before = gc.get_threshold()
    # Zero means that collection was turned off.
    gc.set_threshold(max(young, before[0]) if before[0] else 0, *before[1:])
    was_frozen = gc.get_freeze_count() > 0
    # Objects that exist already will stay: do not traverse them in each collection.
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()
        gc.set_threshold(*before)


async def collect_every_second() -> None:
    """A few jobs may leave much garbage, so collect the young objects once a second."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        if gc.isenabled():
            gc.collect(1)
