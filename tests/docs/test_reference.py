"""The reference says what the code says."""

import re
from pathlib import Path

import pytest
from docs_tables import PAGES, REFERENCE, TABLES, with_tables

from conformance.fields import ELSEWHERE, documented
from mulligan import App, RetryPolicy, attempt
from mulligan.lifecycle import EVENT_TYPES, State
from mulligan.records.document import field_names
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.testing import sandbox

# Every field name of the source documents.
THEIRS = """
    retry_count max_retries next_retry_at error_message started_at completed_at progress state job_type
    created_at campaign_id retryCount maxRetries nextRetryAt lastFailureReason isRetryable retryType lockedBy
    lockedAt last_failure_reason is_retryable locked_by locked_at jobId requestedBy requiredCredits
    defaultCredits jobType userId error_code attempt_count last_attempt_at failed_at result_path leased_by
    lease_expires_at manual_retry_count owner_session_id sha256 mapping bytes attempt gateway_http_status
    duration_ms status error_class max_attempts initial_backoff max_backoff backoff_multiplier retry_after
    submitted_date run_id attemptCount lastAttemptAt retryAfter queuedAt updated_at job_id gateway_status
    RETRY_MAX_ATTEMPTS RETRY_BASE_DELAY_MS RETRY_JITTER_MAX_MS
"""


def rows(page: str, heading: str) -> list[list[str]]:
    text = (REFERENCE / page).read_text("utf-8")
    table = text[text.index(heading) :].split("\n\n")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def names(cell: str) -> list[str]:
    return re.findall(r"`(\w[\w.]*)", cell)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tables_made_from_the_code_are_up_to_date(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == with_tables(text), "run: python tests/docs/docs_tables.py"


def test_every_table_that_can_be_made_has_a_page() -> None:
    pages = "".join(path.read_text("utf-8") for path in PAGES)
    assert [name for name in TABLES if f"<!-- table: {name} -->" not in pages] == []


def test_the_list_of_events_is_closed_and_complete() -> None:
    listed = [names(row[0])[0] for row in rows("events.md", "| type |")]
    assert sorted(listed) == sorted(EVENT_TYPES)
    assert len(listed) == len(set(listed))


def test_every_name_of_theirs_leads_to_an_event_of_ours() -> None:
    mapped = rows("events.md", "| your name | here |")
    assert all(set(names(row[1])) & set(EVENT_TYPES) for row in mapped)
    theirs = {name for row in mapped for name in names(row[0])}
    assert theirs >= {"RetryScheduled", "RetryStarted", "RetrySucceeded", "RetryFailed"}
    assert theirs >= {"queued", "processing", "retry", "complete", "failed", "expired"}


def test_every_field_of_the_source_documents_is_mapped_to_one_that_exists() -> None:
    mapped = rows("fields.md", "| your name | here |")
    theirs = {name for row in mapped for name in names(row[0])}
    assert sorted(set(THEIRS.split()) - theirs) == []
    ours = {*field_names(Job), *field_names(Event), *field_names(RetryPolicy)}
    ours |= {"retry_count", "max_retries", "seconds", "message"}
    assert [row for row in mapped if not set(names(row[1])) <= ours] == []


def test_every_field_of_a_job_is_explained() -> None:
    page = (REFERENCE / "fields.md").read_text("utf-8").partition("## States\n")[0]
    explained = [name for cell in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for name in names(cell)]
    properties = {name for name, each in vars(Job).items() if isinstance(each, property) and not name.startswith("_")}
    assert sorted(explained) == sorted({*field_names(Job)} | properties)


def test_every_state_is_explained_and_mapped() -> None:
    assert [names(row[0])[0] for row in rows("fields.md", "| state | meaning |")] == list(State)
    mapped = rows("fields.md", "| your state | here |")
    assert {name for row in mapped for name in names(row[1])} >= set(State) - {State.CANCELLED}


def test_what_events_carry_is_what_the_page_says(app: App) -> None:
    """Of the events a real failing job leaves."""

    @app.task(retry=RetryPolicy(max_attempts=1), service="gateway")
    def convert() -> None:
        for _ in range(21):
            attempt().called("gateway", status=200)
        raise ValueError("no")

    job = convert.enqueue()
    app.run_until_idle(timeout=20)
    failed = app.events(job.id)[-1]
    assert documented()["job.failed"] == set(failed.data)


def test_every_field_of_an_event_is_explained() -> None:
    explained = [name for row in rows("events.md", "| field | meaning |") for name in names(row[0])]
    assert sorted(explained) == sorted(field_names(Event))


def test_every_field_in_the_data_of_an_event_is_explained_once() -> None:
    explained = [name for row in rows("events.md", "| in `data` | meaning |") for name in names(row[0])]
    assert sorted(explained) == sorted(set().union(*documented().values()))


def test_the_events_of_a_schedule_carry_what_the_page_says() -> None:
    app = App("sqlite://")

    @app.cron("*/5 * * * *", missed="skip")
    @app.task
    def clean() -> None: ...

    with sandbox(app) as box:
        box.advance("1s")
        app.pause(duty="schedule")
        box.advance("1h")
        app.resume(duty="schedule")
        box.advance("1h")
        found = {event.type: set(event.data) for event in app.events(limit=1_000)}
    for type_ in ELSEWHERE:
        assert found[type_] == documented()[type_]


def test_every_word_of_the_glossary_has_its_meaning_and_a_cell_for_each_system() -> None:
    text = (REFERENCE / "glossary.md").read_text("utf-8")
    defined = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in re.findall(r"^\| \*\*.*", text, re.MULTILINE)
    ]
    assert [row for row in defined if len(row) != 7 or not all(row)] == []
    words = [word for row in defined for word in row[0].strip("*").split(", ")]
    assert len(words) == len(set(words))
    assert set(State) <= set(words)
