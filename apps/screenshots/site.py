"""The whole application for a database: API, pages, accounts and the engine's dashboard."""

from pathlib import Path

from apps.pages.accounts import Accounts, account_of
from apps.pages.site import Site
from apps.screenshots.api import Api
from apps.screenshots.app import Screenshots
from apps.screenshots.options import Options
from apps.screenshots.pages import Pages

MENU = [("Captures", "/"), ("Keys", "/keys"), ("Operations", "/admin")]


def build(url: str, options: Options | None = None) -> Site:
    return build_site(Screenshots(url, options))


def build_site(screenshots: Screenshots) -> Site:
    accounts = Accounts(screenshots.database)
    return Site(
        screenshots.app,
        name="Screenshots",
        folder=Path(__file__).parent,
        routes=[*Api(screenshots).routes(), *Pages(screenshots, accounts).routes()],
        database=screenshots.database,
        menu=MENU,
        accounts=accounts,
        owner=lambda request: account.id if (account := account_of(request)) else None,
    )
