"""The pages of the owner: the queue with its upload form, and one conversion with what happened to it."""

from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.problems import Problem
from apps.pages.redirect import redirect
from apps.pages.render import page
from apps.pages.session import session_id
from apps.pdfxml.api import Api, is_id
from apps.pdfxml.codes import too_large
from apps.pdfxml.conversions import list_conversions, list_events

PAGE = 50
BUSY = {
    "hold": "Converter busy — jobs will resume automatically.",
    "fail_fast": "Converter busy — new conversions fail until it is back.",
}


class Pages:
    def __init__(self, api: Api) -> None:
        self.api, self.converter = api, api.converter

    def routes(self) -> list[Route]:
        return [
            Route("/", self.queue),
            Route("/upload", self.upload, methods=["POST"]),
            Route("/conversions/{job}", self.conversion),
            Route("/conversions/{job}/retry", self.retry, methods=["POST"]),
            Route("/conversions/{job}/download", self.api.download),
        ]

    def queue(self, request: Request) -> Response:
        # Before the rows are read: what changes meanwhile is told at once.
        request.state.position = self.converter.app.last_position()
        before = request.query_params.get("before")
        found = list_conversions(
            self.converter, session_id(request), limit=PAGE + 1, before=before if is_id(before) else None
        )
        return page(
            request,
            "queue.html",
            conversions=found[:PAGE],
            following=found[PAGE - 1].id if len(found) > PAGE else None,
            before=before,
            mappings=self.converter.mappings.current(),
            limit=self.converter.settings.largest_upload,
            limit_in_words=self.converter.settings.upload_limit,
            too_large=too_large(self.converter.settings.upload_limit),
            retention=self.converter.settings.retention.days,
            **self._around(),
        )

    def conversion(self, request: Request) -> Response:
        request.state.position = self.converter.app.last_position()
        conversion = self.api.find_own(request)
        events = list_events(self.converter, conversion)
        return page(request, "conversion.html", each=conversion, events=events, **self._around())

    def _around(self) -> dict[str, Any]:
        """What concerns every conversion: the state of the converter, and whether uploads are paused."""
        is_busy = self.api.converter_state() == "busy"
        paused = [pause for pause in self.converter.app.pauses() if pause.what == "intake"]
        return {
            "busy": BUSY[self.converter.app.service("gateway").status.mode] if is_busy else None,
            "paused": "Uploads are paused. Please come back later." if paused else None,
        }

    async def upload(self, request: Request) -> Response:
        """For browsers without scripts."""
        try:
            accepted = await self.api.receive(request, needs_token=True)
        except Problem as problem:
            flash(request, problem.message, tone="failed")
            return redirect(request, "/")
        conversion = await run_in_threadpool(self.api.conversion_of, accepted)
        if accepted.job.was_rejected:
            flash(request, f"{conversion.document.name}: {conversion.error_message}", tone="failed")
        elif accepted.is_twin:
            flash(request, f"{conversion.document.name} was uploaded before: this is its conversion.")
        else:
            flash(request, f"{conversion.document.name} is queued.")
        return redirect(request, "/")

    async def retry(self, request: Request) -> Response:
        form = await read_form(request)
        try:
            conversion = await self.api.retry_own(request)
            flash(request, f"Retry queued for {conversion.document.name}.")
        except Problem as problem:
            if problem.status in (403, 404):
                raise
            flash(request, problem.message, tone="failed")
        job = request.path_params["job"]
        return redirect(request, f"/conversions/{job}" if form.get("back") == "conversion" else "/")
