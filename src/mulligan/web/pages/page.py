"""A page or an action of the dashboard: one declaration for dispatch, access and tests.

    pages = Pages("Jobs")

    @pages.page("/jobs/{job_id}", scope=Scope.JOBS_READ)
    def job(call: PageCall, job_id: str) -> View:
        return View("job.html", job=call.console.job(job_id))

    @pages.action("/jobs/{job_id}/cancel", scope=Scope.JOBS_CANCEL)
    def cancel(call: PageCall, job_id: str, form: WithReason) -> Done:
        call.console.cancel(job_id, reason=form.reason, request_id=call.request_id)
        return Done(f"/jobs/{job_id}", "The job is cancelled.")

A handler gets the call and the parameters of its path. If it has a parameter `query` or `form`, annotated with a
msgspec Struct, it gets the query parameters or the fields of the form. Handlers run in a thread.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
from starlette.requests import Request

from mulligan.records.key import Scope
from mulligan.web.access.caller import Caller
from mulligan.web.access.console import Console
from mulligan.web.pages.menu import Item
from mulligan.web.visible import visible

Handler = Callable[..., Any]
Decorator = Callable[[Handler], Handler]
SEE_OTHER = 303


class View:
    """A template with its values."""

    def __init__(self, template: str, /, status: int = 200, **values: Any) -> None:
        self.template, self.status, self.values = template, status, values


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did. The browser goes on to `path`, and the page there shows the message."""

    path: str
    message: str
    detail: str = ""
    tone: str = "succeeded"
    link: str = ""
    """A page that helps on, such as that of another job."""


class SeenConsole:
    """The verbs of a caller. What they return is as the caller may see it."""

    def __init__(self, console: Console, caller: Caller) -> None:
        self._console, self._caller = console, caller

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        call = getattr(self._console, verb)

        def see(*args: Any, **kwargs: Any) -> Any:
            return visible(call(*args, **kwargs), self._caller)

        return see

    @property
    def now(self) -> datetime:
        return self._console.now


@dataclass(frozen=True, slots=True)
class PageCall:
    """What a handler knows of its request. Arguments and results are masked; `reveal` is for the action that shows
    them. `request_id` makes an action repeatable: it comes from the form."""

    caller: Caller
    request: Request
    bound: Console
    request_id: str | None = None

    @property
    def console(self) -> SeenConsole:
        return SeenConsole(self.bound, self.caller.masked)

    @property
    def reveal(self) -> SeenConsole:
        return SeenConsole(self.bound, self.caller)

    def allows(self, scope: Scope) -> bool:
        return scope in self.caller.scopes

    @property
    def now(self) -> datetime:
        return self.bound.now


@dataclass(frozen=True, slots=True)
class Page:
    """`scope` is what the caller's key must allow. `is_admin`: only an administrator's key."""

    method: str
    path: str
    handler: Handler
    _: KW_ONLY
    group: str
    scope: Scope
    is_admin: bool = False
    query: type[msgspec.Struct] | None = None
    form: type[msgspec.Struct] | None = None

    @property
    def name(self) -> str:
        return self.handler.__name__

    @property
    def is_change(self) -> bool:
        return self.method == "POST"

    @property
    def status(self) -> int:
        return SEE_OTHER if self.is_change else 200


@dataclass(slots=True)
class Pages:
    """The pages and actions of one group, in the order of their declaration. A group that is given to `asgi` may have a
    folder of templates and an item of the menu."""

    group: str
    declared: list[Page] = field(default_factory=list)
    templates: Path | None = None
    menu: Item | None = None

    def page(self, path: str, *, scope: Scope, is_admin: bool = False, query: Any = None) -> Decorator:
        """A page: it changes nothing."""
        return self._add("GET", path, scope=scope, is_admin=is_admin, query=query)

    def action(self, path: str, *, scope: Scope, is_admin: bool = False, form: Any = None) -> Decorator:
        """The target of a form. It is recorded in the audit."""
        return self._add("POST", path, scope=scope, is_admin=is_admin, form=form)

    def _add(
        self, method: str, path: str, *, scope: Scope, is_admin: bool, query: Any = None, form: Any = None
    ) -> Decorator:
        def declare(handler: Handler) -> Handler:
            hints = get_type_hints(handler)
            page = Page(
                method,
                path,
                handler,
                group=self.group,
                scope=scope,
                is_admin=is_admin,
                query=query or hints.get("query"),
                form=form or hints.get("form"),
            )
            self.declared.append(page)
            return handler

        return declare


class WithReason(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The form of an action that takes nothing but a reason."""

    reason: str | None = None
