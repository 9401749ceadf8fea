"""The oracle checks enqueues: an accepted job is stored once, and a duplicate is reported as one."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from mulligan.errors import SubmitRateExceeded
from mulligan.records.job import NewJob
from mulligan.values.moment import microseconds
from simulator.broken import require
from simulator.lives import Life, Lives
from simulator.server import Call, Entry
from simulator.shares import RateWatch, ShareWatch

if TYPE_CHECKING:
    from simulator.batches import BatchWatch
    from simulator.world import World


class EnqueueWatch:
    def __init__(
        self, world: "World", lives: Lives, batches: "BatchWatch", shares: ShareWatch, rates: RateWatch
    ) -> None:
        self._world = world
        self._reached = world.reached.note
        self._lives = lives
        self._batches = batches
        self._shares = shares
        self._rates = rates
        self._fair = world.parameters.allotment.quotas.fair_queues()

    def enqueued(self, call: Call, entries: list[Entry]) -> None:
        if isinstance(call.error, SubmitRateExceeded):
            self._rates.refused(call)
        if call.error is not None:
            return
        written = {entry.job: entry for entry in entries}
        ranks = self._world.server.store.ranks(list(written)) if written else {}
        self._shares.ranked(call, ranks)
        self._rates.submitted(call, ranks)
        for new, job in zip(call.asked, call.answer, strict=True):
            entry = written.pop(new.id, None)
            if entry is None:
                self._known(new, job)
                continue
            require(entry.type == "job.enqueued", "a new job begins with another event")
            require(job.id == new.id and not job.is_duplicate, "another job was returned")
            self.add(new, call.now, ranks[new.id])
        require(not written, "the log has jobs that no client enqueued")

    def add(self, new: NewJob, now: int, rank: int) -> Life:
        """A job that was stored just now."""
        require(new.id not in self._lives.by_id, "enqueued twice")
        require(not self._has_twin(new), "a second job holds the key of one that is not over")
        life = self._born(new, now)
        self._placed(life, rank)
        self._lives.add(life)
        self._batches.joined(life)
        return life

    def _born(self, new: NewJob, now: int) -> Life:
        delay = new.delay // timedelta(microseconds=1)
        return Life(
            id=new.id,
            name=f"job {self._lives.number + 1}",
            kind=new.kind,
            owner=new.owner,
            priority=new.priority,
            rank=now if new.submitted_at is None else microseconds(new.submitted_at),
            max_attempts=new.max_attempts,
            state="waiting" if delay or new.batch else "queued",
            queue=new.queue,
            batch=new.batch,
            is_followed=new.on_cancelled is not None,
            due=now + delay,
            deadline=None if new.deadline is None else now + new.deadline // timedelta(microseconds=1),
            key=new.dedupe_key,
            service=new.service,
            ready_at=self._world.timeline.now,
        )

    def _placed(self, life: Life, rank: int) -> None:
        """In a fair queue it stands where its owner's turn is; one that a limit concerns waits for its place."""
        if life.queue in self._fair:
            life.rank = rank
        require(life.rank == rank, f"{life.name} stands at {rank}, not at {life.rank}")
        if life.state == "queued":
            limits = self._world.server.store.limits_set()
            is_limited = any(subject in limits for subject in life.subjects)
            life.state = "waiting" if is_limited else "queued"

    def _has_twin(self, new: NewJob) -> bool:
        return new.dedupe_key is not None and any(
            (life.owner, life.kind, life.key) == (new.owner, new.kind, new.dedupe_key)
            for place in (self._lives.waiting, self._lives.queued, self._lives.running)
            for life in place.values()
        )

    def _known(self, new: NewJob, job: Any) -> None:
        """No event: it is there already, or its twin is."""
        require(job.id in self._lives.by_id, "a job was accepted, and the log does not know it")
        require(job.is_duplicate == (job.id != new.id), "a twin is not called one")
        if job.id == new.id:
            self._reached("an enqueue is repeated")
            return
        require(new.id not in self._lives.by_id, "a stored job was answered with its twin")
        require(self._lives.by_id[job.id].key == new.dedupe_key, "answered with a job that does not hold the key")
        self._reached("a job is its twin")
