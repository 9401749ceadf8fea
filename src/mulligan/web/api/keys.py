"""Keys of this API. A key creates and sees those of its own owner; an administrator's, those of all."""

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mulligan.console.arguments import LARGEST_PAGE
from mulligan.errors import KeyExists, KeyNotAllowed, KeyNotFound
from mulligan.records.key import CreatedKey, Key, Scope
from mulligan.values.check import LONGEST_NAME, LONGEST_STRING
from mulligan.web.problems import Problem
from mulligan.web.route import Call, Many, One, Routes

routes = Routes("Keys")

_Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]


class KeysQuery(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=LARGEST_PAGE)] = 50
    cursor: Annotated[str, Meta(max_length=LONGEST_STRING)] | None = None


class NewKeyBody(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: _Name
    """For people: what the key is used for."""
    owner: _Name | UnsetType | None = UNSET
    """Whose jobs it can reach. Only an administrator gives it, and must: null makes another administrator."""
    scopes: Annotated[list[Scope], Meta(min_length=1)] | None = None
    """At most those of the key that creates it. Null: to read, enqueue, retry and cancel jobs; an administrator's:
    everything."""
    expires_in: Annotated[str, Meta(max_length=100, examples=["90d"])] | None = None
    """Null: until it is revoked."""


@routes.get("/keys", scope=Scope.KEYS_MANAGE, answer=Many("keys", Key, pages=True))
def keys(call: Call, query: KeysQuery) -> Any:
    """The keys by id, also revoked and expired ones. Their tokens are not stored."""
    found = call.console.keys(limit=query.limit, cursor=query.cursor)
    return found, found[-1].id if len(found) == query.limit else None


@routes.post("/keys", scope=Scope.KEYS_MANAGE, answer=One(CreatedKey), status=201, errors=[KeyNotAllowed, KeyExists])
def create_key(call: Call, body: NewKeyBody) -> Any:
    """Create a key. Its token is in the answer and is not stored: a repeated request gets KEY_EXISTS."""
    created = call.console.create_key(
        **_owner(call, body),
        name=body.name,
        scopes=body.scopes,
        expires_in=body.expires_in,
        request_id=call.request_id,
    )
    call.request.state.target = created.key.id
    return created


@routes.delete("/keys/{key_id}", scope=Scope.KEYS_MANAGE, answer=One(Key), errors=[KeyNotFound, KeyNotAllowed])
def revoke_key(call: Call, key_id: str) -> Any:
    """Revoke a key, which may have no scope that the calling key lacks. Within a second, every server refuses it."""
    return call.console.revoke_key(key_id, request_id=call.request_id)


def _owner(call: Call, body: NewKeyBody) -> dict[str, Any]:
    """Only an administrator chooses the owner: the console adds the owner of another caller."""
    if call.caller.is_admin:
        if body.owner is UNSET:
            message = "owner is missing: the name of an owner, or null for another administrator"
            raise Problem(400, "VALIDATION_ERROR", message, path="$.owner")
        return {"owner": body.owner}
    if body.owner is not UNSET and body.owner != call.caller.owner:
        raise Problem(403, "FORBIDDEN", "a key creates keys of its own owner only", path="$.owner")
    return {}
