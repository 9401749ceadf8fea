"""The session of a browser: a signed cookie."""

import asyncio
import secrets
from datetime import timedelta

from sqlalchemy import Column, Integer, String, Table, Text, delete, select
from sqlalchemy.exc import IntegrityError
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from apps.pages.clock import Now
from apps.pages.csrf import FIELD
from apps.pages.database import Database, Moment

# How long a session lasts without a request.
IDLE = timedelta(hours=12)
_ID, _VISITED, _SERIAL = "id", "visited", "serial"


class EndedSessions:
    """Sessions that people signed out of. A copy of their cookie is worth nothing for as long as it could be used."""

    def __init__(self, database: Database, *, idle: timedelta, now: Now) -> None:
        self._database, self._idle, self._now = database, idle, now
        self._table = Table(
            "ended_sessions",
            database.metadata,
            Column("serial", String(32), primary_key=True),
            Column("at", Moment, nullable=False, index=True),
        )

    def add(self, serial: str) -> None:
        table, now = self._table, self._now()
        try:
            with self._database.transaction() as connection:
                connection.execute(delete(table).where(table.c.at < now - self._idle))
                connection.execute(table.insert().values(serial=serial, at=now))
        except IntegrityError:
            # Another request of this session has ended it.
            return

    def has(self, serial: str) -> bool:
        with self._database.read() as connection:
            query = select(self._table.c.serial).where(self._table.c.serial == serial)
            return connection.scalar(query) is not None


class Sessions:
    """Middleware. Over HTTPS the cookie is kept to HTTPS and to this host. Requests renew it, at most once an hour."""

    def __init__(self, app: ASGIApp, *, key: str, name: str, idle: timedelta, now: Now, ended: EndedSessions) -> None:
        self._app, self._now, self._ended = app, now, ended
        seconds = round(idle.total_seconds())
        self._plain = SessionMiddleware(self._renew, key, name, seconds)
        self._safe = SessionMiddleware(self._renew, key, f"__Host-{name}", seconds, https_only=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_safe = scope.get("scheme") in ("https", "wss")
        await (self._safe if is_safe else self._plain)(scope, receive, send)

    async def _renew(self, scope: Scope, receive: Receive, send: Send) -> None:
        serial = scope.get("session", {}).get(_SERIAL)
        if serial is not None and await asyncio.to_thread(self._ended.has, serial):
            scope["session"].clear()
        # The cookie is sent again, with its new time, if the session has changed.
        hour = f"{self._now():%Y-%m-%dT%H}"
        if scope.get("session") and scope["session"].get(_VISITED) != hour:
            scope["session"][_VISITED] = hour
        await self._app(scope, receive, send)


class SessionKey:
    """The key that signs the cookies, in the database: all processes of an application share it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.table = Table(
            "session_keys",
            database.metadata,
            Column("number", Integer, primary_key=True, autoincrement=False),
            Column("value", Text, nullable=False),
        )

    def read(self) -> str:
        """Of two processes that start at once, one makes the key."""
        try:
            with self._database.transaction() as connection:
                found = connection.scalar(select(self.table.c.value))
                if found is None:
                    found = secrets.token_urlsafe(32)
                    connection.execute(self.table.insert().values(number=1, value=found))
                return str(found)
        except IntegrityError:
            return self.read()


def session_id(request: Request) -> str:
    """The id of this browser, made at its first visit. It is not a secret that opens anything by itself."""
    if _ID not in request.session:
        request.session[_ID] = secrets.token_urlsafe(16)
    return str(request.session[_ID])


def start_anew(request: Request) -> None:
    """Forget everything, so that a session that began before signing in does not go on after it. One that was signed
    in has ended for all copies of its cookie."""
    serial = request.session.get(_SERIAL)
    if serial is not None:
        request.app.state.site.ended.add(serial)
    request.session.clear()


def sign_in(request: Request, **values: str) -> None:
    """Keep who signed in. Forms from before are refused."""
    request.session.pop(FIELD, None)
    request.session.setdefault(_SERIAL, secrets.token_hex(16))
    request.session.update(values)
