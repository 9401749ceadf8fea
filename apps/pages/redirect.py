"""Send a browser to another page of the application."""

from starlette.requests import Request
from starlette.responses import RedirectResponse

SEE_OTHER = 303


def redirect(request: Request, path: str) -> RedirectResponse:
    """With GET, also after a form. The application may be served below a path of another one."""
    return RedirectResponse(request.scope.get("root_path", "") + path, SEE_OTHER)
