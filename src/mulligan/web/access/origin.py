"""Where a form was sent from."""

from urllib.parse import urlsplit

from starlette.requests import Request


def is_same_origin(request: Request) -> bool:
    """Whether a request that changes something was sent by a page of this server, or by a program. Browsers add the
    headers that say so themselves; a program sends neither, and has no cookie that another site could use."""
    site, origin = (request.headers.get(name) for name in ("sec-fetch-site", "origin"))
    return site in (None, "same-origin", "none") and (
        origin is None or urlsplit(origin).netloc == request.headers.get("host")
    )
