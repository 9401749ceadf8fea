"""Webhooks, sent to a real receiver and checked by the reference library of Standard Webhooks (A11)."""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from receiver import Receiver, receiving
from standardwebhooks import Webhook as Referee
from standardwebhooks import WebhookVerificationError

from mulligan import App, egress
from mulligan.egress import Egress
from mulligan.errors import BadSecret, WebhookFailed
from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS
from mulligan.failure.verdict import Failure
from mulligan.notify import cloud_event, webhook
from mulligan.notify.signature import check_secret, new_secret, sign
from mulligan.notify.webhook import Webhook, WebhookAnswer, send_webhook
from mulligan.values.address import Address, parse_address, parse_network
from mulligan.values.clock import SystemClock

SECRET, OLD = new_secret(), new_secret()
BODY = cloud_event.encode(
    {"job": "0190", "note": "größer"},
    id="evt_1",
    type="mulligan.job.failed",
    source="https://jobs.example.org",
    time=datetime(2026, 11, 18, tzinfo=UTC),
    subject="jobs/0190",
)
LOOPBACK = (parse_network("127.0.0.0/8"),)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def send(receiver: Receiver, path: str = "/200", *, secrets: tuple[str, ...] = (SECRET,)) -> WebhookAnswer:
    reachable = Egress(ports=(receiver.port,), allowed=LOOPBACK)
    return send_webhook(Webhook(url=receiver.url(path), id="evt_1", body=BODY, secrets=secrets), egress=reachable)


def code_and_class(answer: WebhookAnswer) -> tuple[str, str]:
    assert answer.problem is not None
    verdict = classify(Failure.of(answer.problem), kind="send", rules=PACKS)
    return verdict.code, str(verdict.error_class)


def test_a_delivery_is_a_value_with_status_time_and_the_start_of_the_answer(receiver: Receiver) -> None:
    answer = send(receiver)
    assert (answer.status, answer.shown, answer.error) == (200, "the answer", None)
    assert answer.seconds > 0
    answer.raise_for_failure()


def test_the_reference_verifies_what_was_received(receiver: Receiver) -> None:
    send(receiver)
    [received] = receiver.received
    assert Referee(SECRET).verify(received.body, received.headers) is not None
    assert received.headers["content-type"] == "application/cloudevents+json"
    assert received.headers["host"] == f"127.0.0.1:{receiver.port}"
    with pytest.raises(WebhookVerificationError):
        Referee(SECRET).verify(received.body + b" ", received.headers)
    with pytest.raises(WebhookVerificationError):
        Referee(OLD).verify(received.body, received.headers)


def test_every_attempt_sends_the_same_id_and_the_same_bytes(receiver: Receiver) -> None:
    for status in ("/500", "/503", "/200"):
        send(receiver, status)
    assert {received.body for received in receiver.received} == {BODY}
    assert {received.headers["webhook-id"] for received in receiver.received} == {"evt_1"}


def test_during_a_rotation_the_old_and_the_new_secret_verify(receiver: Receiver) -> None:
    send(receiver, secrets=(SECRET, OLD))
    [received] = receiver.received
    for secret in (SECRET, OLD):
        Referee(secret).verify(received.body, received.headers)


def test_the_reference_refuses_a_replay_after_five_minutes() -> None:
    sent = int((datetime.now(UTC) - timedelta(minutes=6)).timestamp())
    with pytest.raises(WebhookVerificationError, match="too old"):
        Referee(SECRET).verify(BODY, sign(BODY, message_id="evt_1", timestamp=sent, secrets=[SECRET]))


def test_our_signature_is_that_of_the_reference() -> None:
    now = datetime.now(UTC)
    ours = sign(BODY, message_id="evt_1", timestamp=int(now.timestamp()), secrets=[SECRET])
    assert ours["webhook-signature"] == Referee(SECRET).sign("evt_1", now, BODY.decode())


@pytest.mark.parametrize(
    "secret", ["", "whsec_", "whsec_c2hvcnQ=", "whsec_!" + "a" * 40, SECRET[6:], f"{SECRET}\n"], ids=range(6)
)
def test_a_bad_secret_is_refused_without_being_shown(secret: str) -> None:
    with pytest.raises(BadSecret, match="must be 'whsec_' and 24 to 64 random bytes") as refused:
        check_secret(secret)
    assert not secret[6:] or secret[6:] not in str(refused.value)
    with pytest.raises(BadSecret):
        sign(BODY, message_id="evt_1", timestamp=0, secrets=[])


def test_the_body_is_a_cloud_event() -> None:
    assert BODY == (
        b'{"specversion":"1.0","id":"evt_1","source":"https://jobs.example.org","type":"mulligan.job.failed",'
        b'"time":"2026-11-18T00:00:00Z","subject":"jobs/0190","datacontenttype":"application/json",'
        b'"data":{"job":"0190","note":"gr\xc3\xb6\xc3\x9fer"}}'
    )


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/302", ("HTTP_3XX", "final")),
        ("/400", ("HTTP_4XX", "retryable")),
        ("/401", ("HTTP_4XX", "retryable")),
        ("/404", ("HTTP_4XX", "retryable")),
        ("/410", ("WEBHOOK_GONE", "final")),
        ("/413", ("HTTP_4XX", "final")),
        ("/429", ("RATE_LIMITED", "rate_limited")),
        ("/500", ("HTTP_5XX", "retryable")),
        ("/garbage", ("HTTP_BROKEN", "retryable")),
    ],
)
def test_failures_are_classified_by_the_rules(receiver: Receiver, path: str, expected: tuple[str, str]) -> None:
    answer = send(receiver, path)
    assert code_and_class(answer) == expected
    assert answer.is_gone == (path == "/410")
    with pytest.raises(Exception) as raised:
        answer.raise_for_failure()
    assert raised.value is answer.problem


def test_the_wait_that_a_receiver_asks_for_is_kept(receiver: Receiver) -> None:
    answer = send(receiver, "/429/7")
    assert isinstance(answer.problem, WebhookFailed)
    assert Failure.of(answer.problem).retry_after == timedelta(seconds=7)


def test_a_port_that_nobody_listens_on_is_retried(receiver: Receiver) -> None:
    port = receiver.port
    receiver.server_close()
    answer = send_webhook(
        Webhook(url=f"http://127.0.0.1:{port}/", id="evt_1", body=BODY, secrets=[SECRET]),
        egress=Egress(ports=(port,), allowed=LOOPBACK),
    )
    assert code_and_class(answer) == ("NETWORK", "retryable")


@pytest.mark.parametrize("path", ["/silent", "/drip"])
def test_the_time_limit_holds_for_the_whole_exchange(
    receiver: Receiver, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook, "TOTAL_SECONDS", 0.3)
    assert code_and_class(send(receiver, path)) == ("TIMEOUT", "retryable")


def test_an_answer_that_breaks_off_was_given(receiver: Receiver) -> None:
    answer = send(receiver, "/broken")
    assert (answer.status, answer.shown, answer.error) == (200, "half", None)


def test_a_huge_answer_is_not_read_to_its_end(receiver: Receiver) -> None:
    answer = send(receiver, "/large")
    assert (answer.status, answer.shown) == (200, "x" * 1024)


def test_a_body_that_comes_after_its_head_is_shown(receiver: Receiver) -> None:
    answer = send(receiver, "/long")
    assert (answer.status, answer.shown) == (200, "body")


def test_the_shown_answer_has_no_secret_and_no_control_characters(receiver: Receiver) -> None:
    assert send(receiver, "/secret").shown == "\\x1b[31m password=••• \\r\nsecond line"


def test_the_path_of_a_url_stays_out_of_errors(receiver: Receiver) -> None:
    assert send(receiver, "/500/token-in-the-path").error == (
        f"mulligan.errors.WebhookFailed: http://127.0.0.1:{receiver.port} answered with the status 500"
    )


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trustme.CA]:
    authority = trustme.CA()
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    egress.tls_context.cache_clear()
    yield authority
    egress.tls_context.cache_clear()


def send_encrypted(authority: trustme.CA, *, certificate_of: str) -> tuple[WebhookAnswer, Receiver]:
    def resolve(host: str, port: int) -> list[Address]:
        address = parse_address("127.0.0.1")
        assert host == "hooks.test"
        assert address is not None
        return [address]

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(certificate_of).configure_cert(context)
    with receiving(context) as receiver:
        reachable = Egress(ports=(receiver.port,), allowed=LOOPBACK, resolve=resolve)
        url = receiver.url(host="hooks.test")
        return send_webhook(Webhook(url=url, id="evt_1", body=BODY, secrets=[SECRET]), egress=reachable), receiver


def test_name_and_certificate_are_those_of_the_url_not_of_the_address(authority: trustme.CA) -> None:
    answer, receiver = send_encrypted(authority, certificate_of="hooks.test")
    assert answer.status == 200
    assert receiver.received[0].headers["host"] == f"hooks.test:{receiver.port}"
    assert receiver.names == ["hooks.test"]


def test_a_certificate_of_another_name_is_refused(authority: trustme.CA) -> None:
    answer, receiver = send_encrypted(authority, certificate_of="other.test")
    assert code_and_class(answer) == ("CERTIFICATE_INVALID", "final")
    assert receiver.received == []


def test_a_task_sends_it_in_three_lines(app: App, receiver: Receiver) -> None:
    reachable = Egress(ports=(receiver.port,), allowed=LOOPBACK)

    @app.task
    def deliver(url: str, body: str) -> int | None:
        answer = send_webhook(Webhook(url=url, id="evt_1", body=body.encode(), secrets=[SECRET]), egress=reachable)
        answer.raise_for_failure()
        return answer.status

    good = deliver.enqueue(receiver.url("/200"), BODY.decode())
    gone = deliver.enqueue(receiver.url("/410"), BODY.decode())
    inside = deliver.enqueue("https://169.254.169.254/latest", BODY.decode())
    app.run_until_idle()
    assert app.job(good.id).result == 200
    assert app.job(gone.id).error_code == "WEBHOOK_GONE"
    assert app.job(inside.id).error_code == "TARGET_REFUSED"


def test_the_clock_is_injected() -> None:
    class Frozen(SystemClock):
        def now(self) -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC)

    with receiving() as receiver:
        reachable = Egress(ports=(receiver.port,), allowed=LOOPBACK)
        message = Webhook(url=receiver.url(), id="evt_1", body=BODY, secrets=[SECRET])
        send_webhook(message, egress=reachable, clock=Frozen())
        assert receiver.received[0].headers["webhook-timestamp"] == "1767225600"
