"""What the oracle knows of the door: nobody passes it before his time, and who is too late is sent away."""

from typing import TYPE_CHECKING

from mulligan.testing.simulation.broken import require
from mulligan.testing.simulation.chronicle import Chronicle
from mulligan.testing.simulation.office import Call, Entry

if TYPE_CHECKING:
    from mulligan.testing.simulation.batches import BatchWatch
    from mulligan.testing.simulation.world import World


class DoorWatch:
    def __init__(self, world: "World", chronicle: Chronicle, batches: "BatchWatch") -> None:
        self._reached = world.reached.note
        self._chronicle = chronicle
        self._batches = batches

    def promoted(self, call: Call, entries: list[Entry]) -> None:
        for entry in entries:
            require(entry.type == "job.queued", f"{entry.type} is more than opening the door")
            self.queued(call, entry)

    def queued(self, call: Call, entry: Entry) -> None:
        life = self._chronicle.follow(call, entry)
        require(life.due <= call.now, f"{life.name} passed the door before it was due")
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
