"""The dashboard: pages that show what failed and why, and forms that put it right. They decide nothing: they ask the
console of the person who is signed in, and render."""

from mulligan.web.pages import batches, help_page, retries, services
from mulligan.web.pages.page import Page, Pages

GROUPS: tuple[Pages, ...] = (help_page.pages, batches.pages, services.pages, retries.pages)

PAGES: list[Page] = [page for group in GROUPS for page in group.declared]

__all__ = ["GROUPS", "PAGES"]
