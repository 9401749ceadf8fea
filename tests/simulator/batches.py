"""The oracle checks batches: their events come in order, and after every operation their counts match a recount."""

from typing import TYPE_CHECKING

from simulator.batch_records import ExpectedBatch
from simulator.broken import require
from simulator.lives import Life
from simulator.server import Call, Entry
from simulator.transitions import Transitions

if TYPE_CHECKING:
    from simulator.world import World

POINTS = {
    "batch.published": "a batch is published",
    "batch.aborted": "a batch is aborted",
    "batch.reopened": "a batch is opened again",
    "batch.expired": "a batch expires",
    "batch.settled": "a batch is settled",
}


class BatchWatch:
    def __init__(self, world: "World", transitions: Transitions) -> None:
        self._world = world
        self._reached = world.reached.note
        self._transitions = transitions
        self._batches: dict[str, ExpectedBatch] = {}
        self._published_by: Call | None = None

    def created(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, "wrote to the log")
        self._batches.setdefault(call.asked.id, ExpectedBatch(call.asked.id))

    def joined(self, life: Life) -> None:
        if life.batch is not None:
            self._batches[life.batch].members.append(life)

    def is_draft(self, life: Life) -> bool:
        return life.batch is not None and self.takes_members(life.batch)

    def takes_members(self, batch: str) -> bool:
        return self._batches[batch].state == "draft"

    def published(self, call: Call) -> None:
        """Once more, if the log did not tell of it now."""
        if self._published_by is not call:
            self._reached("a batch is published twice")

    def tended(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, f"{call.name} wrote of jobs")

    def open(self, call: Call, entries: list[Entry]) -> None:
        """Called before its members are promoted."""
        for entry in [each for each in entries if each.type == "batch.published"]:
            self._published_by = call
            self._told(call, entry)

    def look(self, call: Call, entries: list[Entry]) -> None:
        """What the log says of batches and of members that an abort cancelled; then a recount of all it touched."""
        told = [entry for entry in entries if entry.type.startswith("batch.")]
        # An abort is told before what it brings, the settling after that.
        for entry in [each for each in told if each.type not in ("batch.published", "batch.settled")]:
            self._told(call, entry)
        for entry in [each for each in entries if each.is_swept]:
            life = self._transitions.follow(call, entry)
            is_aborted = life.batch is not None and self._batches[life.batch].is_aborted
            require(is_aborted, f"{life.name} was swept, and its batch is not aborted")
        for entry in [each for each in told if each.type == "batch.settled"]:
            self._told(call, entry)
        touched = {self._transitions.lives.by_id[entry.job].batch for entry in entries if entry.job}
        for batch in {*touched, *(entry.data["batch"] for entry in told)} - {None}:
            self._batches[batch].compare(self._world.server.store.batch_row(batch))

    def _told(self, call: Call, entry: Entry) -> None:
        book = self._batches[entry.data["batch"]]
        book.follow(call, entry)
        self._reached(POINTS[entry.type])
        if entry.data.get("state") == "partial":
            self._reached("a batch is partly done")
        if entry.type == "batch.published":
            for life in book.members:
                life.ready_at = self._world.timeline.now
