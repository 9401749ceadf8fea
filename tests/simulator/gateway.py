"""A service that some tasks depend on, down from time to time, and the oracle's checks of it."""

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mulligan.failure.decision import Decision, Fail, Succeed
from mulligan.records.job import Fence, Lease
from mulligan.service.config import Service
from mulligan.service.records import PROBE_KIND
from mulligan.store.messages import Outcome
from simulator.broken import Broken, require
from simulator.parameters import Parameters
from simulator.server import Call, Entry
from simulator.timeline import SECOND, Timeline

if TYPE_CHECKING:
    from simulator.world import World

NAME = "gateway"
KIND = "brisk"
PROBES = 1
MIN_CALLS = 2
# What a service that is only just back bears of one job.
MOST_RETURNS = 20
EVENTS = {
    "service.opened": "a service opens",
    "service.half_opened": "a service is probed",
    "service.closed": "a service closes again",
}


class Gateway:
    """Up and down in turn, by random numbers of its own: the rest of the world is what it would be without it."""

    def __init__(self, seed: int, timeline: Timeline, *, first_outage: float | None) -> None:
        self._timeline = timeline
        self._changes = self._drawn(random.Random(f"gateway {seed}"), first_outage)
        self._is_down, self._until = False, next(self._changes)
        self._is_healed = False

    def _drawn(self, randomness: random.Random, first_outage: float | None) -> Iterator[int]:
        at = 0.0
        while True:
            at += randomness.uniform(20, 90)
            yield int(at * SECOND)
            at += first_outage or randomness.uniform(10, 60)
            yield int(at * SECOND)
            first_outage = None

    @property
    def is_down(self) -> bool:
        while self._timeline.now >= self._until:
            self._is_down, self._until = not self._is_down, next(self._changes)
        return self._is_down and not self._is_healed

    def services(self, parameters: Parameters) -> tuple[Service, ...]:
        """As the apps of the world describe it."""
        options = parameters.gateway
        self._check_lies = options.check_lies
        probe = self._probe if options.has_probe else None
        service = Service(
            NAME,
            window=4,
            min_calls=MIN_CALLS,
            cooldown="5s",
            probes=PROBES,
            mode=options.mode,
            budget=options.budget,
            rate=options.rate,
            probe=probe,
        )
        return (service,) if parameters.has_gateway else ()

    async def _probe(self) -> bool:
        return self._check_lies or not self.is_down

    def heal(self) -> None:
        """For good."""
        self._is_healed = True


class Standing(NamedTuple):
    """How the service stands, as its row says."""

    epoch: int = 0
    state: str = "closed"
    is_restricted: bool = False
    is_paced: bool = False
    is_checked: bool = False


def _is_final(decision: Decision) -> bool:
    return isinstance(decision, Fail) and decision.reasons.get("because") == "trying again cannot help"


class ServiceWatch:
    """No claim of what is open, no more probes than permits, and only a probe's own success closes."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._reached = world.reached.note
        self._before = self._now = Standing()
        self._refused: set[Fence] = set()
        """Handed out to fail without being run."""

    def read(self) -> None:
        """How it stands after an operation, and how it did before."""
        self._before = self._now
        store = self._world.server.store
        if self._world.services and store.has_changed:
            self._now = Standing(*store.service(NAME))

    def is_restricted(self, service: str) -> bool:
        """Whether a claim may have had to leave its jobs behind."""
        return service == NAME and (self._before.is_restricted or self._now.is_restricted)

    def recalled(self, leases: Sequence[Lease]) -> None:
        """Told once more, because the reply was lost: what was not to be run is still not."""
        for lease in leases:
            is_well = lease.is_refused or lease.fence not in self._refused or self._now.state == "closed"
            require(is_well, f"{lease.fence.id} was refused, and after a lost reply it is not")

    @property
    def is_closed(self) -> bool:
        return self._now.state == "closed"

    def bears(self, outcome: Outcome, *, returns: int) -> bool:
        """Whether the service is charged for a call that has just failed: it was not well, or is only just back."""
        lease, verdict = outcome.lease, getattr(outcome.decision, "verdict", None)
        is_own = lease.service == NAME and lease.kind != PROBE_KIND
        if not is_own or verdict is None or not verdict.blames_service or _is_final(outcome.decision):
            return False
        is_back = self.is_closed and lease.service_epoch == self._now.epoch
        return not is_back or (self._now.is_paced and returns <= MOST_RETURNS)

    def look(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            if entry.type in EVENTS:
                self._reached(EVENTS[entry.type])
            if entry.type == "service.closed":
                self._closed(call)
        if call.name == "claim":
            self._claimed(call)

    def _claimed(self, call: Call) -> None:
        epoch, state, _, is_paced, is_checked = self._now
        new = [lease for lease in call.answer.leases if lease.service == NAME and lease.service_epoch == epoch]
        if refused := [lease.fence for lease in new if lease.is_refused]:
            self._refused.update(refused)
            self._reached("a job of a service is refused before it ran")
        tried = [lease.fence.id for lease in new if not lease.is_refused]
        if tried and is_paced and any(self._world.oracle.lives.by_id[job].failures for job in tried):
            self._reached("a retry is paced")
        require(state != "open" or not tried, f"{tried[:1]} was claimed although its service is open")
        if state == "half_open":
            probing = self._world.server.store.running_of(NAME, epoch)
            most = MIN_CALLS if is_checked else PROBES
            require(probing <= most, f"{probing} probes are running, {most} may")
            if is_checked and tried:
                self._reached("jobs probe a service after its health check")

    def _closed(self, call: Call) -> None:
        probes = [
            outcome
            for outcome in (call.asked if call.name == "settle" else ())
            if outcome.lease.service == NAME and outcome.lease.service_epoch == self._now.epoch - 1
        ]
        is_well = [not getattr(getattr(one.decision, "verdict", None), "blames_service", False) for one in probes]
        if not any(is_well) and not any(isinstance(one.decision, Succeed) for one in probes):
            raise Broken("a service was closed by what is no probe of it")
