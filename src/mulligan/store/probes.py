"""Jobs that wait for their service, because their call failed while it was not closed.

Each job is blocked under the gate of its lane, so the next probe is another job. All of them become due when the
service closes. The first of a lane become due when a claim that may probe the service finds no other job for it: a new
round of probes begins.
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
# Gates checked per claim. The next claim continues after them.
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

    def find_gates(self, session: Session, claim: Claim | None) -> tuple[list[str], list[str]]:
        """Return the gates to unblock: those of services that hold no jobs, and those that this claim needs for
        probes."""
        lanes = self._load_lanes(session)
        holding = self._services.find_holding(session, {lane.service for lane in lanes.values()})
        free = [gate for gate, lane in lanes.items() if lane.service not in holding]
        waiting = {gate: lane for gate, lane in lanes.items() if lane.service in holding}
        return free, [] if claim is None or not waiting else self._find_needed(session, claim, waiting)

    def _load_lanes(self, session: Session) -> dict[str, ProbeLane]:
        gates = self._load_gates(session, self._after, GATES)
        if len(gates) < GATES and self._after != GATE:
            # Wrap around to the first gate, or the claim at the end of the list would find nothing.
            gates += self._load_gates(session, GATE, GATES - len(gates))
        self._after = gates[-1] if len(gates) == GATES else GATE
        return {gate: to_lane(gate) for gate in gates}

    def _load_gates(self, session: Session, after: str, limit: int) -> list[str]:
        rows = session.rows("gates", after=after, until=END, limit=limit)
        return [row["gate"] for row in rows]

    def _find_needed(self, session: Session, claim: Claim, waiting: Mapping[str, ProbeLane]) -> list[str]:
        """Return gates of services that this claim may probe and has no other job for, of at most as many services as
        it can take jobs."""
        asked = self._services.find_askable(session, {lane.service for lane in waiting.values()})
        lanes = {gate: lane for gate, lane in waiting.items() if lane.service in asked}
        if not lanes:
            return []
        rows = session.rows("claim_paused", now=session.moment())
        paused = frozenset((row["what"], row["name"]) for row in rows)
        claimable = {gate: lane for gate, lane in lanes.items() if _can_take(claim, lane, paused)}
        rows = session.rows("lanes_ready", services=to_json(sorted(asked)))
        ready = [ProbeLane(row["service"], row["queue"], row["kind"]) for row in rows]
        with_ready = {lane.service for lane in ready if _can_take(claim, lane, paused)}
        probed = self._services.find_probeable(
            session, {lane.service for lane in claimable.values()} - with_ready, claim.limit
        )
        return [gate for gate, lane in claimable.items() if lane.service in probed]


@lru_cache(maxsize=2 * GATES)
def to_lane(gate: str) -> ProbeLane:
    """A damaged gate belongs to no service, so nothing holds its jobs."""
    try:
        return ProbeLane(*msgspec.json.decode(gate.removeprefix(GATE), type=tuple[str, str, str]))
    except msgspec.MsgspecError:
        return ProbeLane("", "", "")


def _can_take(claim: Claim, lane: ProbeLane, paused: Iterable[tuple[str, str]]) -> bool:
    is_served = lane.kind in claim.kinds and (claim.queues is None or lane.queue in claim.queues)
    return is_served and lane.parts.isdisjoint(paused)
