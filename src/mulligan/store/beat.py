"""A worker's sign of life, in every store."""

from datetime import timedelta

from mulligan.records.job import Fence
from mulligan.store.limits import LimitOperations
from mulligan.store.messages import Beat, BeatReply
from mulligan.store.rows import from_time, to_duration, to_json
from mulligan.store.script import Rows
from mulligan.store.services import ServiceOperations
from mulligan.store.session import Now, Session
from mulligan.store.submissions import Submissions
from mulligan.store.values import FORGOTTEN_AFTER, fence_values, worker_values

# What can go is of minutes ago at least: no need to look for it with every beat.
EVERY = timedelta(seconds=5)


class BeatOperations:
    def __init__(self, services: ServiceOperations, limits: LimitOperations, owners: Submissions) -> None:
        self._services = services
        self._limits = limits
        self._owners = owners
        self._forgot_at = 0

    def beat(self, session: Session, beat: Beat, now: Now) -> BeatReply:
        lost = self._extend(session, beat, now)
        if beat.progress:
            news = [{**fence_values(item.fence), "ratio": item.ratio, "text": item.text} for item in beat.progress]
            session.rows("progress", {"progress": to_json(news), "now": now})
        session.rows("worker", {**worker_values(beat.worker), "now": now})
        cancelled = session.rows("cancelled", {"incarnation": beat.worker.incarnation})
        time = session.moment(now)
        self._limits.announce(session, time)
        self._forget(session, time, now)
        return BeatReply(from_time(time), lost, _fences(cancelled))

    def _extend(self, session: Session, beat: Beat, now: Now) -> list[Fence]:
        """Those that are another's by now."""
        if not beat.extend:
            return []
        fences = to_json([fence_values(fence) for fence in beat.extend])
        values = {"fences": fences, "lease": to_duration(beat.lease), "now": now}
        held = set(_fences(session.rows("extend", values)))
        return [fence for fence in beat.extend if fence not in held]

    def _forget(self, session: Session, time: int, now: Now) -> None:
        """What nobody has to know any more."""
        if 0 <= time - self._forgot_at < to_duration(EVERY):
            return
        self._forgot_at = time
        session.rows("forget", {"silence": to_duration(FORGOTTEN_AFTER), "now": now})
        self._services.forget(session, now)
        self._owners.forget(session, now)
        self._limits.budgets.forget(session, time)


def _fences(rows: Rows) -> list[Fence]:
    return [Fence(row["id"], row["attempt"], row["leased_by"], row["claim"]) for row in rows]
