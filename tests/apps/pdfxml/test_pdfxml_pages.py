"""The pages in Chromium: upload, live queue, retry, download, the banner, administration."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from pdfxml_files import INVOICE, unique_pdf
from pdfxml_world import Person, World
from playwright.sync_api import Browser, Page, Route, expect
from visit import find_violations

MakeWorld = Callable[..., Any]
SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
PHONE = {"width": 390, "height": 844}
SOON = 20_000
DROP = """([name, text]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name, {type: 'application/pdf'}));
    document.getElementById('drop').dispatchEvent(
        new DragEvent('drop', {dataTransfer: transfer, bubbles: true, cancelable: true}));
}"""


class Tab:
    """A tab of a browser, and what went wrong in it."""

    def __init__(self, browser: Browser, world: World, person: Person | None = None, **options: Any) -> None:
        self.context = browser.new_context(**options)
        for cookie in person.client.cookies.jar if person else ():
            self.context.add_cookies([{"name": cookie.name, "value": str(cookie.value), "url": world.base}])
        self.page: Page = self.context.new_page()
        self.page.set_default_timeout(SOON)
        self.base, self.errors = world.base, []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.open("/")

    def open(self, path: str) -> Page:
        answer = self.page.goto(self.base + path)
        assert answer is not None and answer.status < 400, answer and answer.text()
        return self.page

    def choose(self, content: bytes = INVOICE, name: str = "invoice.pdf", mapping: str = "text") -> None:
        self.page.select_option("#mapping", mapping)
        self.page.set_input_files("#file", {"name": name, "mimeType": "application/pdf", "buffer": content})
        self.page.click("button:has-text('Convert')")

    def expect_row(self, name: str, text: str) -> None:
        expect(self.page.locator("#queue tr", has_text=name)).to_contain_text(text, timeout=SOON)

    def close(self) -> None:
        self.context.close()
        assert self.errors == []


@contextmanager
def tab(browser: Browser, world: World, person: Person | None = None, **options: Any) -> Iterator[Tab]:
    """A new session, or that of a person."""
    found = Tab(browser, world, person, **options)
    yield found
    found.close()


def test_p5_a_person_uploads_watches_retries_and_downloads_without_a_reload(
    browser: Browser, world: World, tmp_path: Path
) -> None:
    world.gateway.fail(status=400)
    with tab(browser, world) as person, world.working():
        page = person.page
        page.evaluate("window.sameAsBefore = true")
        person.choose(mapping="layout")
        person.expect_row("invoice.pdf", "failed")
        person.expect_row("invoice.pdf", "Couldn’t convert this file with the selected mapping.")  # noqa: RUF001
        world.gateway.heal()
        assert page.evaluate("window.sameAsBefore")
        page.click("#queue button:has-text('Retry')")
        expect(page.locator(".flash")).to_contain_text("Retry queued for invoice.pdf.")
        person.expect_row("invoice.pdf", "complete")
        with page.expect_download() as download:
            page.click("#queue a:has-text('Download')")
        target = tmp_path / "got.xml"
        download.value.save_as(target)
        assert download.value.suggested_filename == "invoice.xml"
        assert etree.parse(target).getroot().tag == "layout"


def test_p6_the_banner_comes_and_goes_and_held_rows_say_so(browser: Browser, make_world: MakeWorld) -> None:
    """The gateway is really killed, and started again."""
    with make_world(circuit_window=4, max_attempts=20) as world, tab(browser, world) as person, world.working():
        world.gateway.kill()
        for number in range(6):
            person.choose(unique_pdf(number), name=f"{number}.pdf")
        banner = person.page.locator(".banner")
        expect(banner).to_contain_text("Converter busy — jobs will resume automatically.", timeout=SOON)
        held = person.page.locator("#queue", has_text="Gateway busy, paused. Will retry automatically.")
        expect(held).to_be_visible(timeout=SOON)
        world.gateway.start()
        expect(banner).to_be_hidden(timeout=SOON)
        expect(person.page.locator("tr[data-status=complete]")).to_have_count(6, timeout=SOON)


@SQLITE
def test_p6_the_banners_come_and_go_on_a_page_without_conversions(browser: Browser, world: World) -> None:
    with tab(browser, world) as person:
        page = person.page
        page.clock.install()
        page.reload()
        gateway, banners, convert = world.app.service("gateway"), page.locator(".banner"), page.locator("#drop button")
        page.select_option("#mapping", "layout")
        page.set_input_files("#file", {"name": "a.pdf", "mimeType": "application/pdf", "buffer": INVOICE})
        gateway.open(reason="maintenance")
        world.app.pause(intake="convert")
        page.clock.fast_forward(30_000)
        expect(banners).to_have_count(2, timeout=SOON)
        expect(convert).to_be_disabled()
        gateway.close()
        world.app.resume(intake="convert")
        page.clock.fast_forward(5_000)
        expect(banners).to_have_count(0, timeout=SOON)
        expect(convert).to_be_enabled()
        # What was chosen meanwhile stays.
        assert page.input_value("#mapping") == "layout" and page.input_value("#file").endswith("a.pdf")


@SQLITE
def test_p5_retry_is_disabled_with_its_reason_when_the_source_is_gone(browser: Browser, world: World) -> None:
    with tab(browser, world) as person, world.working():
        person.page.evaluate(DROP, ["broken.pdf", "%PDF-1.4 nonsense"])
        person.expect_row("broken.pdf", "failed")
        [job] = world.app.jobs().jobs
        world.source(job.id).unlink()
        person.page.reload()
        button = person.page.locator("button:has-text('Retry')")
        expect(button).to_be_disabled()
        person.expect_row("broken.pdf", "The file is gone: upload it again.")


@SQLITE
def test_p1_files_are_dropped_and_refusals_are_told(browser: Browser, world: World) -> None:
    found = Tab(browser, world)
    found.page.evaluate(DROP, ["notes.txt", "hello"])
    expect(found.page.locator("#told")).to_contain_text("notes.txt: Only PDF files are supported.")
    found.expect_row("notes.txt", "The file was not kept.")
    expect(found.page.locator("#told")).to_contain_text("notes.txt: Only PDF files are supported.")
    found.page.evaluate(DROP, ["good.pdf", INVOICE.decode()])
    found.expect_row("good.pdf", "queued")
    world.app.pause(intake="convert")
    found.page.evaluate(DROP, ["late.pdf", unique_pdf(1).decode()])
    expect(found.page.locator("#told")).to_contain_text("Uploads are paused.")
    expect(found.page.locator(".banner")).to_contain_text("Uploads are paused.")
    found.context.close()
    # The browser itself reports the two refused requests, and nothing else went wrong.
    assert all("Failed to load resource" in error for error in found.errors) and len(found.errors) == 2


@SQLITE
def test_p1_an_upload_shows_how_far_it_is(browser: Browser, world: World) -> None:
    held = list[Route]()

    def hold(route: Route) -> None:
        """Until its line was seen."""
        held.append(route)

    with tab(browser, world) as person, world.working():
        person.page.route("**/api/upload", hold)
        person.choose()
        sending = person.page.locator("#sending")
        expect(sending).to_contain_text("Uploading invoice.pdf")
        expect(sending.locator("progress")).to_be_visible()
        held[0].continue_()
        person.expect_row("invoice.pdf", "complete")
        expect(sending).to_be_hidden()


@SQLITE
def test_p6_a_retry_counts_down_and_shows_the_promise(browser: Browser, make_world: MakeWorld) -> None:
    with make_world() as world, tab(browser, world) as person:
        policies = world.converter.settings.results.with_name("policies.yaml")
        policies.write_text("kinds: {convert: {backoff: {type: fixed, base: 90s}}}")
        world.gateway.fail(status=502)
        with world.working():
            person.choose()
            person.expect_row("invoice.pdf", "Converter service is having an issue. We’ll retry shortly.")  # noqa: RUF001
            person.expect_row("invoice.pdf", "Next attempt in")
            person.expect_row("invoice.pdf", "1 of 3")
            clock = person.page.locator("#queue time.countdown")
            before = clock.inner_text()
            expect(clock).not_to_have_text(before, timeout=SOON)
            expect(clock).to_have_text(re.compile(r"^1 min \d+ s$"))


@SQLITE
def test_without_scripts_everything_works(browser: Browser, world: World) -> None:
    with tab(browser, world, java_script_enabled=False) as person, world.working():
        person.choose()
        expect(person.page.locator(".flash")).to_contain_text("invoice.pdf is queued.")
        person.choose(b"GIF89a", name="cat.pdf")
        expect(person.page.locator(".flash")).to_contain_text("cat.pdf: Only PDF files are supported.")
        [first] = [job for job in world.app.jobs().jobs if not job.was_rejected]
        world.app.wait(first.id, timeout="20s")
        page = person.open("/")
        with page.expect_download():
            page.click("#queue a:has-text('Download')")


@SQLITE
def test_names_are_shown_and_never_run(browser: Browser, world: World) -> None:
    with tab(browser, world) as person, world.working():
        person.choose(name="<img src=x onerror=window.pwned=1>.pdf", mapping="text")
        person.expect_row("onerror=window.pwned=1", "complete")
        person.page.click("#queue a.what")
        expect(person.page.locator("h1")).to_contain_text("<img src=x")
        assert person.page.evaluate("window.pwned") is None


@SQLITE
def test_an_administrator_forces_the_breaker_and_pauses_uploads(browser: Browser, world: World) -> None:
    token = world.app.create_key(owner=None, name="on-call").token
    with tab(browser, world) as person:
        page = person.open("/admin")
        page.fill("input[name=key]", token)
        page.click("button:has-text('Sign in')")
        page.click("button:has-text('Hold open')")
        expect(page.locator("h1")).to_contain_text("An administrator holds the breaker open.")
        assert world.app.service("gateway").status.state == "open"
        page.click("button:has-text('Automatic')")
        page.fill("input[name=duration]", "2h")
        page.fill("input[name=reason]", "the disk is full")
        page.click("button:has-text('Pause uploads')")
        expect(page.locator("#uploads")).to_contain_text("the disk is full")
        assert [(pause.what, pause.name, pause.reason) for pause in world.app.pauses()] == [
            ("intake", "convert", "the disk is full")
        ]
        page.click("button:has-text('Accept uploads')")
        expect(page.locator("#uploads")).to_contain_text("accepted")
        assert not world.app.pauses()


@SQLITE
def test_only_an_administrator_administers(world: World) -> None:
    person = world.person()
    assert person.client.get("/admin").headers["location"].startswith("/admin/sign-in")
    for path in ("/admin/breaker/open", "/admin/uploads/pause"):
        assert person.client.post(path).status_code in (401, 403)
    assert world.app.service("gateway").status.state == "closed"


@SQLITE
def test_every_page_is_accessible_and_fits_a_phone(browser: Browser, world: World) -> None:
    with tab(browser, world, viewport=PHONE) as person, world.working():
        page = person.page
        assert find_violations(page) == []
        person.choose(name="a-very-long-name-" * 10 + ".pdf")
        person.expect_row("a-very-long-name", "complete")
        person.choose(b"%PDF-1.4 nonsense", name="broken.pdf")
        person.expect_row("broken.pdf", "failed")
        world.app.service("gateway").open(reason="maintenance")
        person.open("/admin")
        page.fill("input[name=key]", world.app.create_key(owner=None, name="on-call").token)
        page.click("button:has-text('Sign in')")
        for path in ("/", f"/conversions/{world.app.jobs().jobs[0].id}", "/admin"):
            person.open(path)
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                assert find_violations(page) == [], (path, scheme)
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
