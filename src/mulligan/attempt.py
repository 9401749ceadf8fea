"""What a task's code can see and say while it runs: `attempt()`."""

from contextvars import ContextVar
from typing import Any

from mulligan.clock import Ids, SystemClock, system_randomness
from mulligan.job import Job, Lease

LONGEST_TEXT = 500


class Attempt:
    """One run of a job by one worker under one lease."""

    __slots__ = ("_lease", "cancelled", "lost", "number", "ratio", "text")

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self.number = lease.fence.attempt if lease else 0
        """1 for the first run of the job, one more for each further one."""
        self.cancelled = False
        """Somebody asked to stop, or time is up. Code that cannot be interrupted should look here."""
        self.lost = False
        """The lease is gone: whatever this attempt still does, its result will be refused."""
        self.ratio = 0.0
        self.text = ""

    @property
    def job(self) -> Job[Any]:
        """The job as it was when this attempt began."""
        if self._lease is None:
            raise RuntimeError("attempt().job: no job is running here; this code was called outside a worker")
        return self._lease.job

    def progress(self, ratio: float, text: str = "") -> None:
        """Say how far the work is, from 0 to 1. Cheap: it is stored about once a second."""
        self.ratio = min(1.0, max(0.0, float(ratio)))
        self.text = text[:LONGEST_TEXT].encode("utf-8", "replace").decode().replace("\0", "")

    def idempotency_key(self, step: str = "") -> str:
        """The same for every attempt of this job: hand it to services that refuse a second time.

        Outside a worker every key is new, so that two plain calls are never taken for one.
        """
        base = self._lease.fence.id if self._lease else _new_key()
        return f"{base}:{step}" if step else base


_new_key = Ids(SystemClock(), system_randomness())
CURRENT: ContextVar[Attempt] = ContextVar("mulligan_attempt")
_OUTSIDE = Attempt(None)


def attempt() -> Attempt:
    """The attempt this code runs in; outside a worker one that does nothing."""
    return CURRENT.get(_OUTSIDE)
