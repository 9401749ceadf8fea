"""A service that some tasks depend on, down from time to time, and what the oracle knows of it."""

import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mulligan.failure.policy import Succeed
from mulligan.failure.service import Service, ServiceBook
from mulligan.testing.simulation.broken import Broken
from mulligan.testing.simulation.office import Call, Entry
from mulligan.testing.simulation.timeline import SECOND, Timeline

if TYPE_CHECKING:
    from mulligan.testing.simulation.office import ObservedStore

NAME = "gateway"
KIND = "brisk"
PROBES = 1
BOOK = ServiceBook([Service(NAME, window=4, min_calls=2, cooldown="5s", probes=PROBES)])
EVENTS = {
    "service.opened": "a service opens",
    "service.half_opened": "a service is probed",
    "service.closed": "a service closes again",
}


class Gateway:
    """Up and down in turn, by a chance of its own: the rest of the world is what it would be without it."""

    def __init__(self, seed: int, timeline: Timeline) -> None:
        self._timeline = timeline
        self._changes = self._drawn(random.Random(f"gateway {seed}"))  # noqa: S311
        self._is_down, self._until = False, next(self._changes)
        self._is_healed = False

    def _drawn(self, chance: random.Random) -> Iterator[int]:
        at = 0.0
        while True:
            at += chance.uniform(20, 90)
            yield int(at * SECOND)
            at += chance.uniform(10, 60)
            yield int(at * SECOND)

    @property
    def is_down(self) -> bool:
        while self._timeline.now >= self._until:
            self._is_down, self._until = not self._is_down, next(self._changes)
        return self._is_down and not self._is_healed

    def heal(self) -> None:
        """For good."""
        self._is_healed = True


class ServiceWatch:
    """No claim of what is open, no more probes than permits, and only a probe's own success closes."""

    def __init__(self, reached: Callable[[str], None], store: "ObservedStore") -> None:
        self._reached = reached
        self._store = store

    def look(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.type in EVENTS:
                self._reached(EVENTS[entry.type])
            if entry.type == "service.closed":
                self._closed(call)
        if call.name == "claim":
            self._claimed(call)

    def _claimed(self, call: Call) -> None:
        epoch, state, probing = self._store.service(NAME)
        new = [lease for lease in call.answer.leases if lease.service == NAME and lease.service_epoch == epoch]
        if state == "open" and new:
            raise Broken(f"{new[0].fence.id} was claimed although its service is open")
        if state == "half_open" and probing > PROBES:
            raise Broken(f"{probing} probes are running, {PROBES} may")

    def _closed(self, call: Call) -> None:
        epoch = self._store.service(NAME)[0]
        probes = [
            outcome
            for outcome in (call.asked if call.name == "settle" else ())
            if outcome.lease.service == NAME and outcome.lease.service_epoch == epoch - 1
        ]
        is_well = [not getattr(getattr(one.decision, "verdict", None), "blames_service", False) for one in probes]
        if not any(is_well) and not any(isinstance(one.decision, Succeed) for one in probes):
            raise Broken("a service was closed by what is no probe of it")
