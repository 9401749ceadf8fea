"""Sign in and out, and the first start: a person exchanges a key or a one-time link for a session.

GET shows a form and changes nothing, so that a preview of a link does not use it up.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from mulligan.app import App
from mulligan.errors import BadArgument, KeyRefused, LinkRefused, MulliganError, SetupRefused
from mulligan.records.key import Key
from mulligan.values.check import NAME
from mulligan.web.access.access import KeyAccess, client_address
from mulligan.web.access.sessions import (
    CSRF_FIELD,
    SessionAccess,
    check_csrf,
    check_origin,
    drop_cookie,
    session_token,
    set_cookie,
)
from mulligan.web.access.start import SETUP_PATH, SIGN_IN_PATH
from mulligan.web.pages.endpoint import is_local
from mulligan.web.pages.form import read_fields
from mulligan.web.pages.page import SEE_OTHER
from mulligan.web.pages.render import Renderer
from mulligan.web.problems import Problem, to_problem

Handler = Callable[[Request], Awaitable[Response]]

# A key, a link or a token.
LARGEST_FORM = 4_096


@dataclass(frozen=True, slots=True)
class SignInPages:
    app: App
    access: KeyAccess
    sessions: SessionAccess
    renderer: Renderer

    def routes(self) -> list[BaseRoute]:
        return [
            Route(SIGN_IN_PATH, self._guard(self.show, "sign_in.html"), methods=["GET"]),
            Route(SIGN_IN_PATH, self._guard(self.sign_in, "sign_in.html"), methods=["POST"]),
            Route("/sign-out", self._guard(self.sign_out, "sign_in.html"), methods=["POST"]),
            Route(SETUP_PATH, self._guard(self.show_setup, "setup.html"), methods=["GET"]),
            Route(SETUP_PATH, self._guard(self.set_up, "setup.html"), methods=["POST"]),
        ]

    def _guard(self, handler: Handler, template: str) -> Handler:
        """What is refused is shown on the form itself."""

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except ClientDisconnect:
                # Nothing reads the answer.
                return Response(status_code=400)
            except (Problem, MulliganError) as error:
                problem = to_problem(await self._charge(request, error))
                return self._page(request, template, problem.status, problem=problem, headers=problem.headers)

        return handle

    async def _charge(self, request: Request, error: Exception) -> Exception:
        """A secret that does not fit is a failed authentication, and an address may have only so many."""
        if not isinstance(error, KeyRefused | LinkRefused | SetupRefused):
            return error
        try:
            await self.access.charge_failure(request)
        except Problem as too_many:
            return too_many
        return Problem(403, "UNAUTHORIZED", str(error))

    def _page(self, request: Request, template: str, status: int = 200, **values: Any) -> Response:
        headers = values.pop("headers", None)
        given = {name: request.query_params.get(name, "") for name in ("link", "token", "next")}
        shown = {"problem": None, "created": None, **given, **values}
        return self.renderer.page(request, template, shown, status=status, headers=headers)

    async def show(self, request: Request) -> Response:
        return self._page(request, "sign_in.html")

    async def sign_in(self, request: Request) -> Response:
        check_origin(request)
        fields = await read_fields(request, LARGEST_FORM)
        key, link, target = ("".join(fields.get(name, [])) for name in ("key", "link", "next"))
        find = self.app.wiring.web_sessions.take_link if link else self.app.find_key
        found = await asyncio.to_thread(find, link or key)
        root = request.scope.get("root_path", "")
        response = RedirectResponse(root + (target if is_local(target) else "/"), status_code=SEE_OTHER)
        return await self._begin(request, found, response)

    async def _begin(self, request: Request, key: Key, response: Response) -> Response:
        """A new session. The previous one ends: without its cookie it could not be ended later."""
        begin = self.app.wiring.web_sessions.begin
        token = await asyncio.to_thread(lambda: begin(key, ip=client_address(request)))
        if before := session_token(request):
            await self._end(request, before)
        set_cookie(request, response, token)
        return response

    async def sign_out(self, request: Request) -> Response:
        root = request.scope.get("root_path", "")
        response = RedirectResponse(root + SIGN_IN_PATH, status_code=SEE_OTHER)
        try:
            visitor = await self.sessions.identify(request)
        except Problem:
            return response
        fields = await read_fields(request, LARGEST_FORM)
        check_csrf(request, visitor, "".join(fields.get(CSRF_FIELD, [])))
        await self._end(request, visitor.token)
        drop_cookie(request, response)
        return response

    async def _end(self, request: Request, token: str) -> None:
        end = self.app.wiring.web_sessions.end
        await asyncio.to_thread(lambda: end(token, ip=client_address(request)))
        self.sessions.forget(token)

    async def show_setup(self, request: Request) -> Response:
        return self._page(request, "setup.html")

    async def set_up(self, request: Request) -> Response:
        check_origin(request)
        fields = await read_fields(request, LARGEST_FORM)
        token, name = ("".join(fields.get(field, [])) for field in ("token", "name"))
        if not NAME.fits(name):
            raise BadArgument("name", name, NAME.allowed)
        set_up = self.app.wiring.keys.set_up
        created = await asyncio.to_thread(lambda: set_up(token, name=name))
        response = self._page(request, "setup.html", 201, created=created)
        return await self._begin(request, created.key, response)
