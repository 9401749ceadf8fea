"""The links that recipients get: a page with the name of the video, and the video itself."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from apps.pages.forms import read_form
from apps.pages.problems import Problem
from apps.pages.render import page
from apps.watermark.app import Watermark
from apps.watermark.campaigns import Campaign, Token
from apps.watermark.status import TokenStatus

REFUSALS = {
    TokenStatus.PENDING: (409, "NOT_READY", "This video is not ready yet."),
    TokenStatus.PROCESSING: (409, "NOT_READY", "This video is not ready yet."),
    TokenStatus.FAILED: (409, "NOT_READY", "This video is not ready yet."),
    TokenStatus.CONSUMED: (410, "CONSUMED", "This link has been used up."),
    TokenStatus.EXPIRED: (410, "EXPIRED", "This link has expired."),
}


class DownloadPages:
    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def routes(self) -> list[Route]:
        return [
            Route("/downloads/{link}", self.show, methods=["GET"]),
            Route("/downloads/{link}", self.download, methods=["POST"]),
        ]

    def show(self, request: Request) -> Response:
        """Looking does not count: programs that preview links would use them up."""
        campaign, token = self._find(request)
        left = None if campaign.max_downloads is None else campaign.max_downloads - token.downloads
        size = self._watermark.files.marked(campaign.account, campaign.id, token.id).stat().st_size
        return page(request, "download.html", campaign=campaign, token=token, left=left, video_size=size)

    async def download(self, request: Request) -> Response:
        await read_form(request)
        return await asyncio.to_thread(self._download, request)

    def _download(self, request: Request) -> Response:
        campaign, token = self._find(request)
        if not self._watermark.campaigns.count_download(token, campaign.max_downloads):
            raise _refusal(TokenStatus.CONSUMED)
        path = self._watermark.files.marked(campaign.account, campaign.id, token.id)
        headers = {"Cache-Control": "no-store"}
        return FileResponse(path, filename=f"{campaign.name}.mp4", media_type="video/mp4", headers=headers)

    def _find(self, request: Request) -> tuple[Campaign, Token]:
        """Only of a link that can be used. Every other one is a Problem."""
        watermark = self._watermark
        token = watermark.campaigns.token_of_link(request.path_params["link"])
        campaign = None if token is None else watermark.campaigns.get(token.campaign)
        if token is None or campaign is None:
            raise Problem(404, "NOT_FOUND", "There is no such link.")
        status = watermark.publishing.view_token(campaign, token).status
        if campaign.is_over(datetime.now(UTC)):
            status = TokenStatus.EXPIRED
        if status is not TokenStatus.ACTIVE:
            raise _refusal(status)
        if not watermark.files.marked(campaign.account, campaign.id, token.id).is_file():
            raise Problem(404, "NOT_FOUND", "This video is gone. Ask its sender for it.")
        return campaign, token


def _refusal(status: Any) -> Problem:
    return Problem(*REFUSALS[status])
