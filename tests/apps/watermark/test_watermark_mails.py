"""W8: mails in a real sink, the webhook at a real receiver, verified by the reference library."""

import json
import re
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from mail_sink import MailServer, mail_server
from receiver import Receiver, receiving
from standardwebhooks import Webhook
from watermark_world import World, served, watermark_world

from live import eventually
from mulligan import JobFilter
from mulligan.testing import sandbox

SECRET = "whsec_c2VjcmV0IG9mIHRoZSB3YXRlcm1hcmsgdGVzdHM="


@pytest.fixture
def mails(monkeypatch: pytest.MonkeyPatch) -> Iterator[MailServer]:
    with mail_server() as found:
        monkeypatch.setenv("MULLIGAN_SMTP_URL", f"smtp://127.0.0.1:{found.port}?from=marks@example.org&tls=off")
        monkeypatch.setenv("MULLIGAN_PUBLIC_URL", "https://marks.example.org")
        yield found


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as found:
        monkeypatch.setenv("MULLIGAN_WEBHOOK_PORTS", str(found.port))
        monkeypatch.setenv("MULLIGAN_WEBHOOK_ALLOWED_NETWORKS", "127.0.0.0/8")
        yield found


@pytest.fixture
def told(mails: MailServer, store_url: str, tmp_path: Path, clip: Path) -> Iterator[World]:
    with watermark_world(store_url, tmp_path, clip) as world:
        # Workers do this when they start.
        world.app.run_duty("notify")
        yield world


@pytest.fixture
def small_told(mails: MailServer, small_world: World) -> World:
    small_world.app.run_duty("notify")
    return small_world


def tell(world: World) -> None:
    """What the duties of a worker do each second."""
    world.work()
    world.app.run_duty("notify")
    world.app.run_duty("digest")
    world.work()


def plain(message: EmailMessage) -> str:
    body = message.get_body(("plain",))
    assert body is not None
    return str(body.get_content())


def by_subject(mails: MailServer) -> dict[str, EmailMessage]:
    return {str(mail.message["Subject"]): mail.message for mail in mails.accepted}


def test_w8_a_token_out_of_retries_and_a_partial_campaign(told: World, mails: MailServer) -> None:
    world, ann = told, told.account("Ann Lee")
    campaign = world.campaign(ann, "Kim", "Lee & Sons", "Noor", max_attempts=1)
    world.break_token(world.tokens(campaign)[1])
    world.publish(campaign)
    tell(world)
    found = by_subject(mails)
    assert set(found) == {
        "Watermarking failed for Lee & Sons: Spring",
        "Spring is partly ready: 2 completed, 1 failed",
    }
    assert {str(message["To"]) for message in found.values()} == {f"Ann Lee <{ann.email}>"}
    partial, failed = (plain(found[subject]) for subject in sorted(found))
    for line in ("Hello Ann Lee,", "Campaign:  Spring", "Recipient: Lee & Sons", "There is no space left"):
        assert line in failed.replace("’", "'")  # noqa: RUF001
    assert f"https://marks.example.org/campaigns/{campaign.id}" in failed
    for line in ("Hello Ann Lee,", "State:     PARTIAL", "Completed: 2", "Failed:    1"):
        assert line in partial
    assert str(world.folder) not in failed + partial, "paths stay on the server"


def test_w8_failed_then_ready(small_told: World, mails: MailServer) -> None:
    world = small_told
    campaign = world.campaign(world.account(), "Kim", "Lee", max_attempts=1)
    for token in world.tokens(campaign):
        world.break_token(token)
    world.publish(campaign)
    tell(world)
    for token in world.tokens(campaign):
        world.mend_token(token)
    world.publish(world.read(campaign))
    tell(world)
    subjects = [str(mail.message["Subject"]) for mail in mails.accepted]
    assert subjects.count("Spring failed: 0 completed, 2 failed") == 1
    assert subjects.count("Spring is ready") == 1
    named = [subject for subject in subjects if subject.startswith("Watermarking failed for ")]
    assert len(named) == 1, "the first of like failures at once, the second in a digest"
    waiting = [each for each in world.app.deliveries(state="pending", limit=100) if each.digest is None]
    assert all(each.type == "job.failed" for each in waiting)


def test_w8_each_failed_token_is_named_in_exactly_one_mail(small_told: World, mails: MailServer) -> None:
    world = small_told
    names = [f"Person {letter}" for letter in "ABCDE"]
    campaign = world.campaign(world.account(), *names, max_attempts=1)
    for token in world.tokens(campaign):
        world.break_token(token)
    with sandbox(world.app) as box:
        world.app.run_duty("notify")
        world.publish(campaign)
        for _ in range(3):
            box.advance("5m")
            world.app.run_duty("notify")
            world.app.run_duty("digest")
        box.run()
    texts = [plain(mail.message) for mail in mails.accepted]
    assert [sum(name in text for text in texts) for name in names] == [1] * len(names)
    assert len(texts) == 3, "the first failure, the campaign, and a digest"
    assert "Watermarking failed for 4 recipients: Spring" in by_subject(mails)


def test_w8_no_mail_while_retries_remain(small_told: World, mails: MailServer) -> None:
    world = small_told
    campaign = world.campaign(world.account(), "Kim")
    world.break_token(world.tokens(campaign)[0])
    world.publish(campaign)
    tell(world)
    assert world.views(campaign)[0].retry_count == 1
    assert mails.accepted == [] and world.app.deliveries() == []


def test_w8_a_name_cannot_add_a_header_or_a_recipient(small_told: World, mails: MailServer) -> None:
    world = small_told
    evil = world.account('Ann" <evil@example.org>, x')
    world.published(evil, "Kim")
    tell(world)
    (mail,) = mails.accepted
    assert mail.recipients == [evil.email]


def test_w8_without_a_mail_server_a_skipped_record_is_visible(small_world: World) -> None:
    world = small_world
    world.app.run_duty("notify")
    account = world.account()
    campaign = world.published(account, "Kim")
    tell(world)
    (skipped,) = world.app.deliveries(state="skipped")
    assert skipped.reason == "no mail server is configured: set MULLIGAN_SMTP_URL"
    with served(world) as site:
        page = site.visitor(account).client.get(f"/campaigns/{campaign.id}").text
    assert "Mail about this campaign: skipped (no mail server is configured)." in page


@pytest.mark.parametrize(("broken", "state"), [((), "READY"), ((1,), "PARTIAL"), ((0, 1), "FAILED")])
def test_w8_the_campaign_ready_webhook_has_the_state(
    broken: tuple[int, ...], state: str, receiver: Receiver, tmp_path: Path, clip: Path
) -> None:
    url = f"sqlite:///{tmp_path}/app.db"
    options = {"webhook_url": receiver.url("/200"), "webhook_secret": SECRET}
    with watermark_world(url, tmp_path, clip, **options) as world:
        world.app.run_duty("notify")
        campaign = world.campaign(world.account(), "Kim", "Lee", max_attempts=1)
        for index in broken:
            world.break_token(world.tokens(campaign)[index])
        world.publish(campaign)
        tell(world)
        assert world.app.counts(JobFilter(kind="mulligan.deliver", state="failed")).total == 0
    (received,) = receiver.received
    payload = Webhook(SECRET).verify(received.body, received.headers)
    assert payload == json.loads(received.body) and payload["type"] == "campaign_ready"
    assert payload["data"] == {
        "campaign_id": campaign.id,
        "name": "Spring",
        "state": state,
        "completed": 2 - len(broken),
        "failed": len(broken),
    }
    with pytest.raises(Exception, match="No matching signature"):
        Webhook(SECRET).verify(received.body.replace(state.encode(), b"DRAFT"), received.headers)


def test_w8_an_account_has_a_webhook_of_its_own(receiver: Receiver, tmp_path: Path, clip: Path) -> None:
    """Ann hears of her own campaigns, signed with her secret, and Bob hears nothing of them."""
    with watermark_world(f"sqlite:///{tmp_path}/app.db", tmp_path, clip) as world:
        ann, bob = world.account("Ann"), world.account("Bob")
        webhooks = world.watermark.webhooks
        secrets = {each.id: webhooks.add(each.id, receiver.url(f"/200/{each.id}"), actor="x") for each in (ann, bob)}
        campaign = world.published(ann, "Kim")
        tell(world)
        (received,) = receiver.received
        assert received.path.endswith(ann.id)
        payload = Webhook(secrets[ann.id]).verify(received.body, received.headers)
        assert (payload["type"], payload["data"]["campaign_id"]) == ("campaign_ready", campaign.id)
        assert payload["data"]["state"] == "READY"
        with pytest.raises(Exception, match="No matching signature"):
            Webhook(secrets[bob.id]).verify(received.body, received.headers)
        world.watermark.delete_account(ann.id)
        world.work()
        eventually(lambda: world.app.run_duty("redrive") is not None and webhooks.find(ann.id) is None)
        assert webhooks.find(bob.id) is not None


def test_w8_a_webhook_is_added_tried_and_removed_on_the_page(receiver: Receiver, small_world: World) -> None:
    with served(small_world) as site:
        ann, mallory = (site.visitor(small_world.account(name)) for name in ("Ann", "Mallory"))
        for bad in ("", "ftp://example.org/", "https://169.254.169.254/latest/", "https://user:pass@example.org/"):
            refused = ann.post("/account/webhook", url=bad)
            assert refused.status_code == 400 and "whsec_" not in refused.text, bad
        added = ann.post("/account/webhook", url=receiver.url("/200"))
        secret = re.search(r"whsec_[\w+/=-]+", added.text)
        assert added.status_code == 200 and secret is not None
        page = ann.client.get("/account").text
        assert receiver.url("/200") in page and "whsec_" not in page, "the secret is shown once"
        assert receiver.url("/200") not in mallory.client.get("/account").text
        assert ann.client.post("/account/webhook/remove", data={"csrf": "wrong"}).status_code == 403
        assert "A sample is on its way." in ann.post("/account/webhook/test").text
        small_world.work()
        (received,) = receiver.received
        assert Webhook(secret[0]).verify(received.body, received.headers)["type"] == "subscription.test"
        assert "Last message: delivered" in ann.client.get("/account").text
        mallory.post("/account/webhook/remove")
        assert receiver.url("/200") in ann.client.get("/account").text
        assert "Add the webhook" in ann.post("/account/webhook/remove").text
