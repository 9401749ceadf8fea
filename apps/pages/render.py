"""Render templates: those of the application, then the common ones. Stylesheet and scripts are the dashboard's."""

from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from apps.pages.csrf import FIELD, token_of
from apps.pages.flash import take_flashes
from mulligan import web

COMMON = Path(__file__).with_name("templates")
STATIC = Path(__file__).with_name("static")
DASHBOARD = Path(str(files("mulligan.web.pages")))


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> Response:
    """A page with what every page has around its content."""
    environment: Environment = request.app.state.templates
    text = environment.get_template(template).render({**_around(request), **values})
    return HTMLResponse(text, status, {"Cache-Control": "no-store"})


def environment(folder: Path) -> Environment:
    # Of the dashboard's templates, the signs are used.
    found = Environment(
        loader=FileSystemLoader([folder / "templates", COMMON, DASHBOARD / "templates"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    found.filters.update(ago=ago, countdown=countdown, exact=exact, number=number, size=size, plural=plural)
    return found


def _around(request: Request) -> dict[str, Any]:
    site = request.app.state.site
    root = request.scope.get("root_path", "")
    path = request.url.path.removeprefix(root) or "/"

    def csrf() -> Markup:
        """The hidden field that each form has."""
        return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, token_of(request))

    return {
        "url": lambda target: f"{root}{target}",
        "dashboard": lambda name: f"{root}/ops/static/{name}?{_version(DASHBOARD / 'static' / name)}",
        "common": lambda name: f"{root}/common/{name}?{_version(STATIC / name)}",
        "static": lambda name: f"{root}/static/{name}?{_version(site.folder / 'static' / name)}",
        "csrf": csrf,
        "csrf_token": lambda: token_of(request),
        "site": site,
        "path": path,
        "address": str(request.url.replace(scheme="", netloc="")),
        "account": site.account(request),
        "is_admin": site.is_admin(request),
        "flashes": take_flashes(request),
        "position": site.position(request),
        "now": site.now(),
    }


@cache
def _version(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:12]


# Filters


@pass_context
def ago(context: Context, moment: datetime | None) -> Markup:
    """A relative time, with the exact one on hover."""
    return Markup() if moment is None else web.time_tag(moment, web.ago(moment, context["now"]))


@pass_context
def countdown(context: Context, moment: datetime) -> Markup:
    """How long it is until then. It goes on by itself."""
    return web.countdown_tag(moment, context["now"])


def exact(moment: datetime | None) -> Markup:
    return Markup() if moment is None else web.time_tag(moment, web.exact(moment))


def number(value: int) -> str:
    return f"{value:,}"


def size(value: int) -> str:
    amount, units = float(value), ["B", "KiB", "MiB", "GiB"]
    while amount >= 1_024 and len(units) > 1:
        amount, units = amount / 1_024, units[1:]
    return f"{amount:.0f} {units[0]}" if units[0] == "B" else f"{amount:.1f} {units[0]}"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
