"""Mails, sent to a real server that accepts, refuses, hangs up or fails at TLS."""

import ssl
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme
from mail_sink import PASSWORD, USER, MailServer, mail_server, scripted

from mulligan import App, egress
from mulligan.errors import BadMail, BadSetting
from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS
from mulligan.failure.redact import mask_secrets
from mulligan.failure.verdict import Failure
from mulligan.notify.mail import MOST_ATTACHED, Attachment, Mail, compose, message_id, one_line, send_mail
from mulligan.notify.smtp_server import SmtpServer, parse_smtp_url
from mulligan.settings import load

DATE = datetime(2026, 11, 18, 4, 0, tzinfo=UTC)
MAIL = Mail(id="delivery-1", to="ada@example.org", subject="3 jobs failed", text="Größe\n", html="<p>Größe</p>")


@pytest.fixture
def server() -> Iterator[MailServer]:
    with mail_server() as server:
        yield server


def plain(port: int) -> SmtpServer:
    return parse_smtp_url(f"smtp://127.0.0.1:{port}?from=Jobs <jobs@example.org>&tls=off")


def failure_of(server: SmtpServer, mail: Mail = MAIL) -> Failure:
    with pytest.raises(Exception) as raised:
        send_mail(mail, server=server, date=DATE)
    # As it comes out of the log: without the exception itself.
    return Failure.of(raised.value).compact


def code_and_class(failure: Failure) -> tuple[str, str]:
    verdict = classify(failure, kind="send", rules=PACKS)
    return verdict.code, str(verdict.error_class)


def test_a_mail_has_a_text_an_html_part_and_attachments(server: MailServer) -> None:
    csv = Attachment("failed-jobs.csv", "id,error\r\n1,Größe\r\n")
    send_mail(replace(MAIL, attachments=[csv]), server=plain(server.port), date=DATE)
    [accepted] = server.accepted
    assert (accepted.sender, accepted.recipients) == ("jobs@example.org", ["ada@example.org"])
    message = accepted.message
    text, html = message.get_body(("plain",)), message.get_body(("html",))
    assert text is not None
    assert html is not None
    assert (text.get_content(), html.get_content()) == ("Größe\r\n", "<p>Größe</p>\r\n")
    [attached] = message.iter_attachments()
    assert (attached.get_filename(), attached.get_content_type()) == ("failed-jobs.csv", "text/csv")
    assert attached.get_content() == csv.content


def test_the_headers_are_these(server: MailServer) -> None:
    send_mail(MAIL, server=plain(server.port), date=DATE)
    headers = {name: str(value) for name, value in server.accepted[0].message.items()}
    del headers["Content-Type"]
    assert headers == {
        "From": "Jobs <jobs@example.org>",
        "To": "ada@example.org",
        "Subject": "3 jobs failed",
        "Date": "Wed, 18 Nov 2026 04:00:00 +0000",
        "Message-ID": message_id("delivery-1", "jobs@example.org"),
        "Auto-Submitted": "auto-generated",
        "X-Auto-Response-Suppress": "All",
        "MIME-Version": "1.0",
    }


def test_every_attempt_has_the_same_message_id(server: MailServer) -> None:
    for _ in range(2):
        send_mail(MAIL, server=plain(server.port), date=DATE)
    send_mail(replace(MAIL, id="delivery-2"), server=plain(server.port), date=DATE)
    first, second, other = (accepted.message["Message-ID"] for accepted in server.accepted)
    assert first == second != other


INJECTIONS = [
    "\r\nBcc: evil@example.org",
    "\nBcc: evil@example.org",
    "\rBcc: evil@example.org",
    "\x85Bcc: evil@example.org",
    "\u2028Bcc: evil@example.org",
    "\u2029Bcc: evil@example.org",
    "\x0bBcc: evil@example.org",
    "\x0cBcc: evil@example.org",
    "\x00Bcc: evil@example.org",
    "\r\n Bcc: evil@example.org",
    "\r\n\tfolded\r\nBcc: evil@example.org",
    "\r\n\r\n<script>alert(1)</script>",
    "\r\n.\r\nMAIL FROM:<evil@example.org>\r\nRCPT TO:<evil@example.org>\r\nDATA",
    "=?utf-8?q?=0D=0ABcc=3A_evil@example.org?=",
    " =?utf-8?b?DQpCY2M6IGV2aWxAZXhhbXBsZS5vcmc=?= ",
    " =?utf-8?q?=0D=0A?= =?utf-8?q?Bcc=3A_evil@example.org?=",
    "%0d%0aBcc: evil@example.org",
    "\ud800Bcc: evil@example.org",
    "\u202eBcc: evil@example.org",
]


@pytest.mark.parametrize("injected", INJECTIONS)
def test_no_text_adds_a_header_or_a_recipient(server: MailServer, injected: str) -> None:
    """A12: job name, error and owner reach the subject, the texts, the id and the attachment."""
    planted = f"a{injected}"
    send_mail(MAIL, server=plain(server.port), date=DATE)
    mail = replace(MAIL, id=planted, subject=planted, text=planted, html=planted)
    send_mail(replace(mail, attachments=[Attachment("a.csv", planted)]), server=plain(server.port), date=DATE)
    intended, accepted = server.accepted
    assert accepted.message.keys() == intended.message.keys()
    assert accepted.recipients == ["ada@example.org"]
    assert len(server.accepted) == 2
    assert [part.get_content_type() for part in accepted.message.iter_attachments()] == ["text/csv"]
    assert len(str(accepted.message["Subject"]).splitlines()) == 1


@pytest.mark.parametrize("injected", INJECTIONS)
@pytest.mark.parametrize("form", ["ada{}@example.org", "ada@example.org{}", "Ada{} <ada@example.org>"])
def test_an_address_carries_one_recipient(server: MailServer, injected: str, form: str) -> None:
    try:
        send_mail(replace(MAIL, to=form.format(injected)), server=plain(server.port), date=DATE)
    except BadMail:
        assert server.accepted == []
        return
    # The harmless ones: a name may contain anything that is printable.
    [accepted] = server.accepted
    assert form.startswith("Ada")
    assert accepted.recipients == ["ada@example.org"]
    assert [address.addr_spec for address in accepted.message["To"].addresses] == ["ada@example.org"]
    assert "Bcc" not in accepted.message


@pytest.mark.parametrize(
    "address",
    [
        "", "ada", "@example.org", "ada@", "ada@example..org", "ada@-example.org", "ada@exa_mple.org",
        ".ada@example.org",
        "ada@example.org, eve@example.org", "ada@example.org;eve@example.org", "<ada@example.org> eve@example.org",
        "Ada <ada@example.org", '"ada eve"@example.org', "ada@[127.0.0.1]", "ädä@example.org", "ada@exämple.org",
        f"{'a' * 65}@example.org", f"ada@{'a.' * 130}org", "ada(comment)@example.org", None,
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(BadMail, match=r"but it must be one address such as 'ada@example\.org'"):
        compose(replace(MAIL, to=address), sender="jobs@example.org", date=DATE)


def test_a_subject_is_one_line_of_at_most_120_characters() -> None:
    assert one_line("  two\n\n lines\u2028 and\ttab ") == "two lines and tab"
    assert len(one_line("word " * 100)) <= 120
    assert one_line("word " * 100).endswith("word…")


def test_an_attachment_is_bounded_and_has_a_plain_name() -> None:
    for attachment in (
        Attachment("../a.csv", ""),
        Attachment("a\r\nb.csv", ""),
        Attachment("a.csv", "x" * (MOST_ATTACHED + 1)),
    ):
        with pytest.raises(BadMail, match="attachment"):
            compose(replace(MAIL, attachments=[attachment]), sender="jobs@example.org", date=DATE)


@pytest.mark.parametrize(
    ("recipient", "expected"),
    [
        ("r421", ("MAIL_UNAVAILABLE", "retryable")),
        ("r450", ("MAIL_UNAVAILABLE", "retryable")),
        ("r451", ("MAIL_UNAVAILABLE", "retryable")),
        ("r452", ("MAIL_UNAVAILABLE", "retryable")),
        ("r550", ("MAIL_REFUSED", "final")),
        ("r552", ("MAIL_REFUSED", "final")),
        ("r554", ("MAIL_REFUSED", "final")),
        ("d421", ("MAIL_UNAVAILABLE", "retryable")),
        ("d451", ("MAIL_UNAVAILABLE", "retryable")),
        ("d452", ("MAIL_UNAVAILABLE", "retryable")),
        ("d550", ("MAIL_REFUSED", "final")),
        ("d552", ("MAIL_REFUSED", "final")),
        ("d554", ("MAIL_REFUSED", "final")),
    ],
)
def test_a_reply_of_4xx_is_retried_and_one_of_5xx_is_final(
    server: MailServer, recipient: str, expected: tuple[str, str]
) -> None:
    mail = replace(MAIL, to=f"{recipient}@example.org")
    assert code_and_class(failure_of(plain(server.port), mail)) == expected
    assert server.accepted == []


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("421 too busy",), ("MAIL_UNAVAILABLE", "retryable")),
        (("554 no mail here",), ("MAIL_REFUSED", "final")),
        (("HTTP/1.1 400 Bad Request",), ("MAIL_UNAVAILABLE", "retryable")),
        (("220 hello", "421 closing"), ("MAIL_UNAVAILABLE", "retryable")),
        (("220 hello", "250 OK", "550 not you"), ("MAIL_REFUSED", "final")),
        (("220 hello", "250 OK", "250 OK", "250 OK", "354 go on"), ("MAIL_UNAVAILABLE", "retryable")),
        (("220 hello", "250 OK"), ("MAIL_UNAVAILABLE", "retryable")),
        ((), ("MAIL_UNAVAILABLE", "retryable")),
    ],
)
def test_a_server_that_hangs_up_or_refuses_early_is_classified(
    lines: tuple[str, ...], expected: tuple[str, str]
) -> None:
    with scripted(*lines) as port:
        assert code_and_class(failure_of(plain(port))) == expected


def test_a_port_without_a_server_is_retried() -> None:
    with scripted() as port:
        pass
    assert code_and_class(failure_of(plain(port))) == ("NETWORK", "retryable")


@pytest.fixture
def authority(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[trustme.CA]:
    authority = trustme.CA()
    file = tmp_path_factory.mktemp("tls") / "authority.pem"
    authority.cert_pem.write_to_path(file)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    egress.tls_context.cache_clear()
    yield authority
    egress.tls_context.cache_clear()


def context(authority: trustme.CA, name: str = "localhost") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)
    return context


def test_a_mail_goes_by_starttls_with_a_login(authority: trustme.CA) -> None:
    with mail_server(starttls=context(authority), auth=True) as server:
        url = f"smtp://jobs%40example.org:{PASSWORD.replace(' ', '%20')}@localhost:{server.port}"
        send_mail(MAIL, server=parse_smtp_url(url), date=DATE)
        assert len(server.accepted) == 1


def test_a_mail_goes_by_tls(authority: trustme.CA) -> None:
    with mail_server(tls=context(authority)) as server:
        send_mail(MAIL, server=parse_smtp_url(f"smtps://localhost:{server.port}?from={USER}"), date=DATE)
        assert len(server.accepted) == 1


def test_a_refused_login_is_final_and_does_not_show_the_password(authority: trustme.CA) -> None:
    with mail_server(starttls=context(authority), auth=True) as server:
        failure = failure_of(parse_smtp_url(f"smtp://jobs%40example.org:wrong-password@localhost:{server.port}"))
    assert code_and_class(failure) == ("MAIL_LOGIN_REFUSED", "final")
    assert "wrong-password" not in failure.message


def test_nothing_is_sent_to_a_server_without_starttls(server: MailServer) -> None:
    failure = failure_of(parse_smtp_url(f"smtp://127.0.0.1:{server.port}?from={USER}"))
    assert code_and_class(failure) == ("MAIL_UNSUPPORTED", "final")
    assert server.accepted == []


def test_a_certificate_of_another_name_is_final(authority: trustme.CA) -> None:
    with mail_server(starttls=context(authority, "other.test")) as server:
        failure = failure_of(parse_smtp_url(f"smtp://localhost:{server.port}?from={USER}"))
        assert code_and_class(failure) == ("CERTIFICATE_INVALID", "final")
        assert server.accepted == []


def test_a_server_that_breaks_off_during_tls_is_retried() -> None:
    with scripted("220 hello", "250-localhost\r\n250 STARTTLS", "220 go on") as port:
        failure = failure_of(parse_smtp_url(f"smtp://localhost:{port}?from={USER}"))
    assert code_and_class(failure)[1] == "retryable"


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.test?from=a@b.test", SmtpServer("mail.test", 587, "starttls", "a@b.test")),
        ("smtps://mail.test?from=a@b.test", SmtpServer("mail.test", 465, "tls", "a@b.test")),
        ("smtp://mail.test:25?from=a@b.test&tls=off", SmtpServer("mail.test", 25, "off", "a@b.test")),
        ("smtp://a%40b.test:p%3Aw@mail.test", SmtpServer("mail.test", 587, "starttls", "a@b.test", "a@b.test", "p:w")),
        ("smtp://u:pw@localhost?from=a@b.test&tls=off", SmtpServer("localhost", 587, "off", "a@b.test", "u", "pw")),
        ("smtp://m.test?from=Jobs%20<a@b.test>", SmtpServer("m.test", 587, "starttls", "Jobs <a@b.test>")),
    ],
)
def test_the_url_of_a_mail_server(url: str, server: SmtpServer) -> None:
    assert load(environment={"MULLIGAN_SMTP_URL": url}).smtp_url == server


@pytest.mark.parametrize(
    "url",
    [
        "mail.test", "http://mail.test?from=a@b.test", "smtp://?from=a@b.test", "smtp://mail.test", "smtp://mail.test?from=me",
        "smtp://u:hunter2@mail.test?from=a@b.test&tls=off", "smtps://mail.test?from=a@b.test&tls=off",
        "smtp://u@mail.test?from=a@b.test", "smtp://mail.test:99999?from=a@b.test", "smtp://mail.test?from=a@b.test&tls=maybe",
        "smtp://mail.test?from=a@b.test&ssl=1", "smtp://mail.test/inbox?from=a@b.test", "smtp://mail.test?from",
    ],
)  # fmt: skip
def test_a_bad_url_of_a_mail_server_stops_the_start(url: str) -> None:
    with pytest.raises(BadSetting, match=r"MULLIGAN_SMTP_URL is 's?.*must be smtp://user:password@host:587") as raised:
        load(environment={"MULLIGAN_SMTP_URL": url})
    assert "hunter2" not in str(raised.value)


def test_the_password_of_the_mail_server_is_masked_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MULLIGAN_SMTP_URL", "smtp://jobs%40b.test:tr0ub4dor%263@mail.test")
    with App(f"sqlite:///{tmp_path}/jobs.db"):
        assert mask_secrets("it said tr0ub4dor&3 aloud") == "it said ••• aloud"


def test_a_task_sends_a_mail(app: App, server: MailServer) -> None:
    sender = plain(server.port)

    @app.task
    def tell(to: str) -> None:
        send_mail(replace(MAIL, to=to), server=sender, date=DATE)

    good, bad = tell.enqueue("ada@example.org"), tell.enqueue("r550@example.org")
    app.run_until_idle()
    assert app.job(good.id).state == "succeeded"
    assert app.job(bad.id).error_code == "MAIL_REFUSED"
    assert len(server.accepted) == 1
