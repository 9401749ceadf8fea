"""Pauses of queues, kinds, services, duties, schedules and intake."""

from typing import Any

import msgspec

from mulligan.errors import UnknownDuty, UnknownIntake, UnknownKind, UnknownQueue, UnknownSchedule, UnknownService
from mulligan.records.key import Scope
from mulligan.records.pause import Pause
from mulligan.web.api.terms import Duration, ReasonGiven, String
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Pauses")

_UNKNOWN = [UnknownQueue, UnknownKind, UnknownService, UnknownDuty, UnknownSchedule, UnknownIntake]


class Target(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One of queue, kind, service, duty, schedule and intake. Intake is a task, a queue, or `*` for all."""

    queue: String | None = None
    kind: String | None = None
    service: String | None = None
    duty: String | None = None
    schedule: String | None = None
    intake: String | None = None
    reason: ReasonGiven | None = None


class Paused(Target, kw_only=True):
    """One of queue, kind, service, duty, schedule and intake. Intake is a task, a queue, or `*` for all."""

    duration: Duration | None = None
    """After this time it is resumed automatically. Null: it is paused until it is resumed."""


class Resumed(msgspec.Struct, kw_only=True):
    ended: Pause | None
    """Null if nothing was paused."""


@routes.get("/pauses", scope=Scope.JOBS_READ, is_admin=True, answer=Many("pauses", Pause))
def pauses(call: Call) -> Any:
    """The pauses in force: by whom, why, until when."""
    return call.console.pauses()


@routes.post("/pauses", scope=Scope.OPERATE, is_admin=True, answer=One(Pause), errors=_UNKNOWN)
def pause(call: Call, body: Paused) -> Any:
    """Pause something in all workers, for a time or until it is resumed. Running jobs go on."""
    return call.console.pause(body.duration, **_target(body), request_id=call.request_id)


@routes.delete("/pauses", scope=Scope.OPERATE, is_admin=True, answer=One(Resumed), errors=_UNKNOWN)
def resume(call: Call, query: Target) -> Any:
    """End a pause."""
    return Resumed(ended=call.console.resume(**_target(query), request_id=call.request_id))


def _target(given: Target) -> dict[str, Any]:
    return {name: getattr(given, name) for name in Target.__struct_fields__}
