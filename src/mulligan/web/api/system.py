"""Whether the server is up, and whether it can work; and whole ids from parts of them."""

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import msgspec

from mulligan.errors import (
    AmbiguousId,
    BatchNotFound,
    DeliveryNotFound,
    GroupNotFound,
    HookNotFound,
    JobNotFound,
    KeyNotFound,
    RedriveNotFound,
    StoreError,
    SubscriptionNotFound,
)
from mulligan.records.document import Shape
from mulligan.records.key import Scope
from mulligan.records.readiness import Component
from mulligan.web.access.terms import WithoutKey
from mulligan.web.problems import lacks_scope
from mulligan.web.route import Call, One, Routes

routes = Routes("Server", prefix="")
ids = Routes("Jobs")


class Health(msgspec.Struct, kw_only=True):
    status: Literal["ok"] = "ok"


@routes.get("/healthz", scope=None, answer=One(Health))
async def healthz(call: Call) -> Any:  # noqa: ARG001
    """Whether this process answers. It does not ask the store."""
    return Health()


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """`components` are for administrators only."""

    _shape: ClassVar = Shape(is_sparse=True)

    status: Literal["ok"] = "ok"
    components: list[Component] | None = None


@routes.get(
    "/readyz",
    scope=Scope.JOBS_READ,
    answer=One(Readiness),
    errors=[StoreError],
    without_key=WithoutKey.ANYONE,
)
async def readyz(call: Call) -> Any:
    """Whether requests can be answered: the store can be reached and has the right schema. No key is needed. The store
    is asked at most once a second.

    An administrator's key also gets the components: store, schema, workers, projection, notifications, and each duty
    with its last run. They do not change the status: without workers, jobs can be enqueued.
    """
    await call.request.app.state.store_check.run(call.console.check_store)
    return Readiness(components=await asyncio.to_thread(call.console.readiness) if call.caller.is_admin else None)


# What a key needs besides `jobs:read` to find an id of these.
SCOPES = {
    "subscription": Scope.WEBHOOKS_MANAGE,
    "delivery": Scope.WEBHOOKS_MANAGE,
    "hook": Scope.WEBHOOKS_MANAGE,
    "key": Scope.KEYS_MANAGE,
}


class WholeId(msgspec.Struct, kw_only=True):
    id: str


@ids.get(
    "/ids/{what}/{part}",
    scope=Scope.JOBS_READ,
    answer=One(WholeId),
    errors=[
        AmbiguousId,
        JobNotFound,
        BatchNotFound,
        RedriveNotFound,
        GroupNotFound,
        KeyNotFound,
        SubscriptionNotFound,
        DeliveryNotFound,
        HookNotFound,
    ],
)
def find_id(call: Call, what: str, part: str) -> Any:
    """The whole id of a `job`, `batch`, `redrive` or `group` from at least six characters of its beginning or its end.

    Also of a `subscription`, `delivery` or `hook` with the scope `webhooks:manage`, and of a `key` with `keys:manage`.
    """
    scope = SCOPES.get(what)
    if scope is not None and scope not in call.caller.scopes:
        raise lacks_scope(scope)
    return WholeId(id=call.console.find_id(what, part))
