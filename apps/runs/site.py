"""The pages: runs by word, one run, and the retry of an administrator."""

from datetime import timedelta
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from apps.pages.admin import is_admin, require_admin
from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.problems import Problem
from apps.pages.redirect import redirect
from apps.pages.render import page
from apps.pages.site import Site
from apps.runs.app import Verifier
from apps.runs.board import BadCursor, RunBoard, RunPage
from apps.runs.words import GONE, ShownRun, Word
from mulligan import BadFilter, IllegalMove, JobNotFound, MulliganError, NotAllowed

SPANS = (timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))
# Which of the dashboard's signs and colours stands for a word.
SIGNS = {
    Word.DISCOVERED: "queued",
    Word.PROCESSING: "running",
    Word.PASSED: "succeeded",
    Word.NEEDS_REVIEW: "held",
    Word.FAILED: "cancelled",
    Word.ERROR: "failed",
}
CLASSES = {"final": "Final", "retryable": "Retryable", "rate_limited": "RateLimited"}


def build_site(verifier: Verifier) -> Site:
    pages = RunPages(verifier)
    return Site(
        verifier.app,
        name="Run verifier",
        folder=Path(__file__).parent,
        routes=[
            Route("/", pages.overview),
            Route("/runs/{run}", pages.run),
            Route("/runs/{run}/retry", pages.retry, methods=["POST"]),
            Route("/admin", pages.administer),
        ],
        database=verifier.database,
        menu=[("Runs", "/"), ("Administration", "/admin")],
        # Its jobs have no owner, and everyone may see the runs.
        owner=lambda _: "",
    )


class RunPages:
    def __init__(self, verifier: Verifier) -> None:
        self._verifier, self._board = verifier, RunBoard(verifier)

    def overview(self, request: Request) -> Response:
        request.state.position = self._verifier.app.last_position()
        word = _word(request.query_params.get("word"))
        found = self._list(word, request.query_params.get("cursor"))
        minute, hour, day = self._board.verified_within(*SPANS)
        return page(
            request,
            "overview.html",
            word=word,
            words=self._board.words(),
            found=found,
            categories=self._board.categories(),
            poll=self._board.failing_poll(),
            verified={"minute": minute, "hour": hour, "day": day},
            configuration=self._verifier.configuration,
            signs=SIGNS,
            classes=CLASSES,
            can_retry=is_admin(request),
        )

    def _list(self, word: Word | None, cursor: str | None) -> RunPage:
        try:
            return self._board.list_runs(word, cursor=cursor)
        except (BadCursor, BadFilter, MulliganError) as problem:
            if cursor is None:
                raise
            raise Problem(400, "BAD_CURSOR", "This is no page of the list. Begin at its newest runs.") from problem

    def run(self, request: Request) -> Response:
        request.state.position = self._verifier.app.last_position()
        shown = self._require(request)
        explanation = None if shown.job is None else self._verifier.app.explain(shown.job.id, for_owner=True)
        return page(
            request,
            "run.html",
            shown=shown,
            explanation=explanation,
            signs=SIGNS,
            classes=CLASSES,
            can_retry=is_admin(request),
        )

    def administer(self, request: Request) -> Response:
        """Where administrators sign in. What they can do is on the pages of runs."""
        require_admin(request)
        return redirect(request, f"/?word={Word.ERROR}")

    async def retry(self, request: Request) -> Response:
        await read_form(request)
        actor = await run_in_threadpool(require_admin, request)
        shown = await run_in_threadpool(self._require, request)
        await run_in_threadpool(self._retry, request, shown, actor)
        return redirect(request, f"/runs/{shown.run.id}")

    def _retry(self, request: Request, shown: ShownRun, actor: str) -> None:
        try:
            self._verifier.app.retry(shown.run.job, actor=actor, reason="retried on the page of runs")
        except JobNotFound:
            flash(request, f"Not retried: {GONE}", tone="failed")
            return
        except (IllegalMove, NotAllowed) as refusal:
            flash(request, f"Not retried: {refusal}", tone="failed")
            return
        rest = "" if shown.is_allowed else " It runs when its category is allowed again."
        flash(request, f"Retry queued for {shown.run.id}.{rest}", tone="succeeded")

    def _require(self, request: Request) -> ShownRun:
        shown = self._board.find(request.path_params["run"])
        if shown is None:
            raise Problem(404, "NOT_FOUND", "There is no such run.")
        return shown


def _word(name: str | None) -> Word | None:
    if name is None:
        return None
    try:
        return Word(name)
    except ValueError:
        raise Problem(404, "NOT_FOUND", f"There are no runs of this word; there are: {', '.join(Word)}.") from None
