"""An application as one ASGI application: its routes, sessions, live pages, and the engine's dashboard at `/ops`."""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from apps.pages.accounts import Account, Accounts
from apps.pages.admin import Admins
from apps.pages.clock import Now, system_time
from apps.pages.csrf import SAFE, ForeignForm, check_origin
from apps.pages.database import Database
from apps.pages.live import Feed, ticks
from apps.pages.problems import Elsewhere, Problem, respond
from apps.pages.redirect import SEE_OTHER
from apps.pages.render import STATIC, environment
from apps.pages.session import IDLE, EndedSessions, SessionKey, Sessions
from mulligan import App

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src 'self'; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
OwnerOf = Callable[[Request], str | None]


class Site:
    """`routes` are the application's own. `folder` has its `templates` and may have `static`. `menu` has labels with
    paths. `owner` says whose jobs the visitor may follow live; None: of no one. `idle` is how long a browser is known
    without a visit. `code` says how a code of these pages is called in this application. `now` is the time for sessions
    and for what is shown."""

    def __init__(
        self,
        app: App,
        *,
        name: str,
        folder: Path,
        routes: Sequence[BaseRoute],
        database: Database,
        menu: Sequence[tuple[str, str]] = (),
        accounts: Accounts | None = None,
        owner: OwnerOf = lambda _: None,
        idle: timedelta = IDLE,
        code: Callable[[str], str] = str,
        now: Now = system_time,
    ) -> None:
        self.app, self.name, self.folder, self.database, self.menu = app, name, folder, database, menu
        self.accounts, self.admins, self.owner, self.now = accounts, Admins(app, now), owner, now
        self.code = code
        self.ended = EndedSessions(database, idle=idle, now=now)
        self._routes, self._key, self._idle = routes, SessionKey(database), idle

    def asgi(self) -> Starlette:
        self.app.migrate()
        self.database.create()
        found = Starlette(
            routes=[*self._common(), *self._routes],
            middleware=[
                Middleware(Outer),
                Middleware(
                    Sessions,
                    key=self._key.read(),
                    name=self._cookie,
                    idle=self._idle,
                    now=self.now,
                    ended=self.ended,
                ),
                Middleware(OwnOrigin),
            ],
            exception_handlers={
                Problem: _problem,
                Elsewhere: _elsewhere,
                ForeignForm: _foreign,
                HTTPException: _routing,
                Exception: _fault,
            },
            lifespan=self._lifespan,
        )
        found.state.site, found.state.feed = self, Feed(self.app)
        found.state.templates = environment(self.folder)
        return found

    @property
    def _cookie(self) -> str:
        return re.sub(r"\W+", "-", self.name.lower()).strip("-") + "-session"

    def _common(self) -> list[BaseRoute]:
        own = self.folder / "static"
        return [
            Mount("/ops", self.app.asgi()),
            Mount("/common", StaticFiles(directory=STATIC)),
            *([Mount("/static", StaticFiles(directory=own))] if own.is_dir() else []),
            Route("/live", self._live, methods=["GET"]),
            *self.admins.routes(),
            *(self.accounts.routes() if self.accounts else []),
        ]

    @asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        yield
        self.database.close()

    def _live(self, request: Request) -> Response:
        """Tick when something of the visitor's changed. An administrator follows everything."""
        owner = None if self.is_admin(request) else self.owner(request)
        if owner is None and not self.is_admin(request):
            raise Problem(401, "UNAUTHORIZED", "Sign in first.")
        job, batch = (request.query_params.get(name) for name in ("job", "batch"))
        return ticks(request, owner=owner, job=job, batch=batch)

    # What every page asks

    def account(self, request: Request) -> Account | None:
        return self.accounts.of(request) if self.accounts and "session" in request.scope else None

    def is_admin(self, request: Request) -> bool:
        return "session" in request.scope and self.admins.key_of(request) is not None

    def position(self, request: Request) -> int:
        """The end of the log. A page that knows an earlier one, from before it read, sets `request.state.position`."""
        found = getattr(request.state, "position", None)
        return self.app.last_position() if found is None else int(found)


def site_of(request: Request) -> Site:
    found: Site = request.app.state.site
    return found


# Middleware


class Outer:
    """Security headers on every answer but the dashboard's, which has its own."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name.lower() for name, _ in message["headers"]}
                added = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
                message["headers"] = [*message["headers"], *(each for each in added if each[0] not in given)]
            await send(message)

        await self._app(scope, receive, send_with_headers)


class OwnOrigin:
    """Refuses changes that another site sends. The dashboard checks by itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            if scope["type"] == "http" and scope["method"] not in SAFE:
                check_origin(Request(scope))
        except ForeignForm as error:
            response = await _foreign(Request(scope, receive), error)
            await response(scope, receive, send)
        else:
            await self._app(scope, receive, send)


# What goes wrong


async def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return respond(request, error)


async def _elsewhere(_: Request, error: Exception) -> Response:
    assert isinstance(error, Elsewhere)
    return RedirectResponse(error.path, SEE_OTHER)


async def _foreign(request: Request, _: Exception) -> Response:
    message = "This form is not of this session. Load its page again, and send it once more."
    return respond(request, Problem(403, "FOREIGN_FORM", message))


async def _routing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    codes = {404: ("NOT_FOUND", "There is no such page."), 405: ("METHOD_NOT_ALLOWED", "This page cannot do that.")}
    code, message = codes.get(error.status_code, ("REFUSED", error.detail))
    return respond(request, Problem(error.status_code, code, message, headers=dict(error.headers or {})))


async def _fault(request: Request, _: Exception) -> Response:
    """Starlette logs the error; people see no details."""
    message = "Something went wrong here. It was recorded."
    # The server closes the connection: without this header the next request on it would be lost.
    headers = HEADERS | {"Connection": "close"}
    return respond(request, Problem(500, "INTERNAL_ERROR", message, headers=headers))
