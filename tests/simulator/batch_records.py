"""Batches as the log records them: their members, and what their counts must be."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from simulator.broken import Broken
from simulator.lives import Life
from simulator.server import Call, Entry
from simulator.transitions import PROMOTERS

WRITTEN_BY = {
    "batch.published": ("publish",),
    "batch.settled": (*PROMOTERS, "settle", "expire", "tend_batches"),
    "batch.aborted": (*PROMOTERS, "settle", "expire"),
    "batch.reopened": ("move", "advance_redrive"),
    "batch.expired": ("tend_batches",),
}


@dataclass(slots=True)
class ExpectedBatch:
    id: str
    state: str = "draft"
    generation: int = 1
    is_aborted: bool = False
    members: list[Life] = field(default_factory=list)
    settled: set[int] = field(default_factory=set)

    @property
    def is_over(self) -> bool:
        return all(life.is_over for life in self.members)

    def follow(self, call: Call, entry: Entry) -> None:
        """One event: written by an operation that may, in a state that allows it."""
        self._require(call.name in WRITTEN_BY[entry.type], f"{entry.type} is not for {call.name} to write")
        match entry.type:
            case "batch.published":
                self._require(self.state == "draft", "published twice")
                self.state = "processing"
            case "batch.settled":
                self._require(self.state == "processing" and self.is_over, f"settled while it is {self.state}")
                self._require(self.generation not in self.settled, "settled twice in a generation")
                self.settled.add(self.generation)
                self.state = entry.data["state"]
            case "batch.reopened":
                self._require(self.state in ("ready", "partial", "failed"), f"opened while it is {self.state}")
                self.state, self.is_aborted, self.generation = "processing", False, self.generation + 1
            case "batch.aborted":
                self._require(self.state == "processing" and not self.is_aborted, "aborted twice")
                self.is_aborted = True
            case "batch.expired":
                self._require(self.state in ("ready", "partial", "failed"), f"expired while it is {self.state}")
                self.state = "expired"
        self._require(entry.data["generation"] == self.generation, "of another generation")

    def compare(self, row: tuple[Any, ...] | None) -> None:
        """The row against a recount of the members."""
        counts = Counter(life.state for life in self.members)
        ended = tuple(counts[state] for state in ("succeeded", "failed", "cancelled"))
        total = 0 if self.state == "draft" else len(self.members)
        expected = (self.state, self.generation, total, *ended)
        self._require(row == expected, f"row {row}, by a recount {expected}")
        self._require(self.state != "processing" or not self.is_over, "all members are over, and it is not settled")

    def _require(self, is_so: bool, otherwise: str) -> None:
        if not is_so:
            raise Broken(f"batch {self.id}: {otherwise}")
