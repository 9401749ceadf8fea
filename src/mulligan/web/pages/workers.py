"""Workers: which work, which are silent, what stands still."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from mulligan.console.queues import QueueStatus
from mulligan.explain.context import is_alive
from mulligan.explain.words import worker_name
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.records.subscription import DELIVER_KIND
from mulligan.store.messages import WorkerRecord
from mulligan.web.pages.page import Done, PageCall, Pages, View, WithReason
from mulligan.web.pages.sentence import Piece, Sentence, held
from mulligan.web.pages.words import joined, listing, plural, verb

pages = Pages("Workers")

SHOWN_STUCK = 50
# A worker with more slots is shown as a bar.
MOST_SQUARES = 64


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A worker as the page shows it."""

    worker: WorkerRecord
    is_alive: bool
    stuck: int

    @property
    def state(self) -> str:
        if not self.is_alive:
            return "silent"
        if self.stuck:
            return "stuck"
        return "works" if self.worker.holds else "idle"

    @property
    def busy(self) -> int:
        """Slots that run a job which is not stuck."""
        return max(0, self.worker.holds - self.stuck)

    @property
    def squares(self) -> list[str]:
        """One class for each slot; none if there are too many to show."""
        slots = max(self.worker.concurrency, self.worker.holds)
        if slots > MOST_SQUARES:
            return []
        taken = ["s"] * self.stuck + ["b" if self.is_alive else "l"] * self.busy
        return taken + [""] * (slots - len(taken))

    @property
    def kinds(self) -> list[str]:
        """The tasks of the app. Every worker also sends mails and webhooks."""
        return [kind for kind in self.worker.kinds if kind != DELIVER_KIND]


def to_rows(workers: Sequence[WorkerRecord], stuck: Sequence[Job[Any]], now: datetime) -> list[WorkerRow]:
    """Workers in trouble first, then by name."""
    held_by = Counter(job.leased_by for job in stuck)
    rows = [WorkerRow(worker, is_alive(worker, now), held_by[worker.incarnation]) for worker in workers]
    order = ("stuck", "silent", "works", "idle")
    return sorted(rows, key=lambda row: (order.index(row.state) // 2, row.worker.host, row.worker.pid))


def describe_workers(rows: Sequence[WorkerRow], stuck: int) -> Sentence:
    alive = [row for row in rows if row.is_alive]
    silent = len(rows) - len(alive)
    if not rows:
        return Sentence(("No worker runs.",), ("Ready jobs wait until one is started.",))
    return Sentence((_work(alive), *_trouble(silent, stuck)), (joined(_slots(alive), _versions(alive)),))


def _work(alive: Sequence[WorkerRow]) -> str:
    busy = sum(row.worker.holds for row in alive)
    if not alive:
        return "No worker runs."
    workers = plural(len(alive), "worker")
    if not busy:
        return f"{workers} {verb(len(alive), 'is', 'are')} idle."
    return f"{workers} {verb(len(alive), 'runs', 'run')} {plural(busy, 'job')}."


def _trouble(silent: int, stuck: int) -> list[Piece]:
    gone = f"{plural(silent, 'worker')} {verb(silent, 'is', 'are')} silent"
    late = held(f"{plural(stuck, 'job')} {verb(stuck, 'is', 'are')} stuck")
    if silent and stuck:
        return [f" {gone}, and ", late, "."]
    if stuck:
        return [" ", late, "."]
    return [f" {gone}."] if silent else []


def _slots(alive: Sequence[WorkerRow]) -> str:
    slots = sum(row.worker.concurrency for row in alive)
    free = sum(max(0, row.worker.concurrency - row.worker.holds) for row in alive)
    if not alive:
        return "Ready jobs wait until one is started."
    if not free:
        return f"All {plural(slots, 'slot')} are taken." if slots > 1 else "Its slot is taken."
    return f"{free} of {plural(slots, 'slot')} {verb(free, 'is', 'are')} free."


def _versions(alive: Sequence[WorkerRow]) -> str:
    found = sorted({row.worker.version for row in alive if row.worker.version})
    return f"{len(found)} versions of the app run: {listing(found, 5)}." if len(found) > 1 else ""


class Unhandled(NamedTuple):
    """Ready jobs that no live worker takes."""

    queue: str
    kind: str
    ready: int
    since: datetime | None


def find_unhandled(queues: Sequence[QueueStatus]) -> list[Unhandled]:
    return [
        Unhandled(queue.name, load.kind, load.ready, load.since)
        for queue in queues
        for load in queue.kinds
        if load.kind in queue.unhandled
    ]


@pages.page("/workers", scope=Scope.JOBS_READ, is_admin=True)
def show_workers(call: PageCall) -> View:
    workers, stuck = call.console.workers(), call.console.stuck(limit=SHOWN_STUCK)
    rows = to_rows(workers, stuck, call.now)
    return View(
        "workers.html",
        says=describe_workers(rows, len(stuck)),
        rows=rows,
        stuck=[(job, worker_name(job.leased_by or "", workers)) for job in stuck],
        has_more=len(stuck) == SHOWN_STUCK,
        # Without any worker, that is the news.
        unhandled=find_unhandled(call.console.queues()) if any(row.is_alive for row in rows) else [],
        may_operate=call.allows(Scope.OPERATE),
    )


@pages.action("/workers/process-stuck", scope=Scope.OPERATE, is_admin=True)
def process_stuck(call: PageCall, form: WithReason) -> Done:
    jobs = call.console.process_stuck(limit=SHOWN_STUCK, reason=form.reason, request_id=call.request_id)
    if not jobs:
        return Done("/workers", "No job was stuck any more.", tone="held")
    taken = f"{plural(len(jobs), 'job')} {verb(len(jobs), 'was', 'were')} taken back"
    return Done("/workers", f"{taken} and settled as TIMEOUT.", "Each goes on by its own policy.")
