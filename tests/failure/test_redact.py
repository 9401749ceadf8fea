"""Secrets are masked, harmless text is not, and no text takes long."""

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mulligan.errors import BadPolicy
from mulligan.failure import redact as module
from mulligan.failure.redact import (
    LEFT_OUT,
    MASK,
    SHORTEST_SECRET,
    is_secret_name,
    mask_secrets,
    password_of,
    redact,
    sanitize,
)

BASE64 = "MIIEpAIBAAKCAQEA7bq1hq3w" * 4


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    before = module._known
    yield
    module._known = before


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2", "password=•••"),
        ("DB_PASSWORD=p@ss(w)rd&x!;y z", "DB_PASSWORD=••• z"),
        ("PGPASSWORD=hunter2 psql -h db", "PGPASSWORD=••• psql -h db"),
        ("export AWS_SECRET_ACCESS_KEY=wJalr/XUtn+FEMI", "export AWS_SECRET_ACCESS_KEY=•••"),
        ("Server=db;Password=abc;Database=shop", "Server=db;Password=•••;Database=shop"),
        ("host=db password=hunter2 dbname=shop", "host=db password=••• dbname=shop"),
        ("connect(user='ann', password='hun\\'ter2')", "connect(user='ann', password='•••')"),
        ('{"password": "hun\\"ter2", "user": "ann"}', '{"password": "•••", "user": "ann"}'),
        (r'body: "{\"api_key\": \"hunter2\", \"n\": 1}"', r'body: "{\"api_key\": \"•••\", \"n\": 1}"'),
        ("{'token': b'hunter2', 'n': 1}", "{'token': b'•••', 'n': 1}"),
        ("[('X-Api-Key', 'hunter2'), ('Accept', '*/*')]", "[('X-Api-Key', '•••'), ('Accept', '*/*')]"),
        ("environ['DB_PASS'] = 'hunter2'", "environ['DB_PASS'] = '•••'"),
        ("assert cfg['password'] == 'hunter2', cfg", "assert cfg['password'] == '•••', cfg"),
        ("if secret != hunter2:", "if secret != •••"),
        ("DETAIL: Key (api_key)=(hunter2) already exists.", "DETAIL: Key (api_key)=(•••) already exists."),
        ("client_secret: hunter2\nregion: eu", "client_secret: •••\nregion: eu"),
        ("passphrase: correct horse battery\nnext", "passphrase: •••\nnext"),
        ("Authorization: Bearer abc.def-123\nHost: x", "Authorization: •••\nHost: x"),
        ("Set-Cookie: sid=hunter2; Path=/; HttpOnly", "Set-Cookie: •••"),
        ("refused: Bearer abcdef1234567890 is expired", "refused: Bearer ••• is expired"),
        ("got Basic YW5uOmh1bnRlcjI= from the proxy", "got Basic ••• from the proxy"),
        ("<client_secret>hunter2</client_secret>", "<client_secret>•••</client_secret>"),
        ("Command '['my', '--password', 'hunter2', 'x']'", "Command '['my', '--password', '•••', 'x']'"),
        ("curl -u ann:hunter2 https://x", "curl -u ann:••• https://x"),
        ('["curl","-u","ann:hunter2","x"]', '["curl","-u","ann:•••","x"]'),
        ("curl -s -uann:hunter2 https://x", "curl -s -uann:••• https://x"),
        ("['/usr/bin/curl', '-uann:hunter2']", "['/usr/bin/curl', '-uann:•••']"),
        ("mysqldump -h db -phunter2 shop", "mysqldump -h db -p••• shop"),
        ("['mysql', '-phunter2', 'shop']", "['mysql', '-p•••', 'shop']"),
        ("sshpass -p hunter2 ssh ann@host", "sshpass -p ••• ssh ann@host"),
        ('["sshpass","-p","hunter2","ssh"]', '["sshpass","-p","•••","ssh"]'),
        ("get(url, auth=('ann', 'hunter2'))", "get(url, auth=('•••', '•••'))"),
        ("r.auth = HTTPBasicAuth('ann', 'hunter2')", "r.auth = •••'ann', '•••')"),
        ("password=('hunter2')", "password=('•••')"),
        ("ALTER USER ann PASSWORD 'hunter2'", "ALTER USER ann PASSWORD '•••'"),
        ("ValueError: 'the password \\'hunter2\\' is known'", "ValueError: 'the password \\'•••\\' is known'"),
        ("CREATE USER ann IDENTIFIED BY 'hunter2'", "CREATE USER ann IDENTIFIED BY '•••'"),
        ("the password is hunter2, really", "the password is •••, really"),
        ("back=%2Flogin%3Fpassword%3Dhunter2 was refused", "back=%2Flogin%3Fpassword%3D••• was refused"),
        ("tool --api-token hunter2 --verbose", "tool --api-token ••• --verbose"),
        ("postgresql://app:hunter2@db:5432/shop", "postgresql://app:•••@db:5432/shop"),
        ("redis://:hun@ter2@cache/0", "redis://:•••@cache/0"),
        ("https://ghost1234567890abcdef@host/x", "https://•••@host/x"),
        ("GET https://x/y?page=2&token=hunter2&n=1", "GET https://x/y?page=2&token=•••&n=1"),
        ("https://x/y?key=hunter2&X-Amz-Signature=ab12cd34", "https://x/y?key=•••&X-Amz-Signature=•••"),
        ("AKIAIOSFODNN7EXAMPLE denied", "••• denied"),
        ("ghp_16C7e42F292c6912E7710c838347Ae178B4a is revoked", "••• is revoked"),
        ("xoxb-123456789012-abcdefghij", "•••"),
        ("No such key: sk_live_4eC39HqLyjWDarjtT1zdp7dc", "No such key: •••"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dozjgNryP4J3jVmNHl0w5N_XgL0", "•••"),
        ("mk_ab12cd34_0123456789abcdefghij_9f is unknown", "••• is unknown"),
        (
            "GET https://api.telegram.org/bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/sendMessage gave 404",
            "GET https://api.telegram.org/bot110201543:•••/sendMessage gave 404",
        ),
        ("/file/bot12345%3Aabc-DEF_ghi/x.png", "/file/bot12345%3A•••/x.png"),
        ("u=https%3A%2F%2Fx%2Fbot12345%3Aabc-DEF_ghi%2FgetMe", "u=https%3A%2F%2Fx%2Fbot12345%3A•••%2FgetMe"),
        ("bot110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw rejected", "bot110201543:••• rejected"),
        ("call%20bot110201543%3AAAHdqTcvCH1vGWJx/getMe", "call%20bot110201543%3A•••/getMe"),
        ("telegram token 110201543:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "telegram token •••"),
        ("t=110201543%3AAAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw&n=1", "t=•••&n=1"),
        ("Bot MTIzNDU2Nzg5MDEy.GhIjKl.abcdefgh-123 is banned", "Bot ••• is banned"),
        ("{'Authorization': 'Bot hunter2'}", "{'Authorization': '•••'}"),
        ("connecting as app:p%40ss@db:5432 failed", "connecting as app:•••@db:5432 failed"),
        ("ann%40example.org:hunter2%21@mail:587", "ann%40example.org:•••@mail:587"),
        ("postgresql://app:hun/ter+2@db/shop", "postgresql://app:•••@db/shop"),
        ("postgresql://app:2026#hunter2@db/shop", "postgresql://app:•••@db/shop"),
        ("dsn=ann:hun%3Ater2@[::1]/x", "dsn=ann:•••@[::1]/x"),
        ("next=postgresql%3A%2F%2Fapp%3Ahunter2%40db%2Fshop&n=1", "next=postgresql%3A%2F%2Fapp%3A•••%40db%2Fshop&n=1"),
        ("u=redis%253A%252F%252F%253Ahunter2%2540cache", "u=redis%253A%252F%252F%253A•••%2540cache"),
        ("postgresql://app:p%2Fss%40w@db/x", "postgresql://app:•••@db/x"),
        ("see postgresql%3A//app%3Ahunter2%40db%3A5432/shop", "see postgresql%3A//app%3A•••%40db%3A5432/shop"),
        ("postgresql%253A//app%253Ahunter2%2540db/shop", "postgresql%253A//app%253A•••%2540db/shop"),
        ("postgresql://app:hunter2%40db:5432/shop", "postgresql://app:•••%40db:5432/shop"),
        ("postgresql%3A//app%3Ahun/ter2%40db/shop", "postgresql%3A//app%3A•••%40db/shop"),
        ("postgresql%3A%2F%2Fapp%3Ahun%2Fter2%40db%2Fshop", "postgresql%3A%2F%2Fapp%3A•••%40db%2Fshop"),
        ("https%3A//ghost1234567890abcdef%40host/x", "https%3A//•••%40host/x"),
        (r'{"url": "https:\/\/ann:hunter2@x\/y"}', r'{"url": "https:\/\/ann:•••@x\/y"}'),
        ("SENTRY_DSN=https://hunter2@o1.ingest.sentry.io/42, so", "SENTRY_DSN=https://•••@o1.ingest.sentry.io/42, so"),
        ("https://hunter2:hunter3@sentry.example/1", "https://•••:•••@sentry.example/1"),
        ("u=https%3A%2F%2Fhunter2%40o1.ingest.sentry.io%2F42", "u=https%3A%2F%2F•••%40o1.ingest.sentry.io%2F42"),
        ("u=https%3A%2F%2Fhunter2%40errors.example%2F42&n=1", "u=https%3A%2F%2F•••%40errors.example%2F42&n=1"),
        ("bad DSN https://hunter2@errors.example:8443/a/b/7.", "bad DSN https://•••@errors.example:8443/a/b/7."),
        ("https%3A//hunter2hunter2%40o1.ingest.sentry.io/42", "https%3A//•••%40o1.ingest.sentry.io/42"),
        ("https%3A//hunter2%3Ahunter3%40sentry.example/1", "https%3A//•••%3A•••%40sentry.example/1"),
        ("https%3A//hunter2%40errors.example%3A8443/a/b/7.", "https%3A//•••%40errors.example%3A8443/a/b/7."),
        ("X-Sentry-Auth: Sentry sentry_key=ab", "X-Sentry-Auth: Sentry sentry_key=•••"),
        ("POST https://hooks.slack.com/services/T0/B0/hunter2: 404", "POST https://hooks.slack.com/services/•••: 404"),
        ("https://hooks.slack.com/workflows/T0/A0/1/hunter2", "https://hooks.slack.com/workflows/•••"),
        ("https://discord.com/api/webhooks/123/hunter-2_x?wait=true", "https://discord.com/api/webhooks/123/•••?wait=true"),
        ("https://discordapp.com/api/v10/webhooks/123/hunter2", "https://discordapp.com/api/v10/webhooks/123/•••"),
        ("https://acme.webhook.office.com/webhookb2/a@b/c/d", "https://acme.webhook.office.com/webhookb2/•••"),
        ("https://hooks.zapier.com/hooks/catch/1/hunter2/", "https://hooks.zapier.com/hooks/catch/•••"),
        ("https://maker.ifttt.com/trigger/door/with/key/hunter2", "https://maker.ifttt.com/trigger/door/with/key/•••"),
        ("https://a.blob.example/c/f?sv=2022&se=2026&sig=hun%2Bter2%3D", "https://a.blob.example/c/f?sv=2022&se=2026&sig=•••"),
        ("SharedAccessSignature sr=x&sig=hunter2&skn=root", "SharedAccessSignature sr=x&sig=•••&skn=root"),
        ("https://s3/x?page=2&X-Goog-Signature=ab12cd34&Expires=9", "https://s3/x?page=2&X-Goog-Signature=•••&Expires=9"),
        (f"-----BEGIN RSA PRIVATE KEY-----\n{BASE64}\n-----END RSA PRIVATE KEY-----", None),
        (f"{BASE64}\n-----END PRIVATE KEY----- tail", "•••-----END PRIVATE KEY----- tail"),
        (f"-----BEGIN PRIVATE KEY-----\\n{BASE64}", "-----BEGIN PRIVATE KEY-----•••"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(text: str, shown: str | None) -> None:
    found = mask_secrets(text)
    assert MASK in found
    assert found == shown or (shown is None and BASE64[:20] not in found)


@pytest.mark.parametrize(
    "text",
    [
        'FATAL: password authentication failed for user "app"',
        "Unexpected token: semicolon at line 3",
        "Unexpected token: '<', \"<!DOCTYPE \"... is not valid JSON",
        "max_tokens=4096, prompt_tokens: 128",
        "token_type: bearer, token_url=https://x/oauth",
        "token=None password=null secret=False api_key='' cookie: ...",
        "Basic authentication failed; Token expired",
        "password_file=/run/secrets/db",
        "the password is wrong; a password is required, and your passphrase was not accepted",
        "the password is base64-encoded and its passcode is 6 digits long",
        "secret 'db-creds' not found; password \"is too short\"",
        "curl: (6) Could not resolve host -u; sort -ua:b",
        "docker run --name mysql -p3306:3306 mysql -P3306 -p",
        "author=('Ann', 'Bob') oauth('read', 'write')",
        "[Errno 111] Connection refused: http://127.0.0.1:8000/pay?code=404&page=2",
        "ssh://git@github.com/x/y.git and https://host:443/a@b",
        'File "/srv/app/auth/token.py", line 33, in session_key',
        "compass=12 secretary=ann author: Ann, monkey=3, spin: fast",
        "KeyError: 'access'",
        "2026-11-16 10:00:00 job 019a8f3e-7c11-7d2e-b5a0-0123456789ab failed: HTTP 503",
        "mk_small task-1 gh_x sk-1 eyJ.x",
        "https://api.telegram.org/bot/getMe, /bots/12:30, Googlebot 2.1.0, the bot Crawler.v2 and bot42: ready",
        "https://discord.com/api/webhooks/123 gave 404, https://hooks.slack.com/services/ too",
        "https://ann@example.com/, https://ann@example.com/2026/report, https://git@host/team/9/x.git",
        "registry/nginx:1.25@sha256:0123abcd, mailto:ann%2Bx@example.com, cc:ann@example.com, 12:30%20@home",
        "GET /search?q=a%3Ab%40c and path%3A%2F%2Fhost%2Fx%40y; 100%: done@last, at 10:15%@noon",
        "python:3.11%2Bslim@sha256:0123abcd, file:%2Ftmp%2Fx@y, pkg:pypi%2Frequests@2.0, /login%3Fnext%3D%2Fbots%2F12",
        "http://host:8080/a@b file://C:/Users/ann@home https%3A%2F%2Fann%40example.org%2Fme",
        "https%3A//example.org/a%3Ab%40c https%3A//ann%40example.org/me http%3A//host%3A8080/a%40b",
        "https://host:8080/a%40b http://host:80?to=ann%40example.org https://x/?to=ann%40example.org&u=https%3A//y/z",
        "bot42:running, robot12345:started, bot20261119: ready",
        "sentry.io is down; docs: https://docs.sentry.io/platforms/1",
    ],
)
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    assert mask_secrets(text) == text


def test_secrets_that_were_named_are_masked_in_every_form() -> None:
    redact('hun/t"er 2ä', re.compile(r"CUST-\d+"))
    in_urls = ("hun%2Ft%22er%202%C3%A4", "hun%2ft%22er%202%c3%a4", "hun%2Ft%22er+2%C3%A4")
    for form in ('hun/t"er 2ä', *in_urls, 'hun/t\\"er 2ä', 'hun/t\\"er 2\\u00e4'):
        assert mask_secrets(f"it was {form} for CUST-123") == "it was ••• for •••"


def test_the_longer_of_two_named_secrets_is_masked_whole() -> None:
    redact("hunter", "hunter22")
    assert mask_secrets("hunter22!") == "•••!"


@pytest.mark.parametrize("secret", ["", "abc", "•••••", 7, None, re.compile("a*"), re.compile("•"), re.compile(b"a")])
def test_what_cannot_be_a_secret_is_refused_and_not_repeated(secret: object) -> None:
    with pytest.raises(BadPolicy, match=r"a (pattern of )?secret") as caught:
        redact(secret)  # type: ignore[arg-type]
    assert "abc" not in str(caught.value)


def test_passwords_of_a_database_url_are_found() -> None:
    assert password_of("postgresql://app:hunter%2F2@db/x?sslpassword=other-one") == ("hunter/2", "other-one")
    assert password_of("postgresql://app:app@db/x") == ()
    assert password_of("postgresql://postgres:postgres@db/x") == ()
    assert password_of("postgresql://app:%41%42%43@db/x") == ()
    assert password_of("sqlite:///jobs.db") == ()


def test_names_of_secrets_are_known() -> None:
    assert all(map(is_secret_name, ["password", "X-Api-Key", "client_secret", "sessionId", "DB_PASS", "token"]))
    assert not any(map(is_secret_name, ["author", "max_tokens", "password_file", "key", "job", "monkey"]))


# The name and the value as two fields


@pytest.mark.parametrize(
    "text",
    [
        'env [{"name":"DB_PASSWORD","value":"hunter2"}] refused',
        "{'name': 'api_key', 'value': 'hunter2'}",
        '{"key":"token","val":"hunter2"}',
        '{"ParameterKey": "DBPassword", "ParameterValue": "hunter2"}',
        '{\n    "name": "Database password",\n    "value": "hunter2"\n}',
        '{"name": "password", "type": "string", "value": "hunter2"}',
        '{"name": "pin", "value": hunter2}',
        r'body: "{\"name\":\"DB_PASSWORD\",\"value\":\"hunter2\"}"',
        r"body: '{\n  \"key\": \"token\",\n  \"value\": \"hunter2\"\n}'",
        r'{"name":"config","value":"{\"name\":\"password\",\"value\":\"hunter2\"}"}',
        '[{"name":"host","value":"db"},{"name":"password","value":"hunter2"}]',
        "Field(name='password', value='hunter2')",
        "Field('password', value='hunter2')",
        "Param(name=token, value=hunter2)",
        "name=password&value=hunter2&page=2",
        "name=host, value=db, name=password, value=hunter2",
        "- name: DB_PASSWORD\n  value: hunter2\n- name: HOST\n  value: db",
        '{"value": "hunter2", "name": "password"}',
        "{'value': b'hunter2', 'type': 'str', 'key': 'api_key'}",
        "Param(value=hunter2, name=token)",
        "- value: hunter2\n  name: DB_PASSWORD\n",
        '<property name="password" value="hunter2"/>',
        '<property value="hunter2" name="password"/>',
        '<add key="ApiKey" value="hunter2"/>',
        '<entry key="password">hunter2</entry>',
        "<name>db.password</name>\n<value>hunter2</value>",
        '<property name="password"><value>hunter2</value></property>',
        "<key>Password</key><string>hunter2</string>",
    ],
)
def test_the_value_of_a_name_in_another_field_is_masked_and_nothing_else(text: str) -> None:
    assert mask_secrets(text) == text.replace("hunter2", MASK)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('Authorization: Digest username="x", response="hunter2"\nHost: y', "Authorization: •••\nHost: y"),
        ('Authorization: Token token="hunter2"', "Authorization: •••"),
        (r'curl -H "Authorization: Digest a=\"x\", response=\"y\"" u', 'curl -H "Authorization: •••" u'),
        ('curl -H "Authorization: Basic YW5uOng=" "https://x"', 'curl -H "Authorization: •••" "https://x"'),
        ('sent Digest username="x", response="hunter2", nc=1 twice', "sent Digest ••• twice"),
        ('Set-Cookie: sid="hunter2"; Path=/', "Set-Cookie: •••"),
    ],
)
def test_quoted_parameters_of_a_header_are_masked(text: str, shown: str) -> None:
    assert mask_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "token count", "value": 3}',
        '{"name": "max_tokens", "value": 4096}',
        '{"name": "password_file", "value": "/run/secrets/db"}',
        '{"type": "token", "value": "semicolon"}',
        '{"name": "password", "required": true, "type": "string"}',
        '{"name": "password", "value": null}',
        '{"name": "DB_PASSWORD", "valueFrom": {"ref": {"name": "db-creds"}}}',
        '[{"name": "password"}, {"name": "host", "value": "db"}]',
        "Field('password', max_length=20), Field(name='host', value='db')",
        "key: password\n- name: HOST\n  value: db",
        "the name: password must have a value: 3",
        "ValueError: invalid value: 3, name=token_count",
        '<input name="password"> Forgot it? <a>',
        '<property name="host" value="db"/>\n<property name="password"/>',
        'WWW-Authenticate: Basic realm="Login Required"',
    ],
)
def test_fields_that_are_not_of_a_secret_stay(text: str) -> None:
    assert mask_secrets(text) == text


# A secret is not cut in two before it is seen


@pytest.mark.parametrize("before", range(0, 400, 7))
def test_a_secret_at_a_cut_does_not_show(before: int) -> None:
    limit = 50
    text = "x " * before + "password=hunter2hunter2hunter2 " + "y " * 600
    found = sanitize(text, limit)
    assert "hunter2" not in found
    assert len(found.encode()) <= limit


def test_long_text_keeps_its_ends() -> None:
    found = sanitize("HEAD " + "x" * 100_000 + " TAIL", 1_000)
    assert found.startswith("HEAD")
    assert found.endswith("TAIL")
    assert LEFT_OUT in found


# Whatever the text

PIECES = st.sampled_from(
    ["password", "token", "=", ":", " ", '"', "'", "\\", "\n", "://", "@", "a", "Z9", "&", "?", "key", "-----BEGIN ",
     "--", "PRIVATE KEY-----", "-----END ", "Bearer ", "eyJ", ".", "_", "<", ">", ",", ";", "(", ")", "•••", "cookie",
     "-u ", "ä", "curl", "mysql", "/bot1:", "Bot ",
     "hooks.slack.com/services/", "%40", "%3A%2F%2F", "https://", "/1", "sshpass", "-p", " is ", "auth=(", "%3D",
     "%3A//", "%3A", "bot12345:", "name", "value", '="', "</", "value>", "Digest "]
)  # fmt: skip
TEXTS = st.lists(PIECES, max_size=40).map("".join) | st.text()


@settings(deadline=None)
@given(TEXTS)
def test_masking_again_changes_nothing(text: str) -> None:
    once = mask_secrets(text)
    assert mask_secrets(once) == once


@settings(deadline=None)
@given(TEXTS)
def test_what_is_kept_is_bounded_and_comes_from_the_text(text: str) -> None:
    found = sanitize(text, 200)
    assert len(found.encode()) <= 200
    # Nothing is made up: apart from the mask every piece stood there before.
    assert all(piece in text or "\ufffd" in piece or LEFT_OUT in found for piece in found.split(MASK))


@settings(deadline=None)
@given(
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=SHORTEST_SECRET, max_size=40), TEXTS, TEXTS
)
def test_no_surrounding_brings_a_named_secret_out(secret: str, before: str, after: str) -> None:
    known = module._known
    redact(secret)
    try:
        assert secret not in mask_secrets(before + secret + after).replace(MASK, "")
    finally:
        module._known = known


@pytest.mark.parametrize(
    "piece",
    ["password", "password=", 'password="', "password=\\", 'password=\\"', "token ", "token_", "--token ", "<token ", "://",
     "://a:", "-----BEGIN PRIVATE KEY-----", "eyJ", "eyJaaaaaa.", "mk_a", "?key", "a;", "A", "@", "basic Abcdefgh1,a=b",
     "private key A ", "-----END ", "cookie: ", "'token', ", "token:\n",
     "/bot1:", "bot a", "bot aaaaaaaa.aa.", "https://a", "https://a@b/c", "https://a@s", ":%40", "a:%40", "a:b",
     "%3a%2f%2f", "%3a%2f%2fa%3a", "http%3a%2f%2fa%40b", "%2fbot1%3a", "a%40", "://a:b/",
     "bot12345:", "%3a//a%3a", "://a:%40", "http%3a//a%40b/c", "%3a//aaaaaaaaaaaaaaaa",
     "hooks.slack.com/services/", "discord.com/api/webhooks/1/", "maker.ifttt.com/trigger/a", "https:\\/\\/a:",
     "curl -u", "mysql -p1:", "sshpass '", "password is ", "auth=('a', '", "curl",
     "name=", 'name="', "name=token,", "name=token,a=b,", 'name="token"\n', "value=", 'value="', "value=\\'",
     "value=a,", "value=a,a=b,", "value=a,name=token,value=", '<a name="token"', '<a name="token">', "token</a>",
     "token</a><value>", 'cookie: a="', "'token', a", "'secret', value", 'digest a="b",', 'digest a="'],
)  # fmt: skip
def test_no_text_takes_long(piece: str) -> None:
    """Eight times the text takes about eight times as long; what grows with its square takes sixty-four."""

    def seconds(size: int) -> float:
        text = (piece * size)[:size] + "private key"
        start = time.thread_time()
        mask_secrets(text)
        return time.thread_time() - start

    small = min(seconds(20_000) for _ in range(3))
    assert min(seconds(160_000) for _ in range(3)) < 24 * small + 0.05
