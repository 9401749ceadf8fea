"""One request to a page: session, access, the handler, the rendered answer."""

import asyncio
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from hmac import compare_digest
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response

from mulligan.app import App
from mulligan.errors import MulliganError
from mulligan.web.access.access import KeyAccess
from mulligan.web.access.console import Console
from mulligan.web.access.sessions import (
    CSRF_FIELD,
    SessionAccess,
    Visitor,
    check_csrf,
    cookie_name,
    drop_cookie,
    set_cookie,
    sign,
)
from mulligan.web.pages.form import decode_form, read_fields
from mulligan.web.pages.page import SEE_OTHER, Done, Page, PageCall, View
from mulligan.web.pages.render import Answer, Renderer
from mulligan.web.problems import Problem, to_problem
from mulligan.web.reading import read_query

logger = logging.getLogger("mulligan.web")

# Fields that each form has: its own name, and the page that it is on.
REQUEST_FIELD, BACK_FIELD = "request", "back"
ANSWER, ANSWER_LASTS = "answer", timedelta(minutes=1)
LONGEST_ANSWER = 600


@dataclass(frozen=True, slots=True)
class PageEndpoint:
    """Answers the requests of one page or action."""

    app: App
    access: KeyAccess
    sessions: SessionAccess
    renderer: Renderer
    page: Page

    async def handle(self, request: Request) -> Response:
        visitor: Visitor | None = None
        try:
            visitor = await self.sessions.identify(request)
            return await (self._act if self.page.is_change else self._show)(request, visitor)
        except ClientDisconnect:
            # Nothing reads the answer.
            return Response(status_code=400)
        except Exception as error:
            return await self._refuse(request, visitor, to_problem(error))

    async def _show(self, request: Request, visitor: Visitor) -> Response:
        arguments: dict[str, Any] = dict(request.path_params)
        if self.page.query is not None:
            arguments["query"] = read_query(self.page.query, request.query_params)
        async with self.access.admit(visitor.caller, self.page, request):
            return await asyncio.to_thread(self._render, request, visitor, arguments)

    def _render(self, request: Request, visitor: Visitor, arguments: dict[str, Any]) -> Response:
        # Before anything is read: what is written from now on makes the page out of date.
        console = Console(self.app, visitor.caller)
        position = console.last_position()
        found = self._call(request, visitor, None, arguments)
        if isinstance(found, Response):
            return found
        answer = take_answer(request, visitor)
        response = self.renderer.page(
            request,
            found.template,
            found.values,
            status=found.status,
            visitor=visitor,
            answer=answer,
            position=position,
        )
        if answer is not None:
            drop_cookie(request, response, use=ANSWER)
        return response

    async def _act(self, request: Request, visitor: Visitor) -> Response:
        fields = await read_fields(request)
        check_csrf(request, visitor, "".join(fields.pop(CSRF_FIELD, [])))
        name, back = ("".join(fields.pop(field, [])) for field in (REQUEST_FIELD, BACK_FIELD))
        try:
            async with self.access.admit(visitor.caller, self.page, request, name=name or None) as repeatable:
                request_id = None if repeatable is None else repeatable.request_id
                carry_out = partial(self._carry_out, back=back if is_local(back) else "")
                found = await asyncio.to_thread(carry_out, request, visitor, request_id, fields)
        except MulliganError as error:
            # The page shows what is now, and why it was refused.
            problem = to_problem(error)
            if problem.status >= 500 or not is_local(back):
                raise
            twin = problem.fields.get("twin")
            path = back.removeprefix(request.scope.get("root_path", ""))
            found = Done(path, problem.message, tone="failed", link=f"/jobs/{twin}" if twin else "")
        return self._redirect(request, visitor, found) if isinstance(found, Done) else found

    def _carry_out(
        self, request: Request, visitor: Visitor, request_id: str | None, fields: dict[str, list[str]], *, back: str
    ) -> Done | Response:
        arguments: dict[str, Any] = dict(request.path_params)
        if self.page.form is not None:
            arguments["form"] = decode_form(self.page.form, fields)
        found = self._call(request, visitor, request_id, arguments)
        if isinstance(found, View):
            return self.renderer.page(
                request, found.template, found.values, status=found.status, visitor=visitor, back=back
            )
        assert isinstance(found, Done | Response)
        return found

    def _call(self, request: Request, visitor: Visitor, request_id: str | None, arguments: dict[str, Any]) -> Any:
        call = PageCall(visitor.caller, request, Console(self.app, visitor.caller), request_id)
        return self.page.handler(call, **arguments)

    def _redirect(self, request: Request, visitor: Visitor, done: Done) -> Response:
        root = request.scope.get("root_path", "")
        response = RedirectResponse(root + done.path, status_code=SEE_OTHER)
        give_answer(request, response, visitor, Answer(done.message, done.detail, done.tone, done.link))
        return response

    async def _refuse(self, request: Request, visitor: Visitor | None, problem: Problem) -> Response:
        if problem.status == 401 and not self.page.is_change and "hx-request" not in request.headers:
            root = request.scope.get("root_path", "")
            target = request.url.path.removeprefix(root) + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{root}/sign-in?next={quote(target)}", status_code=SEE_OTHER)
        return await asyncio.to_thread(
            self.renderer.page,
            request,
            "problem.html",
            {"problem": problem, "is_change": self.page.is_change},
            status=problem.status,
            visitor=visitor,
            headers=problem.headers,
        )


def is_local(path: str) -> bool:
    """A path of this server, and no address of another."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


# The answer to an action travels in a cookie to the page that shows it, signed by the session.


def give_answer(request: Request, response: Response, visitor: Visitor, answer: Answer) -> None:
    bounded = replace(answer, message=answer.message[:LONGEST_ANSWER], detail=answer.detail[:LONGEST_ANSWER])
    text = urlsafe_b64encode(msgspec.json.encode(bounded)).decode()
    signed = f"{text}.{sign(visitor.token, text)}"
    set_cookie(request, response, signed, use=ANSWER, lasts=ANSWER_LASTS)


def take_answer(request: Request, visitor: Visitor) -> Answer | None:
    # A live page reads itself again: the answer stays with the page that a person loads.
    if "hx-request" in request.headers:
        return None
    text, _, signature = request.cookies.get(cookie_name(request, ANSWER), "").partition(".")
    if not text or not compare_digest(sign(visitor.token, text).encode(), signature.encode("utf-8", "replace")):
        return None
    return msgspec.json.decode(urlsafe_b64decode(text), type=Answer)
