"""The pages: captures of the person who is signed in, keys, and the schedulers for operators."""

from typing import Any

from sqlalchemy import select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from apps.pages.accounts import Accounts, require_account
from apps.pages.admin import require_admin
from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.render import page
from apps.screenshots.access import Caller, Refusal
from apps.screenshots.api import LARGEST_GRANT
from apps.screenshots.app import COSTS, Screenshots
from apps.screenshots.captures import Captures, Order, can_retry
from apps.screenshots.words import FORMATS, is_retryable, last_failure, next_retry, status_of
from mulligan import Job, MulliganError, State

SEE_OTHER = 303
MOST_KEYS = 100
SCHEDULERS = {
    "reclaim": ("Stuck jobs", "STUCK_JOBS"),
    "retry": ("Failed jobs", "FAILED_JOBS"),
    "promote": ("Delayed jobs", "DELAYED_JOBS"),
}
PAUSES = ("5m", "30m", "2h", "")


class Pages:
    def __init__(self, screenshots: Screenshots, accounts: Accounts) -> None:
        self._all, self._accounts = screenshots, accounts
        self._app = screenshots.app
        self._captures = Captures(screenshots)

    def routes(self) -> list[BaseRoute]:
        return [
            Route("/", self.list, methods=["GET"]),
            Route("/", self.submit, methods=["POST"]),
            Route("/captures/{job_id}", self.show, methods=["GET"]),
            Route("/captures/{job_id}/retry", self.retry, methods=["POST"]),
            Route("/captures/{job_id}/cancel", self.cancel, methods=["POST"]),
            Route("/keys", self.keys, methods=["GET"]),
            Route("/keys", self.create_key, methods=["POST"]),
            Route("/keys/{key_id}/revoke", self.revoke_key, methods=["POST"]),
            Route("/admin", self.admin, methods=["GET"]),
            Route("/admin/schedulers/{duty}/{verb:str}", self.set_scheduler, methods=["POST"]),
            Route("/admin/process-stuck", self.process_stuck, methods=["POST"]),
            Route("/admin/credits", self.grant, methods=["POST"]),
        ]

    # Captures

    def list(self, request: Request) -> Response:
        return self._list(request, form={})

    async def submit(self, request: Request) -> Response:
        form = await read_form(request)
        caller = await run_in_threadpool(_caller, request)
        try:
            job = await run_in_threadpool(self._captures.submit, caller, _read_order(form))
        except Refusal as refusal:
            # Beside what reads itself again when a capture changes.
            flash(request, refusal.message, "failed")
            return await run_in_threadpool(self._list, request, form=form, status=refusal.status)
        flash(request, f"Queued: {job.arguments['url']}")
        return _go("/", request)

    def show(self, request: Request) -> Response:
        job = self._captures.find(_caller(request), request.path_params["job_id"])
        told = self._app.explain(job.id, for_owner=True).happened
        # The owner knows who it is.
        story = [line.replace(f" for {job.owner}", "") for line in told]
        return page(request, "capture.html", row=_row(job, self._app.blocked_by([job])), story=story)

    async def retry(self, request: Request) -> Response:
        await read_form(request)
        return await self._act(request, self._captures.retry, "Retry queued for {}.")

    async def cancel(self, request: Request) -> Response:
        await read_form(request)
        return await self._act(request, self._captures.cancel, "Cancelled: {}.")

    async def _act(self, request: Request, act: Any, message: str) -> Response:
        caller = await run_in_threadpool(_caller, request)
        job_id = request.path_params["job_id"]
        try:
            job = await run_in_threadpool(act, caller, job_id)
        except Refusal as refusal:
            if refusal.status == 404:
                raise
            flash(request, refusal.message, "failed")
        else:
            flash(request, message.format(job.arguments["url"]))
        return _go(f"/captures/{job_id}", request)

    def _list(self, request: Request, *, form: dict[str, str], status: int = 200) -> Response:
        caller = _caller(request)
        found = self._captures.list(caller, cursor=request.query_params.get("cursor"))
        blocked = self._app.blocked_by(found.jobs)
        with self._all.database.read() as connection:
            balance = self._all.credits.balance(connection, caller.owner)
        return page(
            request,
            "captures.html",
            status=status,
            rows=[_row(job, blocked) for job in found.jobs],
            cursor=found.cursor,
            balance=balance,
            costs={FORMATS[kind]: cost for kind, cost in COSTS.items()},
            form=form,
        )

    # Keys

    def keys(self, request: Request) -> Response:
        return self._keys(request)

    async def create_key(self, request: Request) -> Response:
        form = await read_form(request)
        caller = await run_in_threadpool(_caller, request)
        name = form.get("name", "").strip() or "key"
        try:
            created = await run_in_threadpool(
                lambda: self._app.create_key(owner=caller.owner, name=name[:100], actor=caller.actor)
            )
        except MulliganError as error:
            flash(request, str(error), "failed")
            return _go("/keys", request)
        return await run_in_threadpool(self._keys, request, created.token)

    async def revoke_key(self, request: Request) -> Response:
        await read_form(request)
        caller = await run_in_threadpool(_caller, request)
        key_id = request.path_params["key_id"]
        try:
            await run_in_threadpool(lambda: self._app.revoke_key(key_id, owner=caller.owner, actor=caller.actor))
        except MulliganError:
            raise Refusal(404, "NOT_FOUND", "There is no such key.") from None
        flash(request, "The key is revoked.")
        return _go("/keys", request)

    def _keys(self, request: Request, token: str | None = None) -> Response:
        found = self._app.keys(owner=_caller(request).owner, limit=MOST_KEYS)
        usable = [key for key in found if key.revoked_at is None]
        return page(request, "keys.html", keys=usable, token=token, base=str(request.base_url).rstrip("/"))

    # For operators

    def admin(self, request: Request) -> Response:
        require_admin(request)
        duties = {duty.name: duty for duty in self._app.duties() if duty.name in SCHEDULERS}
        return page(
            request,
            "admin.html",
            schedulers=[(name, *words, _runs(duties[name]), duties[name]) for name, words in SCHEDULERS.items()],
            pauses=PAUSES,
            stuck=[_row(job, {}) for job in self._app.stuck() if job.kind in COSTS],
            workers=self._app.workers(),
            sites=[
                site for site in self._app.services() if site.name.startswith("site:") and str(site.state) != "closed"
            ],
        )

    async def set_scheduler(self, request: Request) -> Response:
        form = await read_form(request)
        actor = await run_in_threadpool(require_admin, request)
        duty, verb = request.path_params["duty"], request.path_params["verb"]
        if duty not in SCHEDULERS or verb not in ("pause", "resume") or form.get("duration", "") not in PAUSES:
            raise Refusal(404, "NOT_FOUND", "There is no such scheduler.")
        if verb == "pause":
            await run_in_threadpool(lambda: self._app.pause(form.get("duration") or None, duty=duty, actor=actor))
        else:
            await run_in_threadpool(lambda: self._app.resume(duty=duty, actor=actor))
        flash(request, f"{SCHEDULERS[duty][0]}: {'paused' if verb == 'pause' else 'resumed'}.")
        return _go("/admin", request)

    async def process_stuck(self, request: Request) -> Response:
        await read_form(request)
        actor = await run_in_threadpool(require_admin, request)
        taken = await run_in_threadpool(lambda: self._app.process_stuck(actor=actor, limit=100))
        flash(request, f"{len(taken)} stuck jobs were taken from their workers.")
        return _go("/admin", request)

    async def grant(self, request: Request) -> Response:
        form = await read_form(request)
        await run_in_threadpool(require_admin, request)
        email, amount = form.get("email", "").strip().lower(), form.get("amount", "")
        account = await run_in_threadpool(self._find_account, email)
        if account is None or not _is_grant(amount):
            flash(request, "Give the address of an account and an amount from 1 to 1,000,000.", "failed")
            return _go("/admin", request)
        balance = await run_in_threadpool(self._grant, account, int(amount))
        flash(request, f"{email} has {balance:,} credits.")
        return _go("/admin", request)

    def _find_account(self, email: str) -> str | None:
        table = self._accounts.table
        with self._all.database.read() as connection:
            return connection.scalar(select(table.c.id).where(table.c.email == email))

    def _grant(self, owner: str, amount: int) -> int:
        with self._all.database.transaction() as connection:
            return self._all.credits.grant(connection, owner, amount)


def _caller(request: Request) -> Caller:
    account = require_account(request)
    return Caller(account.id, account.email)


def _row(job: Job[Any], blocked: dict[str, str]) -> dict[str, Any]:
    """A capture as the pages show it."""
    given = job.arguments if isinstance(job.arguments, dict) else {}
    return {
        "job": job,
        "url": str(given.get("url", "")),
        "format": FORMATS[job.kind],
        "cost": COSTS[job.kind],
        "status": status_of(job),
        "state": str(job.state),
        "next_retry": next_retry(job),
        "last_failure": last_failure(job) if job.state is not State.SUCCEEDED else None,
        "is_retryable": is_retryable(job),
        "can_retry": can_retry(job) and job.state is not State.RUNNING,
        "can_cancel": not job.state.is_final,
        "held_by": _held_by(blocked.get(job.id)),
    }


def _held_by(blocked: str | None) -> str | None:
    """What keeps a capture from running, for its owner."""
    if blocked is None:
        return None
    kind, _, name = blocked.partition("/")
    if kind == "service":
        return f"{name.removeprefix('site:')} is not answering. This waits until it does."
    return "Paused by the operator. This waits until it goes on."


def _runs(duty: Any) -> str:
    seconds = duty.interval.total_seconds()
    every = "every second" if seconds == 1 else f"every {seconds:g} seconds"
    return f"lost workers {every}, stuck jobs every 5 minutes" if duty.name == "reclaim" else every


def _read_order(form: dict[str, str]) -> Order:
    width, height = (form.get(name, "").strip() for name in ("width", "height"))
    if not all(side.isascii() and side.isdecimal() and len(side) < 6 for side in (width, height)):
        raise Refusal(400, "VALIDATION_ERROR", "Give the size of the window in pixels.")
    return Order(
        url=form.get("url", "").strip(),
        format=form.get("format", "PNG"),
        width=int(width),
        height=int(height),
        full_page="full_page" in form,
    )


def _is_grant(text: str) -> bool:
    return len(text) < 10 and text.isascii() and text.isdecimal() and 1 <= int(text) <= LARGEST_GRANT


def _go(path: str, request: Request) -> Response:
    return RedirectResponse(request.scope.get("root_path", "") + path, SEE_OTHER)
