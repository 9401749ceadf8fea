"""The pages of campaigns: list, editor, campaign, publish and retry."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from apps.pages.accounts import Account, require_account
from apps.pages.flash import flash
from apps.pages.forms import Upload, read_form
from apps.pages.problems import Problem
from apps.pages.render import page
from apps.watermark.app import Watermark
from apps.watermark.campaigns import Campaign, Token, new_id
from apps.watermark.forms import LARGEST_FORM, Invalid, read_choice
from apps.watermark.live import CampaignStream, follow_token
from apps.watermark.publishing import Refused
from apps.watermark.uploads import kept, read_video

SEE_OTHER = 303
TOKENS_A_PAGE = 100
NO_CAMPAIGN = "There is no such campaign."


class CampaignPages:
    def __init__(self, watermark: Watermark) -> None:
        self._watermark, self._campaigns, self._publishing = watermark, watermark.campaigns, watermark.publishing

    def routes(self) -> list[Route]:
        one = "/campaigns/{id}"
        return [
            Route("/", self.start, methods=["GET"]),
            Route("/campaigns", self.list_campaigns, methods=["GET"]),
            Route("/campaigns", self.create, methods=["POST"]),
            Route("/campaigns/new", self.new, methods=["GET"]),
            Route(one, self.show, methods=["GET"]),
            Route(f"{one}/edit", self.edit, methods=["GET"]),
            Route(f"{one}/edit", self.change, methods=["POST"]),
            Route(f"{one}/publish", self.publish, methods=["POST"]),
            Route(f"{one}/events", self.follow, methods=["GET"]),
            Route(f"{one}/tokens/{{token}}/retry", self.retry, methods=["POST"]),
            Route(f"{one}/tokens/{{token}}/events", self.follow_token, methods=["GET"]),
        ]

    def start(self, request: Request) -> Response:
        return _go(request, "/campaigns")

    def list_campaigns(self, request: Request) -> Response:
        account = require_account(request)
        _remember_position(request, self._watermark)
        return page(request, "campaigns.html", campaigns=self._publishing.views(account.id))

    # The editor

    def new(self, request: Request) -> Response:
        require_account(request)
        return self._editor(request, {"visible_wm": "on", "invisible_wm": "on"})

    async def create(self, request: Request) -> Response:
        account = await asyncio.to_thread(require_account, request)
        upload = await read_video(request, self._watermark)
        try:
            campaign = await asyncio.to_thread(self._create, account, upload)
        except Invalid as error:
            return await asyncio.to_thread(self._editor, request, upload.fields, str(error))
        finally:
            upload.path.unlink(missing_ok=True)
        flash(request, f"{campaign.name} is a draft. Look it over, then publish it.")
        return _go(request, f"/campaigns/{campaign.id}")

    def _create(self, account: Account, upload: Upload) -> Campaign:
        choice = read_choice(upload.fields, now=datetime.now(UTC))
        if not upload.size:
            raise Invalid("Choose a video: this file is empty.")
        campaign = new_id()
        with kept(self._watermark, upload, self._watermark.files.source(account.id, campaign)):
            return self._campaigns.create(
                account.id, choice, video_name=upload.name, video_size=upload.size, campaign_id=campaign
            )

    def edit(self, request: Request) -> Response:
        campaign = self._draft(request)
        tokens = self._campaigns.tokens(campaign.id)
        return self._editor(request, _to_fields(campaign, tokens), campaign=campaign)

    async def change(self, request: Request) -> Response:
        campaign = await asyncio.to_thread(self._draft, request)
        fields = await read_form(request, largest=LARGEST_FORM)
        try:
            choice = read_choice(fields, now=datetime.now(UTC))
        except Invalid as error:
            return await asyncio.to_thread(self._editor, request, fields, str(error), campaign)
        if not await asyncio.to_thread(self._campaigns.change, campaign, choice):
            raise Problem(409, "PUBLISHED", "This campaign was published meanwhile, and cannot be changed any more.")
        flash(request, "Saved.")
        return _go(request, f"/campaigns/{campaign.id}")

    def _draft(self, request: Request) -> Campaign:
        campaign = self._mine(request)
        if campaign.batch is not None:
            raise Problem(409, "PUBLISHED", "This campaign is published, and cannot be changed any more.")
        return campaign

    def _editor(
        self,
        request: Request,
        fields: Mapping[str, str],
        problem: str | None = None,
        campaign: Campaign | None = None,
    ) -> Response:
        status = 200 if problem is None else 400
        limit = self._watermark.options.largest_upload
        values = {"form": fields, "problem": problem, "campaign": campaign, "limit": limit}
        return page(request, "editor.html", status=status, **values)

    # A campaign

    def show(self, request: Request) -> Response:
        return self._show(request, self._mine(request))

    def _show(self, request: Request, campaign: Campaign, *, status: int = 200) -> Response:
        _remember_position(request, self._watermark)
        number = _page_number(request)
        tokens = self._campaigns.tokens(campaign.id, offset=(number - 1) * TOKENS_A_PAGE, limit=TOKENS_A_PAGE)
        view = self._publishing.view(campaign)
        return page(
            request,
            "campaign.html",
            status=status,
            view=view,
            campaign=campaign,
            tokens=self._publishing.view_tokens(campaign, tokens),
            number=number,
            pages=max(1, -(-view.recipients // TOKENS_A_PAGE)),
            deliveries=self._deliveries(campaign),
        )

    def _deliveries(self, campaign: Campaign) -> list[dict[str, str]]:
        """What became of the mails about the whole campaign. Whatever follows a colon is for operators."""
        if campaign.batch is None:
            return []
        found = self._watermark.app.deliveries(about=campaign.batch, limit=5)
        mails = [each for each in found if each.channel == "email"]
        return [{"state": str(each.state), "reason": (each.reason or "").partition(":")[0]} for each in mails]

    async def publish(self, request: Request) -> Response:
        campaign = await asyncio.to_thread(self._mine, request)
        await read_form(request)
        account = await asyncio.to_thread(require_account, request)
        try:
            await asyncio.to_thread(self._publishing.publish, campaign, actor=account.email)
        except Refused as error:
            flash(request, str(error), tone="failed")
            return await asyncio.to_thread(self._show, request, campaign, status=400)
        flash(request, f"{campaign.name} is being watermarked.")
        return _go(request, f"/campaigns/{campaign.id}")

    async def retry(self, request: Request) -> Response:
        campaign, token = await asyncio.to_thread(self._my_token, request)
        await read_form(request)
        account = await asyncio.to_thread(require_account, request)
        try:
            await asyncio.to_thread(self._publishing.retry, campaign, token, actor=account.email)
        except Refused as error:
            flash(request, str(error), tone="failed")
            return await asyncio.to_thread(self._show, request, campaign, status=400)
        flash(request, f"Retry queued for {token.recipient}.")
        return _go(request, f"/campaigns/{campaign.id}")

    # Live

    def follow(self, request: Request) -> Response:
        campaign = self._mine(request)
        if campaign.batch is None:
            raise Problem(409, "NOT_PUBLISHED", "This campaign is a draft: nothing happens to it yet.")
        return CampaignStream(self._watermark, campaign).response(request)

    def follow_token(self, request: Request) -> Response:
        campaign, token = self._my_token(request)
        if token.job is None:
            raise Problem(409, "NOT_PUBLISHED", "This campaign is a draft: nothing happens to it yet.")
        return follow_token(request, campaign, token)

    # Whose

    def _mine(self, request: Request) -> Campaign:
        account = require_account(request)
        campaign = self._campaigns.find(request.path_params["id"], account.id)
        if campaign is None:
            raise Problem(404, "NOT_FOUND", NO_CAMPAIGN)
        return campaign

    def _my_token(self, request: Request) -> tuple[Campaign, Token]:
        campaign = self._mine(request)
        token = self._campaigns.token(request.path_params["token"])
        if token is None or token.campaign != campaign.id:
            raise Problem(404, "NOT_FOUND", "There is no such recipient.")
        return campaign, token


def _remember_position(request: Request, watermark: Watermark) -> None:
    """Before the page reads: a change in between is told by the first tick."""
    request.state.position = watermark.app.last_position()


def _page_number(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return max(1, int(text)) if text.isascii() and text.isdecimal() and len(text) < 5 else 1


def _to_fields(campaign: Campaign, tokens: list[Token]) -> dict[str, str]:
    fields: dict[str, Any] = {
        "name": campaign.name,
        "recipients": "\n".join(token.recipient for token in tokens),
        "max_downloads": campaign.max_downloads,
        "max_attempts": campaign.max_attempts,
        "expires_at": campaign.expires_at and f"{campaign.expires_at:%Y-%m-%dT%H:%M}",
        "visible_wm": campaign.visible_wm or None,
        "invisible_wm": campaign.invisible_wm or None,
    }
    return {name: str(value) for name, value in fields.items() if value is not None}


def _go(request: Request, path: str) -> Response:
    return RedirectResponse(f"{request.scope.get('root_path', '')}{path}", SEE_OTHER)
