"""Services: list them, and force the breaker of one."""

from typing import Any

from mulligan.errors import UnknownService
from mulligan.records.key import Scope
from mulligan.service.records import ServiceStatus
from mulligan.web.api.terms import Reason
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Services")


@routes.get("/services", scope=Scope.JOBS_READ, is_admin=True, answer=Many("services", ServiceStatus))
def services(call: Call) -> Any:
    """Every service, with its state and its waiting jobs."""
    return call.console.services()


@routes.get(
    "/services/{name:path}",
    scope=Scope.JOBS_READ,
    is_admin=True,
    answer=One(ServiceStatus),
    errors=[UnknownService],
)
def service(call: Call, name: str) -> Any:
    """One service."""
    return call.console.service(name).status


@routes.post(
    "/services/{name:path}/open",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(ServiceStatus),
    errors=[UnknownService],
)
def open_service(call: Call, name: str, body: Reason) -> Any:
    """Force a service open: its jobs wait, or fail fast."""
    handle = call.console.service(name)
    return handle.open(actor=call.caller.actor, reason=body.reason, request_id=call.request_id)


@routes.post(
    "/services/{name:path}/close",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(ServiceStatus),
    errors=[UnknownService],
)
def close_service(call: Call, name: str, body: Reason) -> Any:
    """Force a service closed: its jobs run, even if their calls fail."""
    handle = call.console.service(name)
    return handle.close(actor=call.caller.actor, reason=body.reason, request_id=call.request_id)


@routes.post(
    "/services/{name:path}/auto",
    scope=Scope.OPERATE,
    is_admin=True,
    answer=One(ServiceStatus),
    errors=[UnknownService],
)
def automate_service(call: Call, name: str, body: Reason) -> Any:
    """Let the calls of a service decide again. After it was forced open, a probe comes first."""
    handle = call.console.service(name)
    return handle.auto(actor=call.caller.actor, reason=body.reason, request_id=call.request_id)
