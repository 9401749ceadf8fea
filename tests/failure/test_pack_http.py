"""Each rule for HTTP is asked about errors that each client library really raised against a real server."""

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from http_server import CLIENTS, PATIENCE, SHORT, Server, closed_port, distrusted, serving

from mulligan import App, Fixed, RetryPolicy
from mulligan.failure.classify import classify
from mulligan.failure.packs import PACKS, http
from mulligan.failure.verdict import Failure, Verdict


@pytest.fixture(autouse=True)
def _no_proxies_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(scope="module")
def untrusted() -> Iterator[Server]:
    """A server with an untrusted certificate."""
    with serving(distrusted()) as server:
        yield server


def failing(client: str, url: str, timeout: float = PATIENCE) -> Failure:
    try:
        answer = CLIENTS[client](url, timeout)
    except Exception as error:
        failure = Failure.of(error)
        getattr(error, "close", bool)()
        return failure
    pytest.fail(f"{client} was content with {answer!r}")


def judged(failure: Failure) -> Verdict:
    """The verdict, which must be the same where the exception itself is gone."""
    verdict = classify(failure, kind="any", rules=PACKS)
    remembered = classify(replace(failure, exception=None), kind="any", rules=PACKS)
    assert remembered == verdict
    assert not verdict.notes
    return verdict


STATUSES = [
    *((status, "HTTP_4XX", "final", "http.4xx") for status in (400, 401, 403, 404, 405, 406, 410, 413, 415, 422)),
    *((status, "HTTP_5XX", "retryable", "http.5xx") for status in (500, 502, 503, 504)),
    *((status, "HTTP_BUSY", "retryable", "http.busy") for status in (409, 421, 423, 424, 425)),
    (408, "TIMEOUT", "retryable", "http.408"),
    (429, "RATE_LIMITED", "rate_limited", "http.429"),
]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("status", "code", "error_class", "rule"), STATUSES)
def test_a_status_says_whether_to_try_again(
    server: Any, client: Any, status: Any, code: str, error_class: str, rule: str
) -> None:
    failure = failing(client, f"{server.url}/{status}")
    verdict = judged(failure)
    assert failure.status == status
    assert (verdict.code, verdict.error_class, verdict.rule) == (code, error_class, rule)
    assert verdict.retry_after is None


HINTS = [
    ("Retry-After:%207", 7),
    ("Retry-After:%20Fri,%2031%20Dec%201999%2023:59:59%20GMT%0D%0ADate:%20Fri,%2031%20Dec%201999%2023:58:29%20GMT", 90),
]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("header", "seconds"), HINTS, ids=["seconds", "date"])
def test_the_server_says_when_to_come_back(server: Any, client: Any, status: Any, header: Any, seconds: Any) -> None:
    verdict = judged(failing(client, f"{server.url}/{status}?{header}"))
    assert verdict.retry_after == timedelta(seconds=seconds)


HTTPX = [client for client in CLIENTS if client.startswith("httpx")]
# The way to fail, what it is, and where a client tells less or otherwise.
WAYS = [
    ("reset", "NETWORK", "retryable", "http.reset", {"urllib": ("NETWORK", "system.connection")}),
    ("gone", "NETWORK", "retryable", "http.reset", dict.fromkeys(HTTPX, ("HTTP_BROKEN", "http.broken"))),
    ("half", "HTTP_BROKEN", "retryable", "http.broken", {}),
    ("chunk", "HTTP_BROKEN", "retryable", "http.broken", {}),
    ("garbage", "HTTP_BROKEN", "retryable", "http.broken", {}),
    ("zipped", "HTTP_BROKEN", "retryable", "http.broken", {"urllib": None}),
    ("loop", "HTTP_3XX", "final", "http.redirects", {"urllib": ("HTTP_3XX", "http.3xx")}),
    ("elsewhere", "URL_INVALID", "final", "http.url", {"urllib": ("HTTP_3XX", "http.3xx")}),
    ("300", "HTTP_3XX", "final", "http.3xx", {"requests": None, "aiohttp": None}),
]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("way", "code", "error_class", "rule", "otherwise"), WAYS, ids=[way for way, *_ in WAYS])
def test_an_answer_that_breaks_off_or_leads_nowhere_is_recognised(
    server: Any, client: Any, way: Any, code: str, error_class: str, rule: str, otherwise: Any
) -> None:
    told = otherwise.get(client, (code, rule))
    if told is None:
        CLIENTS[client](f"{server.url}/{way}", PATIENCE)  # it takes this for no error
        return
    verdict = judged(failing(client, f"{server.url}/{way}"))
    assert (verdict.code, verdict.rule, verdict.error_class) == (*told, error_class)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("way", ["silent", "stalled"])
def test_a_server_that_does_not_answer_in_time_is_recognised(server: Any, client: Any, way: Any) -> None:
    verdict = judged(failing(client, f"{server.url}/{way}", SHORT))
    # urllib wraps it while it connects only.
    rules = {"http.timeout", "system.timeout"} if client == "urllib" else {"http.timeout"}
    assert (verdict.code, verdict.error_class) == ("TIMEOUT", "retryable")
    assert verdict.rule in rules


@pytest.mark.parametrize("client", CLIENTS)
def test_a_port_without_a_listener_is_recognised(client: Any) -> None:
    verdict = judged(failing(client, closed_port()))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("NETWORK", "retryable", "http.refused")


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unknown_host_name_is_retried(client: Any) -> None:
    verdict = judged(failing(client, "http://nowhere.invalid/"))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("NETWORK", "retryable", "http.dns")


@pytest.mark.parametrize("client", CLIENTS)
def test_an_untrusted_certificate_is_final(untrusted: Any, client: Any) -> None:
    verdict = judged(failing(client, f"{untrusted.url}/200"))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("CERTIFICATE_INVALID", "final", "http.certificate")


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_that_speaks_no_tls_is_tried_again(server: Any, client: Any) -> None:
    verdict = judged(failing(client, server.url.replace("http", "https") + "/200"))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("NETWORK", "retryable", "http.tls")


@pytest.mark.parametrize("client", [*HTTPX, "requests", "urllib"])
def test_a_proxy_that_refuses_is_tried_again(server: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", server.url)
    verdict = judged(failing(client, "https://example.invalid/"))
    assert (verdict.code, verdict.error_class, verdict.rule) == ("NETWORK", "retryable", "http.connection")


@pytest.mark.parametrize("client", CLIENTS)
def test_an_unknown_scheme_is_final(client: Any) -> None:
    verdict = judged(failing(client, "gopher://localhost/"))
    rule = "http.scheme" if client == "urllib" else "http.url"
    assert (verdict.code, verdict.error_class, verdict.rule) == ("URL_INVALID", "final", rule)


def test_an_error_raised_from_a_client_s_error_is_judged_by_it(server: Any) -> None:
    class GatewayError(Exception):
        pass

    try:
        try:
            CLIENTS["httpx2"](f"{server.url}/429?Retry-After:%207", PATIENCE)
        except Exception as error:
            raise GatewayError("no conversion") from error
    except GatewayError as error:
        verdict = judged(Failure.of(error))
    assert (verdict.rule, verdict.retry_after) == ("http.429", timedelta(seconds=7))


@pytest.mark.parametrize(
    ("status", "rule", "waiting_for", "failures", "snoozes"),
    [(429, "http.429", "rate limit", 0, 1), (503, "http.5xx", "retry", 1, 0)],
)
def test_a_worker_waits_as_the_server_asked_and_an_outage_counts(
    app: App, server: Any, status: Any, rule: str, waiting_for: Any, failures: int, snoozes: Any
) -> None:
    @app.task(retry=RetryPolicy(backoff=Fixed("1s")))
    def fetch() -> None:
        CLIENTS["httpx2"](f"{server.url}/{status}?Retry-After:%207", PATIENCE)

    job = fetch.enqueue()
    app.run_until_idle(timeout=PATIENCE)
    found, reasons = app.job(job.id), app.events(job.id)[-1].data["reasons"]
    assert (found.waiting_for, found.failures, found.snoozes) == (waiting_for, failures, snoozes)
    assert (reasons["rule"], reasons["delay"]) == (rule, 7)


def test_every_rule_for_http_is_shown_here() -> None:
    shown = {rule for *_, rule in STATUSES} | {rule for _, _, _, rule, _ in WAYS}
    shown |= {"http.timeout", "http.refused", "http.dns", "http.certificate", "http.tls", "http.scheme"}
    assert shown | {"http.connection"} == {rule.name for rule in http.RULES}
