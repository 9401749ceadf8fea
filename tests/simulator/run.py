"""Run a world. The same seed gives the same log, to the last byte."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from mulligan.worker.tuning import collect_less
from simulator.sometimes import Reached
from simulator.timeline import SECOND
from simulator.world import World

# More new objects than a world of an hour makes: what is left of it is found as a whole when it is over.
OF_A_WORLD = 1_000_000


@dataclass(frozen=True, slots=True)
class Report:
    seed: int
    hours: float
    broken: str | None
    """The first promise that was not kept."""
    digest: str
    """Of the whole event log: two runs of one seed have the same."""
    jobs: int
    events: int
    reached: Reached
    story: tuple[str, ...]


def simulate(seed: int, *, hours: float = 1.0, is_told: bool = False) -> Report:
    """One world, from its beginning until nothing is left to do."""
    with collect_less(OF_A_WORLD):
        return _report(World(seed, is_told=is_told), seed, hours)


def _report(world: World, seed: int, hours: float) -> Report:
    with listening(world):
        try:
            world.run(hours)
        finally:
            world.end()
    log = world.server.store.whole_log()
    digest = hashlib.sha256(msgspec.json.encode(log)).hexdigest()
    world.server.store.close()
    return Report(
        seed=seed,
        hours=world.timeline.now / SECOND / 3600,
        broken=world.broken,
        digest=digest,
        jobs=world.oracle.lives.number,
        events=len(log),
        reached=world.reached,
        story=tuple(world.story),
    )


class Ear(logging.Handler):
    """The engine's own log: an exception in it is a mistake of the engine, however well it was survived."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def emit(self, record: logging.LogRecord) -> None:
        if not self._world.is_heard:
            return
        self._world.tell("log", record.getMessage())
        if record.exc_info:
            self._world.break_promise(f"{record.getMessage()}: {record.exc_info[1]!r}")


@contextmanager
def listening(world: World) -> Iterator[None]:
    """Send the engine's log to the world only."""
    logger, ear = logging.getLogger("mulligan"), Ear(world)
    before = logger.level, logger.propagate, logger.handlers
    logger.setLevel(logging.WARNING if world.is_told else logging.ERROR)
    logger.propagate, logger.handlers = False, [ear]
    try:
        yield
    finally:
        logger.setLevel(before[0])
        logger.propagate, logger.handlers = before[1:]
