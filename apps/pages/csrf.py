"""Forms of other sites are refused: by the headers that browsers add themselves, and by a token of the session."""

import secrets
from hmac import compare_digest

from starlette.requests import Request

from mulligan.web import is_same_origin

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
    if not is_same_origin(request):
        raise ForeignForm
