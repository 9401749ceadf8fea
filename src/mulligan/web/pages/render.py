"""Render templates: the environment with its filters, and what every page has around its content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response

from mulligan.app import App
from mulligan.web.access.sessions import Visitor, cookie_name
from mulligan.web.pages import words
from mulligan.web.pages.menu import Menu
from mulligan.web.pages.static import StaticFiles

TEMPLATES = Path(__file__).with_name("templates")
# What a person chooses for every page: the use of its cookie, and its values. The first one holds without a cookie.
CHOICES = {"scheme": ("auto", "light", "dark"), "letters": ("on", "off")}
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What the last action did, shown on the page that comes next."""

    message: str
    detail: str = ""
    tone: str = "succeeded"
    link: str = ""


@dataclass(slots=True)
class Renderer:
    """Renders the pages of one app."""

    app: App
    static: StaticFiles
    menu: Menu
    more_templates: Sequence[Path] = ()
    _environment: Environment = field(init=False)

    def __post_init__(self) -> None:
        self._environment = _environment([TEMPLATES, *self.more_templates])

    def page(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        *,
        status: int = 200,
        visitor: Visitor | None = None,
        answer: Answer | None = None,
        headers: Mapping[str, str] | None = None,
        position: int = 0,
        back: str = "",
    ) -> Response:
        """`position` is the end of the log before the values were read; `back`, for the answer to a form, is the page
        that has the form."""
        around = {**self._around(request, visitor, answer), "position": position}
        if request.method == "POST":
            # Its own address answers forms only, and what it shows is shown once.
            around |= {"address": back or around["url"]("/"), "is_shown_once": True}
        text = self._environment.get_template(template).render({**around, **values})
        return Response(text, status_code=status, media_type="text/html", headers={**HEADERS, **(headers or {})})

    def _around(self, request: Request, visitor: Visitor | None, answer: Answer | None) -> dict[str, Any]:
        root = request.scope.get("root_path", "")
        now = self.app.wiring.clock().now()
        path = request.url.path.removeprefix(root) or "/"

        def url(target: str) -> str:
            return f"{root}{target}"

        def at(moment: datetime | None) -> Markup:
            """A relative time."""
            return words.time_tag(moment, "" if moment is None else words.ago(moment, now))

        def on(moment: datetime | None) -> Markup:
            """A time of day."""
            return words.time_tag(moment, "" if moment is None else words.clock_time(moment, now))

        def countdown(moment: datetime) -> Markup:
            """How long it is until then."""
            return words.countdown_tag(moment, now)

        return {
            **{use: chosen(request, use) for use in CHOICES},
            "url": url,
            "static": lambda name: url(self.static.path(name)),
            "at": at,
            "on": on,
            "countdown": countdown,
            "now": now,
            "path": path,
            "address": str(request.url.replace(scheme="", netloc="")),
            "is_shown_once": False,
            "query": request.url.query,
            "caller": None if visitor is None else visitor.caller,
            "csrf": "" if visitor is None else visitor.csrf,
            # Each form has a name of its own: sent twice, it is carried out once.
            "new_request": self.app.wiring.new_id,
            "menu": [] if visitor is None else self.menu.of(visitor.caller, path),
            "answer": answer,
        }


def chosen(request: Request, use: str) -> str:
    """What the person chose for all pages."""
    given = request.cookies.get(cookie_name(request, use), "")
    return given if given in CHOICES[use] else CHOICES[use][0]


def _environment(folders: Sequence[Path]) -> Environment:
    found = Environment(
        loader=FileSystemLoader(folders),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for name in ("duration", "short_duration", "number", "percent", "short_id", "listing", "exact", "pretty", "plural"):
        found.filters[name] = getattr(words, name)
    return found
