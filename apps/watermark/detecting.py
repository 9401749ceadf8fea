"""The pages of detection: whose copy is this?"""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from apps.pages.accounts import require_account
from apps.pages.forms import Upload
from apps.pages.problems import Problem
from apps.pages.render import page
from apps.watermark.app import Watermark
from apps.watermark.detections import Detection, new_id
from apps.watermark.mark import THRESHOLD
from apps.watermark.uploads import kept, read_video
from mulligan import Job, JobNotFound

SEE_OTHER = 303


class DetectionPages:
    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def routes(self) -> list[Route]:
        return [
            Route("/detections", self.list_detections, methods=["GET"]),
            Route("/detections", self.create, methods=["POST"]),
            Route("/detections/{id}", self.show, methods=["GET"]),
        ]

    def list_detections(self, request: Request) -> Response:
        account = require_account(request)
        request.state.position = self._watermark.app.last_position()
        found = self._watermark.detections.of_account(account.id)
        published = [each for each in self._watermark.campaigns.of_account(account.id) if each.batch is not None]
        return page(
            request,
            "detections.html",
            detections=[self._view(each) for each in found],
            campaigns=published,
            limit=self._watermark.options.largest_upload,
        )

    async def create(self, request: Request) -> Response:
        account = await asyncio.to_thread(require_account, request)
        upload = await read_video(request, self._watermark)
        try:
            detection = await asyncio.to_thread(self._create, account.id, upload)
        finally:
            upload.path.unlink(missing_ok=True)
        return RedirectResponse(f"{request.scope.get('root_path', '')}/detections/{detection.id}", SEE_OTHER)

    def _create(self, account: str, upload: Upload) -> Detection:
        watermark, detection = self._watermark, new_id()
        campaign = upload.fields.get("campaign") or None
        if campaign is not None and watermark.campaigns.find(campaign, account) is None:
            raise Problem(404, "NOT_FOUND", "There is no such campaign.")
        if not upload.size:
            raise Problem(400, "VALIDATION_ERROR", "Choose a video: this file is empty.")

        def enqueue(connection: Any) -> str:
            # The key keeps the job, and with it the result, for as long as the detection is listed.
            submission = watermark.detect.options(
                owner=account, connection=connection, dedupe=detection, dedupe_scope="succeeded"
            )
            return str(submission.enqueue(detection).id)

        with kept(watermark, upload, watermark.files.suspect(account, detection)):
            return watermark.detections.create(
                detection, account=account, campaign=campaign, video_name=upload.name, enqueue=enqueue
            )

    def show(self, request: Request) -> Response:
        account = require_account(request)
        request.state.position = self._watermark.app.last_position()
        detection = self._watermark.detections.find(request.path_params["id"], account.id)
        if detection is None:
            raise Problem(404, "NOT_FOUND", "There is no such detection.")
        return page(request, "detection.html", **self._view(detection), threshold=THRESHOLD)

    def _view(self, detection: Detection) -> dict[str, Any]:
        job = self._job(detection)
        result = job.result if job is not None and job.state == "succeeded" else None
        tokens = {} if result is None else self._names([score["token"] for score in result["scores"]])
        return {"detection": detection, "job": job, "result": result, "tokens": tokens}

    def _names(self, token_ids: list[str]) -> dict[str, tuple[Any, Any]]:
        """Each token with its campaign. One that was deleted since is missing."""
        campaigns = self._watermark.campaigns
        tokens = [token for token_id in token_ids if (token := campaigns.token(token_id)) is not None]
        return {token.id: (token, campaigns.get(token.campaign)) for token in tokens}

    def _job(self, detection: Detection) -> Job[Any] | None:
        try:
            return self._watermark.app.job(detection.job, owner=detection.account)
        except JobNotFound:
            return None
