"""How often something may be tried from one address, or with one account. The engine counts, for all processes."""

import asyncio
import math

from starlette.requests import Request

from apps.pages.problems import Problem
from mulligan import App, web


async def charge(request: Request, use: str, rate: str, subject: str | None = None, *, what: str = "tries") -> None:
    """Without a `subject`, the address of the request is charged. Raises Problem, which says of `what` there were too
    many, and when to come back."""
    app: App = request.app.state.site.app
    charged = web.client_network(request) if subject is None else subject
    wait = await asyncio.to_thread(web.charge, app, use, rate, charged)
    if wait is not None:
        seconds = max(1, math.ceil(wait.total_seconds()))
        headers = {"Retry-After": str(seconds)}
        message = f"Too many {what}. Come back in {seconds} s."
        raise Problem(429, f"TOO_MANY_{what.upper()}", message, headers=headers)
