"""Forms of other sites are refused: by the headers that browsers add themselves, and by a token of the session."""

import secrets
from hmac import compare_digest
from urllib.parse import urlsplit

from starlette.requests import Request

FIELD = "csrf"
SAFE = ("GET", "HEAD", "OPTIONS")


class ForeignForm(Exception):
    pass


def token_of(request: Request) -> str:
    """The token of this session, which each of its forms carries."""
    if FIELD not in request.session:
        request.session[FIELD] = secrets.token_urlsafe(16)
    return str(request.session[FIELD])


def check_token(request: Request, given: str) -> None:
    expected = str(request.session.get(FIELD, ""))
    if not expected or not compare_digest(expected.encode(), given.encode("utf-8", "replace")):
        raise ForeignForm


def check_origin(request: Request) -> None:
    """A program sends neither header, and has no cookie that another site could use."""
    site, origin = (request.headers.get(name) for name in ("sec-fetch-site", "origin"))
    if site not in (None, "same-origin", "none"):
        raise ForeignForm
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise ForeignForm
