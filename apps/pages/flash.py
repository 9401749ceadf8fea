"""A message that the next page shows once."""

from typing import Literal

from starlette.requests import Request

_KEY = "flash"
MOST, LONGEST = 5, 500


def flash(request: Request, message: str, tone: Literal["succeeded", "failed"] = "succeeded") -> None:
    waiting = [*request.session.get(_KEY, []), [tone, message[:LONGEST]]]
    request.session[_KEY] = waiting[-MOST:]


def take_flashes(request: Request) -> list[list[str]]:
    # A live page reads itself again: the message stays with the page that a person loads.
    if "hx-request" in request.headers or "session" not in request.scope:
        return []
    found: list[list[str]] = request.session.pop(_KEY, [])
    return found
