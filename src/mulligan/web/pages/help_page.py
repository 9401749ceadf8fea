"""Signs and keys: what the signs on the pages mean, and what the keyboard does."""

from mulligan.records.key import Scope
from mulligan.web.pages.page import PageCall, Pages, View

pages = Pages("Help")


@pages.page("/help", scope=Scope.JOBS_READ)
def show_help(call: PageCall) -> View:  # noqa: ARG001
    return View("help.html")
