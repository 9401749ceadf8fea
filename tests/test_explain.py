"""Explain: what happened and what comes next, in sentences for the person on call."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import structs

from mulligan import RetryPolicy, State
from mulligan.explain import Explanation, Hold, HoldCode, explain
from mulligan.explain.history import DESCRIPTIONS
from mulligan.explain.words import relative
from mulligan.failure.backoff import Fixed
from mulligan.failure.decide import decide
from mulligan.failure.decision import Decision
from mulligan.failure.error_codes import ErrorClass
from mulligan.failure.verdict import Ledger, Verdict, worker_lost
from mulligan.lifecycle import JOB_EVENTS, possible_verbs
from mulligan.records.batch import BatchRecord, BatchState
from mulligan.records.document import document_of
from mulligan.records.event import Event
from mulligan.records.job import Fence, Job, Lease
from mulligan.records.limit import LimitRecord, RetryBudget, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.service.allowance import FAILS_FAST
from mulligan.service.records import ServiceStatus
from mulligan.store.messages import Outcome, WorkerRecord
from mulligan.store.settle import to_settlement

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def a_job(state: State = State.QUEUED, **changes: Any) -> Job[Any]:
    fields: dict[str, Any] = {
        "id": "f3a1",
        "kind": "convert",
        "owner": "",
        "queue": "default",
        "service": "",
        "priority": 0,
        "state": state,
        "arguments": "{}",
        "attempt": 0,
        "failures": 0,
        "crashes": 0,
        "losses": 0,
        "snoozes": 0,
        "manual_retries": 0,
        "max_attempts": 3,
        "max_crashes": 3,
        "max_snoozes": 100,
        "code_failures": {},
        "previous_delay": None,
        "trigger": "automatic",
        "submitted_at": NOW - MINUTE,
        "enqueued_at": NOW - MINUTE,
        "queued_at": None,
        "due_at": NOW - MINUTE,
        "deadline": None,
        "started_at": None,
        "last_attempt_at": None,
        "finished_at": None,
        "updated_at": NOW - MINUTE,
        "progress": 0.0,
        "progress_text": "",
        "result": None,
        "error_code": None,
        "error_class": None,
        "error_message": None,
        "group": None,
        "batch": None,
        "dedupe_key": None,
        "dedupe_scope": "active",
        "dedupe_until": None,
        "tags": (),
        "cost": 0,
        "leased_by": None,
        "lease_until": None,
        "cancel_requested": False,
        "waiting_for": None,
    }
    return Job(**(fields | changes))


def an_event(type_: str, data: Mapping[str, Any] | None = None, **changes: Any) -> Event:
    fields: dict[str, Any] = {
        "position": 1,
        "type": type_,
        "job": "f3a1",
        "kind": "convert",
        "owner": "",
        "attempt": 1,
        "at": NOW - 12 * SECOND,
        "actor": None,
        "code": None,
        "data": data or {},
    }
    return Event(**(fields | changes))


def a_worker(*, seen: timedelta = SECOND, **changes: Any) -> WorkerRecord:
    fields: dict[str, Any] = {
        "incarnation": "w1",
        "host": "box",
        "pid": 42,
        "queues": None,
        "kinds": ("convert",),
        "concurrency": 10,
        "started_at": NOW - MINUTE,
        "seen_at": NOW - seen,
    }
    return WorkerRecord(**(fields | changes))


def explained(job: Job[Any], *events: Event, **around: Any) -> Explanation:
    given: dict[str, Any] = {"workers": [a_worker()], "now": NOW, "ahead": 0, "is_known": True}
    return explain(job, events=events, **(given | around))


def told(event: Event) -> str:
    (sentence,) = explained(a_job(), event).happened
    return sentence


def what_follows(job: Job[Any], *events: Event, **around: Any) -> str:
    return "\n".join(explained(job, *events, **around).next)


# What happened

BY_WORKER = {"worker": "w1", "by": "w1/1"}
FAILURE = {
    **BY_WORKER,
    "seconds": 0.4,
    "class": "retryable",
    "message": "The gateway is down.",
    "detail": 'Traceback: File "/srv/app.py"',
}

SENTENCES = {
    "enqueued at once": (an_event("job.enqueued"), "It was enqueued, to run at once."),
    "enqueued for an owner and later": (
        an_event("job.enqueued", {"delay": 600}, owner="acme"),
        "It was enqueued for acme, to run after 10m.",
    ),
    "queued": (an_event("job.queued"), "It was due, so it was queued in 'default'."),
    "enqueued under a limit": (
        an_event("job.enqueued", {"waiting_for": "limit"}),
        "It was enqueued, to run when a slot is free.",
    ),
    "parked": (an_event("job.parked", {"waiting_for": "limit"}), "It gave its slot back and waits until it can run."),
    "started": (
        an_event("job.started", {"worker": "w1", "trigger": "automatic"}, attempt=2),
        "Attempt 2 started on box, process 42.",
    ),
    "started manually on a worker that is gone": (
        an_event("job.started", {"worker": "w9", "trigger": "manual"}),
        "Attempt 1 started on w9, requested manually.",
    ),
    "succeeded": (an_event("job.succeeded", {**BY_WORKER, "seconds": 1.25}), "Attempt 1 succeeded after 1.2s."),
    "retried": (
        an_event(
            "job.retried",
            {**FAILURE, "delay": 15.3, "reasons": {"rule": "http.5xx", "failure": 1, "of": 3, "delay": 15.3}},
            code="GW_5XX",
        ),
        (
            'Attempt 1 failed after 400ms with GW_5XX: "The gateway is down." (rule http.5xx, failure 1 of 3); '
            "it is retried 15.3s later."
        ),
    ),
    "retried with a hint, a window and notes": (
        an_event(
            "job.retried",
            {
                **BY_WORKER,
                "delay": 60,
                "reasons": {"hint": 30, "window": "2026-03-04T13:00:00+00:00", "notes": ["a rule\nraised"]},
            },
            code="GW_5XX",
        ),
        (
            "Attempt 1 failed with GW_5XX; it is retried 1m later (it was asked to wait at least 30s; "
            "the policy's windows allow it from 2026-03-04 13:00:00 UTC on) (note: a rule raised)."
        ),
    ),
    "failed": (
        an_event(
            "job.failed",
            {**FAILURE, "reasons": {"rule": "http.5xx", "failure": 3, "of": 3, "because": "attempts exhausted"}},
            attempt=3,
            code="GW_5XX",
        ),
        (
            'Attempt 3 failed after 400ms with GW_5XX: "The gateway is down." (rule http.5xx, failure 3 of 3); '
            "no retry follows, because all 3 attempts are used up."
        ),
    ),
    "failed before it ran": (
        an_event("job.failed", {"class": "final", "message": "Too late."}, code="DEADLINE", attempt=0),
        'It failed with DEADLINE: "Too late."; no retry follows, because its deadline passed before it could run.',
    ),
    "snoozed by the task": (
        an_event("job.snoozed", {**BY_WORKER, "delay": 300, "reasons": {"snooze": 1, "of": 100}}, code="SNOOZED"),
        "Attempt 1 asked to run again: it waits 5m, and no attempt is used up (wait 1 of 100).",
    ),
    "rate limited": (
        an_event("job.snoozed", {**BY_WORKER, "delay": 30, "reasons": {"snooze": 2, "of": 9}}, code="RATE_LIMITED"),
        "Attempt 1 was asked to slow down (RATE_LIMITED): it waits 30s, and no attempt is used up (wait 2 of 9).",
    ),
    "snoozed manually": (
        an_event("job.snoozed", {"delay": 3600, "reason": "maintenance"}, actor="anna"),
        'It was snoozed for 1h by anna (reason: "maintenance").',
    ),
    "released at shutdown": (
        an_event("job.released", {**BY_WORKER, "reasons": {"why": "shutdown"}}),
        "Attempt 1 was released because its worker was stopped; no attempt is used up.",
    ),
    "released after a lost worker": (
        an_event("job.released", {**BY_WORKER, "reasons": {"loss": 1, "of": 10}}, code="WORKER_LOST"),
        (
            "Attempt 1 lost its worker, which sent no heartbeat (loss 1 of 10); "
            "the job returned to its queue, and no attempt is used up."
        ),
    ),
    "cancelled manually": (
        an_event("job.cancelled", {"reason": "wrong file"}, actor="anna"),
        'It was cancelled by anna (reason: "wrong file").',
    ),
    "cancelled while running": (
        an_event("job.cancelled", {**BY_WORKER, "seconds": 2, "reasons": {"why": "cancelled by hand"}}),
        "Attempt 1 was stopped after 2s as requested, and the job was cancelled.",
    ),
    "failed after cancelling was asked for": (
        an_event("job.cancelled", FAILURE, code="GW_5XX"),
        (
            'Attempt 1 failed after 400ms with GW_5XX: "The gateway is down."; '
            "cancellation had been requested, so the job was cancelled."
        ),
    ),
    "asked to cancel": (
        an_event("job.cancel_requested", actor="anna"),
        "While attempt 1 was running, cancellation was requested by anna.",
    ),
    "asked to retry": (
        an_event("job.retry_requested", {"reason": "disk mended"}, actor="anna"),
        'A retry with all counters reset was requested by anna (reason: "disk mended").',
    ),
    "asked to run": (
        an_event("job.run_requested"),
        "An immediate run with unchanged counters was requested by an unknown person.",
    ),
    "refused": (
        an_event("job.refused", {"decision": "succeed", "worker": "w1"}),
        "The outcome of attempt 1 (succeed) was refused: another worker held the lease by then.",
    ),
    "the key was released": (
        an_event("job.key_released", {"key": "k"}, actor="ann"),
        "Its dedupe key was released by ann.",
    ),
    "the result expired": (an_event("job.result_expired"), "Its result expired and was deleted."),
    "the result was deleted": (
        an_event("job.result_expired", {"reason": "private"}, actor="ann"),
        'Its result was deleted by ann (reason: "private").',
    ),
    "of a newer version": (
        an_event("job.held", {"gate": 7}, code="BREAKER", actor="anna"),
        "There was job.held (attempt 1) with BREAKER by anna.",
    ),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_every_event_is_explained_in_a_sentence(name: str) -> None:
    event, sentence = SENTENCES[name]
    assert told(event) == f"2026-03-04 11:59:48 UTC (12s ago): {sentence}"


def test_no_event_type_of_the_lifecycle_is_left_without_words() -> None:
    assert set(DESCRIPTIONS) == set(JOB_EVENTS)
    assert {event.type for event, _ in SENTENCES.values()} >= set(JOB_EVENTS)


@pytest.mark.parametrize("type_", JOB_EVENTS)
@pytest.mark.parametrize(
    "data",
    [
        {},
        {"by": 7, "worker": None, "reasons": "none", "delay": "soon", "seconds": float("inf"), "message": 3},
        {**BY_WORKER, "reasons": {"of": "x", "loss": True, "because": None, "notes": "n", "window": "later"}},
        {**BY_WORKER, "delay": -1, "reasons": {"because": "the moon was full", "hint": []}},
    ],
    ids=["nothing", "wrong types", "wrong reasons", "strange values"],
)
def test_data_that_is_missing_or_strange_never_stops_an_explanation(type_: str, data: dict[str, Any]) -> None:
    assert told(an_event(type_, data)).endswith(".")


def test_the_technical_detail_is_never_shown() -> None:
    failed = an_event("job.failed", {**FAILURE, "reasons": {"because": "attempts exhausted", "of": 3}}, code="GW_5XX")
    job = a_job(State.FAILED, error_code="GW_5XX", error_message="The gateway is down.", finished_at=NOW)
    explanation = explained(job, failed)
    assert "Traceback" not in " ".join(explanation.happened + explanation.next)


def test_the_exception_is_shown_beside_the_line_for_people() -> None:
    data = {**BY_WORKER, "message": "Something went wrong.", "error": "ValueError: no such page", "delay": 5}
    assert 'with UNKNOWN: "Something went wrong. (ValueError: no such page)"' in told(
        an_event("job.retried", data, code="UNKNOWN")
    )
    slow = {**BY_WORKER, "message": "Too many calls.", "error": "HTTPError: 429", "delay": 5}
    assert 'was asked to slow down (RATE_LIMITED: "Too many calls. (HTTPError: 429)")' in told(
        an_event("job.snoozed", slow, code="RATE_LIMITED")
    )


def test_long_and_broken_words_of_others_are_cut_to_one_line() -> None:
    sentence = told(an_event("job.failed", {**BY_WORKER, "message": "a\nb " + "x" * 5_000}, code="X"))
    assert '"a b xxx' in sentence
    assert "\n" not in sentence
    assert len(sentence) < 600


# Why no retry follows, told from what `decide` really writes


def a_verdict(error_class: ErrorClass = ErrorClass.RETRYABLE, **changes: Any) -> Verdict:
    return Verdict(code="IO_ERROR", error_class=error_class, message="The disk hiccuped.", rule="os", **changes)


def settled(decision: Decision, job: Job[Any]) -> Event:
    lease = Lease(Fence(job.id, job.attempt, "w1", 1), job.kind, job.owner, "{}", NOW, NOW, load=lambda: job)
    change = to_settlement(Outcome(lease, decision, 0.4))
    return an_event(change.event, change.data, attempt=job.attempt, code=change.code)


POLICY = RetryPolicy(max_attempts=3, backoff=Fixed("1m"), limits={"IO_ERROR": 2})
FINAL_DECISIONS: dict[str, tuple[Verdict, dict[str, Any], str]] = {
    "attempts": (a_verdict(), {"failures": 2}, "because all 3 attempts are used up"),
    "two attempts": (a_verdict(), {"failures": 1, "max_attempts": 2}, "because both attempts are used up"),
    "one attempt": (a_verdict(), {"max_attempts": 1}, "because its only attempt is used up"),
    "final": (a_verdict(ErrorClass.FINAL), {}, "because IO_ERROR is final: a retry cannot help"),
    "limit": (
        a_verdict(),
        {"code_failures": {"IO_ERROR": 2}, "max_attempts": 9},
        "because the policy retries IO_ERROR only twice",
    ),
    "snoozes": (
        a_verdict(ErrorClass.RATE_LIMITED, retry_after=MINUTE),
        {"snoozes": 100},
        "because it was postponed 100 times, which is the limit",
    ),
    "deadline": (
        a_verdict(),
        {"deadline": NOW + SECOND},
        "because the next attempt, 1m later, would have come after its deadline",
    ),
    "losses": (worker_lost(), {"losses": 9}, "because its worker was lost 10 times in a row, which is the limit"),
    "crashes": (
        a_verdict(ledger=Ledger.CRASHES),
        {"crashes": 2},
        "because its process died 3 times in a row, which is the limit",
    ),
}


@pytest.mark.parametrize("name", FINAL_DECISIONS)
def test_why_no_retry_follows_is_said_in_plain_words(name: str) -> None:
    verdict, changes, why = FINAL_DECISIONS[name]
    job = a_job(State.RUNNING, attempt=1, **changes)
    event = settled(decide(verdict, job, POLICY, now=NOW, draw=0.5), job)
    assert event.type == "job.failed"
    assert why in told(event)
    ended = a_job(State.FAILED, attempt=1, error_code=event.code, error_message="No.", finished_at=NOW)
    assert f"No retry follows, {why}." in explained(ended, event).next


def test_a_retry_that_was_really_decided_is_explained_with_its_reasons() -> None:
    job = a_job(State.RUNNING, attempt=1)
    sentence = told(settled(decide(a_verdict(), job, POLICY, now=NOW, draw=0.5), job))
    assert '"The disk hiccuped." (rule os, failure 1 of 3); it is retried 1m later.' in sentence


# What comes next


@pytest.mark.parametrize(
    ("waiting_for", "words"),
    [
        ("delay", "It was enqueued for later and waits until 2026-03-04 12:04:00 UTC (in 4m)."),
        ("retry", "It waits for its next attempt until 2026-03-04 12:04:00 UTC (in 4m)."),
        ("snooze", "It was snoozed and waits until 2026-03-04 12:04:00 UTC (in 4m)."),
        ("rate limit", "It was asked to slow down and waits until 2026-03-04 12:04:00 UTC (in 4m)."),
        ("breaker of gateway", "It waits (breaker of gateway) until 2026-03-04 12:04:00 UTC (in 4m)."),
    ],
)
def test_a_waiting_job_says_for_what_until_when_and_what_then(waiting_for: str, words: str) -> None:
    job = a_job(State.WAITING, waiting_for=waiting_for, due_at=NOW + 4 * MINUTE, attempt=1, failures=1)
    next_ = explained(job).next
    assert next_[:3] == (
        words,
        "Then it is queued, and attempt 2 starts when a worker is free.",
        "It has failed 1 time so far; 2 attempts of 3 are left.",
    )


def test_a_job_that_is_due_but_not_picked_up_says_what_will_promote_it() -> None:
    job = a_job(State.WAITING, waiting_for="retry", due_at=NOW - 5 * SECOND)
    assert what_follows(job).startswith(
        "It was due at 2026-03-04 11:59:55 UTC (5s ago), and the next worker that asks for work promotes it.\n"
        "1 live worker can claim it."
    )


@pytest.mark.parametrize(
    ("ahead", "words"),
    [
        (0, "no job of its kind is ahead of it"),
        (1, "1 job of its kind is ahead of it"),
        (7, "7 jobs of its kind are ahead of it"),
        (1_000, "1,000 or more jobs of its kind are ahead of it"),
    ],
)
def test_a_queued_job_says_how_many_come_before_it(ahead: int, words: str) -> None:
    job = a_job(queued_at=NOW - MINUTE)
    since = "since 2026-03-04 11:59:00 UTC (1m ago)"
    assert f"It is in queue 'default' {since}; {words}." in explained(job, ahead=ahead).next


def test_a_queued_job_says_how_many_workers_can_take_it() -> None:
    workers = [a_worker(), a_worker(incarnation="w2", queues=("default",)), a_worker(kinds=("mail",))]
    assert "2 live workers can claim it." in explained(a_job(), workers=workers).next


@pytest.mark.parametrize(
    ("workers", "words"),
    [
        ([], "no worker is alive.\nTo start one: mulligan worker MODULE:APP"),
        ([a_worker(seen=61 * SECOND)], "no worker is alive (the last was seen 1m 1s ago)"),
        (
            [a_worker(kinds=("mail", "fax"))],
            "no live worker knows kind 'convert' (they know 'fax', 'mail'); this app has it",
        ),
        ([a_worker(queues=("bulk",))], "no live worker that knows it serves queue 'default' ('bulk')."),
    ],
    ids=["none", "silent for over a minute", "other kinds", "other queues"],
)
@pytest.mark.parametrize("state", [State.QUEUED, State.WAITING])
def test_a_job_that_no_worker_will_run_says_so_plainly(state: State, workers: list[WorkerRecord], words: str) -> None:
    assert f"Nothing will run it now: {words}" in what_follows(a_job(state), workers=workers)


def test_a_worker_seen_a_minute_ago_still_counts() -> None:
    assert "1 live worker can claim it." in explained(a_job(), workers=[a_worker(seen=MINUTE)]).next


def a_running_job(**changes: Any) -> Job[Any]:
    held = {"leased_by": "w1", "lease_until": NOW + 48 * SECOND, "last_attempt_at": NOW - 12 * SECOND, "attempt": 2}
    return a_job(State.RUNNING, **(held | changes))


def test_a_running_job_says_where_since_when_and_how_far() -> None:
    job = a_running_job(progress=0.5, progress_text="half way", failures=1)
    assert explained(job).next[:4] == (
        "Attempt 2 runs on box, process 42 since 2026-03-04 11:59:48 UTC (12s ago).",
        "Its lease lasts until 2026-03-04 12:00:48 UTC (in 48s) and is extended while its worker is alive.",
        'It is 50% done, "half way".',
        "If it fails with a retryable error, 1 more attempt is left.",
    )


def test_a_running_job_says_when_it_is_the_last_attempt() -> None:
    assert "This is its last attempt: if it fails, the job fails." in explained(a_running_job(failures=2)).next


def test_a_running_job_that_shall_stop_says_so() -> None:
    assert "Cancellation was requested" in what_follows(a_running_job(cancel_requested=True))


def test_a_job_whose_worker_went_silent_says_that_it_will_be_taken_back() -> None:
    job = a_running_job(lease_until=NOW - 3 * SECOND, losses=1)
    said = what_follows(job, workers=[])
    assert "Its lease expired at 2026-03-04 11:59:57 UTC (3s ago): its worker sends no heartbeat." in said
    assert "Another worker returns it to the queue; this is loss 2 of 10, and at the limit it fails." in said
    assert "Nothing will run it now: no worker is alive" in said


def test_a_succeeded_job_says_that_nothing_follows() -> None:
    job = a_job(State.SUCCEEDED, attempt=2, finished_at=NOW - MINUTE)
    assert explained(job).next == ("It succeeded at 2026-03-04 11:59:00 UTC (1m ago) in attempt 2. Nothing follows.",)


def test_a_failed_job_says_what_can_be_typed_to_put_it_right() -> None:
    job = a_job(State.FAILED, error_code="IO_ERROR", error_message="The disk is full.", finished_at=NOW)
    assert explained(job).next == (
        'It failed at 2026-03-04 12:00:00 UTC (now) with IO_ERROR: "The disk is full."',
        "No retry follows, because the log does not contain a reason.",
        "To retry it with all counters reset: mulligan jobs retry f3a1",
        "To run it now with unchanged counters: mulligan jobs run-now f3a1",
    )


def test_a_failed_job_says_what_was_raised_where_that_says_more() -> None:
    job = a_job(State.FAILED, error_code="UNKNOWN", error_message="Something went wrong.", finished_at=NOW)
    more = structs.replace(job, error_detail="ValueError: no such page")
    assert 'with UNKNOWN: "Something went wrong. (ValueError: no such page)".' in explained(more).next[0]
    same = structs.replace(job, error_message="No PDF.", error_detail="mulligan.errors.FinalError: No PDF.")
    assert 'with UNKNOWN: "No PDF."' in explained(same).next[0]


@pytest.mark.parametrize("state", [State.WAITING, State.QUEUED])
@pytest.mark.parametrize("failures", [0, 1])
def test_a_job_that_is_to_run_again_says_what_failed_last(state: State, failures: int) -> None:
    last = {"last_code": "GW_5XX", "last_message": "The gateway failed.", "last_detail": "HTTPError: 502"}
    said = explained(a_job(state, failures=failures, **last)).next
    assert 'Its last failure was GW_5XX: "The gateway failed. (HTTPError: 502)".' in said
    assert not any("last failure" in sentence for sentence in explained(a_job(state)).next)


def test_a_job_that_failed_twice_over_tells_the_newest_reason() -> None:
    old = an_event("job.failed", {**BY_WORKER, "reasons": {"because": "trying again cannot help"}}, code="OLD")
    new = an_event("job.failed", {**BY_WORKER, "reasons": {"because": "attempts exhausted", "of": 3}}, code="NEW")
    job = a_job(State.FAILED, error_code="NEW", error_message="No.", finished_at=NOW)
    assert "No retry follows, because all 3 attempts are used up." in explained(job, old, new).next


@pytest.mark.parametrize(
    "events",
    [
        [an_event("job.cancelled", actor="anna")],
        [an_event("job.cancel_requested", actor="anna"), an_event("job.cancelled", BY_WORKER)],
    ],
    ids=["at once", "while running"],
)
def test_a_cancelled_job_says_who_did_it(events: list[Event]) -> None:
    job = a_job(State.CANCELLED, finished_at=NOW - MINUTE)
    said = explained(job, *events).next
    assert said[0] == "It was cancelled by anna at 2026-03-04 11:59:00 UTC (1m ago). Nothing follows."


@pytest.mark.parametrize("state", list(State))
def test_only_what_the_lifecycle_allows_is_offered(state: State) -> None:
    said = what_follows(a_job(state))
    offered = {verb for verb in ("retry", "run-now", "cancel", "snooze") if f"mulligan jobs {verb} f3a1" in said}
    assert offered == set(possible_verbs(state))


@pytest.mark.parametrize(
    ("state", "deadline", "words"),
    [
        (State.QUEUED, NOW + MINUTE, "(in 1m): no attempt starts after that, and it fails."),
        (State.WAITING, NOW - MINUTE, "(1m ago): it fails at the next run of the duty 'expire'."),
        (State.RUNNING, NOW - MINUTE, "(1m ago): this attempt may finish, but no other follows."),
    ],
)
def test_a_deadline_is_mentioned_with_what_it_does(state: State, deadline: datetime, words: str) -> None:
    assert words in what_follows(a_job(state, deadline=deadline))


def test_a_job_run_manually_beyond_its_limit_has_one_try() -> None:
    assert "It has failed 3 times so far; 1 attempt of 3 is left." in explained(a_job(failures=3)).next


@pytest.mark.parametrize(
    ("away", "words"),
    [
        (timedelta(0), "now"),
        (timedelta(milliseconds=400), "now"),
        (-12 * SECOND, "12s ago"),
        (4 * MINUTE, "in 4m"),
        (timedelta(days=2, hours=3), "in 2d 3h"),
    ],
)
def test_times_are_relative_to_now(away: timedelta, words: str) -> None:
    assert relative(NOW + away, NOW) == words


# As data


def a_pause(**changes: Any) -> Pause:
    fields: dict[str, Any] = {
        "what": "queue",
        "name": "default",
        "since": NOW - MINUTE,
        "until": NOW + MINUTE,
        "actor": "anna",
        "reason": "bad deploy",
    }
    return Pause(**(fields | changes))


def a_batch(**changes: Any) -> BatchRecord:
    fields: dict[str, Any] = {
        "id": "b1",
        "name": "spring",
        "owner": "acme",
        "state": BatchState.DRAFT,
        "generation": 0,
        "total": 2,
        "succeeded": 0,
        "failed": 0,
        "cancelled": 0,
        "success_at": 1.0,
        "abort_above": None,
        "created_at": NOW - MINUTE,
        "published_at": None,
        "settled_at": None,
        "aborted_at": None,
        "expires_at": None,
    }
    return BatchRecord(**(fields | changes))


def a_service(state: str = "open", **changes: Any) -> ServiceStatus:
    fields: dict[str, Any] = {
        "name": "gateway",
        "state": state,
        "since": NOW - MINUTE,
        "open_until": NOW + MINUTE,
        "is_due": False,
        "forced": None,
        "actor": None,
        "reason": None,
        "is_failing": False,
        "calls": 10,
        "failures": 10,
        "share": 1.0,
        "rate": None,
        "pace": None,
        "rate_before": None,
        "firsts": 0,
        "retries": 0,
        "probes_succeeded": 0,
        "is_checked": False,
        "trouble": None,
        "ready": 1,
        "parked": 0,
        "paused": None,
        "mode": "hold",
        "fail_code": "SERVICE_OPEN",
        "cooldown": MINUTE,
        "probes": 1,
        "has_probe": False,
        "budget": 0.1,
        "window": "20 calls",
        "min_calls": 10,
        "open_at": 0.5,
        "most_a_second": None,
        "is_known": True,
    }
    return ServiceStatus(**(fields | changes))


FORCED = {"forced": "open", "actor": "anna", "reason": "maintenance"}
FULL = LimitRecord(what="kind", name="convert", most=2, taken=2)
SPENT = SpendingRecord(owner="acme", today=5, this_month=5, cost_this_month=0, budget=RetryBudget(per_day=5))
WAITS = {"due_at": NOW + MINUTE}
LATE = {"attempt": 1, "leased_by": "w1", "lease_until": NOW + MINUTE, "last_attempt_at": NOW - 60 * MINUTE}
LOST = {"attempt": 1, "leased_by": "w1", "lease_until": NOW - MINUTE, "last_attempt_at": NOW - MINUTE}


def failed_because(because: str, **reasons: Any) -> Event:
    return an_event("job.failed", {**BY_WORKER, "reasons": {"because": because, **reasons}}, code="GW_5XX")


# The job, what is around it; code, by, actor, until of what holds it first, and the actions that end it.
HELD: dict[str, tuple[Job[Any], dict[str, Any], tuple[Any, ...]]] = {
    "delay": (a_job(State.WAITING, waiting_for="delay", **WAITS), {}, ("delay", None, None, NOW + MINUTE, [])),
    "retry": (a_job(State.WAITING, waiting_for="retry", **WAITS), {}, ("retry", None, None, NOW + MINUTE, [])),
    "snooze": (a_job(State.WAITING, waiting_for="snooze", **WAITS), {}, ("snooze", None, None, NOW + MINUTE, [])),
    "rate limit": (
        a_job(State.WAITING, waiting_for="rate limit", **WAITS),
        {},
        ("rate_limit", None, None, NOW + MINUTE, []),
    ),
    "another version": (
        a_job(State.WAITING, waiting_for="another version", **WAITS),
        {},
        ("another_version", None, None, NOW + MINUTE, []),
    ),
    "a newer reason": (
        a_job(State.WAITING, waiting_for="moon", **WAITS),
        {},
        ("waiting", None, None, NOW + MINUTE, []),
    ),
    "charged to its service": (
        a_job(State.WAITING, service="gateway", waiting_for="service", gate="probe/gateway"),
        {},
        ("service_charged", "service/gateway", None, None, []),
    ),
    "a pause": (
        a_job(),
        {"pauses": [a_pause()]},
        ("paused", "pause/queue/default", "anna", NOW + MINUTE, [("resume", "queue", "default")]),
    ),
    "a paused duty": (
        a_job(State.WAITING, waiting_for="retry"),
        {"pauses": [a_pause(what="duty", name="retry", until=None)]},
        ("paused", "pause/duty/retry", "anna", None, [("resume", "duty", "retry")]),
    ),
    "an open service": (
        a_job(service="gateway"),
        {"service": a_service()},
        ("service_open", "service/gateway", None, NOW + MINUTE, [("close", "service", "gateway")]),
    ),
    "a forced service": (
        a_job(service="gateway"),
        {"service": a_service(**FORCED)},
        ("service_forced_open", "service/gateway", "anna", None, [("auto", "service", "gateway")]),
    ),
    "a probed service": (
        a_job(service="gateway"),
        {"service": a_service("half_open")},
        ("service_half_open", "service/gateway", None, None, []),
    ),
    "a paced service": (
        a_job(service="gateway"),
        {"service": a_service("closed", pace=2.0)},
        ("service_paced", "service/gateway", None, None, []),
    ),
    "a slow service": (
        a_job(service="gateway"),
        {"service": a_service("closed", most_a_second=2.0)},
        ("service_rate", "service/gateway", None, None, []),
    ),
    "the budget of a service": (
        a_job(State.WAITING, waiting_for="retry", gate="budget/gateway"),
        {},
        ("service_budget", "budget/service/gateway", None, None, []),
    ),
    "the budget of an owner": (
        a_job(State.WAITING, owner="acme", waiting_for="budget", **WAITS),
        {"spending": SPENT},
        ("owner_budget", "budget/owner/acme", None, NOW + MINUTE, []),
    ),
    "a limit": (
        a_job(State.WAITING, waiting_for="limit"),
        {"limits": [FULL]},
        ("limit", "limit/kind/convert", None, None, []),
    ),
    "a draft": (
        a_job(State.WAITING, batch="b1"),
        {"batch": a_batch()},
        ("batch_draft", "batch/b1", None, None, [("publish", "batch", "b1")]),
    ),
    "no worker": (a_job(), {"workers": []}, ("no_worker", None, None, None, [("start", "worker", "")])),
    "no worker of its kind": (
        a_job(),
        {"workers": [a_worker(kinds=("mail",))]},
        ("no_worker_for_kind", None, None, None, []),
    ),
    "no worker of its queue": (
        a_job(),
        {"workers": [a_worker(queues=("bulk",))]},
        ("no_worker_for_queue", None, None, None, []),
    ),
    "stuck": (a_job(State.RUNNING, **LATE), {}, ("stuck", "worker/w1", None, None, [])),
    "a lost lease": (a_job(State.RUNNING, **LOST), {}, ("lease_expired", "worker/w1", None, None, [])),
    "cancelled": (
        a_job(State.CANCELLED),
        {"events": [an_event("job.cancelled", actor="anna")]},
        ("cancelled", None, "anna", None, []),
    ),
}


@pytest.mark.parametrize("name", HELD)
def test_what_holds_a_job_is_also_data(name: str) -> None:
    job, around, expected = HELD[name]
    hold = held_first(job, around)
    actions = [(action.code, action.what, action.name) for action in hold.actions]
    assert (hold.code, hold.by, hold.actor, hold.until, actions) == expected


def held_first(job: Job[Any], around: dict[str, Any]) -> Hold:
    return explained_around(job, around).holds[0]


def explained_around(job: Job[Any], around: dict[str, Any]) -> Explanation:
    given = dict(around)
    return explained(job, *given.pop("events", ()), **given)


@pytest.mark.parametrize(
    ("event", "code"),
    [
        (failed_because("attempts exhausted", of=3), "attempts_exhausted"),
        (failed_because("trying again cannot help"), "final_error"),
        (failed_because("trying again cannot help", rule=FAILS_FAST), "fail_fast"),
        (failed_because("limit of GW_5XX reached", limit=1), "code_limit"),
        (failed_because("snoozes exhausted", of=100), "snoozes_exhausted"),
        (failed_because("deadline before the next try"), "deadline"),
        (failed_because("budget exhausted", of=5, owner="acme", period="2026-03-04"), "budget_exhausted"),
        (failed_because("loss 10 of 10", of=10), "losses_exhausted"),
        (failed_because("misfit 10 of 10", of=10), "misfits_exhausted"),
        (failed_because("crash 3 of 3", of=3), "crashes_exhausted"),
        (failed_because("it runs at most once"), "at_most_once"),
        (failed_because("the moon was full"), "other"),
        (failed_because(""), "no_reason"),
        (failed_because("", damaged="arguments"), "damaged"),
    ],
)
def test_why_no_retry_follows_has_a_stable_code(event: Event, code: str) -> None:
    job = a_job(State.FAILED, error_code="GW_5XX", finished_at=NOW, service="gateway", owner="acme")
    (hold,) = explained(job, event).holds
    assert (hold.code, hold.since) == (code, NOW)
    assert hold.sentence in explained(job, event).next


@pytest.mark.parametrize(("code", "expected"), [("DEADLINE", "deadline"), ("UNSTORABLE", "unstorable")])
def test_a_failure_without_a_decision_has_a_stable_code_too(code: str, expected: str) -> None:
    (hold,) = explained(a_job(State.FAILED, error_code=code)).holds
    assert hold.code == expected


def test_an_aborted_batch_is_one_of_the_reasons() -> None:
    batch = a_batch(state=BatchState.FAILED, aborted_at=NOW, failed=2)
    assert [hold.code for hold in explained(a_job(State.CANCELLED), batch=batch).holds] == [
        "cancelled",
        "batch_aborted",
    ]


def test_every_code_of_a_hold_is_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "reference" / "explain.md").read_text("utf-8")
    assert re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)[: len(HoldCode)] == list(HoldCode)


@pytest.mark.parametrize("name", HELD)
def test_the_sentences_are_those_of_the_data(name: str) -> None:
    job, around, _ = HELD[name]
    explanation = explained_around(job, around)
    for hold in explanation.holds:
        start = explanation.next.index(hold.sentence)
        assert explanation.next[start : start + len(hold.lines)] == hold.lines
    moves = tuple(action.sentence for action in explanation.actions)
    assert explanation.next[len(explanation.next) - len(moves) :] == moves


@pytest.mark.parametrize("state", list(State))
def test_the_actions_are_the_legal_moves(state: State) -> None:
    actions = explained(a_job(state)).actions
    assert [action.code for action in actions] == list(possible_verbs(state))
    assert all((action.what, action.name) == ("job", "f3a1") for action in actions)


def test_a_job_that_waits_for_nothing_is_not_held() -> None:
    assert explained(a_job()).holds == ()
    assert explained(a_job(State.SUCCEEDED, finished_at=NOW)).holds == ()


# The view of an owner

SECRETS = ("anna", "box", "w1", "42", "mulligan", "bad deploy", "maintenance", "wrong file", "Traceback", "HTTPError")


@pytest.mark.parametrize("name", HELD)
def test_an_owner_sees_no_worker_no_person_and_no_command(name: str) -> None:
    job, around, _ = HELD[name]
    last = {"last_code": "GW_5XX", "last_message": "The gateway failed.", "last_detail": "HTTPError: 502"}
    explanation = explained_around(structs.replace(job, **last), {**around, "is_for_owner": True})
    said = msgspec.json.encode(document_of(explanation)).decode()
    assert not [secret for secret in SECRETS if f'"{secret}"' in said or f" {secret}" in said or f"/{secret}" in said]
    everyone = explained_around(job, around)
    assert [hold.code for hold in explanation.holds] == [hold.code for hold in everyone.holds]


@pytest.mark.parametrize("name", SENTENCES)
def test_an_owner_sees_what_happened_without_workers_and_people(name: str) -> None:
    event, _ = SENTENCES[name]
    data = {**event.data, "error": "HTTPError: 502"} if event.code else event.data
    (sentence,) = explained(a_job(), replace(event, data=data), is_for_owner=True).happened
    assert sentence.endswith((".", '."'))
    assert not [secret for secret in (*SECRETS, "w9", "an unknown person", "disk mended") if secret in sentence]
    assert ("ttempt" in sentence) == ("ttempt" in SENTENCES[name][1])


def test_an_owner_may_move_the_job_and_publish_its_batch() -> None:
    draft = explained(a_job(State.WAITING, batch="b1"), batch=a_batch(), is_for_owner=True)
    assert [(action.code, action.command) for hold in draft.holds for action in hold.actions] == [("publish", None)]
    assert [action.code for action in draft.actions] == list(possible_verbs(State.WAITING))
    assert {action.command for action in draft.actions} == {None}
    stuck = explained(a_job(State.RUNNING, **LATE), is_for_owner=True)
    assert [action.code for action in stuck.actions] == ["retry", "cancel"]
    assert stuck.job.leased_by is None
