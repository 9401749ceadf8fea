"""A person who uses the dashboard in Chromium."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page
from site_server import Site

from chromium import ARGUMENTS as ARGUMENTS


class Visit:
    """A tab of a browser that is signed in, and what went wrong in it."""

    def __init__(self, context: BrowserContext, site: Site, token: str) -> None:
        self.context, self.site = context, site
        self.page: Page = context.new_page()
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._note)
        self.sign_in(token)

    def _note(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        if not url.startswith((self.site.base, "data:")):
            self.foreign.append(url)

    def sign_in(self, token: str) -> None:
        self.page.goto(f"{self.site.base}/sign-in")
        self.page.fill("input[name=key]", token)
        self.page.click("button:has-text('Sign in')")

    def open(self, path: str) -> Page:
        answer = self.page.goto(self.site.base + path)
        assert answer is not None and answer.status < 400, answer and answer.text()
        return self.page

    def check(self) -> None:
        """Nothing was refused by the policy of the page, nothing failed, and nothing was asked of another host."""
        assert (self.errors, self.foreign) == ([], [])


def find_violations(page: Page) -> list[str]:
    """What axe finds that is serious."""
    found = Axe().run(page).response["violations"]
    return [
        f"{each['id']}: {each['help']} ({each['nodes'][0]['html'][:200]})"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
