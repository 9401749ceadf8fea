"""The API under /api/v1: captures for owners, schedulers and stuck jobs for operators."""

from typing import Annotated, Any

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Route

from apps.screenshots.access import Caller, Refusal, require_caller, require_operator
from apps.screenshots.app import COSTS, Screenshots
from apps.screenshots.captures import Captures, Order
from apps.screenshots.words import FORMATS, describe
from mulligan import Job, State

LARGEST_BODY = 2**16
LONGEST_KEY = 200
PAGE_SIZE, LARGEST_PAGE = 50, 100
MEDIA = {"PNG": "image/png", "PDF": "application/pdf"}
LARGEST_GRANT = 10**6
OF_ENGINE = ("workers/status", "jobs/process-stuck", "retry-scheduler/pause", "retry-scheduler/resume")


class View(msgspec.Struct, forbid_unknown_fields=True):
    width: int = 1_280
    height: int = 800


class Submission(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    url: Annotated[str, msgspec.Meta(min_length=1, max_length=2_000)]
    format: str = "PNG"
    viewport: View = msgspec.field(default_factory=View)
    fullPage: bool = False  # noqa: N815


class RetryRequest(msgspec.Struct, kw_only=True):
    """`requestedBy` is accepted; who asks is known from the key."""

    requestedBy: str | None = None  # noqa: N815


class Grant(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    owner: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    amount: Annotated[int, msgspec.Meta(ge=1, le=LARGEST_GRANT)]


class Api:
    def __init__(self, screenshots: Screenshots) -> None:
        self._all = screenshots
        self._captures = Captures(screenshots)

    def routes(self) -> list[BaseRoute]:
        one = "/api/v1/screenshots/{job_id}"
        return [
            Route("/api/v1/screenshots", self.submit, methods=["POST"]),
            Route("/api/v1/screenshots", self.list, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(f"{one}/result", self.result, methods=["GET"]),
            Route(f"{one}/retry", self.retry, methods=["POST"]),
            Route(f"{one}/cancel", self.cancel, methods=["POST"]),
            Route("/api/v1/credits", self.credits, methods=["GET"]),
            Route("/api/v1/admin/credits", self.grant, methods=["POST"]),
            Route("/api/v1/admin/jobs/stuck", self.stuck, methods=["GET", "POST"]),
            # The engine's own routes, with its keys, its limits and its audit.
            *(Route(f"/api/v1/admin/{path}", self._all.app.asgi()) for path in OF_ENGINE),
        ]

    async def submit(self, request: Request) -> Response:
        body = await read_body(request, Submission)
        caller = await run_in_threadpool(require_caller, request, "jobs:enqueue")
        order = Order(
            url=body.url,
            format=body.format,
            width=body.viewport.width,
            height=body.viewport.height,
            full_page=body.fullPage,
        )
        job = await run_in_threadpool(self._captures.submit, caller, order, key=_idempotency_key(request))
        return JSONResponse(_described(job), 202, {"Location": f"/api/v1/screenshots/{job.id}"})

    def list(self, request: Request) -> Response:
        caller = require_caller(request, "jobs:read")
        cursor = request.query_params.get("cursor")
        page = self._captures.list(caller, limit=_limit(request), cursor=cursor)
        return JSONResponse({"screenshots": [_described(job) for job in page.jobs], "cursor": page.cursor})

    def show(self, request: Request) -> Response:
        return JSONResponse(_described(self._find(request, "jobs:read")))

    def result(self, request: Request) -> Response:
        job = self._find(request, "jobs:read")
        if job.state is not State.SUCCEEDED:
            raise Refusal(409, "NOT_READY", "The capture is not finished.")
        path = self._all.results.find(job.result["file"]) if job.result else None
        if path is None:
            raise Refusal(404, "EXPIRED", "The file was removed. Submit the page again.")
        kind = FORMATS[job.kind]
        return FileResponse(
            path,
            media_type=MEDIA[kind],
            filename=f"{job.id}.{kind.lower()}",
            content_disposition_type="inline" if kind == "PNG" else "attachment",
            headers={"Cache-Control": "private, no-store"},
        )

    async def retry(self, request: Request) -> Response:
        await read_body(request, RetryRequest, or_empty=True)
        caller = await run_in_threadpool(require_caller, request, "jobs:retry")
        job = await run_in_threadpool(self._captures.retry, caller, request.path_params["job_id"])
        position = await run_in_threadpool(self._captures.position, job)
        # None: a worker has taken it in the meantime.
        answer = {"jobId": job.id, "message": "Job queued for manual retry", "queuePosition": position or 1}
        return JSONResponse(answer)

    def cancel(self, request: Request) -> Response:
        caller = require_caller(request, "jobs:cancel")
        return JSONResponse(_described(self._captures.cancel(caller, request.path_params["job_id"])))

    def credits(self, request: Request) -> Response:
        caller = require_caller(request, "jobs:read")
        with self._all.database.read() as connection:
            balance = self._all.credits.balance(connection, caller.owner)
        return JSONResponse(
            {"availableCredits": balance, "costs": {FORMATS[kind]: cost for kind, cost in COSTS.items()}}
        )

    # For operators

    async def grant(self, request: Request) -> Response:
        await run_in_threadpool(require_operator, request, "operate")
        body = await read_body(request, Grant)
        balance = await run_in_threadpool(self.give, body.owner, body.amount)
        return JSONResponse({"owner": body.owner, "availableCredits": balance})

    def give(self, owner: str, amount: int) -> int:
        with self._all.database.transaction() as connection:
            return self._all.credits.grant(connection, owner, amount)

    def stuck(self, request: Request) -> Response:
        """The list of stuck jobs, by POST too. To take them from their workers: POST …/jobs/process-stuck."""
        require_operator(request, "jobs:read")
        found = self._all.app.stuck(limit=LARGEST_PAGE)
        return JSONResponse({"jobs": [_described(job) for job in found if job.kind in COSTS]})

    def _find(self, request: Request, scope: str) -> Job[Any]:
        caller: Caller = require_caller(request, scope)
        return self._captures.find(caller, request.path_params["job_id"])


async def read_body(request: Request, kind: Any, *, or_empty: bool = False) -> Any:
    """The JSON of a request, checked. Raises Refusal."""
    pieces, size = [], 0
    async for piece in request.stream():
        size += len(piece)
        if size > LARGEST_BODY:
            raise Refusal(413, "TOO_LARGE", f"A request has at most {LARGEST_BODY:,} bytes.")
        pieces.append(piece)
    try:
        return msgspec.json.decode(b"".join(pieces) or (b"{}" if or_empty else b""), type=kind)
    except msgspec.DecodeError as error:
        raise Refusal(400, "VALIDATION_ERROR", str(error)[:300]) from None


def _described(job: Job[Any]) -> dict[str, Any]:
    return describe(job, cost=COSTS[job.kind])


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key", "").strip()
    if len(key) > LONGEST_KEY or not key.isprintable():
        raise Refusal(400, "VALIDATION_ERROR", f"Idempotency-Key has at most {LONGEST_KEY} printable characters.")
    return key or None


def _limit(request: Request) -> int:
    text = request.query_params.get("limit", str(PAGE_SIZE))
    if not (len(text) < 10 and text.isascii() and text.isdecimal() and 1 <= int(text) <= LARGEST_PAGE):
        raise Refusal(400, "VALIDATION_ERROR", f"limit must be an integer from 1 to {LARGEST_PAGE}")
    return int(text)
