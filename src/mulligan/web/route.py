"""A route: one declaration for dispatch, access and OpenAPI.

    routes = Routes("Jobs")

    @routes.get("/jobs/{job_id}", scope=Scope.JOBS_READ, answer=One(Job), errors=[JobNotFound])
    def job(call: Call, job_id: str) -> Any:
        \"""One job as it is now.\"""
        return call.console.job(job_id)

A handler gets the call and the parameters of its path, as strings. If it has a parameter `query` or `body`, annotated
with a msgspec Struct, it gets the query parameters or the JSON body; a type that is made at run time is given to the
decorator instead. Plain functions run in a thread, because the verbs of an app block; coroutines run on the event loop.
"""

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mulligan.records.document import Document, document_of, document_type
from mulligan.records.key import Scope
from mulligan.values.error import MulliganError
from mulligan.web.access.caller import Caller
from mulligan.web.access.console import Console
from mulligan.web.access.terms import WithoutKey
from mulligan.web.large import LARGE_ANSWER, LargeRequests

T = TypeVar("T")
Handler = Callable[..., Any]

PREFIX = "/api/v1"
# The query parameter of routes that can show the secrets in arguments and results.
REVEAL = "reveal"
# A path parameter, and how it is matched: `{name:path}` may contain slashes.
_PARAMETER = re.compile(r"{(\w+)(?::\w+)?}")


@dataclass(frozen=True, slots=True)
class Call:
    """What a handler knows of its request. `request_id` makes a change repeatable: it comes from Idempotency-Key.
    `first_at` is when the first request with this key came. `thread` computes for a large request, and `large` admits
    those with a large answer. `is_revealed`: the secrets in arguments and results are shown; access has checked and
    recorded it."""

    caller: Caller
    console: Console
    request: Request
    large: LargeRequests
    request_id: str | None = None
    first_at: datetime | None = None
    thread: Executor | None = None
    is_revealed: bool = False

    @property
    def viewer(self) -> Caller:
        """The caller, as records are shown to it."""
        return self.caller if self.is_revealed else self.caller.masked

    async def compute(self, work: Callable[[], T]) -> T:
        """On the event loop; in a thread if the request is large, so that other requests do not wait."""
        return work() if self.thread is None else await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def compute_apart(self, size: int, work: Callable[[], T]) -> T:
        """In a thread, for an answer of so many bytes. If it is large, it waits until there is room for it."""
        if size <= LARGE_ANSWER:
            return await asyncio.to_thread(work)
        async with self.large.admit(size):
            return await asyncio.get_running_loop().run_in_executor(self.large.thread, work)


@dataclass(frozen=True, slots=True)
class One:
    """The document of one record. A handler that adds fields to it returns the document itself."""

    record: type

    def render(self, found: Any) -> Document:
        return found if isinstance(found, dict) else document_of(found)

    @property
    def type(self) -> Any:
        return document_type(self.record)


@dataclass(frozen=True, slots=True)
class Many:
    """A list of records under a name: `{"services": […]}`. With `pages`, the handler returns the list and a cursor."""

    name: str
    record: type
    pages: bool = False

    def render(self, found: Any) -> Document:
        records, cursor = found if self.pages else (found, None)
        listed = {self.name: [document_of(record) for record in records]}
        return listed | {"cursor": cursor} if self.pages else listed

    @property
    def type(self) -> Any:
        return _list_type(self.name, self.record, pages=self.pages)


@cache
def _list_type(name: str, record: type, *, pages: bool) -> Any:
    item: Any = document_type(record)
    fields: list[Any] = [(name, list[item])]
    fields += [("cursor", str | None)] if pages else []
    return msgspec.defstruct(f"{record.__name__}{'Page' if pages else 'List'}", fields, kw_only=True)


@dataclass(frozen=True, slots=True)
class Text:
    """Anything but a JSON document: the handler returns a Response with one of these media types."""

    media_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Messages:
    """Server-sent events: the `data` of each is the document of one of these records."""

    records: tuple[type, ...]

    @property
    def types(self) -> tuple[Any, ...]:
        return tuple(map(document_type, self.records))


Answer = One | Many | Text | Messages | None
"""None: no content, status 204. A handler may also return a Response of its own."""


@dataclass(frozen=True, slots=True)
class Route:
    """`scope` is what the caller's key must allow; None: no key is needed. `is_admin`: only an administrator's key."""

    method: str
    path: str
    handler: Handler
    _: KW_ONLY
    group: str
    scope: Scope | None
    is_admin: bool = False
    answer: Answer = None
    status: int = 200
    errors: tuple[type[MulliganError], ...] = ()
    problems: tuple[tuple[int, str], ...] = ()
    """Status and code of problems that only this route has."""
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    prefix: str = PREFIX
    without_key: WithoutKey | None = None
    """Which requests are answered without a key; None: none is. A key that is given is checked in any case."""

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def pattern(self) -> str:
        """The whole path, for dispatch."""
        return self.prefix + self.path

    @property
    def template(self) -> str:
        """The whole path, for people: `/api/v1/services/{name}/open`."""
        return _PARAMETER.sub(r"{\1}", self.pattern)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters in its path."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def is_change(self) -> bool:
        return self.method not in ("GET", "HEAD")

    def reveals(self, request: Request) -> bool:
        """Whether the request asks for the secrets in arguments and results."""
        if self.query is None or REVEAL not in self.query.__struct_fields__:
            return False
        return request.query_params.get(REVEAL, "").lower() in ("true", "1")

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)


@dataclass(slots=True)
class Routes:
    """The routes of one group, in the order of their declaration."""

    group: str
    prefix: str = PREFIX
    declared: list[Route] = field(default_factory=list)

    def get(self, path: str, **terms: Any) -> Callable[[Handler], Handler]:
        return self._add("GET", path, **terms)

    def post(self, path: str, **terms: Any) -> Callable[[Handler], Handler]:
        return self._add("POST", path, **terms)

    def put(self, path: str, **terms: Any) -> Callable[[Handler], Handler]:
        return self._add("PUT", path, **terms)

    def delete(self, path: str, **terms: Any) -> Callable[[Handler], Handler]:
        return self._add("DELETE", path, **terms)

    def _add(
        self,
        method: str,
        path: str,
        *,
        scope: Scope | None,
        is_admin: bool = False,
        answer: Answer = None,
        status: int | None = None,
        errors: Sequence[type[MulliganError]] = (),
        problems: Sequence[tuple[int, str]] = (),
        query: Any = None,
        body: Any = None,
        without_key: WithoutKey | None = None,
    ) -> Callable[[Handler], Handler]:
        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler)
            self.declared.append(
                Route(
                    method,
                    path,
                    handler,
                    group=self.group,
                    scope=scope,
                    is_admin=is_admin,
                    answer=answer,
                    status=status or (200 if answer else 204),
                    errors=tuple(errors),
                    problems=tuple(problems),
                    query=query or hints.get("query"),
                    body=body or hints.get("body"),
                    prefix=self.prefix,
                    without_key=without_key,
                )
            )
            return handler

        return declare


def collect(groups: Iterable[Routes]) -> list[Route]:
    return [route for group in groups for route in group.declared]


__all__ = ["PREFIX", "Answer", "Call", "Many", "Messages", "One", "Response", "Route", "Routes", "Text", "collect"]
