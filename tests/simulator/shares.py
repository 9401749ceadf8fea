"""The oracle checks owners: the ranks of their jobs in a fair queue, and the rate of their submissions."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from mulligan.errors import SubmitRateExceeded
from mulligan.records.job import NewJob
from mulligan.records.rate import Rate
from mulligan.store.fairness import IDLE, rank_step
from simulator.broken import Broken, require
from simulator.lives import Life
from simulator.server import Call
from simulator.timeline import SECOND

if TYPE_CHECKING:
    from simulator.world import World

ALMOST = 1e-3


@dataclass(slots=True)
class Turns:
    """Of a queue and priority: the highest rank claimed, and how far each owner has come."""

    rank: int
    shares: dict[str, int] = field(default_factory=dict)
    is_maybe_forgotten: bool = False
    """No owner took turns for a while: it may begin anew at the present time."""
    maybe_begun: list[int] = field(default_factory=list)

    def ranks(self, jobs: list[NewJob]) -> dict[str, int]:
        """Where they stand, each a step behind the one before of the same owner."""
        last: dict[str, int] = {}
        found = {}
        for job in jobs:
            start = last.get(job.owner, max(self.rank, self.shares.get(job.owner, 0)))
            found[job.id] = last[job.owner] = start + rank_step(job.weight or 1)
        return found

    def candidates(self, now: int) -> Iterator["Turns"]:
        """As they were, or begun anew: by this call, or by one before that stored nothing."""
        yield self
        if self.is_maybe_forgotten:
            yield from (Turns(begun) for begun in (*self.maybe_begun, now))

    def explains(self, jobs: list[NewJob], stored: dict[str, int]) -> bool:
        return stored.items() <= self.ranks(jobs).items()

    def follow(self, jobs: list[NewJob], stored: dict[str, int]) -> None:
        for job in jobs:
            start = max(self.rank, self.shares.get(job.owner, 0))
            self.shares[job.owner] = stored.get(job.id, start)
        self.is_maybe_forgotten = False
        self.maybe_begun.clear()


class ShareWatch:
    """`max(V, the owner's last rank) + 1/weight`, once more."""

    def __init__(self, world: "World") -> None:
        self._reached = world.reached.note
        self._turns: dict[tuple[str, int], Turns] = {}

    def ranked(self, call: Call, ranks: dict[str, int]) -> None:
        """`ranks` are those of the jobs that were stored; a twin takes its step in vain, and gives it back."""
        by_place: dict[tuple[str, int], list[NewJob]] = {}
        for new in call.asked:
            if new.weight is not None:
                by_place.setdefault((new.queue, new.priority), []).append(new)
        for place, jobs in by_place.items():
            known = self._turns.setdefault(place, Turns(call.now))
            stored = {job.id: ranks[job.id] for job in jobs if job.id in ranks}
            turns = next((turns for turns in known.candidates(call.now) if turns.explains(jobs, stored)), None)
            if turns is None:
                raise Broken(f"{stored} in queue {place}, and by their turns {known.ranks(jobs)}")
            if stored:
                self._turns[place] = turns
                turns.follow(jobs, stored)
            elif known.is_maybe_forgotten:
                known.maybe_begun.append(call.now)

    def taken(self, started: list[Life], fair: tuple[str, ...]) -> None:
        for life in started:
            turns = self._turns.get((life.queue, life.priority)) if life.queue in fair else None
            if turns is not None and life.rank > turns.rank:
                turns.rank = life.rank
                self._reached("a fair turn is taken")

    def beaten(self, now: int) -> None:
        """With a beat, unused turns may be forgotten."""
        for turns in self._turns.values():
            is_idle = turns.rank < now - IDLE // timedelta(microseconds=1)
            turns.is_maybe_forgotten |= is_idle and all(rank <= turns.rank for rank in turns.shares.values())


@dataclass(slots=True)
class Bucket:
    left: float
    at: int
    full_at: float
    """By the clock at that time: after a minute more it may be forgotten, whatever the clock says later."""

    def available(self, rate: Rate, now: int) -> float:
        if self.at > now + SECOND:
            return rate.burst
        return min(rate.burst, self.left + max(0, now - self.at) * rate.per_second / SECOND)


class RateWatch:
    """No owner submits faster than allowed, and none is refused that does not."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._reached = world.reached.note
        self._buckets: dict[str, Bucket] = {}

    def submitted(self, call: Call, stored: dict[str, int]) -> None:
        for owner, rate in _rates(call).items():
            count = sum(new.owner == owner and new.id in stored for new in call.asked)
            if count:
                left = self._available(owner, rate, call.now) - count
                require(left >= -ALMOST, f"{owner} submits {count} jobs, {-left:.1f} more than {rate} allows")
                self._buckets[owner] = Bucket(left, call.now, call.now + (rate.burst - left) / rate.per_second * SECOND)

    def refused(self, call: Call) -> None:
        assert isinstance(call.error, SubmitRateExceeded)
        self._reached("a submission comes too fast")
        is_over = any(
            sum(new.owner == owner for new in call.asked) > self._available(owner, rate, call.now) - ALMOST
            for owner, rate in _rates(call).items()
        )
        require(is_over, f"refused though it was not too fast: {call.error}")

    def beaten(self, now: int) -> None:
        """With a beat, buckets that have been full for a while may be forgotten: what came before no longer counts."""
        store = self._world.server.store
        if not self._buckets or not store.has_changed:
            return
        for owner in sorted(self._buckets.keys() - store.submitters()):
            is_idle = self._buckets.pop(owner).full_at < now - IDLE // timedelta(microseconds=1)
            require(is_idle, f"how fast {owner} may submit was forgotten too early")

    def _available(self, owner: str, rate: Rate, now: int) -> float:
        return self._buckets[owner].available(rate, now) if owner in self._buckets else rate.burst


def _rates(call: Call) -> dict[str, Rate]:
    return {new.owner: new.submit_rate for new in call.asked if new.submit_rate is not None}
