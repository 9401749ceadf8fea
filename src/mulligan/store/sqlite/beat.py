"""A worker's sign of life on SQLite."""

from mulligan.job import Fence
from mulligan.store.limits import LimitDesk
from mulligan.store.owners import OwnerSteps
from mulligan.store.protocols import Beat, BeatReply
from mulligan.store.rows import from_time, to_duration
from mulligan.store.services import ServiceDesk
from mulligan.store.sqlite.driver import sqlite3
from mulligan.store.sqlite.play import SQL, play
from mulligan.store.values import FORGOTTEN_AFTER, fence_values, worker_values


class BeatDesk:
    def __init__(self, services: ServiceDesk, limits: LimitDesk, owners: OwnerSteps) -> None:
        self._services = services
        self._limits = limits
        self._owners = owners

    def beat(self, db: "sqlite3.Connection", beat: Beat, now: int) -> BeatReply:
        lost = [fence for fence in beat.extend if not _is_extended(db, fence, beat, now)]
        for progress in beat.progress:
            values = {"ratio": progress.ratio, "text": progress.text, "now": now}
            db.execute(SQL["progress"], {**fence_values(progress.fence), **values})
        db.execute(SQL["worker"], {**worker_values(beat.worker), "now": now})
        self._forget(db, now)
        play(db, self._limits.says(now))
        cancelled = db.execute(SQL["cancelled"], {"incarnation": beat.worker.incarnation}).fetchall()
        return BeatReply(from_time(now), lost, [Fence(*row) for row in cancelled])

    def _forget(self, db: "sqlite3.Connection", now: int) -> None:
        db.execute(SQL["forget"], {"now": now, "silence": to_duration(FORGOTTEN_AFTER)})
        play(db, self._services.forget(now))
        play(db, self._owners.forgetting(now))
        play(db, self._limits.budgets.forget(now))


def _is_extended(db: "sqlite3.Connection", fence: Fence, beat: Beat, now: int) -> bool:
    values = {**fence_values(fence), "now": now, "lease": to_duration(beat.lease)}
    return db.execute(SQL["extend"], values).rowcount > 0
