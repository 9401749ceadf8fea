"""The leaderboard as an HTTP server. It keeps its runs in memory."""

import asyncio
import threading
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

from msgspec import ValidationError, json
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from apps.runs.leaderboard.faults import Fault, Faults
from apps.runs.leaderboard.players import Submission

MOST_LISTED = 500
SLOW_SECONDS = 0.05
CHUNK = b"[0," * 20_000


class Board:
    """Submitted runs, in the order in which they arrived. `fetched` are the runs whose replays were asked for, and
    `listed` is how often a list was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        with self._lock:
            self._entries: list[tuple[str, Any]] = []
            self._replays: dict[str, bytes] = {}
            self.fetched: list[str] = []
            self.listed = 0
            self.faults = Faults()

    def submit(self, submission: Submission) -> None:
        claim = submission.claim
        self.add(claim.category, claim, claim.id, json.encode({"actions": submission.actions}))

    def add(self, category: str, entry: Any, run: str, replay: bytes) -> None:
        """Any record and any replay, also such as no honest leaderboard has."""
        with self._lock:
            self._entries.append((category, entry))
            self._replays[run] = replay

    def list_runs(self, category: str, after: int, limit: int) -> tuple[list[Any], int]:
        """The entries of a category after a position, and the position of the last."""
        with self._lock:
            self.listed += 1
            rest = enumerate(self._entries[after:], start=after + 1)
            found = list(islice(((position, entry) for position, (of, entry) in rest if of == category), limit))
            # A list that is not full was read to its end.
            end = found[-1][0] if len(found) == limit else len(self._entries)
            return [entry for _, entry in found], end

    def replay(self, run: str) -> bytes | None:
        with self._lock:
            self.fetched.append(run)
            return self._replays.get(run)

    def categories(self) -> list[str]:
        with self._lock:
            return sorted({category for category, _ in self._entries})


def leaderboard(board: Board) -> Starlette:
    async def categories(_: Request) -> Response:
        return JSONResponse({"categories": board.categories()})

    async def runs(request: Request) -> Response:
        query = request.query_params
        after, limit = int(query.get("after", "0")), min(int(query.get("limit", "100")), MOST_LISTED)
        category = query.get("category", "")
        found, position = board.list_runs(category, after, limit)
        answer = json.encode({"runs": found, "position": position})
        return await _answer(request, board.faults.take("runs", category=category), answer)

    async def replay(request: Request) -> Response:
        run = request.path_params["run"]
        found = board.replay(run)
        if found is None:
            return JSONResponse({"error": "there is no such run"}, 404)
        return await _answer(request, board.faults.take("replay", run=run), found)

    async def submit(request: Request) -> Response:
        try:
            board.submit(json.decode(await request.body(), type=Submission))
        except ValidationError as problem:
            return JSONResponse({"error": str(problem)}, 422)
        return JSONResponse({}, 201)

    async def break_answers(request: Request) -> Response:
        board.faults.add(json.decode(await request.body(), type=Fault))
        return JSONResponse({}, 201)

    async def mend_answers(_: Request) -> Response:
        board.faults.clear()
        return JSONResponse({})

    return Starlette(
        routes=[
            Route("/api/categories", categories),
            Route("/api/runs", runs, methods=["GET"]),
            Route("/api/runs", submit, methods=["POST"]),
            Route("/api/runs/{run}/replay", replay),
            Route("/control/faults", break_answers, methods=["POST"]),
            Route("/control/faults", mend_answers, methods=["DELETE"]),
        ]
    )


async def _answer(request: Request, fault: Fault | None, body: bytes) -> Response:
    media = "application/json"
    headers = {"Retry-After": fault.retry_after} if fault is not None and fault.retry_after is not None else {}
    match fault and fault.kind:
        case None:
            return Response(body, media_type=media)
        case "rate_limited":
            return JSONResponse({"error": "too many requests"}, 429, headers)
        case "broken":
            return JSONResponse({"error": "internal error"}, 500, headers)
        case "silent":
            await _until_gone(request)
            return Response(status_code=504)
        case "slow":
            return StreamingResponse(_drip(request, body), media_type=media)
        case "endless":
            return StreamingResponse(_endless(), media_type=media)
        case "cut":
            return StreamingResponse(_cut(body), media_type=media, headers={"Content-Length": str(len(body))})
        case _:
            return Response(b"\xff\xfe<html>", media_type="text/html")


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _drip(request: Request, body: bytes) -> AsyncIterator[bytes]:
    """A byte now and then: slower than anyone waits."""
    for position in range(len(body)):
        if await request.is_disconnected():
            return
        yield body[position : position + 1]
        await asyncio.sleep(SLOW_SECONDS)


async def _endless() -> AsyncIterator[bytes]:
    while True:
        yield CHUNK
        await asyncio.sleep(0)


async def _cut(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]
    raise ConnectionResetError("cut off on demand")
