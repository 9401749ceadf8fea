"""Queues: how many jobs are ready in each, since when the oldest waits, and which workers take them."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from mulligan.console.pauses import Pauses
from mulligan.explain.context import is_alive
from mulligan.records.counts import MOST_READ
from mulligan.records.pause import Pause
from mulligan.store.messages import QueueLoad, WorkerRecord
from mulligan.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatus:
    """A queue as people see it.

    `ready` jobs wait for a worker, the oldest `since` then; with `at_least`, there are more than were counted.
    `workers` counts the live workers that take jobs of this queue, and `slots` how many jobs they run at once.
    `unhandled` are kinds with ready jobs that no live worker takes.
    """

    name: str
    ready: int
    at_least: bool
    since: datetime | None
    running: int
    kinds: tuple[QueueLoad, ...]
    unhandled: tuple[str, ...]
    workers: int
    slots: int
    paused: Pause | None


@dataclass(frozen=True, slots=True)
class Queues:
    store: Callable[[], Store]
    pauses: Pauses

    def list_queues(self) -> list[QueueStatus]:
        """Queues with jobs, of tasks, workers and settings, and paused ones; by name."""
        store = self.store()
        loads: dict[str, list[QueueLoad]] = defaultdict(list)
        for load in store.queue_loads(most=MOST_READ):
            loads[load.queue].append(load)
        pauses = {pause.name: pause for pause in store.pauses() if pause.what == "queue"}
        now = store.now()
        alive = [worker for worker in store.workers() if is_alive(worker, now)]
        names = sorted({*loads, *pauses, *self.pauses.known_queues()})
        return [_status(name, loads[name], alive, pauses.get(name)) for name in names]


def _status(name: str, loads: Sequence[QueueLoad], alive: Sequence[WorkerRecord], pause: Pause | None) -> QueueStatus:
    taking = [worker for worker in alive if worker.queues is None or name in worker.queues]
    unhandled = [load.kind for load in loads if load.ready and not any(each.takes(name, load.kind) for each in taking)]
    return QueueStatus(
        name=name,
        ready=sum(load.ready for load in loads),
        at_least=any(load.at_least for load in loads),
        since=min((load.since for load in loads if load.since), default=None),
        running=sum(load.running for load in loads),
        kinds=tuple(loads),
        unhandled=tuple(unhandled),
        workers=len(taking),
        slots=sum(worker.concurrency for worker in taking),
        paused=pause,
    )
