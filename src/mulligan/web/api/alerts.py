"""Alerts: what is wrong by the rules, and the rules. Administrators only: they are about all owners."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mulligan.errors import UnknownCheck
from mulligan.records.alert import AlertBoard, AlertRule
from mulligan.records.key import Scope
from mulligan.web.api.terms import Duration, ReasonGiven, String
from mulligan.web.route import Call, One, Routes

routes = Routes("Alerts")


@routes.get("/alerts", scope=Scope.JOBS_READ, is_admin=True, answer=One(AlertBoard))
def alerts(call: Call) -> Any:
    """All alerts, firing ones first, and their rules. If no worker evaluates them, the doctor looks now."""
    return call.console.alerts()


class AlertTermsBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    check: Annotated[String, Meta(examples=["jobs.depth"])]
    """The code of a check of the doctor."""
    threshold: Annotated[str, Meta(max_length=100, examples=["10m"])] | float | None = None
    """What the check goes by: a number in the unit of the rule, or a duration."""
    level: Literal["warning", "problem"] | None = None
    """How bad the finding must be."""
    after: Duration | None = None
    """How long the check must find it before the alert fires."""
    resolve_after: Duration | None = None
    """How long the check must find nothing before the alert is over."""
    is_on: bool | None = None
    reason: ReasonGiven | None = None


@routes.put("/alerts", scope=Scope.OPERATE, is_admin=True, answer=One(AlertRule), errors=[UnknownCheck])
def set_alert(call: Call, body: AlertTermsBody) -> Any:
    """Set the terms of one rule. They replace all that were set before; without any, the rule is as in the code."""
    call.request.state.target = body.check
    return call.console.set_alert(
        body.check,
        threshold=body.threshold,
        level=body.level,
        after=body.after,
        resolve_after=body.resolve_after,
        is_on=body.is_on,
        reason=body.reason,
        request_id=call.request_id,
    )


class Silence(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    duration: Duration | None = None
    """Without it, until the silence is ended."""
    reason: ReasonGiven | None = None


@routes.post(
    "/alerts/{check}/silence", scope=Scope.OPERATE, is_admin=True, answer=One(AlertRule), errors=[UnknownCheck]
)
def silence_alert(call: Call, check: str, body: Silence) -> Any:
    """Do not notify of an alert for a time. If it still fires then, it is notified."""
    return call.console.silence_alert(check, body.duration, reason=body.reason, request_id=call.request_id)


@routes.post(
    "/alerts/{check}/unsilence", scope=Scope.OPERATE, is_admin=True, answer=One(AlertRule), errors=[UnknownCheck]
)
def unsilence_alert(call: Call, check: str) -> Any:
    """End the silence of an alert."""
    return call.console.unsilence_alert(check, request_id=call.request_id)
