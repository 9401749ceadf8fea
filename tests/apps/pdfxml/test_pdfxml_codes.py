"""One table of codes, and the messages of the document word for word."""

# ruff: noqa: RUF001 - the messages have typographic apostrophes

import re
from pathlib import Path

import pytest
from apps.pdfxml.codes import CODES, INNER, STATED, answer_code, message_of, public_code
from apps.pdfxml.gateway_call import SAFE
from apps.pdfxml.metrics import write_metrics
from apps.pdfxml.statuses import EVENTS, STATUSES

import apps.pages
import apps.pdfxml
from mulligan import State
from mulligan.failure.error_codes import DEFAULT

TEN = (
    *("NOT_PDF", "TOO_LARGE", "GW_4XX", "GW_5XX", "GW_TIMEOUT"),
    *("IO_ERROR", "NOT_READY", "EXPIRED", "FORBIDDEN", "UNKNOWN"),
)
MESSAGES = {
    "NOT_PDF": "Only PDF files are supported.",
    "TOO_LARGE": "File exceeds 50 MB limit.",
    "GW_4XX": "Couldn’t convert this file with the selected mapping.",
    "GW_5XX": "Converter service is having an issue. We’ll retry shortly.",
    "GW_TIMEOUT": "Conversion is taking too long. We’ll retry.",
    "IO_ERROR": "Temporary storage issue. We’ll retry.",
    "NOT_READY": "Conversion not finished yet.",
    "EXPIRED": "File was removed by retention. Re-upload to regenerate.",
    "FORBIDDEN": "This file isn’t yours.",
}
WITHOUT_PROMISE = {
    "GW_5XX": "Converter service is having an issue.",
    "GW_TIMEOUT": "Conversion is taking too long.",
    "IO_ERROR": "Temporary storage issue.",
    "UNKNOWN": "Something went wrong.",
}


def test_there_are_ten_codes() -> None:
    assert tuple(CODES) == TEN


def test_p2_every_code_of_the_engine_is_one_of_the_ten() -> None:
    """By the table, not by chance: a new code of the engine must be added to it."""
    for entry in DEFAULT:
        assert entry.code in CODES or entry.code in INNER, f"{entry.code} is missing in the table"
        assert public_code(entry.code) in TEN
    assert set(INNER.values()) <= set(TEN)


def test_p2_every_code_that_is_answered_is_one_of_the_ten_or_stated() -> None:
    """All that the application and the common pages raise."""
    folders = [Path(apps.pages.__file__).parent, Path(apps.pdfxml.__file__).parent]
    code = "\n".join(path.read_text("utf-8") for folder in folders for path in folder.glob("*.py"))
    raised = set(re.findall(r'Problem\(\s*\d+,\s*"([A-Z_]+)"', code))
    assert {"FOREIGN_FORM", "INTERNAL_ERROR", "UPLOADS_PAUSED"} <= raised
    assert {answer_code(each) for each in raised} <= {*TEN, *STATED}


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("GW_UNAVAILABLE", "GW_5XX"),
        ("NETWORK", "GW_5XX"),
        ("PARSE_ERROR", "GW_4XX"),
        ("VALIDATION_ERROR", "GW_4XX"),
        ("INVALID_MAPPING", "GW_4XX"),
        ("MEMORY_ERROR", "UNKNOWN"),
        ("NEVER_HEARD_OF", "UNKNOWN"),
    ],
)
def test_p2_inner_codes_are_mapped_as_the_document_says(inner: str, shown: str) -> None:
    assert public_code(inner) == shown


@pytest.mark.parametrize("code", MESSAGES)
def test_p8_the_message_of_each_code_word_for_word(code: str) -> None:
    assert message_of(code, is_final=False) == MESSAGES[code]
    assert message_of(code, is_final=True) == WITHOUT_PROMISE.get(code, MESSAGES[code])


@pytest.mark.parametrize("code", WITHOUT_PROMISE)
def test_p8_no_promise_where_no_retry_follows(code: str) -> None:
    assert message_of(code, is_final=True) == WITHOUT_PROMISE[code]


def test_every_state_and_event_has_its_word() -> None:
    assert set(STATUSES) == set(State)
    assert set(EVENTS.values()) == {"queued", "processing", "retry", "complete", "failed", "expired"}


@pytest.mark.parametrize("said", ["Unsupported mapping.", "The file has no pages."])
def test_p8_a_plain_sentence_is_safe(said: str) -> None:
    assert SAFE.fullmatch(said)


@pytest.mark.parametrize(
    "said",
    [
        "/srv/in/a.pdf is broken.",
        "C:\\in\\a.pdf is broken.",
        "Traceback (most recent call last): File",
        "<b>Bold.</b>",
        "Two\nlines.",
        "A" * 200 + ".",
        "",
        "no sentence",
    ],
)
def test_p8_paths_traces_and_markup_are_not_safe(said: str) -> None:
    assert not SAFE.fullmatch(said)


def test_metrics_of_codes_that_become_one_are_added_up() -> None:
    class Engine:
        def metrics(self) -> str:
            return (
                "# TYPE jobs_failed_total counter\n"
                'jobs_failed_total{error_code="NETWORK",kind="convert"} 2\n'
                'jobs_failed_total{error_code="GW_5XX",kind="convert"} 1234567\n'
                'jobs_failed_total{error_code="CRASHED",kind="convert"} 1\n'
                "jobs_active 0\n"
            )

    assert write_metrics(Engine()) == (  # type: ignore[arg-type]
        "# TYPE jobs_failed_total counter\n"
        'jobs_failed_total{error_code="GW_5XX",kind="convert"} 1234569\n'
        'jobs_failed_total{error_code="UNKNOWN",kind="convert"} 1\n'
        "jobs_active 0\n"
    )
