"""What a page hears over SSE: `token_failed` when no retry follows, and `token_progress` while a video is made."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from apps.pages.live import HEADERS, Message, stream
from apps.watermark.app import Watermark
from apps.watermark.campaigns import Campaign, Token
from mulligan import Event, JobFilter, StoreUnavailable

FAILED, PROGRESS = "token_failed", "token_progress"
LOOK_EVERY = 1.0
MOST_RUNNING = 100


def to_failure(event: Event, token_id: str) -> Message | None:
    """The engine writes `job.failed` only if no retry follows."""
    if event.type != "job.failed":
        return None
    return FAILED, {"token_id": token_id, "error": str(event.data.get("message") or "")}


def follow_token(request: Request, campaign: Campaign, token: Token) -> Response:
    """The channel of one token."""
    return stream(request, lambda event: to_failure(event, token.id), owner=campaign.account, job=token.job)


class CampaignStream:
    """The channel of a campaign: the failures of all its tokens, and how far the running ones are."""

    def __init__(self, watermark: Watermark, campaign: Campaign) -> None:
        self._watermark, self._campaign = watermark, campaign

    def response(self, request: Request) -> Response:
        campaign = self._campaign
        failures = stream(request, self._to_message, owner=campaign.account, batch=campaign.batch)
        return StreamingResponse(
            _merge(failures.body_iterator, self._progress()), media_type="text/event-stream", headers=HEADERS
        )

    def _to_message(self, event: Event) -> Message | None:
        token = self._watermark.campaigns.token_of_job(event.job) if event.type == "job.failed" else None
        return None if token is None else to_failure(event, token.id)

    async def _progress(self) -> AsyncIterator[str]:
        """Progress is no event of the log: it is looked at while something runs."""
        told: dict[str, int] = {}
        while True:
            try:
                running = await asyncio.to_thread(self._running)
            except StoreUnavailable:
                # The stream stays, and goes on when the database is back.
                running = told
            for token, percent in running.items():
                if told.get(token) != percent:
                    yield f"event: {PROGRESS}\ndata: {json.dumps({'token_id': token, 'percent': percent})}\n\n"
            told = running
            await asyncio.sleep(LOOK_EVERY)

    def _running(self) -> dict[str, int]:
        wanted = JobFilter(batch=self._campaign.batch, state="running")
        jobs = self._watermark.app.jobs(wanted, owner=self._campaign.account, limit=MOST_RUNNING).jobs
        return {str(job.arguments["token"]): int(job.progress * 100) for job in jobs}


async def _merge(*sources: Any) -> AsyncIterator[Any]:
    """Whatever comes first. When the client leaves, all end."""
    queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=1)

    async def forward(source: Any) -> None:
        async for item in source:
            await queue.put(item)

    tasks = [asyncio.create_task(forward(source)) for source in sources]
    try:
        while True:
            yield await queue.get()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
