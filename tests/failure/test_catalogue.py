from typing import Any

import pytest

from mulligan.errors import BadPolicy
from mulligan.failure.error_codes import Catalogue, ErrorClass, ErrorCode
from mulligan.failure.packs import PACKS

# Code, class, HTTP status, the line while a retry is coming, the line when none is.
SHARED = [
    ("NOT_PDF", "final", 400, "Only PDF files are supported.", "Only PDF files are supported."),
    ("TOO_LARGE", "final", 413, "File exceeds 50 MB limit.", "File exceeds 50 MB limit."),
    (
        "GW_4XX",
        "final",
        422,
        "Couldn’t convert this file with the selected mapping.",  # noqa: RUF001
        "Couldn’t convert this file with the selected mapping.",  # noqa: RUF001
    ),
    (
        "GW_5XX",
        "retryable",
        502,
        "Converter service is having an issue. We’ll retry shortly.",  # noqa: RUF001
        "Converter service is having an issue.",
    ),
    (
        "GW_TIMEOUT",
        "retryable",
        504,
        "Conversion is taking too long. We’ll retry.",  # noqa: RUF001
        "Conversion is taking too long.",
    ),
    ("IO_ERROR", "retryable", 500, "Temporary storage issue. We’ll retry.", "Temporary storage issue."),  # noqa: RUF001
    ("NOT_READY", "retryable", 409, "Conversion not finished yet.", "Conversion not finished yet."),
    (
        "EXPIRED",
        "final",
        404,
        "File was removed by retention. Re-upload to regenerate.",
        "File was removed by retention. Re-upload to regenerate.",
    ),
    ("FORBIDDEN", "final", 403, "This file isn’t yours.", "This file isn’t yours."),  # noqa: RUF001
    ("UNKNOWN", "retryable", 500, "Something went wrong. We’ll retry.", "Something went wrong."),  # noqa: RUF001
]


@pytest.mark.parametrize(("code", "error_class", "status", "retrying", "final"), SHARED)
def test_the_ten_shared_codes_speak_word_for_word(
    code: str, error_class: str, status: Any, retrying: Any, final: Any
) -> None:
    catalogue = Catalogue.default()
    entry = catalogue.get(code)
    assert (entry.error_class, entry.status) == (error_class, status)
    assert catalogue.get(code).message == retrying
    assert catalogue.get(code).last_message == final


def test_no_message_promises_a_retry_when_none_follows() -> None:
    for entry in Catalogue.default():
        assert "retry" not in Catalogue.default().get(entry.code).last_message.lower(), entry.code


def test_only_what_is_retried_promises_a_retry() -> None:
    for entry in Catalogue.default():
        if "retry" in entry.message:
            assert entry.error_class is not ErrorClass.FINAL, entry.code


def test_every_code_of_a_pack_is_in_the_catalogue() -> None:
    assert {rule.code for rule in PACKS} <= {entry.code for entry in Catalogue.default()}


def test_an_app_adds_codes_and_rewords_others_without_changing_the_default() -> None:
    mine = Catalogue.default().with_codes(
        [
            ErrorCode("NO_FUNDS", "You have no funds.", "final", status=402),
            ErrorCode("NOT_PDF", "PDF, please.", "final"),
        ]
    )
    assert mine.get("NO_FUNDS").status == 402
    assert mine.get("NO_FUNDS").error_class is ErrorClass.FINAL
    assert mine.get("NOT_PDF").message == "PDF, please."
    assert "NO_FUNDS" not in Catalogue.default()
    assert Catalogue.default().get("NOT_PDF").message == "Only PDF files are supported."
    assert len(mine) == len(Catalogue.default()) + 1


def test_a_final_message_of_its_own_is_used_when_nothing_follows() -> None:
    busy = ErrorCode("BUSY", "Busy. We'll try again soon.", final_message="Still busy. Please call us.")
    catalogue = Catalogue([busy, ErrorCode("LATE", "We will retry at once! Sorry.")])
    assert catalogue.get("BUSY").last_message == "Still busy. Please call us."
    assert catalogue.get("LATE").last_message == "Sorry."


def test_a_message_that_is_nothing_but_a_promise_is_kept() -> None:
    assert Catalogue([ErrorCode("SOON", "We'll retry.")]).get("SOON").last_message == "We'll retry."


@pytest.mark.parametrize("code", ["MY_OWN", "not a code!", "", "X" * 100])
def test_a_code_without_a_description_has_a_generic_entry(code: str) -> None:
    entry = Catalogue.default().get(code)
    assert entry.message.startswith("Something went wrong.")
    assert entry.code == (code if code == "MY_OWN" else "UNKNOWN")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("no spaces please", "Text."), "code is 'no spaces please'"),
        (("", "Text."), "code is ''"),
        ((7, "Text."), "code is 7"),
        (("A", ""), "message of A is ''"),
        (("A", "two\nlines"), "one line"),
        (("A", "x" * 501), "500 characters"),
        (("A", "Text.", "fatal"), "'final', 'retryable', 'rate_limited'"),
        (("A", "Text.", "final", 99), "status of A is 99"),
        (("A", "Text.", "final", True), "status of A is True"),
        (("A", "Text.", "final", 500, "a\nb"), "final message of A"),
    ],
)
def test_a_bad_code_is_refused_with_what_is_allowed(arguments: Any, names: Any) -> None:
    with pytest.raises(BadPolicy, match="must be") as caught:
        ErrorCode(*arguments)
    assert names in str(caught.value)


def test_two_meanings_of_one_code_are_refused() -> None:
    with pytest.raises(BadPolicy, match="given once"):
        Catalogue.default().with_codes([ErrorCode("A", "One."), ErrorCode("A", "Two.")])
    with pytest.raises(BadPolicy, match="an ErrorCode"):
        Catalogue.default().with_codes(["A"])  # type: ignore[list-item]
