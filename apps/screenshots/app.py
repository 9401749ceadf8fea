"""The application: its jobs with their policy and rules, its credits and its files."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Any

from apps.pages.database import Database
from apps.screenshots.browser import Browser, Viewport
from apps.screenshots.capture import Camera, host_of, without_fragment
from apps.screenshots.credits import Credits
from apps.screenshots.options import Options, find_chromium, read_options
from apps.screenshots.results import Results
from apps.screenshots.submission_keys import SubmissionKeys
from mulligan import (
    App,
    Egress,
    ErrorCode,
    Exponential,
    InsufficientCredits,
    Job,
    JobNotFound,
    Owner,
    RetryPolicy,
    Rule,
    Service,
    State,
    attempt,
)

# 5, 25 and 125 seconds after the first three failures; the fourth is final. The deadline ends what is held because its
# site never comes back.
POLICY = RetryPolicy(max_attempts=4, backoff=Exponential("5s", factor=5, jitter=None), deadline="1d")
RULES = (
    Rule("INSUFFICIENT_CREDITS", "final", when=InsufficientCredits, name="screenshots.credits"),
    Rule("INVALID_INPUT", "final", when=(ValueError, TypeError), name="screenshots.arguments"),
    Rule("ILLEGAL_STATE", "final", when=RuntimeError, name="screenshots.state"),
)
CATALOGUE = (
    ErrorCode("INSUFFICIENT_CREDITS", "There are not enough credits for this.", "final", 402),
    ErrorCode("ILLEGAL_STATE", "This cannot be done in the state it is in.", "final", 409),
    # Nothing is asked of the site: to hold its captures back would spare no one.
    ErrorCode(
        "TARGET_REFUSED", "This page leads to an address that may not be opened.", "final", 422, blames_service=False
    ),
)
# One breaker for each host: a dead site delays no other.
SITES = Service("site:*", window=20, min_calls=10, cooldown="30s")
COSTS = {"screenshot": 1, "pdf_generation": 2}
BESIDE_PAGE = timedelta(minutes=2)
# Every capture has it; the jobs that return credits do not.
TAG = "capture"
MOST_LIVE = 1_000
OVER = (State.FAILED, State.CANCELLED)
# The intervals and limits of the schedulers. Stuck jobs are looked for every five minutes, lost workers every second.
SCHEDULERS: dict[str, Any] = {
    "duty_retry_interval": timedelta(seconds=30),
    "duty_promote_interval": timedelta(seconds=10),
    "duty_reclaim_limit": 100,
    "duty_retry_limit": 100,
    "duty_promote_limit": 100,
}


@dataclass(frozen=True, slots=True)
class Capture:
    """A finished capture. `file` is for this server alone."""

    file: str
    size: int
    sha256: str


class Screenshots:
    def __init__(self, url: str, options: Options | None = None) -> None:
        self.options = options or read_options()
        self.egress = Egress(ports=self.options.ports, endpoints=self.options.allowed)
        self.database = Database(url)
        self.credits = Credits(self.database, first=self.options.credits, costs=COSTS)
        self.submission_keys = SubmissionKeys(self.database)
        self.results = Results(self.options.results)
        self.app = _build(url, self.options, self._lifespan)
        self._add_upkeep()
        self._add_captures()

    def _add_captures(self) -> None:
        options: Any = {
            "retry": POLICY,
            "service": site_of,
            # Time to load the page and to draw it, and to start a browser.
            "timeout": 2 * self.options.page_timeout + BESIDE_PAGE,
            # The browser is a process of its own already.
            "isolate": False,
            "can_retry": self._may_retry,
            "on_failed": self.return_credits,
            "on_cancelled": self.return_credits,
        }

        @self.app.task("screenshot", **options)
        async def screenshot(url: str, width: int = 1_280, height: int = 800, full_page: bool = False) -> Capture:  # noqa: FBT001, FBT002
            """A picture of a page, as PNG."""
            camera: Camera = attempt().resources
            drawn = await camera.take_picture(url, Viewport(width, height), full_page=full_page)
            return await self._store("png", drawn)

        @self.app.task("pdf_generation", **options)
        async def pdf_generation(url: str, width: int = 1_280, height: int = 800) -> Capture:
            """A page as PDF, on A4."""
            camera: Camera = attempt().resources
            return await self._store("pdf", await camera.print_pdf(url, Viewport(width, height)))

        self.screenshot, self.pdf_generation = screenshot, pdf_generation

    def _add_upkeep(self) -> None:
        @self.app.task(queue="credits", priority="high")
        def return_credits(job_id: str) -> int:
            """Return what a job holds in reserve that has failed for good or was cancelled."""
            with self.database.read() as connection:
                reservation = self.credits.find(connection, job_id)
            # The state is read after the reservation: a manual retry in between has changed the latter.
            if reservation is None or not self._is_over(job_id):
                return 0
            with self.database.transaction() as connection:
                return self.credits.give_back(connection, reservation)

        @self.app.cron("17 * * * *")
        @self.app.task(queue="credits")
        def remove_old_files() -> int:
            """Remove the files of jobs that retention has deleted, and those of attempts that did not count."""
            return sum(self._remove_files(job, paths) for job, paths in self.results.of_jobs().items())

        self.return_credits, self.remove_old_files = return_credits, remove_old_files

    @asynccontextmanager
    async def _lifespan(self, _: App) -> AsyncIterator[Camera]:
        browser = Browser(lambda: find_chromium(self.options), self.egress)
        try:
            yield Camera(browser, self.egress, self.options.page_timeout)
        finally:
            await browser.stop()

    async def _store(self, ending: str, contents: bytes) -> Capture:
        job, number = str(attempt().fields["job_id"]), attempt().number
        file = await attempt().in_thread(lambda: self.results.write(job, number, ending, contents))
        return Capture(file=file, size=len(contents), sha256=sha256(contents).hexdigest())

    def _may_retry(self, job: Job[Any], connection: Any) -> None:
        self.credits.reserve_again(connection, job.id)

    def _is_over(self, job_id: str) -> bool:
        try:
            return self.app.job(job_id).state in OVER
        except JobNotFound:
            return False

    def _remove_files(self, job_id: str, paths: list[Any]) -> int:
        try:
            result = self.app.job(job_id).result if job_id else None
        except JobNotFound:
            result = None
        kept = result["file"] if isinstance(result, dict) else None
        gone = [path for path in paths if path.name != kept]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone)


def site_of(url: str, *_: Any, **__: Any) -> str:
    """The service that a capture depends on: the host of its page."""
    return f"site:{host_of(without_fragment(url))}"[:200]


def _build(url: str, options: Options, lifespan: Any) -> App:
    return App(
        url,
        rules=RULES,
        catalogue=CATALOGUE,
        services=[SITES],
        owners=[Owner("*", max_live=MOST_LIVE)],
        lifespan=lifespan,
        stuck="process",
        policies=options.policies,
        settings=SCHEDULERS,
    )
