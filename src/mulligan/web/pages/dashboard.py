"""The routes of the dashboard."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from mulligan.app import App
from mulligan.errors import StoreError
from mulligan.web.access.access import KeyAccess
from mulligan.web.access.sessions import CSRF_FIELD, SessionAccess, Visitor, check_csrf, set_cookie
from mulligan.web.guard import not_found
from mulligan.web.pages import PAGES
from mulligan.web.pages.endpoint import BACK_FIELD, PageEndpoint, is_local
from mulligan.web.pages.form import read_fields
from mulligan.web.pages.live import Ticks
from mulligan.web.pages.menu import Menu
from mulligan.web.pages.page import SEE_OTHER, Page, Pages
from mulligan.web.pages.render import CHOICES, Renderer
from mulligan.web.pages.sign_in import SignInPages
from mulligan.web.pages.static import StaticFiles
from mulligan.web.problems import Problem, respond
from mulligan.web.stream.hub import Hub
from mulligan.web.stream.response import EventStream
from mulligan.web.stream.wanted import Wanted

YEAR = timedelta(days=365)
HIGHEST = 2**63 - 1


class Dashboard:
    def __init__(self, app: App, access: KeyAccess, hub: Hub, *, more: Sequence[Pages] = ()) -> None:
        self._app, self._access, self._hub, self._more = app, access, hub, more
        self.sessions = SessionAccess(app, access)
        self._static = StaticFiles()
        menu = Menu(app, lambda: app.wiring.clock().monotonic(), more=[group.menu for group in more if group.menu])
        self._renderer = Renderer(app, self._static, menu, [group.templates for group in more if group.templates])

    def routes(self) -> list[BaseRoute]:
        sign_in = SignInPages(self._app, self._access, self.sessions, self._renderer)
        return [
            *sign_in.routes(),
            Route("/static/{name}", self._static.serve, methods=["GET"]),
            Route("/failures", self.show_failures, methods=["GET"]),
            Route("/live", self.follow, methods=["GET"]),
            Route("/choose", self.choose, methods=["POST"]),
            *self._pages([*PAGES, *(page for group in self._more for page in group.declared)]),
        ]

    def _pages(self, pages: Iterable[Page]) -> list[BaseRoute]:
        methods: dict[str, dict[str, PageEndpoint]] = {}
        for page in pages:
            endpoint = PageEndpoint(self._app, self._access, self.sessions, self._renderer, page)
            methods.setdefault(page.path, {})[page.method] = endpoint
        # `/jobs/selected` before `/jobs/{job_id}`, and `/services/{name:path}/open` before `/services/{name:path}`.
        ordered = sorted(methods.items(), key=lambda each: ("{" in each[0], -len(each[0])))
        return [Route(path, PageMethods(endpoints), methods=list(endpoints)) for path, endpoints in ordered]

    async def show_failures(self, request: Request) -> Response:
        """The failures are the first page. The addresses of groups suggest this one."""
        return RedirectResponse(f"{request.scope.get('root_path', '')}/", status_code=SEE_OTHER)

    async def show_missing(self, request: Request) -> Response:
        """The page for an address that does not exist."""
        visitor: Visitor | None = None
        with suppress(Problem, StoreError):
            visitor = await self.sessions.identify(request)
        values = {"problem": not_found(request), "is_change": False}
        return await asyncio.to_thread(
            self._renderer.page, request, "problem.html", values, status=404, visitor=visitor
        )

    async def follow(self, request: Request) -> Response:
        """Say when something changed after the position `after` that the person may see; with `job` or `batch`, only
        about these."""
        try:
            visitor = await self.sessions.identify(request)
        except Problem as problem:
            return respond(problem)
        caller = visitor.caller
        job, batch, after = (request.query_params.get(name) for name in ("job", "batch", "after"))
        ticks = Ticks(self._hub, Wanted(owner=caller.owner, job=job, batch=batch), after=_position(after))
        ticks.is_allowed = lambda: self._is_allowed(request, visitor)
        counted_as = f"key {caller.key}" if caller.is_admin else f"owner {caller.owner}"
        return EventStream(self._hub, ticks, counted_as)

    async def _is_allowed(self, request: Request, visitor: Visitor) -> bool:
        try:
            return (await self.sessions.identify(request)).caller == visitor.caller
        except Problem:
            return False
        except StoreError:
            return True

    async def choose(self, request: Request) -> Response:
        """Colours and keys of all pages, which this browser remembers."""
        try:
            visitor = await self.sessions.identify(request)
            fields = await read_fields(request)
            check_csrf(request, visitor, "".join(fields.get(CSRF_FIELD, [])))
        except Problem as problem:
            return respond(problem)
        back = "".join(fields.get(BACK_FIELD, []))
        root = request.scope.get("root_path", "")
        response = RedirectResponse(back if is_local(back) else f"{root}/", status_code=SEE_OTHER)
        for use, values in CHOICES.items():
            if (value := "".join(fields.get(use, []))) in values:
                set_cookie(request, response, value, use=use, lasts=YEAR)
        return response

    def close(self) -> None:
        self.sessions.close()


@dataclass(frozen=True, slots=True)
class PageMethods:
    """The endpoints of one path, as an ASGI application."""

    endpoints: dict[str, PageEndpoint]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self.endpoints["GET" if scope["method"] == "HEAD" else scope["method"]]
        response = await endpoint.handle(Request(scope, receive))
        await response(scope, receive, send)


def _position(text: str | None) -> int:
    """The end of the log for what is no position: then only what comes is told."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 20 else HIGHEST
