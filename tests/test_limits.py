"""Whatever a task or a person says, what is stored about it is bounded."""

import json

import pytest

from mulligan import App, FinalError, NotAllowed, RetryPolicy, Snooze, Verdict, attempt
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.evidence import DETAIL_LIMIT, MESSAGE_LIMIT
from mulligan.failure.redact import LONGEST_TEXT

MUCH = "ä word " * 300_000


def wordy(_: object) -> Verdict:
    return Verdict(
        code="WORDY", error_class=ErrorClass.FINAL, message=MUCH, final_message=MUCH, detail=MUCH, rule=MUCH,
        group=MUCH, notes=(MUCH,) * 100,
    )  # fmt: skip


def test_no_text_makes_a_row_or_an_event_large(app: App) -> None:
    once = RetryPolicy(max_attempts=1)

    @app.task(retry=once)
    def plain() -> None:
        attempt().progress(0.5, MUCH)
        error = ValueError(MUCH)
        error.add_note(MUCH)
        raise error

    @app.task(retry=once)
    def final() -> None:
        raise FinalError(MUCH, code=MUCH)

    @app.task(rules=[wordy])
    def judged() -> None:
        raise ValueError

    @app.task
    def snoozed() -> None:
        raise Snooze("1h", MUCH)

    jobs = [task.enqueue() for task in (plain, final, judged, snoozed)]
    app.run_until_idle(timeout=60)
    app.cancel(jobs[-1].id, actor=MUCH, reason=MUCH)
    app.pause("1h", duty="retry", actor=MUCH, reason=MUCH)
    events = app.events()
    assert {"job.failed", "job.snoozed", "job.cancelled", "duty.paused"} <= {event.type for event in events}
    for event in events:
        assert len(json.dumps(dict(event.data), ensure_ascii=False).encode()) < DETAIL_LIMIT + MESSAGE_LIMIT
        assert len((event.actor or "").encode()) <= LONGEST_TEXT
    for job in jobs:
        found = app.job(job.id)
        assert len(found.progress_text.encode()) <= LONGEST_TEXT
        assert len((found.error_message or "").encode()) <= MESSAGE_LIMIT
        assert all(len(text or "") <= 1_000 for text in (found.error_detail, found.last_detail, found.last_message))
        assert (found.last_code is None) is (job is jobs[-1])


def test_a_refusal_of_a_retry_is_bounded_like_every_other_text(app: App) -> None:
    def refuse(_: object) -> None:
        raise ValueError(MUCH)

    @app.task(retry=RetryPolicy(max_attempts=1), can_retry=refuse)
    def broken() -> None:
        raise ValueError

    job = broken.enqueue()
    app.run_until_idle(timeout=60)
    with pytest.raises(NotAllowed) as refused:
        app.retry(job.id)
    assert len(str(refused.value).encode()) < LONGEST_TEXT + 40
