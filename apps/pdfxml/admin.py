"""The page of the administrator: the breaker, the intake of uploads, and what failed."""

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from apps.pages.admin import require_admin
from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.problems import Problem
from apps.pages.redirect import redirect
from apps.pages.render import page
from apps.pdfxml.app import Converter
from apps.pdfxml.codes import message_of, public_code
from apps.pdfxml.settings import GATEWAY
from apps.pdfxml.statuses import STATUSES
from mulligan import JobFilter, MulliganError, State

CONVERT = "convert"
FORCES = {
    "open": "The breaker is held open.",
    "close": "The breaker is held closed.",
    "auto": "The breaker is automatic.",
}
LONGEST_REASON = 200


class AdminPages:
    def __init__(self, converter: Converter) -> None:
        self.converter, self.app = converter, converter.app

    def routes(self) -> list[Route]:
        return [
            Route("/admin", self.overview),
            Route("/admin/breaker/{how}", self.force, methods=["POST"]),
            Route("/admin/uploads/{how}", self.pause, methods=["POST"]),
        ]

    def overview(self, request: Request) -> Response:
        require_admin(request)
        wanted = JobFilter(kind=CONVERT)
        return page(
            request,
            "admin.html",
            service=self.app.service(GATEWAY).status,
            pause=next((pause for pause in self.app.pauses() if pause.what == "intake"), None),
            statuses=_add_up(self.app.counts(wanted).groups),
            codes=self._codes(),
            settings=self.converter.settings,
        )

    def _codes(self) -> list[tuple[str, int, str]]:
        """Failed conversions by the code that people see, the most frequent first."""
        found = self.app.counts(JobFilter(kind=CONVERT, state="failed"), by="code").groups
        totals: dict[str, int] = {}
        for code, number in found.items():
            totals[public_code(code)] = totals.get(public_code(code), 0) + number
        ranked = sorted(totals.items(), key=lambda each: -each[1])
        return [(code, number, message_of(code, is_final=True)) for code, number in ranked]

    async def force(self, request: Request) -> Response:
        actor, form, how = require_admin(request), await read_form(request), request.path_params["how"]
        if how not in FORCES:
            raise Problem(404, "UNKNOWN", "There is no such page.")
        change = getattr(self.app.service(GATEWAY), how)
        await run_in_threadpool(change, actor=actor, reason=form.get("reason", "")[:LONGEST_REASON] or None)
        flash(request, FORCES[how])
        return redirect(request, "/admin")

    async def pause(self, request: Request) -> Response:
        actor, form = require_admin(request), await read_form(request)
        reason = form.get("reason", "")[:LONGEST_REASON] or None
        if request.path_params["how"] == "resume":
            await run_in_threadpool(self.app.resume, intake=CONVERT, actor=actor, reason=reason)
            flash(request, "Uploads are accepted again.")
            return redirect(request, "/admin")
        try:
            duration = form.get("duration", "").strip() or None
            await run_in_threadpool(self.app.pause, duration, intake=CONVERT, actor=actor, reason=reason)
            flash(request, "Uploads are paused. What was accepted goes on.")
        except MulliganError as error:
            flash(request, str(error), tone="failed")
        return redirect(request, "/admin")


def _add_up(counts: Mapping[str, int]) -> dict[str, int]:
    totals = dict.fromkeys(("queued", "processing", "complete", "failed"), 0)
    for state, number in counts.items():
        totals[STATUSES[State(state)]] += number
    return totals
