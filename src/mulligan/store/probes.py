"""Jobs that wait for their service, in every store: their call failed while it was not closed.

Each is parked under the gate of its lane, so the next probe is another job. All come back when the service is closed,
and the first of a lane come back when a claim that may probe the service finds no other job of it: a new round begins.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec

from mulligan.store.messages import Claim
from mulligan.store.rows import to_json
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Session

GATE, END = "probe/", "probe0"
# Gates looked at in a claim; the next claim goes on after them.
GATES = 1_000


class ProbeLane(NamedTuple):
    service: str
    queue: str
    kind: str

    @property
    def parts(self) -> set[tuple[str, str]]:
        return {("service", self.service), ("queue", self.queue), ("kind", self.kind)}


class ProbeOperations:
    def __init__(self, services: ServiceOperations) -> None:
        self._services = services
        self._after = GATE

    def admit(self, session: Session, claim: Claim | None, now: int) -> tuple[list[str], list[str]]:
        """The gates whose jobs may come back: of services that hold nothing, and those that this claim needs."""
        lanes = self._lanes(session)
        held = self._services.held(session, {lane.service for lane in lanes.values()}, now)
        free = [gate for gate, lane in lanes.items() if lane.service not in held]
        waiting = {gate: lane for gate, lane in lanes.items() if lane.service in held}
        return free, [] if claim is None or not waiting else self._needed(session, claim, waiting, now)

    def _lanes(self, session: Session) -> dict[str, ProbeLane]:
        gates = self._gates(session, self._after, GATES)
        if len(gates) < GATES and self._after != GATE:
            # From the first one again, or a claim that comes to the end would find nothing.
            gates += self._gates(session, GATE, GATES - len(gates))
        self._after = gates[-1] if len(gates) == GATES else GATE
        return {gate: lane_of(gate) for gate in gates}

    def _gates(self, session: Session, after: str, limit: int) -> list[str]:
        rows = session.rows("gates_parked", after=after, until=END, limit=limit)
        return [row["gate"] for row in rows]

    def _needed(self, session: Session, claim: Claim, waiting: Mapping[str, ProbeLane], now: int) -> list[str]:
        """Those of services that this claim may probe, where it finds no other job of them; of no more services than it
        can take jobs."""
        asked = self._services.asked(session, {lane.service for lane in waiting.values()}, now)
        lanes = {gate: lane for gate, lane in waiting.items() if lane.service in asked}
        if not lanes:
            return []
        rows = session.rows("claim_paused", now=now)
        paused = frozenset((row["what"], row["name"]) for row in rows)
        ours = {gate: lane for gate, lane in lanes.items() if _can_take(claim, lane, paused)}
        rows = session.rows("lanes_ready", services=to_json(sorted(asked)))
        ready = [ProbeLane(row["service"], row["queue"], row["kind"]) for row in rows]
        met = {lane.service for lane in ready if _can_take(claim, lane, paused)}
        probed = self._services.probed(session, {lane.service for lane in ours.values()} - met, claim.limit, now)
        return [gate for gate, lane in ours.items() if lane.service in probed]


@lru_cache(maxsize=2 * GATES)
def lane_of(gate: str) -> ProbeLane:
    """Of a gate that somebody damaged nothing is known: no service holds it."""
    try:
        return ProbeLane(*msgspec.json.decode(gate.removeprefix(GATE), type=tuple[str, str, str]))
    except msgspec.MsgspecError:
        return ProbeLane("", "", "")


def _can_take(claim: Claim, lane: ProbeLane, paused: Iterable[tuple[str, str]]) -> bool:
    is_served = lane.kind in claim.kinds and (claim.queues is None or lane.queue in claim.queues)
    return is_served and lane.parts.isdisjoint(paused)
