"""The oracle checks promotion: no job is queued before it is due, and a job past its deadline fails."""

from typing import TYPE_CHECKING

from simulator.broken import Broken, require
from simulator.gates import GateWatch
from simulator.server import Call, Entry
from simulator.transitions import Transitions

if TYPE_CHECKING:
    from simulator.batches import BatchWatch
    from simulator.world import World

GATES = ("limit/", "budget/", "owner-budget/")


class PromotionWatch:
    def __init__(self, world: "World", transitions: Transitions, batches: "BatchWatch", gates: GateWatch) -> None:
        self._reached = world.reached.note
        self._transitions = transitions
        self._batches = batches
        self._gates = gates

    def promoted(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            self.promoted_one(call, entry)

    def promoted_one(self, call: Call, entry: Entry) -> None:
        """A job is queued, blocked again, or failed."""
        match entry.type:
            case "job.queued":
                self._queued(call, entry)
            case "job.parked":
                self._transitions.follow(call, entry)
                self._reached("a queued job is blocked again")
            case "job.failed":
                self._gates.failed(self._transitions.follow(call, entry), entry)
            case _:
                raise Broken(f"{entry.type} is not part of a promotion")

    def _queued(self, call: Call, entry: Entry) -> None:
        life = self._transitions.follow(call, entry)
        # A due job that is blocked by a gate waits for that gate only, whatever the clock says meanwhile.
        is_due = life.due <= call.now or life.gate.startswith(GATES)
        require(is_due, f"{life.name} was queued before it was due")
        require(not self._batches.is_draft(life), f"{life.name} was queued while its batch is a draft")

    def published(self, call: Call, entries: list[Entry]) -> None:
        self.promoted(call, entries)
        self._batches.published(call)

    def expired(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            life = self._transitions.follow(call, entry)
            require(life.is_late(call.now) and entry.code == "DEADLINE", f"{life.name} expired before its deadline")
            self._reached("a deadline passes before a job can run")
        require(call.answer == len(entries), "the count of expired jobs is wrong")
