"""Promises with a time limit: checked once a second, except for processes that had a fault."""

from datetime import timedelta
from typing import TYPE_CHECKING

from mulligan.worker.keeper import BEATS_PER_LEASE
from mulligan.worker.slots import GRACE_SECONDS
from simulator.lives import Life
from simulator.timeline import SECOND

if TYPE_CHECKING:
    from simulator.participants import Process
    from simulator.world import World

# An idle worker finds work within two seconds; what the looks themselves are late is added.
FOUND = int(2.5 * SECOND)
MARGIN = int(1.5 * SECOND)
# Within two seconds a lost job is claimed again; the store's answers take a moment.
AGAIN = 2.1
# What a waiting job may be parked under for as long as it takes.
HELD = ("owner-budget/", "budget/", "limit/service/", "limit/pause/")


class Promises:
    def __init__(self, world: "World") -> None:
        self._world = world
        lease = world.parameters.lease / timedelta(microseconds=1)
        self._interval = int(min(SECOND, lease / 10))
        self._quiet = int(lease / BEATS_PER_LEASE) + 3 * self._interval
        self._stop = int(GRACE_SECONDS * SECOND) + int(min(SECOND, lease / 6))

    def look(self) -> None:
        world = self._world
        up = [process for process in world.processes if process.is_up]
        if world.faults.is_out or not up:
            return
        lives, now = world.oracle.lives, world.clock.microseconds
        long_ago = world.timeline.now - FOUND
        idle = [one for one in up if max(one.steady_since, one.free_since, one.started_at) < long_ago]
        for life in lives.queued.values():
            self._found(life, life.ready_at, idle)
            if life.lost_at is not None and not life.is_late(now):
                self.found_again(life, life.lost_at)
        for life in lives.waiting.values():
            if (late := now - life.due) > 0 and not self._is_held(life):
                free_since = world.oracle.limits.free_since(life)
                self._found(life, max(life.ready_at, world.timeline.now - late, free_since), idle)
        for life in lives.running.values():
            self._recovered(life, up)
            self._cancelled(life)
        for life in [*lives.queued.values(), *lives.waiting.values()]:
            if life.deadline is not None and now - life.deadline > FOUND:
                self._expired(life, up)

    def _is_held(self, life: Life) -> bool:
        """By an event that no promise covers."""
        return life.gate.startswith(HELD) or self._world.oracle.batches.is_draft(life)

    def _found(self, life: Life, ready_at: int, idle: "list[Process]") -> None:
        """No worker has been idle for long while a job that it can run was ready."""
        world = self._world
        if world.timeline.now - ready_at <= FOUND or life.service or life.is_late(world.clock.microseconds):
            return
        for process in idle:
            if life.kind in process.kinds:
                world.break_promise(f"{life.name} ({life.kind}) is ready, and {process.name} does not take it")

    def _recovered(self, life: Life, up: "list[Process]") -> None:
        """A lease that expired is taken back, by any worker, whatever the kind."""
        world = self._world
        late = world.clock.microseconds - (life.lease_until or 0)
        if late <= self._interval + MARGIN or life.holder is None:
            return
        for process in up:
            since = max(process.steady_since, process.started_at) + self._quiet
            if process.incarnation != life.holder[0] and world.timeline.now - since > self._interval + MARGIN:
                seconds = late / SECOND
                world.break_promise(f"{life.name}: expired for {seconds:.1f} s, and {process.name} does not reclaim it")

    def found_again(self, life: Life, lost_at: int) -> bool:
        """Whether a worker had two seconds to claim it again, from the end of its lease, or from the quiet beat after
        the last trouble. More time breaks the promise."""
        if life.service:
            return False
        world = self._world
        expired_at = world.timeline.now - (world.clock.microseconds - lost_at)
        able = [process for process in world.processes if process.is_up and life.kind in process.kinds]
        for process in able:
            seconds = (world.timeline.now - max(expired_at, self._able_since(process))) / SECOND
            if seconds > AGAIN:
                world.break_promise(f"{life.name}: lost for {seconds:.1f} s, and {process.name} is idle")
        return any(self._able_since(process) <= expired_at for process in able)

    def _able_since(self, process: "Process") -> int:
        """Since when it could take back a lease that ended, and take up the job."""
        return max(max(process.steady_since, process.started_at) + self._quiet, process.free_since)

    def _cancelled(self, life: Life) -> None:
        """A requested cancel reaches the running job, and code that does not stop is given up."""
        if life.wish_at is None or life.holder is None:
            return
        holder = self._world.by_incarnation[life.holder[0]]
        known = holder.knows.get((life.id, life.attempt))
        if known is None or not holder.is_up:
            return
        if self._world.timeline.now - max(life.wish_at, known, holder.steady_since) > self._stop + MARGIN:
            self._world.break_promise(f"{life.name} was to be cancelled, and {holder.name} lets it run on")

    def _expired(self, life: Life, up: "list[Process]") -> None:
        world = self._world
        for process in up:
            if world.timeline.now - max(life.ready_at, process.steady_since, process.started_at) > FOUND:
                world.break_promise(f"{life.name} is beyond its deadline, and {process.name} does not expire it")
