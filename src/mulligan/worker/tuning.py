"""How an interpreter is set that does nothing but work. Afterwards it is as it was."""

import asyncio
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# A thread that has its answer from the store waits so long at most for code that computes; it would else be 5 ms, more
# than once in each claim.
TURN_SECONDS = 0.0005
# So many new objects before garbage is looked for among them. The usual 700 are fewer than a claim brings.
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
    """Jobs leave little garbage that only a collection finds."""
    before = gc.get_threshold()
    # Nought: somebody has turned it off.
    gc.set_threshold(max(young, before[0]) if before[0] else 0, *before[1:])
    was_frozen = gc.get_freeze_count() > 0
    # What was there before them stays, and is not looked through again and again.
    gc.freeze()
    try:
        yield
    finally:
        if not was_frozen:
            gc.unfreeze()
        gc.set_threshold(*before)


async def collect_every_second() -> None:
    """Few jobs may leave much garbage: that of a second is found when it is over."""
    while True:
        await asyncio.sleep(COLLECT_SECONDS)
        if gc.isenabled():
            gc.collect(1)
