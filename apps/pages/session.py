"""The session of a browser: a signed cookie."""

import secrets
from datetime import timedelta

from sqlalchemy import Column, Table, Text, select
from starlette.requests import Request

from apps.pages.database import Database

# How long a session lasts without a request.
IDLE = timedelta(hours=12)
_ID = "id"


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
