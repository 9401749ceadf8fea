"""The oracle checks limits: no more jobs are admitted than there are slots, and the store's counts match a recount."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from simulator.broken import require
from simulator.lives import Life, Lives

if TYPE_CHECKING:
    from simulator.world import World


class LimitWatch:
    def __init__(self, world: "World", lives: Lives) -> None:
        self._world = world
        self._lives = lives
        self._full_at: dict[str, int] = defaultdict(int)
        """When each subject was last seen without a place."""
        allotment = world.parameters.allotment
        self._is_wanted = allotment.has_limits
        self._counted_at = -1
        self._full: list[str] = []
        """Without a place when they were counted last."""

    def admitted(self, life: Life) -> None:
        """It was promoted: no limit is exceeded with it."""
        if not self._is_wanted:
            return
        limits = self._world.server.store.limits_in_force()
        for subject in life.subjects:
            most = limits.get(subject)
            if most is None:
                continue
            taken = self._taken(subject)
            require(taken <= most, f"{life.name} was admitted as number {taken} of {subject}, {most} are allowed")
            self._note(subject, taken, most)

    def look(self) -> None:
        """Once in a while: the store counts what a recount finds, and who has no place left."""
        if not self._is_wanted:
            return
        store = self._world.server.store
        if store.times_changed != self._counted_at:
            self._counted_at = store.times_changed
            taken = Counter(subject for life in self._list_admitted() for subject in life.subjects)
            self._full = [subject for subject, most in store.limits_in_force().items() if taken[subject] >= most]
        for subject in self._full:
            self._full_at[subject] = self._world.timeline.now

    def recount(self) -> None:
        swept = self._world.server.store.limits_in_force()
        for record in self._world.server.store.limits():
            subject = f"{record.what}/{record.name}"
            if subject in swept:
                taken = self._taken(subject)
                require(record.taken == taken, f"{record.taken} places of {subject} are taken, by a recount {taken}")

    def free_since(self, life: Life) -> int:
        """Since when there has been a place for it everywhere."""
        return max((self._full_at[subject] for subject in life.subjects), default=0) if self._is_wanted else 0

    def _note(self, subject: str, taken: int, most: int) -> None:
        if taken >= most:
            self._full_at[subject] = self._world.timeline.now

    def _taken(self, subject: str) -> int:
        return sum(subject in life.subjects for life in self._list_admitted())

    def _list_admitted(self) -> Iterator[Life]:
        return chain(self._lives.queued.values(), self._lives.running.values())
