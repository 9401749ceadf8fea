"""Which failures are a service's fault: what the breaker counts."""

import errno
from datetime import timedelta
from typing import Any

import pytest

from mulligan.errors import BadPolicy, FinalError, RateLimitedError, RetryableError, Snooze
from mulligan.failure.classify import classify
from mulligan.failure.error_codes import DEFAULT, Catalogue, ErrorCode
from mulligan.failure.packs import PACKS
from mulligan.failure.rule import Rule
from mulligan.failure.verdict import Failure, Verdict, crashed, deadline_passed, engine_verdict, timed_out, worker_lost


def judged(failure: Failure | BaseException, *rules: Any, catalogue: Catalogue = DEFAULT) -> Verdict:
    found = Failure.of(failure) if isinstance(failure, BaseException) else failure
    return classify(found, kind="convert", rules=(*rules, *PACKS), catalogue=catalogue)


@pytest.mark.parametrize(
    ("failure", "blames"),
    [
        *[(Failure(type="httpx.HTTPStatusError", status=status), True) for status in (408, 429, 500, 502, 503, 504)],
        *[(Failure(type="httpx.HTTPStatusError", status=status), False) for status in (302, 400, 401, 404, 409, 422)],
        (TimeoutError("read"), True),
        (ConnectionRefusedError("no"), True),
        (ConnectionResetError("gone"), True),
        (Failure(type="httpx.ConnectError", types=("httpx.ConnectError",), causes=("socket.gaierror",)), True),
        (Failure(type="ssl.SSLError", types=("ssl.SSLError",)), True),
        (Failure(type="ssl.SSLCertVerificationError", types=("ssl.SSLCertVerificationError",)), True),
        (Failure(type="httpx.RemoteProtocolError", types=("httpx.RemoteProtocolError",)), True),
        (Failure(type="psycopg.OperationalError", types=("psycopg.OperationalError",)), True),
        (Failure(type="psycopg.errors.UniqueViolation", sqlstate="23505"), None),
        (KeyError("a bug"), None),
        (ValueError("a bug"), None),
        (PermissionError("no"), None),
        (MemoryError(), None),
        (OSError(errno.ENOSPC, "full"), None),
        (Failure(type="subprocess.CalledProcessError", exit=1), None),
        (FinalError("no"), None),
        (FinalError("no", code="NOT_PDF"), None),
        (RetryableError("later"), None),
        (RetryableError("down", code="GW_5XX"), True),
        (FinalError("no", code="GW_4XX"), False),
        (RateLimitedError("slow"), True),
        (Snooze("5m"), None),
    ],
)
def test_a_failure_blames_the_service_when_the_service_is_at_fault(
    failure: Failure | BaseException, blames: bool | None
) -> None:
    assert judged(failure).blames_service is blames


@pytest.mark.parametrize(
    ("verdict", "blames"),
    [
        (timed_out(timedelta(seconds=5)), True),
        (worker_lost(), None),
        (crashed(exit=-11), None),
        (deadline_passed(), None),
        (engine_verdict("INVALID_INPUT"), None),
        (engine_verdict("SERVICE_OPEN"), None),
    ],
)
def test_of_what_the_engine_knows_only_a_timeout_blames_the_service(verdict: Verdict, blames: bool | None) -> None:
    assert verdict.blames_service is blames


def test_a_rule_has_the_last_word_about_the_service() -> None:
    error = ConnectionRefusedError("no")
    assert judged(error, Rule("NETWORK", "retryable", when=OSError, blames_service=False)).blames_service is False
    assert judged(error, Rule("MINE", "retryable", when=OSError, blames_service=True)).blames_service is True
    assert judged(error, Rule("MINE", "retryable", when=OSError)).blames_service is None
    assert judged(error, Rule("NETWORK", "final", when=OSError)).blames_service is True


def test_a_rule_that_is_a_function_can_say_it_too() -> None:
    said = Verdict(code="MINE", error_class="retryable", blames_service=True)  # type: ignore[arg-type]
    assert judged(KeyError(), lambda _: said).blames_service is True


def test_an_apps_own_code_can_blame_the_service() -> None:
    catalogue = DEFAULT.with_codes([ErrorCode("LEDGER_DOWN", "It is down.", blames_service=True)])
    assert judged(RetryableError("no", code="LEDGER_DOWN"), catalogue=catalogue).blames_service is True


def test_what_is_no_word_about_a_service_is_refused() -> None:
    with pytest.raises(BadPolicy, match="blames_service of rule 'X' is 'yes'"):
        Rule("X", "final", status=500, blames_service="yes")  # type: ignore[arg-type]
    with pytest.raises(BadPolicy, match="blames_service of X is 'no'"):
        ErrorCode("X", "It is.", blames_service="no")  # type: ignore[arg-type]


def test_a_rule_says_in_words_whom_it_blames() -> None:
    assert Rule("X", "final", status=500, blames_service=True).describe() == "status 500; blames the service"


def test_a_rate_limit_holds_the_whole_service_only_when_the_task_says_so() -> None:
    assert judged(RateLimitedError("slow", retry_after="30s", scope="service")).holds_service
    assert not judged(RateLimitedError("slow", retry_after="30s")).holds_service
    assert not judged(Failure(type="httpx.HTTPStatusError", status=429)).holds_service


def test_a_rate_limit_has_no_other_scope() -> None:
    with pytest.raises(ValueError, match="is 'world', but it must be 'job' or 'service'"):
        RateLimitedError("slow", scope="world")
