"""A worker's sign of life, in every store."""

from datetime import timedelta

from mulligan.records.job import Fence
from mulligan.store.clock import Now, moment
from mulligan.store.limits import LimitDesk
from mulligan.store.protocols import Beat, BeatReply
from mulligan.store.rows import from_time, to_duration, to_json
from mulligan.store.services import ServiceDesk
from mulligan.store.session import Rows, Statement, Steps
from mulligan.store.statements import Statements
from mulligan.store.submissions import OwnerSteps
from mulligan.store.values import FORGOTTEN_AFTER, fence_values, worker_values

# What can go is of minutes ago at least: no need to look for it with every beat.
EVERY = timedelta(seconds=5)


class BeatSteps:
    def __init__(self, sql: Statements, services: ServiceDesk, limits: LimitDesk, owners: OwnerSteps) -> None:
        self._sql = sql
        self._services = services
        self._limits = limits
        self._owners = owners
        self._forgot_at = 0

    def beating(self, beat: Beat, now: Now) -> Steps[BeatReply]:
        lost = yield from self._extend(beat, now)
        if beat.progress:
            news = [{**fence_values(item.fence), "ratio": item.ratio, "text": item.text} for item in beat.progress]
            yield Statement(self._sql["progress"], {"progress": to_json(news), "now": now})
        yield Statement(self._sql["worker"], {**worker_values(beat.worker), "now": now})
        cancelled = yield Statement(self._sql["cancelled"], {"incarnation": beat.worker.incarnation})
        time = yield from moment(self._sql, now)
        yield from self._limits.says(time)
        yield from self._forget(time, now)
        return BeatReply(from_time(time), lost, _fences(cancelled))

    def _extend(self, beat: Beat, now: Now) -> Steps[list[Fence]]:
        """Those that are another's by now."""
        if not beat.extend:
            return []
        fences = to_json([fence_values(fence) for fence in beat.extend])
        values = {"fences": fences, "lease": to_duration(beat.lease), "now": now}
        held = set(_fences((yield Statement(self._sql["extend"], values))))
        return [fence for fence in beat.extend if fence not in held]

    def _forget(self, time: int, now: Now) -> Steps[None]:
        """What nobody has to know any more."""
        if 0 <= time - self._forgot_at < to_duration(EVERY):
            return
        self._forgot_at = time
        yield Statement(self._sql["forget"], {"silence": to_duration(FORGOTTEN_AFTER), "now": now})
        yield from self._services.forget(now)
        yield from self._owners.forgetting(now)
        yield from self._limits.budgets.forget(time)


def _fences(rows: Rows) -> list[Fence]:
    return [Fence(row["id"], row["attempt"], row["leased_by"], row["claim"]) for row in rows]
