"""The plan of faults: from a seed, a list of faults, each with its time and its worker."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass

SLOTS = 4
LEASE = 2.0
"""Seconds. Short, so that much is lost and found again in little time."""
SPARED_FOR = 5.0

# Read when the module is: the tests run without settings from outside.
KILLS = int(os.environ.get("MULLIGAN_KILLS", "52"))
SEED = int(os.environ["MULLIGAN_SEED"])
KILLS_PER_SECOND = 2.8


@dataclass(frozen=True, slots=True)
class Fault:
    at: float
    what: str
    slot: int = 0
    seconds: float = 0.0
    number: int = 0

    def __str__(self) -> str:
        how = {"kill": self.slot, "stop": self.slot, "outage": self.number}.get(self.what, round(self.seconds, 2))
        return f"{self.at:.2f} {self.what} {how}"


def planned(seed: int, *, kills: int, others: dict[str, float]) -> list[Fault]:
    """So many kills, and of the others one in about so many seconds each."""
    draw = random.Random(seed)
    end = kills / KILLS_PER_SECOND
    faults = [*_stops(draw, end), *_kills(draw, kills, end), *_outages(draw, end)]
    for what, every in others.items():
        faults += [
            Fault(at, what, seconds=draw.uniform(0.2, 1.2), number=draw.randrange(4))
            for at in _instants(draw, end, every)
        ]
    return sorted(faults, key=lambda fault: fault.at)


def _stops(draw: random.Random, end: float) -> Iterator[Fault]:
    """Beyond the lease: others have the jobs by then, and some still run them when the late results come."""
    for at in _instants(draw, end - LEASE, 3.5):
        seconds = LEASE * draw.uniform(1.05, 1.6)
        slot = draw.choice([slot for slot in range(SLOTS) if slot not in (spared(at), spared(at + seconds))])
        yield Fault(at, "stop", slot, seconds)


def _outages(draw: random.Random, end: float) -> Iterator[Fault]:
    """Of the service that some tasks call: enough calls fail to open it, and some probes."""
    for at in _instants(draw, end, 6.0):
        yield Fault(at, "outage", number=draw.randint(4, 6))


def _kills(draw: random.Random, number: int, end: float) -> Iterator[Fault]:
    """At any instant, also two at once; one worker at a time is spared, in turn, so that it reclaims the lost jobs."""
    for at in sorted(draw.uniform(0.0, end) for _ in range(number)):
        yield Fault(at, "kill", draw.choice([slot for slot in range(SLOTS) if slot != spared(at)]))


def spared(at: float) -> int:
    """The worker that no fault concerns at that time."""
    return int(at / SPARED_FOR) % SLOTS


def _instants(draw: random.Random, end: float, every: float) -> list[float]:
    return [draw.uniform(0.2, 0.8) * every + number * every for number in range(max(1, int(end / every)))]
