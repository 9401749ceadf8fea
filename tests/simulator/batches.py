"""What the oracle knows of batches: told in order, and after every operation a recount of all it touched."""

from typing import TYPE_CHECKING

from simulator.books import Book
from simulator.broken import require
from simulator.chronicle import Chronicle
from simulator.lives import Life
from simulator.office import Call, Entry

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
    def __init__(self, world: "World", chronicle: Chronicle) -> None:
        self._world = world
        self._reached = world.reached.note
        self._chronicle = chronicle
        self._books: dict[str, Book] = {}
        self._published_by: Call | None = None

    def created(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, "wrote to the log")
        self._books.setdefault(call.asked.id, Book(call.asked.id))

    def joined(self, life: Life) -> None:
        if life.batch is not None:
            self._books[life.batch].members.append(life)

    def is_draft(self, life: Life) -> bool:
        return life.batch is not None and self.takes_members(life.batch)

    def takes_members(self, batch: str) -> bool:
        return self._books[batch].state == "draft"

    def published(self, call: Call) -> None:
        """Once more, if the log did not tell of it now."""
        if self._published_by is not call:
            self._reached("a batch is published twice")

    def tended(self, call: Call, entries: list[Entry]) -> None:
        require(not entries, f"{call.name} wrote of jobs")

    def open(self, call: Call, entries: list[Entry]) -> None:
        """Told before what it brings: its members pass the door."""
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
            life = self._chronicle.follow(call, entry)
            is_aborted = life.batch is not None and self._books[life.batch].is_aborted
            require(is_aborted, f"{life.name} was swept, and its batch is not aborted")
        for entry in [each for each in told if each.type == "batch.settled"]:
            self._told(call, entry)
        touched = {self._chronicle.lives.by_id[entry.job].batch for entry in entries if entry.job}
        for batch in {*touched, *(entry.data["batch"] for entry in told)} - {None}:
            self._books[batch].compare(self._world.office.store.batch_row(batch))

    def _told(self, call: Call, entry: Entry) -> None:
        book = self._books[entry.data["batch"]]
        book.follow(call, entry)
        self._reached(POINTS[entry.type])
        if entry.data.get("state") == "partial":
            self._reached("a batch is partly done")
        if entry.type == "batch.published":
            for life in book.members:
                life.ready_at = self._world.timeline.now
