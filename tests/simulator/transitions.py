"""The log as state transitions: which event is legal in which state, and which operation may write it.

A small table of its own, made without the engine's.
"""

from simulator.broken import Broken, require
from simulator.lives import Life, Lives
from simulator.server import Call, Entry
from simulator.timeline import Timeline

# The operations that promote jobs.
PROMOTERS = ("claim", "promote", "move", "advance_redrive", "publish")

# event → (state before → state after)
LEGAL: dict[str, dict[str, str]] = {
    "job.queued": {"waiting": "queued"},
    "job.parked": {"queued": "waiting", "running": "waiting"},
    "job.started": {"queued": "running"},
    "job.succeeded": {"running": "succeeded"},
    "job.retried": {"running": "waiting"},
    "job.snoozed": {"running": "waiting", "waiting": "waiting", "queued": "waiting"},
    "job.released": {"running": "queued"},
    "job.failed": {"running": "failed", "waiting": "failed", "queued": "failed"},
    "job.cancelled": {"running": "cancelled", "waiting": "cancelled", "queued": "cancelled"},
    "job.cancel_requested": {"running": "running"},
    "job.retry_requested": dict.fromkeys(("failed", "cancelled", "waiting"), "waiting"),
    "job.run_requested": dict.fromkeys(("failed", "cancelled", "waiting"), "waiting"),
}

# (event, was it running) → the operations that may have written it
WRITTEN_BY: dict[tuple[str, bool], tuple[str, ...]] = {
    ("job.queued", False): PROMOTERS,
    ("job.parked", False): PROMOTERS,
    ("job.parked", True): ("settle",),
    ("job.started", False): ("claim",),
    ("job.succeeded", True): ("settle",),
    ("job.retried", True): ("settle",),
    ("job.snoozed", True): ("settle",),
    ("job.snoozed", False): ("move",),
    ("job.released", True): ("settle",),
    ("job.failed", True): ("settle",),
    # By the deadline, or because the owner has no budget left.
    ("job.failed", False): ("expire", *PROMOTERS),
    ("job.cancelled", True): ("settle",),
    # By an abort of its batch, if not manually.
    ("job.cancelled", False): (*PROMOTERS, "settle", "expire", "tend_batches"),
    ("job.cancel_requested", True): ("move", "advance_redrive"),
    ("job.retry_requested", False): ("move", "advance_redrive"),
    ("job.run_requested", False): ("move",),
}


class Transitions:
    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.lives = Lives()

    def follow(self, call: Call, entry: Entry) -> Life:
        """One event: legal where the job stood, and written by an operation that may."""
        life = self.lives.by_id.get(entry.job)
        if life is None:
            raise Broken(f"{entry.type} of a job that was never enqueued")
        target = LEGAL.get(entry.type, {}).get(life.state)
        if target is None:
            raise Broken(f"{life.name}: {entry.type} cannot happen to a job that is {life.state}")
        writers = WRITTEN_BY[entry.type, life.state == "running"]
        require(call.name in writers, f"{life.name}: {entry.type} is not for this operation to write")
        attempt = life.attempt + 1 if entry.type == "job.started" else life.attempt
        require(entry.attempt == attempt, f"{life.name}: {entry.type} of attempt {entry.attempt}, not {attempt}")
        self.lives.move(life, target)
        life.ready_at = self._timeline.now
        if life.is_over:
            life.over_at = entry.at
        life.lost_at = None
        return life
