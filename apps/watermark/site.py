"""The application with its pages."""

from pathlib import Path

from starlette.requests import Request

from apps.pages.site import Site
from apps.watermark.app import Options, Watermark
from apps.watermark.detecting import DetectionPages
from apps.watermark.downloads import DownloadPages
from apps.watermark.pages import CampaignPages
from apps.watermark.settings import AccountPages


def build(url: str) -> Site:
    return build_site(Watermark(url, Options.read()))


def build_site(watermark: Watermark) -> Site:
    pages = (CampaignPages, DetectionPages, DownloadPages, AccountPages)

    def owner(request: Request) -> str | None:
        account = watermark.accounts.of(request)
        return None if account is None else account.id

    return Site(
        watermark.app,
        name="Watermark",
        folder=Path(__file__).parent,
        routes=[route for each in pages for route in each(watermark).routes()],
        database=watermark.database,
        menu=[("Campaigns", "/campaigns"), ("Detect", "/detections"), ("Account", "/account")],
        accounts=watermark.accounts,
        owner=owner,
    )
