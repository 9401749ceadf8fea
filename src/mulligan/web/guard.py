"""Around every request: refuse what is too large before anything reads it, and add the headers of every answer."""

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mulligan.web.problems import Problem, respond

MOST_HEADERS = 100
LARGEST_HEADERS = 32 * 1024
LONGEST_PATH = 4 * 1024
LONGEST_QUERY = 16 * 1024

HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    # Answers are private to their caller.
    "Cache-Control": "no-store",
}


class Guard:
    """Wraps the application. A header that an answer has itself stays."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if problem := _find_problem(scope):
            await respond(problem)(scope, receive, send_guarded)
        else:
            # Parameters in the path of a mount are of the application outside: handlers here get their own only.
            await self._application({**scope, "path_params": {}}, receive, send_guarded)


def _find_problem(scope: Scope) -> Problem | None:
    headers = scope["headers"]
    if len(headers) > MOST_HEADERS or sum(len(name) + len(value) for name, value in headers) > LARGEST_HEADERS:
        allowed = f"at most {MOST_HEADERS} headers and {LARGEST_HEADERS:,} bytes of them"
        return Problem(431, "HEADERS_TOO_LARGE", f"a request has {allowed}")
    if len(scope["path"]) > LONGEST_PATH or len(scope["query_string"]) > LONGEST_QUERY:
        allowed = f"a path of at most {LONGEST_PATH:,} characters and a query of at most {LONGEST_QUERY:,}"
        return Problem(414, "URL_TOO_LONG", f"a request has {allowed}")
    return None


def not_found(request: Request) -> Problem:
    return Problem(404, "NOT_FOUND", f"there is no {request.method} {request.url.path:.200}")
