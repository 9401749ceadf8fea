"""One request: access, arguments, the handler, the answer."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mulligan.app import App
from mulligan.errors import BadArgument, InvalidArguments
from mulligan.records.job import Job
from mulligan.web.access.caller import ANONYMOUS, Caller
from mulligan.web.access.console import Console
from mulligan.web.access.idempotency import Repeatable, digest_request
from mulligan.web.large import LargeRequests
from mulligan.web.problems import Problem, respond, to_problem
from mulligan.web.reading import LARGE_BODY, decode, read_body, read_query
from mulligan.web.route import Call, Messages, Route, Text
from mulligan.web.target import hash_body, hash_target
from mulligan.web.visible import visible


class Access(Protocol):
    """Who calls, and whether the call may be made. Raises a Problem: 401, 403, 409 or 429."""

    async def identify(self, request: Request) -> Caller: ...

    def find_keyless(self, route: Route, request: Request) -> Caller | None:
        """As whom a request without a key is answered; None: it needs one."""
        ...

    async def charge_failure(self, request: Request) -> None:
        """Count a request whose signature does not fit. Raises a Problem, 429, if its address has had too many."""
        ...

    def admit(
        self, caller: Caller, route: Route, request: Request, *, reveals: bool = False
    ) -> AbstractAsyncContextManager[Repeatable | None]:
        """Check scope and rate, and record a change in the audit, or that secrets are revealed. The value is that of a
        change with an Idempotency-Key. Leaving the block records how the change ended."""
        ...


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Answers the requests of one route."""

    app: App
    access: Access
    route: Route
    large: LargeRequests

    async def handle(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except ClientDisconnect:
            # Nothing reads the answer.
            return Response(status_code=400)
        except Exception as error:
            return respond(self._locate(error, to_problem(error)))

    async def _answer(self, request: Request) -> Response:
        if (anonymous := self._find_anonymous(request)) is not None:
            return await self._carry_out(anonymous, request, None)
        caller = await self.access.identify(request)
        reveals = self.route.reveals(request)
        async with self.access.admit(caller, self.route, request, reveals=reveals) as repeatable:
            answer = await self._carry_out(caller, request, repeatable)
            if self.route.is_change:
                request.state.after = hash_body(answer.body)
            return answer

    def _find_anonymous(self, request: Request) -> Caller | None:
        """The caller of a request that needs no key, and has none."""
        if self.route.scope is None:
            return ANONYMOUS
        if self.route.without_key is None or "authorization" in request.headers:
            return None
        return self.access.find_keyless(self.route, request)

    async def _carry_out(self, caller: Caller, request: Request, repeatable: Repeatable | None) -> Response:
        route = self.route
        arguments: dict[str, Any] = dict(request.path_params)
        if route.query is not None:
            arguments["query"] = read_query(route.query, request.query_params)
        body = b"" if route.body is None else await read_body(request)
        is_large = len(body) > LARGE_BODY
        request_id, first_at = (None, None) if repeatable is None else (repeatable.request_id, repeatable.first_at)
        thread = self.large.thread if is_large else None
        is_revealed = route.reveals(request)
        call = Call(caller, Console(self.app, caller), request, self.large, request_id, first_at, thread, is_revealed)
        if not is_large:
            return await self._handle(call, arguments, body, repeatable)
        async with self.large.admit(len(body)):
            return await self._handle(call, arguments, body, repeatable)

    async def _handle(
        self, call: Call, arguments: dict[str, Any], body: bytes, repeatable: Repeatable | None
    ) -> Response:
        route = self.route
        if route.body is not None:
            arguments["body"] = await call.compute(partial(decode, body, route.body))
        if repeatable is not None:
            request = call.request
            request.state.digest = await call.compute(lambda: digest_request(request, arguments.get("body")))
            repeatable.check(request.state.digest)
        if not route.is_async:
            return await asyncio.to_thread(self._call, call, arguments)
        found = await route.handler(call, **arguments)
        # A job that was stored before may be larger than the request.
        is_old = isinstance(found, Job) and found.is_duplicate
        shown = replace(call, thread=self.large.thread) if is_old else call
        return await shown.compute(lambda: self._render(found, call.viewer))

    def _call(self, call: Call, arguments: dict[str, Any]) -> Response:
        if self.route.is_change:
            call.request.state.before = hash_target(self.route, call)
        return self._render(self.route.handler(call, **arguments), call.viewer)

    def _render(self, found: Any, caller: Caller) -> Response:
        answer = self.route.answer
        if isinstance(found, Response):
            return found
        if answer is None:
            return Response(status_code=self.route.status)
        assert not isinstance(answer, Text | Messages)
        body = msgspec.json.encode(answer.render(visible(found, caller)))
        return Response(body, status_code=self.route.status, media_type="application/json")

    def _locate(self, error: Exception, problem: Problem) -> Problem:
        """Add the place of a value that a verb refused, if the problem does not name it."""
        name = _refused_value(error)
        if name is not None and "path" not in problem.fields:
            for kind, place in ((self.route.query, "?"), (self.route.body, "$")):
                if kind is not None and name in kind.__struct_fields__:
                    problem.fields["path"] = f"{place}.{name}"
        return problem


def _refused_value(error: Exception) -> str | None:
    """The name of the value, if the error tells it."""
    match error:
        case BadArgument():
            return error.name
        case InvalidArguments():
            return error.option
    return None
