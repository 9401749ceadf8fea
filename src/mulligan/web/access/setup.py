"""The page that exchanges the one-time token of the first start for the first administrator's key.

It works without scripts. GET shows a form and changes nothing, so that a preview of the link does not use it up.
"""

import asyncio
from html import escape
from pathlib import Path
from urllib.parse import parse_qs

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute

from mulligan.app import App
from mulligan.errors import BadArgument, MulliganError, SetupRefused
from mulligan.records.key import CreatedKey
from mulligan.values.check import NAME
from mulligan.web.access.access import KeyAccess
from mulligan.web.access.start import SETUP_PATH
from mulligan.web.problems import Problem, to_problem
from mulligan.web.reading import read_bytes

STYLESHEET = Path(__file__).with_name("setup.css")
LARGEST_FORM = 4_096
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Set up mulligan</title>
<link rel="stylesheet" href="setup/style.css">
</head>
<body>
<main>
<h1>Set up mulligan</h1>
{content}
</main>
</body>
</html>
"""
_FORM = """<p>This creates the first key of an administrator. It allows everything, and is shown once.</p>
{problem}<form method="post" action="setup">
<p><label for="token">One-time token, from the output of the server</label>
<input id="token" name="token" value="{token}" autocomplete="off" spellcheck="false" required></p>
<p><label for="name">Name of the key: what it is used for</label>
<input id="name" name="name" value="{name}" maxlength="200" required></p>
<p><button>Create the key</button></p>
</form>"""
_CREATED = """<p>This is the key <b>{id}</b>. Copy it now: it is not stored, and not shown again.</p>
<p><code>{token}</code></p>
<p>Requests carry it in the header <code>Authorization: Bearer …</code>. Further keys are made with
<code>POST /api/v1/keys</code> or <code>mulligan keys create</code>.</p>"""


class SetupPage:
    def __init__(self, app: App, access: KeyAccess) -> None:
        self._app, self._access = app, access

    def routes(self) -> list[BaseRoute]:
        return [
            StarletteRoute(SETUP_PATH, self.show, methods=["GET"]),
            StarletteRoute(SETUP_PATH, self.create, methods=["POST"]),
            StarletteRoute(f"{SETUP_PATH}/style.css", self.style, methods=["GET"]),
        ]

    async def show(self, request: Request) -> Response:
        return _page(_form(request.query_params.get("token", "")))

    async def create(self, request: Request) -> Response:
        try:
            token, name = await _read_form(request)
            created = await asyncio.to_thread(self._app.wiring.keys.set_up, token, name=name)
        except ClientDisconnect:
            # Nothing reads the answer.
            return Response(status_code=400)
        except SetupRefused as refused:
            return await self._refuse(request, refused)
        except (Problem, MulliganError) as error:
            problem = to_problem(error)
            return _page(_form("", problem.message), problem.status)
        return _page(_created(created), 201)

    async def _refuse(self, request: Request, refused: SetupRefused) -> Response:
        """A token that does not fit is a failed authentication."""
        try:
            await self._access.charge_failure(request)
        except Problem as problem:
            return _page(_form("", problem.message), problem.status, problem.headers)
        return _page(_form("", str(refused)), 403)

    async def style(self, request: Request) -> Response:  # noqa: ARG002
        return Response(await asyncio.to_thread(STYLESHEET.read_bytes), media_type="text/css", headers=HEADERS)


async def _read_form(request: Request) -> tuple[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Problem(415, "UNSUPPORTED_MEDIA_TYPE", "the form must be application/x-www-form-urlencoded")
    given = parse_qs((await read_bytes(request, LARGEST_FORM)).decode("utf-8", "replace"))
    token, name = ("".join(given.get(field, [""])).strip() for field in ("token", "name"))
    if not NAME.fits(name):
        raise BadArgument("name", name, NAME.allowed)
    return token, name


def _form(token: str, problem: str = "") -> str:
    warning = f'<p role="alert">{escape(problem)}</p>\n' if problem else ""
    return _FORM.format(problem=warning, token=escape(token), name="administrator")


def _created(created: CreatedKey) -> str:
    return _CREATED.format(id=escape(created.key.id), token=escape(created.token))


def _page(content: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    page = _PAGE.format(content=content)
    return Response(page, status_code=status, media_type="text/html", headers=HEADERS | (headers or {}))
