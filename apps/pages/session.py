"""The session of a browser: a signed cookie."""

import secrets
from datetime import timedelta

from sqlalchemy import Column, Table, Text, select
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from apps.pages.clock import Now
from apps.pages.csrf import FIELD
from apps.pages.database import Database

# How long a session lasts without a request.
IDLE = timedelta(hours=12)
_ID, _VISITED = "id", "visited"


class Sessions:
    """Middleware. Over HTTPS the cookie is kept to HTTPS and to this host. Requests renew it, at most once an hour."""

    def __init__(self, app: ASGIApp, *, key: str, name: str, idle: timedelta, now: Now) -> None:
        self._app, self._now = app, now
        seconds = round(idle.total_seconds())
        self._plain = SessionMiddleware(self._renew, key, name, seconds)
        self._safe = SessionMiddleware(self._renew, key, f"__Host-{name}", seconds, https_only=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_safe = scope.get("scheme") in ("https", "wss")
        await (self._safe if is_safe else self._plain)(scope, receive, send)

    async def _renew(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The cookie is sent again, with its new time, if the session has changed.
        hour = f"{self._now():%Y-%m-%dT%H}"
        if scope.get("session") and scope["session"].get(_VISITED) != hour:
            scope["session"][_VISITED] = hour
        await self._app(scope, receive, send)


class SessionKey:
    """The key that signs the cookies, in the database: all processes of an application share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._table = Table("session_key", database.metadata, Column("value", Text, primary_key=True))

    def read(self) -> str:
        with self._database.transaction() as connection:
            found = connection.scalar(select(self._table.c.value))
            if found is not None:
                return str(found)
            made = secrets.token_urlsafe(32)
            connection.execute(self._table.insert().values(value=made))
            return made


def session_id(request: Request) -> str:
    """The id of this browser, made at its first visit. It is not a secret that opens anything by itself."""
    if _ID not in request.session:
        request.session[_ID] = secrets.token_urlsafe(16)
    return str(request.session[_ID])


def start_anew(request: Request) -> None:
    """Forget everything, so that a session that began before signing in does not go on after it."""
    request.session.clear()


def refuse_earlier_forms(request: Request) -> None:
    """For who signs in and stays the same browser."""
    request.session.pop(FIELD, None)
