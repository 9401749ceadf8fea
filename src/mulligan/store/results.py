"""Results that end before their jobs: by their retention, or because a person says so.

A duty passes over finished jobs in the order in which they may be deleted, which has an index, and notes how far it has
come. A job that gives up its dedupe key may fall behind that mark, so it begins again every day.
"""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

from mulligan.errors import NoResult
from mulligan.lifecycle import RESULT_EXPIRED, State
from mulligan.records.job import Job
from mulligan.store.events import event_values, is_done
from mulligan.store.messages import JobRequest
from mulligan.store.reading import row_of
from mulligan.store.rows import to_duration, to_job, to_json, to_time
from mulligan.store.session import Session

ROUND = to_duration(timedelta(days=1))


class ResultPass(NamedTuple):
    """`seen` jobs were looked at, and `expired` results deleted."""

    seen: int = 0
    expired: int = 0


class ResultOperations:
    def has_old(self, session: Session, before: datetime) -> bool:
        """Whether there may be results to delete."""
        mark = next(iter(session.rows("results_mark")), None)
        if mark is not None and self._is_over(session, mark["since"]):
            return True
        return bool(self._page(session, mark["position"] if mark else 0, before, 1)["number"])

    def expire_old(self, session: Session, before: datetime, limit: int) -> ResultPass:
        """Delete the results of jobs that ended before this time, the next `limit` of them."""
        (mark,) = session.rows("results_lock", at=session.moment())
        position, since = mark["position"], mark["since"]
        if self._is_over(session, since):
            position, since = 0, session.moment()
        page = self._page(session, position, before, limit)
        expired: list[dict[str, Any]] = []
        if page["number"]:
            values = {"position": position, "last": page["last"], "at": session.moment()}
            expired = session.rows("results_expire", values)
            position = page["last"]
        session.rows("results_move", position=position, since=since)
        if expired:
            about = {"event": RESULT_EXPIRED, "code": None, "data": "{}", "now": session.moment()}
            session.rows("events_of_many", {**about, "jobs": to_json(expired)})
        return ResultPass(page["number"], len(expired))

    def expire(self, session: Session, request: JobRequest) -> Job[Any]:
        """Delete the result of one job. Raises NoResult unless it has succeeded."""
        row = row_of(session, "job_locked", request.job, request.owner)
        if row["state"] != State.SUCCEEDED:
            raise NoResult(request.job, row["state"])
        if not is_done(session, request.id) and session.rows("result_expire", id=row["id"], at=session.moment()):
            session.rows("event", _event(request, row))
        return to_job(row_of(session, "job", request.job))

    def _page(self, session: Session, position: int, before: datetime, limit: int) -> dict[str, Any]:
        (page,) = session.rows("results_page", position=position, before=to_time(before), limit=limit)
        return page

    def _is_over(self, session: Session, since: int) -> bool:
        # A time in the future is from before the clock was set back.
        return not 0 <= session.moment() - since < ROUND


def _event(request: JobRequest, row: dict[str, Any]) -> dict[str, Any]:
    data = {"reason": request.reason} if request.reason else {}
    about = (row["id"], row["kind"], row["owner"], row["attempt"])
    return event_values(RESULT_EXPIRED, *about, request=request.id, actor=request.actor, data=data)
