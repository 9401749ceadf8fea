"""What cannot be done, with its status and code: JSON for programs, a page for people."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from apps.pages.render import page


class Problem(Exception):
    """`fields` are what the code needs besides, such as `requiredCredits`."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: dict[str, str] | None = None, **fields: Any
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.fields = status, code, message, fields
        self.headers = headers or {}


class Elsewhere(Exception):
    """The person has to go to another page first."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


def respond(request: Request, problem: Problem) -> Response:
    code = request.app.state.site.code(problem.code)
    if _is_for_program(request):
        body = {"status": problem.status, "code": code, "message": problem.message, **problem.fields}
        return JSONResponse(body, problem.status, problem.headers, media_type="application/problem+json")
    response = page(request, "problem.html", status=problem.status, code=code, message=problem.message)
    response.headers.update(problem.headers)
    return response


def _is_for_program(request: Request) -> bool:
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    return path.startswith("/api/") or "text/html" not in request.headers.get("accept", "text/html")
