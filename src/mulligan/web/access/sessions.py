"""Access by sessions, of people who signed in to the pages. Keys are not taken here, and cookies nowhere else."""

import asyncio
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from mulligan.app import App
from mulligan.errors import KeyRefused
from mulligan.records.key import Key
from mulligan.records.token import digest_of
from mulligan.records.web_session import LASTS
from mulligan.values.clock import Clock
from mulligan.web.access.access import KeyAccess, to_caller
from mulligan.web.access.authentication import MOST_REMEMBERED, Authentication
from mulligan.web.access.caller import Caller
from mulligan.web.access.origin import is_same_origin
from mulligan.web.problems import Problem

# How often the last use of a session is stored, at most, in seconds.
NOTED_EVERY = 60.0
CSRF_FIELD = "csrf"


@dataclass(frozen=True, slots=True, repr=False)
class Visitor:
    """A person who is signed in. `token` is the secret of the session."""

    caller: Caller
    token: str

    @property
    def csrf(self) -> str:
        """Forms carry it. It is bound to the session and tells nothing about its token."""
        return sign(self.token, "csrf")


class SessionAccess:
    """Finds the session of a request. A session that ends, or whose key is revoked, ends within a second."""

    def __init__(self, app: App, access: KeyAccess) -> None:
        self._app, self._access = app, access
        self._clock: Callable[[], Clock] = app.wiring.clock
        self._authentication = Authentication(self._find, self._clock)
        self._noted: dict[str, float] = {}

    async def identify(self, request: Request) -> Visitor:
        """Raises a Problem: 401 for a request without a session, 429 for an address with too many failures."""
        if token := session_token(request):
            if not self._authentication.knows(token):
                self._access.check_address(request)
            try:
                key = await self._authentication.find(token)
            except KeyRefused:
                # A request without a cookie is no attempt: it is led to the form.
                await self._access.charge_failure(request)
            else:
                if is_by_person(request):
                    await self._note_use(token)
                return Visitor(to_caller(key), token)
        raise Problem(401, "UNAUTHORIZED", "sign in first")

    def _find(self, token: str) -> Key:
        return self._app.wiring.web_sessions.find(token).stored.key

    async def _note_use(self, token: str) -> None:
        digest, now = digest_of(token), self._clock().monotonic()
        if now - self._noted.get(digest, -NOTED_EVERY) < NOTED_EVERY:
            return
        if len(self._noted) >= MOST_REMEMBERED:
            self._noted.clear()
        self._noted[digest] = now
        await asyncio.to_thread(self._app.wiring.web_sessions.note_use, token)

    def forget(self, token: str) -> None:
        """A session that ended here is refused at once."""
        self._authentication.forget(token)

    def close(self) -> None:
        self._authentication.close()


def sign(token: str, text: str) -> str:
    return hmac.new(token.encode(), text.encode(), sha256).hexdigest()


def is_by_person(request: Request) -> bool:
    """Whether a person made this request. A live page follows a stream and reads itself again: that is no use of the
    session, or a page that is left open would keep it."""
    return "hx-request" not in request.headers and request.headers.get("accept") != "text/event-stream"


def is_secure(request: Request) -> bool:
    return request.url.scheme == "https"


def cookie_name(request: Request, use: str = "") -> str:
    """The cookie of the session, or one with another use. Browsers keep the first form to encrypted connections and
    to this host. Without encryption, which is for this machine only, servers on other ports would share a cookie of the
    same name."""
    name = "__Host-mulligan" if is_secure(request) else f"mulligan-{request.url.port or 80}"
    return f"{name}-{use}" if use else name


def session_token(request: Request) -> str:
    """The token in the cookie; empty without one. It need not be that of a session."""
    return request.cookies.get(cookie_name(request), "")


def set_cookie(request: Request, response: Response, value: str, *, use: str = "", lasts: timedelta = LASTS) -> None:
    response.set_cookie(
        cookie_name(request, use),
        value,
        max_age=int(lasts.total_seconds()),
        path="/",
        secure=is_secure(request),
        httponly=True,
        samesite="lax",
    )


def drop_cookie(request: Request, response: Response, *, use: str = "") -> None:
    response.delete_cookie(
        cookie_name(request, use), path="/", secure=is_secure(request), httponly=True, samesite="lax"
    )


def check_csrf(request: Request, visitor: Visitor, given: str) -> None:
    """Raises a Problem, 403, for a form that is not of our own pages."""
    check_origin(request)
    if not hmac.compare_digest(visitor.csrf.encode(), given.encode("utf-8", "replace")):
        raise Problem(403, "FORBIDDEN", "this form is not of this session: load its page again, and send it once more")


def check_origin(request: Request) -> None:
    """Raises a Problem, 403, for a form of another site."""
    if not is_same_origin(request):
        raise Problem(403, "FORBIDDEN", "this form was sent by another site")
