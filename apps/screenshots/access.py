"""Who asks: a program with a key of its owner, or a person who is signed in."""

from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from apps.pages.accounts import account_of
from apps.pages.problems import Problem
from apps.pages.site import site_of
from mulligan import MulliganError


class Refusal(Problem):
    """A problem that also carries its code as `error`."""

    def __init__(self, status: int, code: str, message: str, **fields: Any) -> None:
        super().__init__(status, code, message, error=code, **fields)


@dataclass(frozen=True, slots=True)
class Caller:
    """`actor` is stored with what the caller does."""

    owner: str
    actor: str


def require_caller(request: Request, scope: str) -> Caller:
    """The owner of the key, or the account. Raises Refusal."""
    if "authorization" in request.headers:
        return _caller_of_key(request, scope)
    account = account_of(request)
    if account is None:
        raise Refusal(401, "UNAUTHORIZED", "Send a key: Authorization: Bearer mk_…")
    return Caller(account.id, account.email)


def require_operator(request: Request, scope: str) -> Caller:
    """An administrator's key. Raises Refusal."""
    key = _find_key(request)
    if key.owner is not None or scope not in key.scopes:
        raise Refusal(403, "FORBIDDEN", f"This needs an administrator's key with the scope {scope}.")
    return Caller("", f"key {key.id}")


def _caller_of_key(request: Request, scope: str) -> Caller:
    key = _find_key(request)
    if key.owner is None:
        raise Refusal(403, "FORBIDDEN", "This needs the key of an owner, not an administrator's.")
    if scope not in key.scopes:
        raise Refusal(403, "FORBIDDEN", f"This needs a key with the scope {scope}.")
    return Caller(key.owner, f"key {key.id}")


def _find_key(request: Request) -> Any:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        return site_of(request).app.find_key(token.strip() if scheme.lower() == "bearer" else "")
    except MulliganError:
        raise Refusal(401, "UNAUTHORIZED", "The key is unknown, revoked or expired.") from None
