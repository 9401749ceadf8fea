"""Who may read the metrics: programs on this machine, and those with an administrator's key."""

from ipaddress import ip_address

from starlette.requests import Request

from apps.pages.problems import Problem
from mulligan import App, MulliganError

FORWARDED = ("x-forwarded-for", "forwarded", "x-real-ip")


def require_reader(app: App, request: Request) -> None:
    """Raises Problem. A request that came through a proxy counts as one from elsewhere."""
    if _is_local(request) or _has_key(app, request):
        return
    raise Problem(401, "FORBIDDEN", "The metrics need an administrator's key.")


def _is_local(request: Request) -> bool:
    if request.client is None or any(name in request.headers for name in FORWARDED):
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False


def _has_key(app: App, request: Request) -> bool:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    try:
        return scheme.lower() == "bearer" and app.find_key(token.strip()).owner is None
    except MulliganError:
        return False
