"""The dashboard: pages that show what failed and why, and forms that put it right. They decide nothing: they ask the
console of the person who is signed in, and render."""

from mulligan.web.pages import failure_group, failures, find, help_page, redrives, retry
from mulligan.web.pages.page import Page, Pages

GROUPS: tuple[Pages, ...] = (
    failures.pages,
    failure_group.pages,
    retry.pages,
    redrives.pages,
    find.pages,
    help_page.pages,
)

PAGES: list[Page] = [page for group in GROUPS for page in group.declared]

__all__ = ["GROUPS", "PAGES"]
