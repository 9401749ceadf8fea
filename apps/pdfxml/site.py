"""The whole application: engine, API and pages."""

import os
from pathlib import Path

from apps.pages.session import session_id
from apps.pages.site import Site
from apps.pdfxml.admin import AdminPages
from apps.pdfxml.api import Api
from apps.pdfxml.app import Converter, create
from apps.pdfxml.codes import answer_code
from apps.pdfxml.pages import Pages
from apps.pdfxml.settings import read_settings


def build(url: str | None = None) -> Site:
    """The application as the environment describes it."""
    return build_site(create(read_settings(os.environ, url=url)))


def build_site(converter: Converter) -> Site:
    api = Api(converter)
    return Site(
        converter.app,
        name="PDF to XML",
        folder=Path(__file__).parent,
        routes=[*api.routes(), *Pages(api).routes(), *AdminPages(converter).routes()],
        database=converter.database,
        menu=[("Conversions", "/"), ("Administration", "/admin")],
        owner=session_id,
        code=answer_code,
        # People come back for what is still there.
        idle=converter.settings.retention,
    )
