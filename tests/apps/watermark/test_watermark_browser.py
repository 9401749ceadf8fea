"""W5, W7 in Chromium: pages that change by themselves, on a phone and in the dark, with hostile names."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from apps.pages.accounts import Account
from playwright.sync_api import Browser, Page, expect, sync_playwright
from visit import ARGUMENTS, find_violations
from watermark_world import PASSWORD, World, served, watermark_world

from live import eventually, working
from mulligan import JobFilter

HOSTILE = '<img src=x onerror="window.__pwned=1">\' {{ 7 * 7 }}'
LONG = "katharina.mustermann-hoffmann@produktion.example.org"
PHONE, DESK = {"width": 320, "height": 740}, {"width": 1280, "height": 900}


@dataclass
class Tab:
    """A browser in which a person is signed in, and what went wrong in it."""

    page: Page
    base: str
    errors: list[str] = field(default_factory=list)

    def open(self, path: str) -> Page:
        answer = self.page.goto(self.base + path)
        assert answer is not None and answer.status < 400, answer and answer.text()
        return self.page

    def check(self) -> None:
        assert self.errors == [] and not self.page.evaluate("window.__pwned === 1")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is not installed: sudo apt-get install chromium")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture
def world(tmp_path: Path, clip: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    (tmp_path / "policies.yaml").write_text("kinds: {watermark: {backoff: {type: steps, delays: [10ms]}}}")
    monkeypatch.setenv("MULLIGAN_POLICIES_FILE", str(tmp_path / "policies.yaml"))
    with watermark_world(f"sqlite:///{tmp_path}/app.db", tmp_path, clip) as found:
        yield found


@pytest.fixture
def account(world: World) -> Account:
    return world.account("Ann Lee")


@pytest.fixture
def tab(world: World, account: Account, browser: Browser) -> Iterator[Tab]:
    with served(world) as site:
        context = browser.new_context(viewport=DESK)  # type: ignore[arg-type]
        tab = Tab(context.new_page(), site.base)
        tab.page.on("console", lambda message: tab.errors.append(message.text) if message.type == "error" else None)
        tab.page.on("pageerror", lambda error: tab.errors.append(str(error)))
        tab.open("/sign-in")
        tab.page.fill("input[name=email]", account.email)
        tab.page.fill("input[name=password]", PASSWORD)
        tab.page.click("main button:has-text('Sign in')")
        yield tab
        context.close()


def test_w7_a_campaign_from_upload_to_ready_without_a_reload(world: World, tab: Tab, clip: Path) -> None:
    page = tab.open("/campaigns/new")
    page.fill("input[name=name]", "Spring")
    page.fill("textarea[name=recipients]", f"Kim\n{HOSTILE}")
    page.set_input_files("input[name=video]", clip)
    page.fill("input[name=max_attempts]", "2")
    page.click("main button.first")
    expect(page.locator("h1")).to_have_text("Spring")
    (campaign,) = world.watermark.campaigns.of_account(_owner(world))
    tokens = world.tokens(campaign)
    world.break_token(tokens[1])
    page.click("button:has-text('Publish')")
    page.evaluate("window.__same = true")
    kim, bad = (page.locator(f"[data-token-id='{token.id}']") for token in tokens)
    expect(kim.locator(".status-badge")).to_have_text("PENDING")
    expect(bad.locator(".retry-form")).to_be_hidden()
    with working(world.app, concurrency=1):
        expect(kim.locator(".status-badge")).to_have_text("ACTIVE", timeout=30_000)
        expect(bad.locator(".status-badge.status-failed")).to_have_text("FAILED", timeout=30_000)
        expect(bad.locator(".retry-badge")).to_have_text("1/1")
        banner = "Warning: 1 watermarking job(s) failed permanently. "
        expect(page.locator(".banner")).to_have_text(
            banner + "Use the retry buttons below to re-attempt individual tokens."
        )
        bad.locator("summary").click()
        expect(bad.locator(".error-details")).to_have_text("There is no space left to store this.")
        assert page.evaluate("window.__same"), "the page was not loaded again"
        world.mend_token(tokens[1])
        bad.locator(".retry-form button").click()
        expect(page.locator(".flash")).to_have_text(f"Retry queued for {HOSTILE}.")
        expect(bad.locator(".status-badge")).to_have_text("ACTIVE", timeout=30_000)
        expect(page.locator(".eyebrow .status-badge")).to_have_text("READY")
        expect(bad.locator(".retry-form")).to_be_hidden()
        expect(page.locator(".banner")).to_have_count(0)
    tab.check()


def _owner(world: World) -> str:
    with world.watermark.database.read() as connection:
        return str(connection.execute(world.watermark.accounts.table.select()).one().id)


def test_w7_token_failed_alone_changes_the_row(world: World, account: Account, tab: Tab) -> None:
    """The script of the document, before the page reads itself again."""
    campaign = world.published(account, "Kim")
    (kim,) = world.tokens(campaign)
    page = tab.open(f"/campaigns/{campaign.id}")
    page.evaluate("token => showFailure({data: JSON.stringify({token_id: token, error: '<b>no</b> space'})})", kim.id)
    row = page.locator(f"[data-token-id='{kim.id}']")
    expect(row.locator(".status-badge")).to_have_class("status-badge status-failed")
    expect(row.locator(".status-badge")).to_have_text("FAILED")
    row.locator("summary").click()
    expect(row.locator(".error-details")).to_have_text("<b>no</b> space")
    expect(row.locator(".retry-form")).to_be_visible()
    tab.check()


def test_w7_progress_of_ffmpeg_is_shown_live(world: World, account: Account, tab: Tab, long_clip: Path) -> None:
    campaign = world.published(account, "Kim", video=long_clip)
    page = tab.open(f"/campaigns/{campaign.id}")
    page.evaluate("window.__same = true")
    badge = page.locator("[data-token-id] .status-badge")
    with working(world.app, concurrency=1):
        expect(badge).to_have_text(_percent(1), timeout=60_000)
        expect(badge).to_have_text(_percent(2), timeout=60_000)
        world.app.cancel(world.tokens(campaign)[0].job, actor="operator")
        expect(badge).to_have_text("FAILED", timeout=30_000)
    expect(page.locator(".error-details")).to_have_text("An operator cancelled this.")
    assert page.evaluate("window.__same")
    tab.check()


def _percent(least: int) -> re.Pattern[str]:
    numbers = "|".join(str(number) for number in range(least, 100))
    return re.compile(rf"^PROCESSING ({numbers}) %$")


def test_w7_every_page_on_a_phone_in_the_dark_and_for_all(world: World, account: Account, tab: Tab) -> None:
    ready, partial, draft = (
        world.campaign(account, "Kim", recipient, name=name, max_attempts=1)
        for name, recipient in (
            ("Spring_campaign_2026_partners_EMEA_second_round", LONG),
            (HOSTILE, HOSTILE),
            ("D", LONG),
        )
    )
    world.break_token(world.tokens(partial)[1])
    ready, partial = world.publish(ready), world.publish(partial)
    with working(world.app, concurrency=2):
        eventually(lambda: {world.state(ready), world.state(partial)} == {"READY", "PARTIAL"})
    paths = ["/", "/campaigns/new", "/detections", "/account", f"/downloads/{world.tokens(ready)[0].link}"]
    paths += [f"/campaigns/{campaign.id}" for campaign in (ready, partial, draft)]
    leak = world.target(world.tokens(ready)[1]).read_bytes()
    found, *others = [_detect(tab, content) for content in (leak, world.clip.read_bytes(), b"no video")]
    with working(world.app, concurrency=2):
        eventually(lambda: not world.app.jobs(JobFilter(kind="detect", state=("queued", "running"))).jobs)
    paths += [found, *others]
    for path in paths:
        assert find_violations(tab.open(path)) == [], path
    # What has colours of its own.
    tab.page.emulate_media(color_scheme="dark")
    for path in ("/campaigns", f"/campaigns/{partial.id}", "/detections", found):
        assert find_violations(tab.open(path)) == [], path
    tab.page.set_viewport_size(PHONE)  # type: ignore[arg-type]
    for path in paths:
        width = tab.open(path).evaluate("document.documentElement.scrollWidth")
        assert width <= PHONE["width"], (path, width)
    expect(tab.open(found).locator("h1")).to_have_text(LONG)
    tab.open("/")
    badge = tab.page.locator(".status-partial")
    expect(badge).to_have_attribute("title", "Some watermarking jobs failed. Click to review.")
    badge.click()
    expect(tab.page.locator("h1")).to_have_text(HOSTILE)
    tab.check()


def _detect(tab: Tab, content: bytes) -> str:
    """The path of a new detection."""
    page = tab.open("/detections")
    name = "GOPR0417_spring_campaign_final_export_1080p_h264_master.mp4"
    page.set_input_files("input[name=video]", {"name": name, "mimeType": "video/mp4", "buffer": content})
    page.click("main button.first")
    expect(page.locator("h1")).to_have_text("Looking for a mark …")
    return page.url.removeprefix(tab.base)
