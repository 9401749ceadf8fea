"""Subscriptions are told of events: at once, in digests, or visibly not at all. On both stores, with real sinks."""

import json
import re
import socket
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from notify_world import HOUR, MINUTE, NotifyWorld, notify_world
from standardwebhooks import Webhook

from mulligan import App, FinalError, JobFilter, Subscription
from mulligan.console.subscriptions import MOST_TESTS
from mulligan.errors import BadSubscription, SubscriptionNotAllowed
from mulligan.notify.content import Content
from mulligan.notify.mail import Attachment
from mulligan.notify.matching import MAILS_AT_ONCE, MAILS_PER_HOUR
from mulligan.notify.subscription import Bulletin, Notice
from mulligan.records.delivery import DeliveryState
from mulligan.records.finding import Check, Level
from mulligan.records.subscription import DELIVER_KIND

OPS = "ops@example.org"
JOB_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


@pytest.fixture
def world(url: str) -> Iterator[NotifyWorld]:
    with notify_world(url) as world:
        yield world


def by_mail(app: App, **options: Any) -> str:
    given = {"types": ["job.failed"], "channel": "email", "to": OPS, **options}
    return app.subscribe("failures", **given).subscription.id


def by_webhook(world: NotifyWorld, path: str = "/200", **options: Any) -> tuple[str, str]:
    given = {"types": ["job.failed"], "channel": "webhook", "to": world.receiver.url(path), **options}
    created = world.app.subscribe("hook", **given)
    assert created.secret is not None
    return created.subscription.id, created.secret


def named(world: NotifyWorld) -> Counter[str]:
    """How many mails name each job."""
    return Counter(job for text in world.texts() for job in set(JOB_ID.findall(text)))


# Mails


def test_the_first_failure_of_a_group_is_told_at_once_and_the_others_in_one_digest(world: NotifyWorld) -> None:
    by_mail(world.app)
    jobs = world.fail(*["not a PDF"] * 30)
    world.tell()
    assert [mail["Subject"] for mail in world.messages] == ["convert failed: NOT_PDF"]
    world.advance(5 * MINUTE)
    world.tell()
    assert [mail["Subject"] for mail in world.messages][1:] == ["29 jobs failed: convert, NOT_PDF"]
    assert named(world) == {job.id: 1 for job in jobs}
    states = Counter(each.state for each in world.deliveries())
    assert states == {DeliveryState.DELIVERED: 2, DeliveryState.SUPPRESSED: 29}
    assert "https://jobs.example.org/" in world.texts()[0]


@pytest.mark.parametrize("number", [250])
def test_like_failures_are_at_most_three_mails_in_the_first_hour(world: NotifyWorld, number: int) -> None:
    by_mail(world.app)
    jobs = []
    for _ in range(12):
        jobs += world.fail(*["not a PDF"] * (number // 10))
        world.tell()
        world.advance(5 * MINUTE)
    world.tell()
    assert len(world.mails) <= 3
    for _ in range(10):
        world.advance(HOUR)
        world.tell()
    assert named(world) == {job.id: 1 for job in jobs}


def test_beyond_a_hundred_the_jobs_are_named_in_an_attached_file(world: NotifyWorld) -> None:
    by_mail(world.app)
    jobs = world.fail(*["not a PDF"] * 151)
    world.tell()
    world.advance(5 * MINUTE)
    world.tell()
    first, digest = world.messages
    (attached,) = digest.iter_attachments()
    assert attached.get_filename() == "failed-jobs.csv"
    assert len(attached.get_content().splitlines()) == 151
    assert not list(first.iter_attachments())
    assert set(named(world)) == {job.id for job in jobs}
    (told_first,) = {job.id for job in jobs} & set(JOB_ID.findall(world.texts()[0]))
    assert told_first not in world.texts()[1]


def test_another_group_is_told_at_once_too(world: NotifyWorld) -> None:
    by_mail(world.app)
    world.fail("not a PDF", "too many pages", "not a PDF")
    world.tell()
    assert len(world.mails) == 2


def test_a_recipient_gets_a_bounded_number_of_mails_in_an_hour_and_nothing_is_lost(world: NotifyWorld) -> None:
    by_mail(world.app)
    words = ["apple", "pear", "plum", "cherry", "quince", "lemon", "lime", "fig", "grape", "melon", "kiwi", "date"]
    jobs = world.fail(*(f"no {word} here" for word in words))
    world.tell()
    assert len(world.mails) == MAILS_AT_ONCE
    for _ in range(11):
        world.advance(5 * MINUTE)
        jobs += world.fail(f"no {words.pop()} in the {len(jobs)}th basket")
        world.tell()
    assert len(world.mails) <= MAILS_PER_HOUR
    for _ in range(12):
        world.advance(HOUR)
        world.tell()
    assert named(world) == {job.id: 1 for job in jobs}


def test_without_a_digest_each_failure_is_told_at_once(world: NotifyWorld) -> None:
    by_mail(world.app, digest=None)
    world.fail(*["not a PDF"] * 5)
    world.tell()
    assert len(world.mails) == 5


def test_a_group_that_is_quiet_for_an_hour_is_resolved_and_then_told_anew(world: NotifyWorld) -> None:
    by_mail(world.app)
    world.fail("not a PDF")
    world.tell()
    world.advance(HOUR + MINUTE)
    world.tell()
    world.advance(5 * MINUTE)
    world.tell()
    assert [mail["Subject"] for mail in world.messages] == ["convert failed: NOT_PDF", "Resolved: convert, NOT_PDF"]
    world.fail("not a PDF")
    world.tell()
    assert world.messages[-1]["Subject"] == "convert failed: NOT_PDF"


def test_a_group_without_a_failed_job_is_resolved_sooner(world: NotifyWorld) -> None:
    by_mail(world.app)
    (job,) = world.fail("not a PDF")
    world.tell()
    world.advance(11 * MINUTE)
    world.tell()
    world.app.purge(JobFilter(kind="convert", state="failed"), older_than="1s", dry_run=False, actor="ann")
    world.tell()
    world.advance(5 * MINUTE)
    world.tell()
    assert [mail["Subject"] for mail in world.messages][1:] == ["Resolved: convert, NOT_PDF"]
    assert job.id not in world.texts()[1]


def test_without_a_mail_server_mails_are_skipped_visibly(url: str) -> None:
    with notify_world(url, with_smtp=False) as world:
        by_mail(world.app)
        world.fail("not a PDF")
        world.tell()
        (delivery,) = world.deliveries()
        assert (delivery.state, delivery.reason) == (
            DeliveryState.SKIPPED,
            "no mail server is configured: set MULLIGAN_SMTP_URL",
        )
        (finding,) = [each for each in world.app.doctor() if each.code is Check.DELIVERIES]
        assert finding.level is Level.WARNING
        assert "1 subscription by mail, and no mail server" in finding.found


def test_a_mail_that_is_refused_for_good_is_a_failed_delivery_and_is_not_told(world: NotifyWorld) -> None:
    by_mail(world.app, to="r550@example.org")
    world.fail("not a PDF")
    world.tell()
    (delivery,) = world.deliveries()
    assert (delivery.state, delivery.attempts) == (DeliveryState.FAILED, 1)
    assert "550" in (delivery.reason or "")
    world.advance(10 * MINUTE)
    world.tell()
    assert len(world.deliveries()) == 1
    (sent,) = world.app.jobs(JobFilter(kind=DELIVER_KIND)).jobs
    assert sent.state == "failed"


# Webhooks


def test_a_webhook_is_a_signed_cloud_event_with_a_sequence(world: NotifyWorld) -> None:
    _, secret = by_webhook(world, types=["job.enqueued", "job.started", "job.failed"])
    (job,) = world.fail("not a PDF", owner="acme")
    world.tell()
    bodies = [json.loads(each.body) for each in world.receiver.received]
    by_sequence = sorted(bodies, key=lambda body: int(body["sequence"]))
    assert [body["type"] for body in by_sequence] == ["job.enqueued", "job.started", "job.failed"]
    assert [body["sequence"] for body in by_sequence] == ["1", "2", "3"]
    assert {body["subject"] for body in bodies} == {job.id}
    assert by_sequence[2]["data"]["code"] == "NOT_PDF"
    assert "detail" not in by_sequence[2]["data"]["data"]
    for received in world.receiver.received:
        # The clock of the test is years away; the library's own check of the time is in test_webhook.py.
        stamp = received.headers["webhook-timestamp"]
        signed = Webhook(secret).sign(received.headers["webhook-id"], _moment(stamp), received.body.decode())
        assert received.headers["webhook-signature"] == signed


def _moment(stamp: str) -> Any:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(stamp), UTC)


def test_every_attempt_sends_the_same_bytes_under_the_same_id(world: NotifyWorld) -> None:
    subscription, _ = by_webhook(world, "/503")
    world.fail("not a PDF")
    world.tell()
    (delivery,) = world.deliveries()
    assert (delivery.state, delivery.status, delivery.response) == (DeliveryState.PENDING, 503, "the answer")
    for _ in range(2):
        world.advance(30 * MINUTE)
        world.tell()
    received = world.receiver.received
    assert len(received) >= 2
    assert len({each.body for each in received}) == 1
    assert {each.headers["webhook-id"] for each in received} == {delivery.id}
    assert world.app.delivery(delivery.id).attempts == len(received)
    assert world.app.subscription(subscription).is_enabled


def test_a_receiver_that_is_gone_disables_its_subscription(world: NotifyWorld) -> None:
    subscription, _ = by_webhook(world, "/410")
    world.fail("not a PDF")
    world.tell()
    found = world.app.subscription(subscription)
    assert (found.is_enabled, found.disabled_because) == (False, "its receiver answered 410 Gone")
    assert [each.state for each in world.deliveries()] == [DeliveryState.FAILED]
    world.fail("not a PDF")
    world.tell()
    assert len(world.receiver.received) == 1


def test_a_delivery_can_be_sent_again_with_the_same_body(world: NotifyWorld) -> None:
    by_webhook(world)
    world.fail("not a PDF")
    world.tell()
    (delivery,) = world.deliveries()
    again = world.app.redeliver(delivery.id, actor="ann")
    assert again.state is DeliveryState.PENDING
    world.tell()
    first, second = world.receiver.received
    assert (first.body, first.headers["webhook-id"]) == (second.body, second.headers["webhook-id"])
    assert world.app.delivery(delivery.id).state is DeliveryState.DELIVERED
    assert world.app.audit()[0].action == "redeliver"


def test_during_a_rotation_both_secrets_sign(world: NotifyWorld) -> None:
    subscription, old = by_webhook(world)
    new = world.app.rotate_secret(subscription).secret
    assert new not in (None, old)
    world.fail("not a PDF")
    world.tell()
    (received,) = world.receiver.received
    assert len(received.headers["webhook-signature"].split()) == 2
    world.advance(25 * HOUR)
    world.fail("not a PDF")
    world.tell()
    assert len(world.receiver.received[1].headers["webhook-signature"].split()) == 1


def test_a_subscription_can_be_tested(world: NotifyWorld) -> None:
    mail = by_mail(world.app)
    hook, _ = by_webhook(world)
    for subscription in (mail, hook):
        assert world.app.test_subscription(subscription).state is DeliveryState.PENDING
    world.tell()
    assert json.loads(world.receiver.received[0].body)["type"] == "subscription.test"
    assert "This is a test." in world.texts()[0]


def test_an_owner_has_few_tests_on_their_way_at_once(world: NotifyWorld) -> None:
    hook, _ = by_webhook(world, owner="acme", for_owner=True)
    for _ in range(MOST_TESTS):
        world.app.test_subscription(hook, owner="acme")
    with pytest.raises(SubscriptionNotAllowed, match="3 deliveries are on their way"):
        world.app.test_subscription(hook, owner="acme")
    world.tell()
    assert len(world.receiver.received) == MOST_TESTS
    assert world.app.test_subscription(hook, owner="acme").state is DeliveryState.PENDING


def test_each_owner_has_a_breaker_of_its_own_for_a_host(world: NotifyWorld) -> None:
    hooks = [by_webhook(world, owner=owner, for_owner=owner is not None)[0] for owner in ("acme", "other", None)]
    jobs = [world.app.test_subscription(hook).job for hook in hooks]
    services = {world.app.job(job).service for job in jobs if job}
    assert services == {"notify:127.0.0.1/acme", "notify:127.0.0.1/other", "notify:127.0.0.1"}


UNREACHABLE = {
    "private": ("internal.example", "10.0.0.1"),
    "unknown": ("nowhere.example", None),
    "refused": ("closed.example", "127.0.0.2"),
}


@pytest.mark.parametrize("case", UNREACHABLE)
def test_an_owner_cannot_tell_which_hosts_the_network_of_the_operator_has(
    world: NotifyWorld, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, address = UNREACHABLE[case]
    asked = socket.getaddrinfo

    def resolve(name: str, port: int, *args: Any, **options: Any) -> Any:
        if name == host and address is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return asked(address if name == host else name, port, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    url = world.receiver.url(host=host)
    by_webhook(world, to=url, owner="acme", for_owner=True)
    world.fail("no", owner="acme")
    world.tell()
    (delivery,) = world.deliveries()
    seen = (delivery.reason, delivery.state, delivery.attempts, delivery.status, delivery.seconds)
    assert seen == ("the receiver cannot be reached", DeliveryState.PENDING, 1, None, None)
    assert delivery.job is not None
    assert world.app.job(delivery.job).last_code == "NETWORK"


# Who is told


def test_an_owner_is_told_of_its_own_events_only(world: NotifyWorld) -> None:
    by_webhook(world, owner="acme", types=["job.failed", "job.enqueued"])
    mine = world.fail("not a PDF", owner="acme")
    world.fail("not a PDF", owner="other")
    world.fail("not a PDF")
    world.tell()
    assert {json.loads(each.body)["data"]["job"] for each in world.receiver.received} == {job.id for job in mine}
    assert world.app.deliveries(owner="other") == []
    assert len(world.app.deliveries(owner="acme")) == 2


@pytest.mark.parametrize(
    ("chosen", "number"),
    [
        ({"kind": "convert"}, 1),
        ({"kind": "other"}, 0),
        ({"queue": "default"}, 1),
        ({"code": "NOT_PDF"}, 1),
        ({"code": "OTHER"}, 0),
        ({"tag": "eu"}, 1),
        ({"tag": "us"}, 0),
        ({"of_owner": "acme"}, 1),
        ({"of_owner": "other"}, 0),
    ],
)
def test_filters_choose_the_events(world: NotifyWorld, chosen: dict[str, str], number: int) -> None:
    by_webhook(world, **chosen)
    world.fail("not a PDF", owner="acme", tags=["eu"])
    world.tell()
    assert len(world.receiver.received) == number


def test_events_before_the_subscription_are_not_told(world: NotifyWorld) -> None:
    world.fail("not a PDF")
    world.advance(MINUTE)
    by_webhook(world)
    world.tell()
    assert world.receiver.received == []


def test_a_removed_subscription_is_told_nothing_more(world: NotifyWorld) -> None:
    subscription = by_mail(world.app)
    world.fail(*["not a PDF"] * 3)
    world.app.run_duty("notify")
    world.app.unsubscribe(subscription)
    world.tell()
    world.advance(HOUR)
    world.tell()
    assert world.mails == []
    assert {each.state for each in world.deliveries()} == {DeliveryState.SKIPPED}


# Subscriptions in the code


def test_code_finds_the_recipient_and_names_whom_the_job_was_for(url: str) -> None:
    addresses = {"acme": "Ada <ada@acme.example>", "globex": "hank@globex.example"}
    told = Subscription(
        "owners",
        types=["job.failed"],
        channel="email",
        to=lambda notice: addresses.get(notice.event.owner),
        label=lambda notice: f"customer of {notice.job.arguments['error']}",
    )
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        for owner in ("acme", "globex", "stranger"):
            world.fail("not a PDF", owner=owner)
        world.tell()
        assert {mail.recipients[0] for mail in world.mails} == {"ada@acme.example", "hank@globex.example"}
        assert all("customer of not a PDF" in text for text in world.texts())
        (skipped,) = world.deliveries(state="skipped")
        assert skipped.reason == "the function of the code found no recipient"


def test_a_recipient_with_a_name_is_greeted_by_it(url: str) -> None:
    named = Subscription("named", types=["job.failed"], channel="email", to=lambda _: "Ada Lovelace <ada@example.org>")
    plain = Subscription("plain", types=["job.failed"], channel="email", to="ops@example.org")
    with notify_world(url, subscriptions=[named, plain]) as world:
        world.tell()
        world.fail("not a PDF")
        world.tell()
        texts = {message["To"]: text for message, text in zip(world.messages, world.texts(), strict=True)}
    assert texts["Ada Lovelace <ada@example.org>"].startswith("Hello Ada Lovelace,")
    assert "Hello" not in texts["ops@example.org"]


def test_code_sends_webhooks_under_its_own_name(url: str) -> None:
    def write(notice: Notice) -> tuple[str, dict[str, Any]]:
        assert notice.batch is not None
        return "campaign_ready", {"state": notice.batch.state.upper(), "name": notice.batch.name}

    with notify_world(url) as other:
        to = other.receiver.url()
        told = Subscription("ready", types=["batch.settled"], channel="webhook", to=to, payload=write)
        app = App(settings=other.app.settings, subscriptions=[told])
        with app.wiring.use(other.app.wiring.parts):
            app.run_duty("notify")
            batch = other.app.batch("spring", owner="acme")
            batch.add(other.convert.bind(""), other.convert.bind("not a PDF"))
            batch.publish()
            other.app.run_until_idle()
            app.run_duty("notify")
            other.app.run_until_idle()
        (received,) = other.receiver.received
        body = json.loads(received.body)
        assert (body["type"], body["data"]) == ("campaign_ready", {"state": "PARTIAL", "name": "spring"})


def test_webhooks_that_owners_subscribe_have_the_body_of_the_app(url: str) -> None:
    def write(notice: Notice) -> tuple[str, dict[str, Any]]:
        return "campaign_ready", {"state": notice.event.data["state"].upper(), "of": notice.event.owner}

    with notify_world(url, payloads={"batch.settled": write}) as world:
        wanted = {"types": ["batch.settled", "job.failed"], "channel": "webhook", "to": world.receiver.url()}
        acme, _ = (world.app.subscribe("mine", owner=owner, for_owner=True, **wanted) for owner in ("acme", "globex"))
        batch = world.app.batch("spring", owner="acme")
        batch.add(world.convert.bind("not a PDF"))
        batch.publish()
        world.app.run_until_idle()
        world.tell()
        bodies = [Webhook(acme.secret).verify(each.body, each.headers) for each in world.receiver.received]
    found = {body["type"]: body["data"] for body in bodies}
    assert found["campaign_ready"] == {"state": "FAILED", "of": "acme"}
    assert found["job.failed"]["code"] == "NOT_PDF", "a type without a function has the usual body"
    assert len(bodies) == 2, "the other owner gets none"


@pytest.mark.parametrize(("name", "function"), [("batch.done", print), ("batch.settled", "print")])
def test_payloads_that_cannot_work_are_refused(name: str, function: Any) -> None:
    with pytest.raises(BadSubscription, match="payloads: "):
        App("sqlite:///:memory:", payloads={name: function})


def test_a_worker_without_the_code_leaves_the_events_to_one_that_has_it(url: str) -> None:
    told = Subscription("owners", types=["job.failed"], channel="email", to=lambda _: OPS)
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        other = App(settings=world.app.settings)
        with other.wiring.use(world.app.wiring.parts):
            world.fail("not a PDF")
            other.run_duty("notify")
            assert world.deliveries() == []
        world.tell()
        assert len(world.mails) == 1


def test_a_function_that_fails_delays_its_event_and_is_given_up_after_a_while(url: str) -> None:
    trouble = [True]

    def find(_notice: Notice) -> str:
        if trouble[0]:
            raise ConnectionError("the directory is away")
        return OPS

    told = Subscription("owners", types=["job.failed"], channel="email", to=find)
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        world.fail("not a PDF")
        world.tell()
        assert world.deliveries() == []
        trouble[0] = False
        world.tell()
        assert len(world.mails) == 1
        trouble[0] = True
        world.fail("too many pages")
        world.advance(11 * MINUTE)
        world.tell()
        (failed,) = world.deliveries(state="failed")
        assert "the directory is away" in (failed.reason or "")


@pytest.mark.parametrize("to", ["ada", "ada@example.org\nBcc: eve@example.org", 7, ""])
def test_a_recipient_that_can_never_be_used_is_given_up_at_once(url: str, to: Any) -> None:
    """It delays no other notification."""
    told = Subscription("owners", types=["job.failed"], channel="email", to=lambda _: to)
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        world.fail("not a PDF")
        world.tell()
        (failed,) = world.deliveries(state="failed")
        assert "found a recipient that cannot be used" in (failed.reason or "")


def test_a_final_error_of_a_function_gives_its_event_up_at_once(url: str) -> None:
    def find(_notice: Notice) -> str:
        raise FinalError("the customer was deleted")

    told = Subscription("owners", types=["job.failed"], channel="email", to=find)
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        world.fail("not a PDF")
        world.tell()
        (failed,) = world.deliveries(state="failed")
        assert "the customer was deleted" in (failed.reason or "")


def test_a_mail_that_cannot_be_written_is_given_up_at_once(url: str) -> None:
    def write(_bulletin: Bulletin) -> Content:
        return Content(subject="x", headline="x", lead="x", attachments=[Attachment("../etc/passwd", "x")])

    told = Subscription("failures", types=["job.failed"], channel="email", to=OPS, template=write)
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        world.fail("not a PDF")
        world.tell()
        (delivery,) = world.deliveries()
        assert (delivery.state, delivery.attempts) == (DeliveryState.FAILED, 1)


def test_the_code_names_no_receiver_with_a_password() -> None:
    with pytest.raises(BadSubscription, match="must not contain a user name") as refused:
        Subscription("x", types=["job.failed"], channel="webhook", to="https://ada:secret@example.org/")
    assert "secret" not in str(refused.value)


def test_a_subscription_of_the_code_is_disabled_and_not_removed(url: str) -> None:
    told = Subscription("failures", types=["job.failed"], channel="email", to=OPS)
    with notify_world(url, subscriptions=[told]) as world:
        world.app.run_duty("notify")
        (found,) = world.app.subscriptions()
        with pytest.raises(SubscriptionNotAllowed, match="disable it instead"):
            world.app.unsubscribe(found.id)
        world.app.disable_subscription(found.id, reason="holiday", actor="ann")
        world.fail("not a PDF")
        world.tell()
        assert world.mails == []
        world.app.enable_subscription(found.id)
        world.fail("too many pages")
        world.tell()
        assert len(world.mails) == 1
