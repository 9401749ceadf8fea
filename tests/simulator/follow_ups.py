"""The oracle checks follow-ups: a job that is cancelled and has one is followed by one job, in the same operation."""

from typing import TYPE_CHECKING

from mulligan.records.job import ANY_ID, FollowUp
from simulator.broken import require
from simulator.lives import Lives
from simulator.server import Call, Entry

if TYPE_CHECKING:
    from simulator.enqueues import EnqueueWatch
    from simulator.world import World

# The job that follows. Its argument is the id of the job that was cancelled.
FOLLOW_UP = FollowUp(
    kind="plain",
    arguments=f'{{"words":"{ANY_ID}"}}',
    queue="default",
    service="",
    priority=0,
    deadline=None,
    max_attempts=3,
    max_crashes=3,
    max_snoozes=100,
    timeout=None,
    cost=0,
)


class FollowUpWatch:
    def __init__(self, world: "World", lives: Lives, enqueues: "EnqueueWatch") -> None:
        self._store = world.server.store
        self._reached = world.reached.note
        self._lives = lives
        self._enqueues = enqueues

    def look(self, call: Call, entries: list[Entry]) -> None:
        """Before the other parts: the same operation may promote the new jobs."""
        stored = [entry for entry in entries if entry.type == "job.enqueued"]
        cancelled = [entry.job for entry in entries if entry.type == "job.cancelled"]
        followed = {FOLLOW_UP.arguments.replace(ANY_ID, job): job for job in cancelled if self._is_followed(job)}
        require(len(stored) == len(followed), f"{len(stored)} jobs follow {len(followed)} that were cancelled")
        for entry in stored:
            job = followed.pop(self._store.arguments(entry.job), None)
            assert job is not None, "it follows no job that was cancelled"
            new = FOLLOW_UP.after(job, owner=self._lives.by_id[job].owner, job_id=entry.job)
            self._enqueues.add(new, call.now, self._store.ranks([entry.job])[entry.job])
            self._reached("a job follows a cancelled one")

    def _is_followed(self, job: str) -> bool:
        return job in self._lives.by_id and self._lives.by_id[job].is_followed
