"""The description of the API: OpenAPI for programs, a page for people. Both need no key and no other server."""

import asyncio
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mulligan.app import App
from mulligan.web.access.console import public_tasks
from mulligan.web.docs_page import render
from mulligan.web.openapi import openapi
from mulligan.web.route import Route

STYLESHEET = Path(__file__).with_name("docs.css")
# The page has no script, and loads its stylesheet from here.
POLICY = "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
# The prefixes below which one application is mounted.
MOST_ROOTS = 8


class Description:
    def __init__(self, app: App, routes: Sequence[Route]) -> None:
        self._app, self._routes = app, routes
        self._document = lru_cache(MOST_ROOTS)(self._make_document)
        self._page = lru_cache(MOST_ROOTS)(lambda root, kinds: render(msgspec.json.decode(self._document(root, kinds))))

    async def openapi(self, request: Request) -> Response:
        body = await asyncio.to_thread(self._document, *self._key(request))
        return Response(body, media_type="application/json")

    async def docs(self, request: Request) -> Response:
        page = await asyncio.to_thread(self._page, *self._key(request))
        return Response(page, media_type="text/html", headers={"Content-Security-Policy": POLICY})

    async def stylesheet(self, request: Request) -> Response:  # noqa: ARG002
        return Response(await asyncio.to_thread(STYLESHEET.read_bytes), media_type="text/css")

    def _key(self, request: Request) -> tuple[str, frozenset[str]]:
        return request.scope.get("root_path", ""), frozenset(public_tasks(self._app))

    def _make_document(self, root: str, kinds: frozenset[str]) -> bytes:  # noqa: ARG002
        return msgspec.json.encode(openapi(self._routes, public_tasks(self._app), root=root))
