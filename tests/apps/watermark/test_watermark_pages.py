"""W5, W7, W9: the pages, as a person without scripts uses them, and as a stranger tries to."""

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from apps.pages.forms import Upload
from apps.watermark.app import Options
from apps.watermark.pages import CampaignPages
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from watermark_world import Served, Visitor, World, badges, served, watermark_world

from live import eventually
from mulligan import JobFilter

BANNER = (
    "Warning: {} watermarking job(s) failed permanently. Use the retry buttons below to re-attempt individual tokens."
)
HOSTILE = "<script>alert(1)</script>\"'&"


@pytest.fixture
def site(small_world: World) -> Iterator[Served]:
    with served(small_world) as found:
        yield found


def draft(visitor: Visitor, content: bytes, **fields: str) -> str:
    """The path of a new campaign."""
    form = {"name": "Spring", "recipients": "Kim\nLee", "visible_wm": "on", "invisible_wm": "on", **fields}
    answer = visitor.upload("/campaigns", "holiday.mp4", content, shown="/campaigns/new", **form)
    assert answer.status_code == 200, answer.text
    return str(answer.url.path)


def row(page: str, token_id: str) -> str:
    found = re.search(rf'<tr id="token-{token_id}".*?</tr>', page, re.DOTALL)
    assert found is not None
    return found[0]


def test_w1_a_person_uploads_publishes_and_passes_links_on(site: Served) -> None:
    world, ann = site.world, site.visitor(site.world.account())
    assert "No campaigns yet" in ann.client.get("/").text
    path = draft(ann, world.clip.read_bytes())
    page = ann.client.get(path).text
    assert "DRAFT" in page and "Publish" in page
    published = ann.post(f"{path}/publish", shown=path)
    assert published.url.path == path and "is being watermarked" in published.text
    world.work()
    page = ann.client.get(path).text
    assert "READY" in page and page.count(">ACTIVE<") == 2 and "READY" in ann.client.get("/").text


def test_w1_a_draft_can_be_changed_and_a_published_campaign_cannot(site: Served) -> None:
    world, ann = site.world, site.visitor(site.world.account())
    path = draft(ann, world.clip.read_bytes())
    form = {"name": "Summer", "recipients": "Noor", "invisible_wm": "on", "max_downloads": "2", "max_attempts": "3"}
    assert "Noor" in ann.post(f"{path}/edit", shown=f"{path}/edit", **form).text
    campaign = world.watermark.campaigns.get(path.split("/")[-1])
    assert campaign is not None
    assert (campaign.name, campaign.variant, campaign.max_downloads, campaign.max_attempts) == (
        "Summer",
        "invisible",
        2,
        3,
    )
    ann.post(f"{path}/publish", shown=path)
    assert ann.client.get(f"{path}/edit").status_code == 409
    assert ann.post(f"{path}/edit", shown="/account", **form).status_code == 409


BAD = [
    ({"name": ""}, "name"),
    ({"name": "x" * 121}, "1 to 120"),
    ({"recipients": " \n "}, "at least one recipient"),
    ({"recipients": "\n".join(map(str, range(1_001)))}, "at most 1,000"),
    ({"recipients": "Kim\x07"}, "printable"),
    ({"max_downloads": "0"}, "from 1 to"),
    ({"max_downloads": "9" * 30}, "from 1 to"),
    ({"max_attempts": "21"}, "from 1 to 20"),
    ({"expires_at": "yesterday"}, "expiry date"),
    ({"expires_at": "2020-01-01T00:00"}, "in the future"),
]


def test_what_cannot_be_is_said_and_nothing_is_kept(site: Served) -> None:
    world, ann = site.world, site.visitor(site.world.account())
    good = {"name": "Spring", "recipients": "Kim", "visible_wm": "on"}
    for change, words in BAD:
        answer = ann.upload("/campaigns", "a.mp4", b"x", shown="/campaigns/new", **{**good, **change})
        assert answer.status_code == 400 and words in answer.text, change
    unmarked = ann.upload("/campaigns", "a.mp4", b"x", shown="/campaigns/new", name="Spring", recipients="Kim")
    assert unmarked.status_code == 400 and "at least one mark" in unmarked.text
    empty = ann.upload("/campaigns", "a.mp4", b"", shown="/campaigns/new", **good)
    assert empty.status_code == 400 and "empty" in empty.text
    assert [path for path in world.watermark.files.folder.rglob("*") if path.is_file()] == []
    assert "No campaigns yet" in ann.client.get("/").text


def test_a_thousand_long_recipients_fit_into_both_forms(site: Served) -> None:
    """Each of 120 letters of four bytes: a form that is not for files encodes every byte as three."""
    world, ann = site.world, site.visitor(site.world.account())
    names = [f"{number:04d}" + "\U0001d518" * 116 for number in range(1_000)]
    path = draft(ann, world.clip.read_bytes(), recipients="\n".join(names))
    edited = [name[::-1] for name in names]
    form = {"name": "Summer", "recipients": "\n".join(edited), "visible_wm": "on"}
    answer = ann.post(f"{path}/edit", shown=f"{path}/edit", **form)
    assert answer.status_code == 200, answer.text
    assert [token.recipient for token in world.watermark.campaigns.tokens(path.split("/")[-1])] == edited
    assert ann.post(f"{path}/edit", shown=f"{path}/edit", **form | {"recipients": "x" * 2**21}).status_code == 413


def test_a_video_that_cannot_be_stored_is_said_and_leaves_nothing(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    campaign = world.published(account, "Kim")
    folder = world.watermark.files.folder

    def send(path: str) -> httpx.Response:
        form = {"name": "Spring", "recipients": "Kim", "visible_wm": "on", "campaign": ""}
        return ann.upload(path, "a.mp4", b"x", shown="/account", **form)

    # The place of the account is taken by a file: the upload comes in, and cannot be kept.
    folder.joinpath(account.id).rename(folder / "aside")
    folder.joinpath(account.id).touch()
    taken = [send("/campaigns"), send("/detections")]
    folder.rename(folder.with_name("elsewhere"))
    missing = [send("/campaigns"), send("/detections")]
    for answer in (*taken, *missing):
        assert answer.status_code == 500 and "IO_ERROR" in answer.text and "could not be stored" in answer.text
    assert [each.id for each in world.watermark.campaigns.of_account(account.id)] == [campaign.id]
    assert world.watermark.detections.of_account(account.id) == []
    assert list(folder.with_name("elsewhere").glob("upload-*")) == []


def test_a_video_whose_row_is_not_stored_is_removed(site: Served) -> None:
    """An account is deleted in another window while the video of its next campaign comes in."""
    world, account = site.world, site.world.account()
    upload = world.folder / "upload-x"
    upload.write_bytes(b"x")
    world.watermark.delete_account(account.id)
    with pytest.raises(IntegrityError):
        CampaignPages(world.watermark)._create(
            account, Upload(upload, "a.mp4", 1, "", {"name": "Spring", "recipients": "Kim", "visible_wm": "on"})
        )
    assert [path for path in world.watermark.files.folder.rglob("*") if path.is_file()] == []


def test_w1_after_a_crash_before_the_publishing_the_page_offers_only_what_works(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    campaign = world.campaign(account, "Kim")
    here = f"/campaigns/{campaign.id}"
    assert f"{here}/edit" in ann.client.get(here).text
    # Its jobs are stored, and the process is killed before it publishes them.
    batch = world.app.batch(campaign.name, owner=account.id)
    assert world.watermark.publishing._store_jobs(campaign, batch, datetime.now(UTC))
    page = ann.client.get(here).text
    assert "DRAFT" in page and f"{here}/edit" not in page
    assert ann.post(f"{here}/publish", shown=here).status_code == 200
    assert world.state(campaign) == "PROCESSING"


def test_w5_what_was_removed_cannot_be_retried_and_says_so(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    campaign = world.published(account, "Kim", "Lee")
    kim, lee = world.tokens(campaign)
    world.app.cancel(lee.job, actor="operator")
    world.work()
    here = f"/campaigns/{campaign.id}"
    assert f"tokens/{lee.id}/retry" in ann.client.get(here).text
    world.app.purge(JobFilter(state="cancelled"), older_than="0s", dry_run=False)
    page = ann.client.get(here).text
    assert "This was removed" in page and f"tokens/{lee.id}/retry" not in page and f"tokens/{kim.id}/retry" in page
    refused = ann.post(f"{here}/tokens/{lee.id}/retry", shown=here)
    assert refused.status_code == 400 and "This was removed" in refused.text
    again = ann.post(f"{here}/publish", shown=here)
    assert again.status_code == 400 and "no failed token any more" in again.text
    # The batch goes with its last job, once their retention is over.
    world.app.release_key(kim.job)
    world.app.purge(JobFilter(state="succeeded", kind="watermark"), older_than="0s", dry_run=False)
    with world.watermark.database.transaction() as connection:
        connection.execute(text("DELETE FROM mulligan_batches"))
    gone = ann.post(f"{here}/publish", shown=here)
    assert gone.status_code == 400 and "Campaign has expired." in gone.text
    assert "Publish again" not in ann.client.get(here).text


def test_w5_retry_from_the_page(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    campaign = world.campaign(account, "Kim", "Lee", max_attempts=1)
    world.break_token(world.tokens(campaign)[1])
    world.publish(campaign)
    world.work()
    kim, lee = world.tokens(campaign)
    here = f"/campaigns/{campaign.id}"
    refused = ann.post(f"{here}/tokens/{kim.id}/retry", shown=here)
    assert refused.status_code == 400 and "Token is not in a failed state." in refused.text
    assert 'class="answer is-failed flash"' in refused.text and campaign.name in refused.text
    world.mend_token(lee)
    ann.client.follow_redirects = False
    queued = ann.post(f"{here}/tokens/{lee.id}/retry", shown=here)
    assert (queued.status_code, queued.headers["location"]) == (303, here)
    ann.client.follow_redirects = True
    page = ann.client.get(here).text
    assert "Retry queued for Lee." in page and "PROCESSING" in page
    twice = ann.post(f"{here}/tokens/{lee.id}/retry", shown=here)
    assert twice.status_code == 400 and "Token is not in a failed state." in twice.text
    world.work()
    assert world.state(campaign) == "READY"


def test_w5_an_expired_campaign_refuses_a_retry(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    campaign = world.campaign(account, "Kim", max_attempts=1, expires_at=tomorrow)
    world.break_token(world.tokens(campaign)[0])
    world.publish(campaign)
    world.work()
    world.expire(campaign)
    world.app.run_duty("expire")
    here = f"/campaigns/{campaign.id}"
    answer = ann.post(f"{here}/tokens/{world.tokens(campaign)[0].id}/retry", shown=here)
    assert answer.status_code == 400 and "Campaign has expired." in answer.text


def first_part(visitor: Visitor, path: str) -> httpx.Response:
    """A stream that is allowed would never end."""
    with visitor.client.stream("GET", path) as answer:
        if answer.status_code != 200:
            answer.read()
    return answer


def without_time(answer: httpx.Response) -> str:
    """A page says when it was made."""
    return re.sub(r' data-now="[^"]*"', "", answer.text)


def test_w5_of_others_and_of_none_is_404_with_the_same_words(site: Served) -> None:
    world = site.world
    owner = world.account("Ann")
    campaign = world.published(owner, "Kim")
    (kim,) = world.tokens(campaign)
    mallory = site.visitor(world.account("Mallory"))
    foreign, unknown = f"/campaigns/{campaign.id}", f"/campaigns/{'0' * 32}"
    answers = {
        path: [
            mallory.client.get(path),
            mallory.client.get(f"{path}/edit"),
            first_part(mallory, f"{path}/events"),
            first_part(mallory, f"{path}/tokens/{kim.id}/events"),
            mallory.post(f"{path}/publish"),
            mallory.post(f"{path}/tokens/{kim.id}/retry"),
        ]
        for path in (foreign, unknown)
    }
    assert {answer.status_code for found in answers.values() for answer in found} == {404}
    for theirs, nothing in zip(*answers.values(), strict=True):
        assert without_time(theirs).replace(campaign.id, "") == without_time(nothing).replace("0" * 32, "")
    own = world.published(mallory.account, "Eve") if mallory.account else campaign
    mixed = mallory.post(f"/campaigns/{own.id}/tokens/{kim.id}/retry")
    assert mixed.status_code == 404


def test_w5_a_form_of_another_site_and_a_stranger_change_nothing(site: Served) -> None:
    world, account = site.world, site.world.account()
    campaign = world.campaign(account, "Kim")
    here = f"/campaigns/{campaign.id}"
    ann, stranger = site.visitor(account), site.stranger()
    assert ann.client.post(f"{here}/publish", data={"csrf": "wrong"}).status_code == 403
    sent = {"csrf": ann.token(here)}
    assert ann.client.post(f"{here}/publish", data=sent, headers={"Origin": "https://evil.example"}).status_code == 403
    assert stranger.client.get(here).url.path == "/sign-in"
    assert stranger.client.post(f"{here}/publish").status_code in (401, 403)
    assert ann.client.get(f"{here}/publish").status_code == 405
    assert world.state(campaign) == "DRAFT"


def test_w7_badges_errors_retry_buttons_and_banner(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    campaign = world.campaign(account, "Kim", HOSTILE, max_attempts=1, max_downloads=1)
    world.break_token(world.tokens(campaign)[1])
    world.publish(campaign)
    here = f"/campaigns/{campaign.id}"
    tokens = world.tokens(campaign)
    assert badges(ann.client.get(here).text, tokens) == ["PENDING", "PENDING"]
    world.work()
    page = ann.client.get(here).text
    assert badges(page, tokens) == ["ACTIVE", "FAILED"]
    assert html.unescape(BANNER.format(1)) in html.unescape(page)
    good, bad = row(page, tokens[0].id), row(page, tokens[1].id)
    assert '<details class="token-error" hidden>' in good and re.search(r'retry-form"[^>]* hidden', good)
    assert '<details class="token-error"><summary>Error</summary>' in bad
    assert "There is no space left to store this." in html.unescape(bad)
    assert f'action="{here}/tokens/{tokens[1].id}/retry">' in bad
    assert HOSTILE not in page and html.escape(HOSTILE, quote=False)[:20] in page
    assert "retry-badge" not in page, "no retry was made"
    assert str(world.folder) not in page, "paths stay on the server"
    listed = ann.client.get("/").text
    assert 'status-partial" title="Some watermarking jobs failed. Click to review.">PARTIAL<' in listed


def test_w7_the_retry_badge_appears_with_the_first_retry(site: Served) -> None:
    world, account = site.world, site.world.account()
    campaign = world.campaign(account, "Kim")
    world.break_token(world.tokens(campaign)[0])
    world.publish(campaign)
    world.work()
    page = site.visitor(account).client.get(f"/campaigns/{campaign.id}").text
    assert badges(page, world.tokens(campaign)) == ["PENDING"]
    assert re.search(r'class="retry-badge"[^>]*>1/3<', page) and "next try in" in page
    assert "failed permanently" not in page


def test_w9_a_link_is_used_up_after_max_downloads(site: Served) -> None:
    world, account = site.world, site.world.account()
    campaign = world.campaign(account, "Kim", max_downloads=2)
    world.publish(campaign)
    (kim,) = world.tokens(campaign)
    link, anyone = f"/downloads/{kim.link}", site.stranger()
    early = anyone.client.get(link)
    assert early.status_code == 409 and "not ready yet" in early.text
    world.work()
    for left in ("2 more times", "1 more time."):
        assert left in anyone.client.get(link).text, "looking does not count"
        got = anyone.post(link, shown=link)
        assert got.content == world.target(kim).read_bytes()
        assert got.headers["content-disposition"] == 'attachment; filename="Spring.mp4"'
    assert anyone.client.get(link).status_code == 410
    assert world.words(campaign) == ["CONSUMED"]
    late = anyone.post(link, shown="/sign-in")
    assert late.status_code == 410 and "used up" in late.text


def test_w9_the_last_download_is_given_once(world: World) -> None:
    campaign = world.published(world.account(), "Kim", max_downloads=1)
    (kim,) = world.tokens(campaign)
    assert [world.watermark.campaigns.count_download(kim, 1) for _ in range(3)] == [True, False, False]


def test_w9_a_link_expires(site: Served) -> None:
    world, account = site.world, site.world.account()
    campaign = world.published(account, "Kim", expires_at=datetime.now(UTC) + timedelta(days=1))
    world.work()
    world.expire(campaign)
    anyone = site.stranger()
    gone = anyone.client.get(f"/downloads/{world.tokens(campaign)[0].link}")
    assert gone.status_code == 410 and "expired" in gone.text
    assert world.words(campaign) == ["EXPIRED"]


def test_w9_a_link_cannot_be_guessed_from_what_others_know(site: Served) -> None:
    world = site.world
    campaign = world.published(world.account(), "Kim")
    world.work()
    (kim,) = world.tokens(campaign)
    anyone = site.stranger()
    for guess in (kim.id, kim.job, "..%2f..%2fetc%2fpasswd", "x" * 5_000):
        assert anyone.client.get(f"/downloads/{guess}").status_code in (404, 414)


def test_w1_the_page_of_a_detection_shows_the_result_or_the_failure(site: Served) -> None:
    world, account = site.world, site.world.account()
    ann = site.visitor(account)
    assert "Nothing to compare with yet" in ann.client.get("/detections").text
    campaign = world.published(account, "Kim", HOSTILE)
    world.work()
    leak = world.target(world.tokens(campaign)[1]).read_bytes()
    files = {"found": leak, "unmarked": world.clip.read_bytes(), "broken": b"no video at all"}
    paths = {}
    for name, content in files.items():
        answer = ann.upload("/detections", f"../{name}.mp4", content, shown="/detections", campaign=campaign.id)
        assert answer.status_code == 200 and "Looking for a mark" in answer.text
        paths[name] = answer.url.path
    world.work()
    found, unmarked, broken = (html.unescape(ann.client.get(path).text) for path in paths.values())
    assert HOSTILE in found and "This is the copy" in found
    assert "No one’s" in unmarked and "None of 2 recipients" in unmarked  # noqa: RUF001
    assert "could not be looked at" in broken and "is damaged" in broken
    assert world.watermark.publishing.view(campaign).recipients == 2
    stopped, purged = (
        ann.upload("/detections", f"{name}.mp4", b"x", shown="/detections").url.path for name in ("stopped", "purged")
    )
    for path in (purged, stopped):
        detection = world.watermark.detections.get(path.split("/")[-1])
        assert detection is not None
        world.app.cancel(detection.job, actor="operator")
        if path == purged:
            # Once it is over for as long as the clock can tell.
            eventually(lambda: world.app.purge(JobFilter(state="cancelled"), older_than="0s", dry_run=False).purged)
    listed = ann.client.get("/detections").text
    words = [
        re.search(rf'id="detection-{path.split("/")[-1]}".*?</tr>', listed, re.DOTALL) for path in (stopped, purged)
    ]
    assert ["cancelled" in (found or [""])[0] for found in words] == [True, False]
    assert ["removed" in (found or [""])[0] for found in words] == [False, True]
    assert "looking" not in listed
    other = site.visitor(world.account("Mallory"))
    assert other.client.get(paths["found"]).status_code == 404
    foreign = other.upload("/detections", "a.mp4", b"x", shown="/account", campaign=campaign.id)
    assert foreign.status_code == 404


def test_huge_files_are_refused_while_they_come_in(tmp_path: Path, clip: Path) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    with watermark_world(url, tmp_path, clip, largest_upload=100_000) as world, served(world) as site:
        ann = site.visitor(world.account())
        answer = ann.upload("/campaigns", "a.mp4", b"x" * 100_001, shown="/campaigns/new", name="a", recipients="b")
        assert answer.status_code == 413 and "at most" in answer.text
        assert list(world.watermark.files.folder.iterdir()) == []


def test_options_are_read_from_the_environment() -> None:
    given = {"WATERMARK_FOLDER": "/srv/videos", "WATERMARK_LARGEST_UPLOAD": "1000", "WATERMARK_TIMEOUT": "3m"}
    options = Options.read(given)
    assert (str(options.folder), options.largest_upload, options.timeout, options.webhook_url) == (
        "/srv/videos",
        1_000,
        "3m",
        None,
    )


def test_an_account_is_deleted_from_its_page(site: Served) -> None:
    world, account = site.world, site.world.account()
    campaign = world.published(account, "Kim")
    ann = site.visitor(account)
    assert "Nothing was deleted" in ann.post("/account/delete", email="other@example.org").text
    assert world.watermark.campaigns.get(campaign.id) is not None
    gone = ann.post("/account/delete", email=account.email)
    assert gone.url.path == "/sign-in" and "are deleted" in gone.text
    assert world.watermark.campaigns.get(campaign.id) is None and ann.client.get("/").url.path == "/sign-in"


def test_a_thousand_recipients_are_shown_page_by_page(site: Served) -> None:
    world, account = site.world, site.world.account()
    campaign = world.published(account, *(f"Person {number}" for number in range(1_000)))
    ann = site.visitor(account)
    first, last = (ann.client.get(f"/campaigns/{campaign.id}?page={number}").text for number in (1, 10))
    assert first.count("data-token-id") == last.count("data-token-id") == 100
    assert "Person 999<" in re.sub(r"\s+", "", last).replace("Person", "Person ") and "Page 10 of 10" in last
    assert ann.client.get(f"/campaigns/{campaign.id}?page=99").status_code == 200
    assert ann.client.get(f"/campaigns/{campaign.id}?page=<script>").status_code == 200
