"""What the oracle knows of the door: nobody passes it before his time, and who is too late is sent away."""

from typing import TYPE_CHECKING

from simulator.broken import Broken, require
from simulator.chronicle import Chronicle
from simulator.gates import GateWatch
from simulator.office import Call, Entry

if TYPE_CHECKING:
    from simulator.batches import BatchWatch
    from simulator.world import World

GATES = ("limit/", "budget/", "owner-budget/")


class DoorWatch:
    def __init__(self, world: "World", chronicle: Chronicle, batches: "BatchWatch", gates: GateWatch) -> None:
        self._reached = world.reached.note
        self._chronicle = chronicle
        self._batches = batches
        self._gates = gates

    def promoted(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            self.opened(call, entry)

    def opened(self, call: Call, entry: Entry) -> None:
        """Somebody passes the door, or is sent back to it, or away."""
        match entry.type:
            case "job.queued":
                self._queued(call, entry)
            case "job.parked":
                self._chronicle.follow(call, entry)
                self._reached("a job is sent back to the door")
            case "job.failed":
                self._gates.failed(self._chronicle.follow(call, entry), entry)
            case _:
                raise Broken(f"{entry.type} is more than opening the door")

    def _queued(self, call: Call, entry: Entry) -> None:
        life = self._chronicle.follow(call, entry)
        # Who was due and is parked under a gate waits for that only, whatever the clock says meanwhile.
        is_due = life.due <= call.now or life.gate.startswith(GATES)
        require(is_due, f"{life.name} passed the door before it was due")
        require(not self._batches.is_draft(life), f"{life.name} passed the door, and its batch is a draft")

    def published(self, call: Call, entries: list[Entry]) -> None:
        self.promoted(call, entries)
        self._batches.published(call)

    def expired(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            life = self._chronicle.follow(call, entry)
            require(life.is_late(call.now) and entry.code == "DEADLINE", f"{life.name} expired before its deadline")
            self._reached("a deadline passes before a job can run")
        require(call.answer == len(entries), "the count of expired jobs is wrong")
