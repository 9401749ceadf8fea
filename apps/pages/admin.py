"""Administrators of an application: they sign in with an administrator's key of the engine."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from apps.pages.accounts import LONGEST_SESSION, TRIES, is_local
from apps.pages.clock import Now
from apps.pages.forms import read_form
from apps.pages.problems import Elsewhere, Problem
from apps.pages.rates import charge
from apps.pages.redirect import redirect
from apps.pages.render import page
from apps.pages.session import sign_in, start_anew
from mulligan import App, MulliganError

_KEY, _SINCE = "admin-key", "admin-since"
MOST_KEYS = 1_000
REMEMBERED = timedelta(seconds=1)


class Admins:
    """A key that is revoked or expired ends its sessions within a second."""

    def __init__(self, app: App, now: Now) -> None:
        self._app, self._now = app, now
        self._valid: frozenset[str] = frozenset()
        self._read_at: datetime | None = None

    def routes(self) -> list[Route]:
        return [
            Route("/admin/sign-in", self.sign_in_page, methods=["GET"]),
            Route("/admin/sign-in", self.sign_in, methods=["POST"]),
            Route("/admin/sign-out", self.sign_out, methods=["POST"]),
        ]

    async def sign_in_page(self, request: Request) -> Response:
        return page(request, "admin_sign_in.html", problem=None, next=request.query_params.get("next", "/admin"))

    async def sign_in(self, request: Request) -> Response:
        form = await read_form(request)
        await charge(request, "admin", TRIES)
        try:
            key = await asyncio.to_thread(self._app.find_key, form.get("key", ""))
        except MulliganError:
            key = None
        if key is None or key.owner is not None:
            problem = "This is no key of an administrator."
            return page(request, "admin_sign_in.html", status=401, problem=problem, next=form.get("next", "/admin"))
        # The browser stays who it is: its conversions, or its account.
        sign_in(request, **{_KEY: key.id, _SINCE: self._now().isoformat()})
        self._read_at = None
        target = form.get("next", "/admin")
        return redirect(request, target if is_local(target) else "/admin")

    async def sign_out(self, request: Request) -> Response:
        await read_form(request)
        await asyncio.to_thread(start_anew, request)
        return redirect(request, "/")

    def key_of(self, request: Request) -> str | None:
        """The id of the key of the administrator who is signed in."""
        key, since = (request.session.get(name) for name in (_KEY, _SINCE))
        if key is None or since is None or self._now() - datetime.fromisoformat(since) > LONGEST_SESSION:
            return None
        return str(key) if key in self._keys() else None

    def _keys(self) -> frozenset[str]:
        now = self._now()
        if self._read_at is None or now - self._read_at > REMEMBERED:
            found = self._app.keys(limit=MOST_KEYS)
            self._valid = frozenset(key.id for key in found if key.owner is None and _is_valid(key, now))
            self._read_at = now
        return self._valid


def _is_valid(key: Any, now: datetime) -> bool:
    return key.revoked_at is None and (key.expires_at is None or key.expires_at > now)


def is_admin(request: Request) -> bool:
    return bool(request.app.state.site.is_admin(request))


def require_admin(request: Request) -> str:
    """The name of the administrator for the history; others go to the page where they can sign in."""
    key = request.app.state.site.admins.key_of(request)
    if key is None:
        if request.method != "GET" or request.url.path.startswith("/api/"):
            raise Problem(401, "UNAUTHORIZED", "Sign in as an administrator first.")
        raise Elsewhere(f"{request.scope.get('root_path', '')}/admin/sign-in?next={request.url.path}")
    return f"key {key}"
