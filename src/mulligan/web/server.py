"""The ASGI application: every route of the API and every page, below any root path."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as Path
from starlette.types import Receive, Scope, Send

from mulligan.app import App
from mulligan.web.access.access import KeyAccess
from mulligan.web.access.store_check import StoreCheck
from mulligan.web.api import GROUPS
from mulligan.web.description import Description
from mulligan.web.endpoint import Access, Endpoint
from mulligan.web.guard import Guard, not_found
from mulligan.web.large import LargeRequests
from mulligan.web.pages.dashboard import Dashboard
from mulligan.web.pages.page import Pages
from mulligan.web.problems import Problem, respond
from mulligan.web.route import PREFIX, Route, collect
from mulligan.web.stream.hub import Hub


def asgi(app: App, access: Access | None = None, *, pages: Sequence[Pages] = ()) -> Starlette:
    """The API and the dashboard of an app, to be mounted in another ASGI application or served alone. By default, keys
    in its store decide about access. With another access there are no pages: they need sessions. `pages` are groups of
    pages beside those that every dashboard has."""
    routes, shown, hub = collect(GROUPS), list[BaseRoute](), Hub(app)
    dashboard: Dashboard | None = None
    if access is None:
        access = KeyAccess(app)
        dashboard = Dashboard(app, access, hub, more=pages)
        shown = dashboard.routes()
    description, large = Description(app, routes), LargeRequests()
    paths: list[BaseRoute] = [
        *_paths(app, access, routes, large),
        Path("/openapi.json", description.openapi, methods=["GET"]),
        Path("/docs", description.docs, methods=["GET"]),
        Path("/docs.css", description.stylesheet, methods=["GET"]),
        *shown,
    ]

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        # uvicorn waits for open streams before it says so, and is noticed earlier (`stream/shutdown.py`).
        yield
        hub.close()
        large.close()

    found = Starlette(
        routes=paths,
        middleware=[Middleware(Guard)],
        exception_handlers={HTTPException: partial(_routing_problem, dashboard)},
        lifespan=lifespan,
    )
    # A redirect would lose the body of a change.
    found.router.redirect_slashes = False
    found.state.access, found.state.hub = access, hub
    found.state.store_check = StoreCheck(app)
    return found


def _paths(app: App, access: Access, routes: Iterable[Route], large: LargeRequests) -> Iterable[BaseRoute]:
    """One for each path, so that an unknown method is told all methods of the path."""
    methods: dict[str, dict[str, Endpoint]] = {}
    for route in routes:
        methods.setdefault(route.pattern, {})[route.method] = Endpoint(app, access, route, large)
    ordered = sorted(methods.items(), key=lambda each: _order(each[0]))
    return [Path(pattern, Methods(endpoints), methods=list(endpoints)) for pattern, endpoints in ordered]


def _order(pattern: str) -> tuple[bool, int]:
    """Paths are tried in this order: `/jobs/counts` before `/jobs/{job_id}`, and `/services/{name:path}/open` before
    `/services/{name:path}`. Of the others, `/jobs` is among the first, because it is asked most."""
    has_parameters = "{" in pattern
    return has_parameters, -len(pattern) if has_parameters else len(pattern)


class Methods:
    """The endpoints of one path, as an ASGI application. Starlette would put three more calls around a function."""

    def __init__(self, endpoints: dict[str, Endpoint]) -> None:
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints["GET" if scope["method"] == "HEAD" else scope["method"]]
        response = await endpoint.handle(Request(scope, receive))
        await response(scope, receive, send)


async def _routing_problem(dashboard: Dashboard | None, request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        if dashboard is not None and _wants_page(request):
            return await dashboard.show_missing(request)
        return respond(not_found(request))
    headers = dict(error.headers or {})
    message = f"{request.url.path:.200} has no {request.method}; it has: {headers.get('Allow', '')}"
    return respond(Problem(error.status_code, "METHOD_NOT_ALLOWED", message, headers=headers))


def _wants_page(request: Request) -> bool:
    """A browser, outside of the API."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return not path.startswith(f"{PREFIX}/") and "text/html" in request.headers.get("accept", "")
