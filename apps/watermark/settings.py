"""The page of an account, where it can be deleted."""

import asyncio

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from apps.pages.accounts import require_account
from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.render import page
from apps.pages.session import start_anew
from apps.watermark.app import Watermark

SEE_OTHER = 303


class AccountPages:
    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def routes(self) -> list[Route]:
        return [
            Route("/account", self.show, methods=["GET"]),
            Route("/account/delete", self.delete, methods=["POST"]),
        ]

    def show(self, request: Request) -> Response:
        account = require_account(request)
        number = len(self._watermark.campaigns.of_account(account.id))
        return page(request, "account.html", number=number)

    async def delete(self, request: Request) -> Response:
        account = await asyncio.to_thread(require_account, request)
        form = await read_form(request)
        if form.get("email", "").strip().lower() != account.email:
            flash(request, "Type your email address to confirm. Nothing was deleted.", tone="failed")
            return RedirectResponse(f"{request.scope.get('root_path', '')}/account", SEE_OTHER)
        await asyncio.to_thread(self._watermark.delete_account, account.id)
        start_anew(request)
        flash(request, "Your account, its campaigns and its videos are deleted.")
        return RedirectResponse(f"{request.scope.get('root_path', '')}/sign-in", SEE_OTHER)
