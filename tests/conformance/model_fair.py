"""Turns in fair queues, as the model knows them: `rank = max(V, owner's last rank) + 1/weight`."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from conformance.model_jobs import ModelJob
from mulligan.records.job import NewJob

ONE_JOB = timedelta(milliseconds=1)
IDLE = timedelta(minutes=1)
# A store looks for idle queues no more often than this.
LOOKS_EVERY = timedelta(seconds=5)

Place = tuple[str, int]


@dataclass
class Turns:
    """By queue and priority: V, the highest rank claimed, and the last rank of each owner."""

    claimed: dict[Place, datetime] = field(default_factory=dict)
    last: dict[Place, dict[str, datetime]] = field(default_factory=dict)
    looked_at: datetime | None = None

    def next_rank(self, asked: NewJob, now: datetime) -> datetime:
        """Where the job would stand. In a plain queue that is when it was submitted."""
        if asked.weight is None:
            return asked.submitted_at or now
        place = (asked.queue, asked.priority)
        claimed = self.claimed.setdefault(place, now)
        last = self.last.get(place, {}).get(asked.owner, claimed)
        return max(claimed, last) + ONE_JOB / asked.weight

    def take(self, job: ModelJob) -> None:
        """Only a job that was stored takes its turn."""
        if job.asked.weight is not None:
            place = (job.asked.queue, job.asked.priority)
            self.last.setdefault(place, {})[job.asked.owner] = job.rank

    def claim(self, job: ModelJob) -> None:
        place = (job.asked.queue, job.asked.priority)
        if place in self.claimed:
            self.claimed[place] = max(self.claimed[place], job.rank)

    def forget(self, now: datetime) -> None:
        """A queue in which no owner has a turn to come, and none was taken for a while, begins anew at the present."""
        if self.looked_at is not None and now - self.looked_at < LOOKS_EVERY:
            return
        self.looked_at = now
        for place, claimed in list(self.claimed.items()):
            is_waited_for = any(rank > claimed for rank in self.last.get(place, {}).values())
            if not is_waited_for and claimed < now - IDLE:
                del self.claimed[place]
                self.last.pop(place, None)
