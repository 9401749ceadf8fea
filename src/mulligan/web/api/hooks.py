"""Incoming hooks: a partner calls one, signed, and the failed jobs of a group or a batch are retried."""

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.errors import (
    BatchNotFound,
    GroupNotFound,
    HookCalledTooOften,
    HookExists,
    HookNotFound,
    HookRefused,
    SubscriptionNotAllowed,
    TooManyHooks,
)
from mulligan.records.hook import CreatedHook, IncomingHook
from mulligan.records.key import Scope
from mulligan.records.redrive import Redrive
from mulligan.values.check import LONGEST_NAME
from mulligan.web.api.terms import PageSize, String
from mulligan.web.problems import Problem
from mulligan.web.reading import read_bytes
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Incoming hooks")

MANAGE = Scope.WEBHOOKS_MANAGE
_Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class HooksQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: PageSize = 50
    cursor: String | None = None


class NewHookBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Give either the group or the batch whose failed jobs are retried."""

    name: _Name
    """For people; each owner uses a name once."""
    group: String | None = None
    batch: String | None = None
    owner: _Name | UnsetType | None = UNSET
    """Whose jobs. Only an administrator gives it; null: those of all owners."""


@routes.get("/hooks", scope=MANAGE, answer=Many("hooks", IncomingHook, pages=True))
def incoming_hooks(call: Call, query: HooksQuery) -> Any:
    """The incoming hooks by id. Their secrets are not shown."""
    found = call.console.incoming_hooks(limit=query.limit, cursor=query.cursor)
    return found, found[-1].id if len(found) == query.limit else None


@routes.post(
    "/hooks",
    scope=MANAGE,
    answer=One(CreatedHook),
    status=201,
    errors=[HookExists, TooManyHooks, SubscriptionNotAllowed, GroupNotFound, BatchNotFound],
)
def create_hook(call: Call, body: NewHookBody) -> Any:
    """Create an incoming hook. The secret that signs its calls is in the answer, and is not shown again. The key must
    also allow `jobs:retry`."""
    created = call.console.create_hook(
        body.name, group=body.group, batch=body.batch, request_id=call.request_id, **_owner(call, body)
    )
    call.request.state.target = created.hook.id
    return created


def _owner(call: Call, body: NewHookBody) -> dict[str, Any]:
    if call.caller.is_admin:
        return {"owner": None if body.owner is UNSET else body.owner}
    if body.owner is not UNSET and body.owner != call.caller.owner:
        raise Problem(403, "FORBIDDEN", "a key makes hooks of its own owner only", path="$.owner")
    return {}


@routes.delete("/hooks/{hook_id}", scope=MANAGE, answer=One(IncomingHook), errors=[HookNotFound])
def remove_hook(call: Call, hook_id: str) -> Any:
    """Remove an incoming hook."""
    return call.console.remove_hook(hook_id, request_id=call.request_id)


@routes.post("/hooks/{hook_id}", scope=None, answer=One(Redrive), errors=[HookRefused, HookCalledTooOften])
async def receive_hook(call: Call, hook_id: str) -> Any:
    """Retry the failed jobs of a hook's group or batch, at a rate, canaries first. The request needs no key: it is
    signed as Standard Webhooks specifies, by the headers `webhook-id`, `webhook-timestamp` and `webhook-signature`. The
    same `webhook-id` again returns the same redrive."""
    body = await read_bytes(call.request)
    client = call.request.client
    ip = None if client is None else client.host
    try:
        return await asyncio.to_thread(
            lambda: call.console.receive_hook(hook_id, dict(call.request.headers), body, ip=ip)
        )
    except HookRefused:
        await call.request.app.state.access.charge_failure(call.request)
        raise
