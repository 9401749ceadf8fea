"""The page of an account: its webhook, and how to delete it."""

import asyncio

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from apps.pages.accounts import Account, require_account
from apps.pages.flash import flash
from apps.pages.forms import read_form
from apps.pages.render import page
from apps.pages.session import start_anew
from apps.watermark.app import Watermark
from apps.watermark.webhooks import BadWebhook

SEE_OTHER = 303


class AccountPages:
    def __init__(self, watermark: Watermark) -> None:
        self._watermark = watermark

    def routes(self) -> list[Route]:
        return [
            Route("/account", self.show, methods=["GET"]),
            Route("/account/delete", self.delete, methods=["POST"]),
            Route("/account/webhook", self.add_webhook, methods=["POST"]),
            Route("/account/webhook/test", self.test_webhook, methods=["POST"]),
            Route("/account/webhook/remove", self.remove_webhook, methods=["POST"]),
        ]

    def show(self, request: Request) -> Response:
        return self._show(request)

    def _show(self, request: Request, *, status: int = 200, **shown: str) -> Response:
        """`secret`, `problem` and `url` of a webhook are shown once."""
        account = require_account(request)
        number = len(self._watermark.campaigns.of_account(account.id))
        webhook = self._watermark.webhooks.find(account.id)
        return page(request, "account.html", status=status, number=number, webhook=webhook, shown=shown)

    # The webhook

    async def add_webhook(self, request: Request) -> Response:
        account, url = await self._read(request)
        try:
            secret = await asyncio.to_thread(self._watermark.webhooks.add, account.id, url, actor=account.email)
        except BadWebhook as error:
            return await asyncio.to_thread(self._show, request, status=400, problem=str(error), url=url)
        return await asyncio.to_thread(self._show, request, secret=secret)

    async def test_webhook(self, request: Request) -> Response:
        account, _ = await self._read(request)
        if await asyncio.to_thread(self._watermark.webhooks.test, account.id, actor=account.email):
            flash(request, "A sample is on its way.")
        return _back(request)

    async def remove_webhook(self, request: Request) -> Response:
        account, _ = await self._read(request)
        await asyncio.to_thread(self._watermark.webhooks.remove, account.id, actor=account.email)
        flash(request, "The webhook is removed.")
        return _back(request)

    async def _read(self, request: Request) -> tuple[Account, str]:
        account = await asyncio.to_thread(require_account, request)
        form = await read_form(request)
        return account, form.get("url", "").strip()

    # Deleting

    async def delete(self, request: Request) -> Response:
        account = await asyncio.to_thread(require_account, request)
        form = await read_form(request)
        if form.get("email", "").strip().lower() != account.email:
            flash(request, "Type your email address to confirm. Nothing was deleted.", tone="failed")
            return _back(request)
        await asyncio.to_thread(self._watermark.delete_account, account.id)
        await asyncio.to_thread(start_anew, request)
        flash(request, "Your account, its campaigns and its videos are deleted.")
        return RedirectResponse(f"{request.scope.get('root_path', '')}/sign-in", SEE_OTHER)


def _back(request: Request) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}/account", SEE_OTHER)
