"""Access of the tests: keys are names in a table, and nothing is stored."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

from starlette.requests import Request

from mulligan.records.key import Scope
from mulligan.values.clock import SystemClock
from mulligan.web.access.caller import ANONYMOUS, Caller
from mulligan.web.access.idempotency import Repeatable
from mulligan.web.access.terms import WithoutKey
from mulligan.web.problems import Problem
from mulligan.web.route import Route

ADMIN = Caller(key="admin", owner=None, actor="ann", scopes=frozenset(Scope))
OWN = frozenset(Scope) - {Scope.OPERATE, Scope.ARGS_REVEAL}
ACME = Caller(key="acme", owner="acme", actor="acme's key", scopes=OWN)
OTHER = Caller(key="other", owner="other", actor="other's key", scopes=OWN)
CALLERS = {caller.key: caller for caller in (ADMIN, ACME, OTHER)}


class LocalAccess:
    def __init__(self, callers: Mapping[str, Caller] = CALLERS) -> None:
        self._callers = callers
        self._first: dict[str, datetime] = {}

    async def identify(self, request: Request) -> Caller:
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or key not in self._callers:
            raise Problem(401, "UNAUTHORIZED", "no key", headers={"WWW-Authenticate": "Bearer"})
        return self._callers[key]

    def find_keyless(self, route: Route, request: Request) -> Caller | None:  # noqa: ARG002
        return ANONYMOUS if route.without_key is WithoutKey.ANYONE else None

    async def charge_failure(self, request: Request) -> None:
        """Nothing is counted."""

    @asynccontextmanager
    async def admit(
        self, caller: Caller, route: Route, request: Request, *, reveals: bool = False
    ) -> AsyncIterator[Repeatable | None]:
        if reveals and Scope.ARGS_REVEAL not in caller.scopes:
            raise Problem(403, "FORBIDDEN", f"this key has no scope {Scope.ARGS_REVEAL}")
        if route.scope not in caller.scopes or (route.is_admin and not caller.is_admin):
            raise Problem(403, "FORBIDDEN", f"this key has no scope {route.scope}")
        key = request.headers.get("idempotency-key")
        yield None if key is None else Repeatable(key, self._first.setdefault(key, SystemClock().now()))
