"""The heartbeat of a worker: extend leases, store progress, and delete what is no longer needed."""

from datetime import timedelta
from typing import Any

from mulligan.records.job import Fence
from mulligan.store.fairness import SubmitOperations
from mulligan.store.limits import LimitOperations
from mulligan.store.messages import Beat, BeatReply, WorkerRecord
from mulligan.store.rows import fence_values, from_time, to_duration, to_json
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Rows, Session

FORGOTTEN_AFTER = timedelta(hours=1)

# Deletable rows are minutes old at least, so there is no need to look for them with every beat.
EVERY = timedelta(seconds=5)


class BeatOperations:
    def __init__(self, services: ServiceOperations, limits: LimitOperations, owners: SubmitOperations) -> None:
        self._services = services
        self._limits = limits
        self._submissions = owners
        self._forgot_at = 0

    def beat(self, session: Session, beat: Beat) -> BeatReply:
        lost = self._extend(session, beat)
        if beat.progress:
            news = [{**fence_values(item.fence), "ratio": item.ratio, "text": item.text} for item in beat.progress]
            session.rows("progress", {"progress": to_json(news)})
        session.rows("worker", worker_values(beat.worker))
        cancelled = session.rows("cancelled", {"incarnation": beat.worker.incarnation})
        self._limits.announce(session)
        self._forget(session)
        return BeatReply(from_time(session.moment()), lost, _fences(cancelled))

    def _extend(self, session: Session, beat: Beat) -> list[Fence]:
        """Return the fences whose lease is lost."""
        if not beat.extend:
            return []
        fences = to_json([fence_values(fence) for fence in beat.extend])
        values = {"fences": fences, "lease": to_duration(beat.lease)}
        held = set(_fences(session.rows("extend", values)))
        return [fence for fence in beat.extend if fence not in held]

    def _forget(self, session: Session) -> None:
        """Delete silent workers, unused services, full buckets and old spending."""
        time = session.moment()
        if 0 <= time - self._forgot_at < to_duration(EVERY):
            return
        self._forgot_at = time
        session.rows("forget", {"silence": to_duration(FORGOTTEN_AFTER)})
        self._services.forget(session)
        self._submissions.forget(session)
        self._limits.budgets.forget(session)


def _fences(rows: Rows) -> list[Fence]:
    return [Fence(row["id"], row["attempt"], row["leased_by"], row["claim"]) for row in rows]


def worker_values(worker: WorkerRecord) -> dict[str, Any]:
    return {
        "incarnation": worker.incarnation,
        "host": worker.host,
        "pid": worker.pid,
        "queues": None if worker.queues is None else to_json(worker.queues),
        "kinds": to_json(worker.kinds),
        "concurrency": worker.concurrency,
        "version": worker.version,
    }
