"""Schedules: list them, run one now, remove one that no code defines."""

from typing import Any

import msgspec

from mulligan.console.schedules import ScheduleStatus
from mulligan.errors import BadSchedule, ScheduleInUse, UnknownSchedule
from mulligan.records.job import Job
from mulligan.records.key import Scope
from mulligan.web.api.terms import Reason
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Schedules")


class Removed(msgspec.Struct, kw_only=True):
    removed: str


@routes.get("/schedules", scope=Scope.JOBS_READ, is_admin=True, answer=Many("schedules", ScheduleStatus))
def schedules(call: Call) -> Any:
    """Every schedule, with its next ticks, its last run and its pause."""
    return call.console.schedules()


@routes.post(
    "/schedules/{name:path}/run",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(Job),
    status=201,
    errors=[UnknownSchedule, BadSchedule],
)
def run_schedule(call: Call, name: str, body: Reason) -> Any:
    """Enqueue the job of a schedule now, even if it is paused. Its next tick does not change."""
    return call.console.run_schedule(name, reason=body.reason, request_id=call.request_id)


@routes.delete(
    "/schedules/{name:path}",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(Removed),
    errors=[UnknownSchedule, ScheduleInUse],
)
def remove_schedule(call: Call, name: str, query: Reason) -> Any:
    """Remove a schedule that no code defines any more. Its jobs stay."""
    call.console.remove_schedule(name, reason=query.reason, request_id=call.request_id)
    return Removed(removed=name)
