"""How a transaction changes the counts of batches: what its jobs were before it, and what they are after it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from mulligan.lifecycle import FINAL, State


class CountChanges:
    """Finished members by batch and state, more or fewer than before."""

    def __init__(self) -> None:
        self._changes: dict[str, Counter[State]] = {}

    def add(self, batch: str | None, before: State, after: State, number: int = 1) -> None:
        if batch is None or before is after:
            return
        counts = self._changes.setdefault(batch, Counter())
        if before.is_final:
            counts[before] -= number
        if after.is_final:
            counts[after] += number

    def add_all(self, batches: Iterable[str | None], before: State, after: State) -> None:
        for batch, number in Counter(batches).items():
            self.add(batch, before, after, number)

    def takes_back(self, batch: str) -> bool:
        """Whether fewer of its members are over than before."""
        return sum(self._changes[batch].values()) < 0

    def adds_failures(self, batch: str) -> bool:
        return self._changes[batch][State.FAILED] > 0

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One for each batch whose counts change, in the order in which they are locked."""
        return [
            {"id": batch, **{state.value: counts[state] for state in FINAL}}
            for batch, counts in sorted(self._changes.items())
            if any(counts.values())
        ]
