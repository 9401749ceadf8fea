"""Write the picture of the README: `python tests/apps/watermark/watermark_picture.py docs/pictures/watermark.png`.

With `--all FOLDER`, every page is written there, in both schemes and on a phone, to be looked at.
"""

import os
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from apps.pages.accounts import Account
from playwright.sync_api import Browser, Page, sync_playwright
from visit import ARGUMENTS
from watermark_world import PASSWORD, World, make_clip, served, watermark_world

from live import eventually, working
from mulligan import JobFilter

PEOPLE = ("Press", "Festival jury", "Cinema North", "Distributor", "Broadcaster", "Subtitles", "Archive")
PICTURE = "testsrc2=s=640x360:r=25:d=2"
WIDE, PHONE = {"width": 1180, "height": 820}, {"width": 390, "height": 844}


def fill(world: World) -> Account:
    ann = world.account("Studio")
    winter = world.published(ann, *PEOPLE[:4], name="Winter lookbook", max_downloads=3)
    spring = world.campaign(ann, *PEOPLE, name="Spring premiere", max_attempts=2, max_downloads=3)
    world.campaign(ann, *PEOPLE[:2], name="Trailer, second cut")
    world.break_token(world.tokens(spring)[2])
    world.break_token(world.tokens(spring)[5])
    world.publish(spring)
    with working(world.app, concurrency=2):
        eventually(lambda: world.app.counts(JobFilter(state=("queued", "running", "waiting"))).total == 0, seconds=120)
        leak(world, ann, world.target(world.tokens(winter)[1]))
    for token in world.tokens(spring)[:2]:
        world.watermark.campaigns.count_download(token, 3)
    assert world.state(winter) == "READY" and world.state(spring) == "PARTIAL"
    return ann


def leak(world: World, account: Account, video: Path) -> None:
    """A copy that turned up."""
    suspect = world.watermark.files.suspect(account.id, "leak")
    suspect.parent.mkdir()
    shutil.copy(video, suspect)
    job = world.watermark.detect.options(owner=account.id, delay="1s").enqueue("leak")
    world.watermark.detections.create(
        "leak", account=account.id, campaign=None, video_name="found-on-a-forum.mp4", enqueue=lambda _: job.id
    )
    world.app.wait(job, timeout="60s")


def sign_in(page: Page, base: str, account: Account) -> None:
    page.goto(f"{base}/sign-in")
    page.fill("input[name=email]", account.email)
    page.fill("input[name=password]", PASSWORD)
    page.click("main button:has-text('Sign in')")
    page.goto(f"{base}/account")


def picture(page: Page, address: str, path: Path, *, whole: bool = False) -> None:
    page.goto(address)
    for summary in page.locator("details.token-error:not([hidden]) > summary").all()[:1]:
        summary.click()
    page.mouse.move(0, 0)
    page.screenshot(path=path, full_page=whole)


def take(world: World, browser: Browser, base: str, account: Account, target: Path, *, is_all: bool) -> None:
    campaigns = {campaign.name: campaign for campaign in world.watermark.campaigns.of_account(account.id)}
    spring = f"{base}/campaigns/{campaigns['Spring premiere'].id}"
    page = browser.new_context(viewport=WIDE).new_page()  # type: ignore[arg-type]
    sign_in(page, base, account)
    if not is_all:
        picture(page, spring, target)
        return
    link = world.tokens(campaigns["Winter lookbook"])[0].link
    draft = f"{base}/campaigns/{campaigns['Trailer, second cut'].id}"
    pages = {
        "list": f"{base}/",
        "campaign": spring,
        "draft": draft,
        "new": f"{base}/campaigns/new",
        "detections": f"{base}/detections",
        "detection": f"{base}/detections/leak",
        "account": f"{base}/account",
        "download": f"{base}/downloads/{link}",
        "missing": f"{base}/campaigns/0",
    }
    for name, address in pages.items():
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size(WIDE)  # type: ignore[arg-type]
            picture(page, address, target / f"{name}-{scheme}.png", whole=True)
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(PHONE)  # type: ignore[arg-type]
        picture(page, address, target / f"{name}-phone.png", whole=True)


def main(target: Path, *, is_all: bool) -> None:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with TemporaryDirectory() as name:
        folder = Path(name)
        # The second try comes within milliseconds.
        (folder / "policies.yaml").write_text("kinds: {watermark: {backoff: {type: steps, delays: [10ms]}}}")
        os.environ["MULLIGAN_POLICIES_FILE"] = str(folder / "policies.yaml")
        with watermark_world(f"sqlite:///{name}/app.db", folder, make_clip(folder / "clip.mp4", PICTURE)) as world:
            account = fill(world)
            with served(world) as site, sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
                take(world, browser, site.base, account, target, is_all=is_all)
                browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[-1]), is_all="--all" in sys.argv)
