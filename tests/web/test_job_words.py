"""The words of the pages of jobs: the sentence that opens a page, the gates, the story, the rows of the list."""

from datetime import timedelta
from typing import Any

import pytest

from mulligan import State
from mulligan.lifecycle import JOB_EVENTS
from mulligan.records.batch import BatchState
from mulligan.records.event import Event
from mulligan.records.job import Job
from mulligan.web.pages.blocks import to_block
from mulligan.web.pages.gates import first_hold, gates_of
from mulligan.web.pages.job_rows import rows_of
from mulligan.web.pages.jobs import title_of
from mulligan.web.pages.opening import find_useless, open_page
from mulligan.web.pages.pieces import Pieces
from mulligan.web.pages.story import MOST_DETAIL, Item, tell
from mulligan.web.pages.strokes import MOST_SHOWN, counted, in_order
from mulligan.web.pages.words import ago, clock_time, duration
from test_explain import (
    BY_WORKER,
    HELD,
    LATE,
    MINUTE,
    NOW,
    SENTENCES,
    a_batch,
    a_job,
    a_worker,
    an_event,
    explained,
    explained_around,
    failed_because,
)

SECOND = timedelta(seconds=1)


def plain(pieces: Pieces) -> str:
    """The sentence as its reader sees it."""
    forms = {"ago": lambda at: ago(at, NOW), "clock": clock_time, "countdown": lambda at: duration(at - NOW)}
    return "".join(each if isinstance(each, str) else forms[each.how](each.at) for each in pieces)


def opened(job: Job[Any], *events: Event, position: int | None = None, **around: Any) -> tuple[str, str, str]:
    opening = open_page(explained(job, *events, **around), position=position, now=NOW)
    return opening.word, opening.title, plain(opening.lead)


# The sentence that opens the page

OPENINGS = {
    "delay": (
        "Waiting",
        "It was enqueued for later.",
        "It is due in 1 min, at 12:01:00. Attempt 1 starts when a worker is free.",
    ),
    "retry": (
        "Waiting",
        "It waits for attempt 1 after a failure.",
        "It is due in 1 min, at 12:01:00. 3 attempts of 3 are left.",
    ),
    "snooze": ("Waiting", "It was snoozed.", "It goes on in 1 min, at 12:01:00. No attempt is used up."),
    "rate limit": ("Waiting", "It was asked to slow down.", "It goes on in 1 min, at 12:01:00. No attempt is used up."),
    "another version": (
        "Waiting",
        "No worker has a fitting version of its task.",
        "It is offered again in 1 min, at 12:01:00. A worker of the version that enqueued it can run it.",
    ),
    "a newer reason": ("Waiting", "It waits.", "It is due in 1 min, at 12:01:00."),
    "charged to its service": (
        "Waiting, held",
        "It waits for service gateway, which failed its last call.",
        "The failure was charged to the service: no attempt was used up. It is tried again when the service is closed.",
    ),
    "a pause": (
        "Queued, held",
        "It waits: queue default is paused.",
        (
            "Paused by anna since 11:59:00: bad deploy. The pause ends in 1 min, at 12:01:00. "
            "No attempt is used up meanwhile."
        ),
    ),
    "a paused duty": (
        "Waiting, held",
        "It waits: retries are paused.",
        (
            "Paused by anna since 11:59:00: bad deploy. It goes on when the pause is ended. "
            "No attempt is used up meanwhile."
        ),
    ),
    "an open service": (
        "Queued, held",
        "It waits for service gateway, which has been down since 11:59.",
        (
            "Attempt 1 starts when the service answers a probe. The next probe is in 1 min, at 12:01:00. "
            "Its jobs wait, and no attempt is used up."
        ),
    ),
    "a forced service": (
        "Queued, held",
        "It waits for service gateway, which was opened manually.",
        (
            "Opened by anna since 11:59:00: maintenance. It stays open until a person closes it. "
            "Its jobs wait, and no attempt is used up."
        ),
    ),
    "a probed service": (
        "Queued, held",
        "It waits while service gateway is being probed.",
        "The other jobs of the service wait until its probes succeed. No attempt is used up meanwhile.",
    ),
    "a paced service": (
        "Queued",
        "It is ready, and the next free worker takes it.",
        "Attempt 1 starts then.",
    ),
    "a slow service": ("Queued", "It is ready, and the next free worker takes it.", "Attempt 1 starts then."),
    "the budget of a service": (
        "Waiting, held",
        "It waits for the retry budget of service gateway.",
        "It waits for the retry budget of service 'gateway', which is failing.",
    ),
    "the budget of an owner": (
        "Waiting, held",
        "The retries of owner acme are used up.",
        ("The retries of owner 'acme' are used up: 5 of 5 today. It goes on in 1 min, or when the budget is raised."),
    ),
    "a limit": (
        "Waiting, held",
        "It waits for a slot of kind convert.",
        "Limit of kind 'convert' reached: 2 of 2 running or ready. No attempt is used up meanwhile.",
    ),
    "a draft": (
        "Waiting, held",
        "It waits until its batch is published.",
        "Its batch 'spring' is a draft of 2 members: they run when it is published.",
    ),
    "no worker": ("Queued, held", "No worker is alive to run it.", "It starts when there is such a worker."),
    "no worker of its kind": (
        "Queued, held",
        "No live worker knows kind convert.",
        "It starts when there is such a worker.",
    ),
    "no worker of its queue": (
        "Queued, held",
        "No live worker that knows it serves queue default.",
        "It starts when there is such a worker.",
    ),
    "stuck": (
        "Running, stuck",
        "Attempt 1 is stuck.",
        "It started 1 h ago. Its worker has not stopped it. A retry takes it from its worker first.",
    ),
    "a lost lease": (
        "Running, stuck",
        "The worker of attempt 1 sends no heartbeat.",
        "Its lease expired 1 min ago. Another worker returns it to the queue.",
    ),
    "cancelled": ("Cancelled", "It was cancelled by anna.", "Nothing follows by itself."),
}


@pytest.mark.parametrize("name", HELD)
def test_the_sentence_says_what_holds_the_job_and_what_comes_next(name: str) -> None:
    job, around, _ = HELD[name]
    explanation = explained_around(job, around)
    opening = open_page(explanation, position=None, now=NOW)
    assert (opening.word, opening.title, plain(opening.lead)) == OPENINGS[name]


def test_every_hold_of_a_job_has_a_sentence() -> None:
    assert OPENINGS.keys() == HELD.keys()


def test_a_job_that_goes_on_by_itself() -> None:
    queued = a_job(queued_at=NOW - 3 * SECOND)
    assert opened(queued, position=4)[1:] == (
        "It is ready, and the next free worker takes it.",
        "It was queued 3 s ago. Attempt 1 starts then. It is number 4 of all queued jobs.",
    )
    assert opened(a_job(State.WAITING, attempt=1))[1:] == (
        "It is due, and the next free worker takes it.",
        "It was due 1 min ago. Attempt 2 starts then.",
    )


RUNS = {
    "attempt": 2,
    "failures": 1,
    "last_attempt_at": NOW - 9 * SECOND,
    "leased_by": "w1",
    "lease_until": NOW + MINUTE,
}


@pytest.mark.parametrize(
    ("changes", "title", "lead"),
    [
        ({}, "Attempt 2 is running.", "If it fails with a retryable error, 1 more attempt is left."),
        ({"max_attempts": 2}, "Attempt 2 is running.", "This is its last attempt: if it fails, the job fails."),
        (
            {"cancel_requested": True},
            "Attempt 2 is being stopped.",
            "Its worker stops it within seconds, unless it ends before that.",
        ),
    ],
)
def test_a_running_job(changes: dict[str, Any], title: str, lead: str) -> None:
    assert opened(a_job(State.RUNNING, **(RUNS | changes))) == ("Running", title, f"It started 9 s ago. {lead}")


@pytest.mark.parametrize(
    ("changes", "title", "lead"),
    [
        ({"attempt": 1}, "It succeeded at the first attempt.", ". Nothing follows."),
        ({"attempt": 3, "failures": 2}, "It succeeded in attempt 3.", ", after 2 failures. Nothing follows."),
    ],
)
def test_a_succeeded_job(changes: dict[str, Any], title: str, lead: str) -> None:
    job = a_job(State.SUCCEEDED, finished_at=NOW - MINUTE, **changes)
    assert opened(job)[1:] == (title, f"That was 1 min ago, at 11:59:00{lead}")


@pytest.mark.parametrize(
    ("changes", "because", "title", "lead"),
    [
        (
            {"attempt": 3, "failures": 3},
            "attempts exhausted",
            "It failed with GW_5XX after 3 failed attempts.",
            "No retry follows, because all 3 attempts are used up.",
        ),
        (
            {"attempt": 1, "failures": 1},
            "trying again cannot help",
            "It failed with GW_5XX.",
            "No retry follows, because GW_5XX is final: a retry cannot help.",
        ),
        (
            {"attempt": 0},
            "deadline before the next try",
            "It failed with GW_5XX and never ran.",
            "No retry follows, because the next attempt would have come after its deadline.",
        ),
    ],
)
def test_a_failed_job_says_why_no_retry_follows(changes: dict[str, Any], because: str, title: str, lead: str) -> None:
    job = a_job(State.FAILED, error_code="GW_5XX", finished_at=NOW - MINUTE, **changes)
    assert opened(job, failed_because(because, of=3))[1:] == (title, f"That was 1 min ago, at 11:59:00. {lead}")


def test_a_job_that_its_batch_cancelled() -> None:
    batch = a_batch(state=BatchState.FAILED, aborted_at=NOW, failed=2)
    _, title, lead = opened(a_job(State.CANCELLED, finished_at=NOW), batch=batch)
    assert title == "It was cancelled."
    assert "was aborted at 2026-03-04 12:00:00 UTC" in lead


# The gates


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("delay", 0),
        ("a draft", 0),
        ("a pause", 1),
        ("a limit", 2),
        ("the budget of an owner", 3),
        ("an open service", 4),
        ("no worker", 5),
    ],
)
def test_the_first_shut_gate_is_marked_and_those_after_it_are_not_reached(name: str, number: int) -> None:
    job, around, _ = HELD[name]
    gates = gates_of(explained_around(job, around), now=NOW, is_admin=True)
    assert [gate.standing for gate in gates] == ["open"] * number + ["shut"] + ["later"] * (5 - number)


def test_a_job_without_a_hold_passes_every_gate() -> None:
    gates = gates_of(explained(a_job()), now=NOW, is_admin=True)
    assert {gate.standing for gate in gates} == {"open"}


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED, State.FAILED, State.CANCELLED])
def test_a_job_that_runs_or_is_over_stands_before_no_gate(state: State) -> None:
    assert gates_of(explained(a_job(state)), now=NOW, is_admin=True) == []


def test_a_shut_gate_leads_to_what_holds_the_job_but_owners_have_no_such_pages() -> None:
    links = {"an open service": "/services/gateway", "a pause": "/queues", "no worker": "/workers"}
    for name, link in links.items():
        explanation = explained_around(*HELD[name][:2])
        for is_admin, expected in ((True, link), (False, "")):
            (shut,) = [g for g in gates_of(explanation, now=NOW, is_admin=is_admin) if g.standing == "shut"]
            assert shut.link == expected
    draft = gates_of(explained_around(*HELD["a draft"][:2]), now=NOW, is_admin=False)
    assert draft[0].link == "/batches/b1"


@pytest.mark.parametrize(
    ("name", "is_useless"), [("a limit", True), ("charged to its service", True), ("delay", False), ("a pause", False)]
)
def test_a_move_that_would_not_help_says_so(name: str, is_useless: bool) -> None:
    explanation = explained_around(*HELD[name][:2])
    said = find_useless(explanation, first_hold(explanation), NOW)
    # A queued job is not run now: the move is not offered.
    assert said.startswith("Run now would not help.") == is_useless


# The story


@pytest.mark.parametrize("name", SENTENCES)
def test_every_event_is_told(name: str) -> None:
    event, _ = SENTENCES[name]
    story = tell(a_job(), [event], workers=[a_worker()])
    if event.type == "job.queued":
        assert story.items == []
    else:
        (item,) = story.items
        assert item.title and item.sign and item.tone


def test_every_type_of_event_is_in_the_table() -> None:
    assert {event.type for event, _ in SENTENCES.values()} >= set(JOB_EVENTS)


def attempts(*ends: Event) -> list[Item]:
    events = []
    for number, end in enumerate(ends, 1):
        at = NOW - MINUTE + number * 10 * SECOND
        started = an_event("job.started", {"worker": "w1", "version": "1.2"}, attempt=number, at=at)
        events += [started, end]
    return tell(a_job(attempt=len(ends)), events, workers=[a_worker()]).items


def an_end(type_: str, attempt: int = 1, code: str | None = "GW_5XX", **data: Any) -> Event:
    at = NOW - MINUTE + attempt * 10 * SECOND + 4 * SECOND
    return an_event(type_, {**BY_WORKER, **data}, attempt=attempt, code=code, at=at)


def test_an_attempt_is_one_item_with_its_verdict_and_the_decision_in_words() -> None:
    reasons = {"failure": 1, "of": 6, "rule": "http.5xx", "hint": 15, "policies": "version 12"}
    said = {"message": "We will retry.", "class": "retryable", "error": "E: no", "detail": "Traceback"}
    calls = [{"service": "gateway", "ok": False, "status": 503, "seconds": 1.5}, {"service": "mail", "ok": True}]
    (item,) = attempts(an_end("job.retried", delay=17, reasons=reasons, calls=calls, more_calls=2, **said))
    assert (item.title, item.meta, item.ran) == (
        "Attempt 1 failed with GW_5XX",
        "on box, version 1.2",
        4 * SECOND,
    )
    assert (item.verdict, item.decision) == ("We will retry.", "Retried after 17 s.")
    assert item.because == "GW_5XX is retryable, and this was failure 1 of 6."
    assert item.reasons == ("it was asked to wait at least 15 s", "rule http.5xx", "policies version 12")
    assert item.calls == ("gateway failed with 503 in 1.5 s", "mail answered", "2 more calls")


@pytest.mark.parametrize(
    ("end", "title", "decision", "because"),
    [
        (an_end("job.succeeded", code=None), "Attempt 1 succeeded", "", ""),
        (
            an_end("job.failed", reasons={"because": "attempts exhausted", "of": 3}),
            "Attempt 1 failed with GW_5XX",
            "No retry follows.",
            "All 3 attempts are used up.",
        ),
        (
            an_end("job.snoozed", code="RATE_LIMITED", delay=60, reasons={"snooze": 1, "of": 100}),
            "Attempt 1 was asked to slow down with RATE_LIMITED",
            "It goes on after 1 min.",
            "No attempt is used up. This was wait 1 of 100.",
        ),
        (
            an_end("job.snoozed", code="SNOOZED", delay=0),
            "Attempt 1 asked to run again later",
            "It goes on at once.",
            "No attempt is used up.",
        ),
        (
            an_end("job.snoozed", code="MISFIT", delay=5, reasons={"misfit": 1, "of": 100}),
            "Attempt 1 did not run: its arguments belong to another version of the task",
            "It goes on after 5 s.",
            "Nothing is used up. Misfit 1 of 100.",
        ),
        (
            an_end("job.released", code="WORKER_LOST", reasons={"loss": 1, "of": 10}),
            "Attempt 1 was lost with its worker",
            "Returned to its queue.",
            "Its worker sent no heartbeat. This counts as loss 1 of 10, not as a failure.",
        ),
        (
            an_end("job.released", code="CRASHED", reasons={"crash": 1, "of": 3}),
            "The process of attempt 1 died",
            "Returned to its queue.",
            "This counts as crash 1 of 3, not as a failure.",
        ),
        (
            an_end("job.released", code=None, reasons={"why": "shutdown"}),
            "Attempt 1 was released",
            "Returned to its queue.",
            "Its worker was stopped. No attempt is used up.",
        ),
        (
            an_end("job.parked", reasons={"because": "charged to service gateway"}),
            "Attempt 1 failed with GW_5XX",
            "It waits for its service.",
            "Charged to service gateway. No attempt is used up.",
        ),
        (
            an_end("job.cancelled", code=None),
            "Attempt 1 was stopped",
            "The job is cancelled.",
            "Cancellation had been requested.",
        ),
    ],
)
def test_how_attempts_end(end: Event, title: str, decision: str, because: str) -> None:
    (item,) = attempts(end)
    assert (item.title, item.decision, item.because) == (title, decision, because)


def test_a_manual_move_names_its_actor_and_the_reason() -> None:
    data = {"reason": "disk mended", "redrive": "r1"}
    (item,) = tell(a_job(), [an_event("job.retry_requested", data, actor="anna")]).items
    assert (item.title, item.meta, item.verdict, item.sign) == (
        "Retried manually, with all counters reset",
        "by anna",
        "disk mended",
        "hand",
    )
    assert item.reasons == ("part of operation r1",)


def test_the_time_between_attempts_is_a_gap() -> None:
    end = an_end("job.retried", delay=20)
    queued = an_event("job.queued", at=end.at + 20 * SECOND)
    started = an_event("job.started", BY_WORKER, attempt=2, at=end.at + 21 * SECOND)
    first, second = tell(a_job(State.RUNNING), [end, queued, started]).items
    assert (first.gap, second.gap, second.title) == ("", "20 s until it was queued", "Attempt 2 is running")


def test_the_same_error_is_shown_once() -> None:
    said = {"message": "Down.", "error": "E: down", "detail": "Traceback"}
    first, second, third = attempts(
        an_end("job.retried", 1, **said),
        an_end("job.retried", 2, **said),
        an_end("job.failed", 3, **(said | {"message": "Over.", "detail": "Another"})),
    )
    assert (first.detail, second.detail, third.detail) == ("Traceback", "", "Another")
    assert (first.verdict, second.verdict, third.verdict) == ("Down.", "", "Over.")
    assert second.same_as == 1


def test_tracebacks_do_not_fill_the_page() -> None:
    items = attempts(*(an_end("job.retried", number, detail=f"{number}" + "x" * 60_000) for number in range(1, 9)))
    assert sum(len(item.detail) for item in items) <= MOST_DETAIL
    assert items[-1].detail and all(item.is_cut for item in items)


def test_a_long_story_leaves_out_its_middle() -> None:
    story = tell(a_job(), [an_event("job.snoozed", {"delay": 1}, actor="anna", position=n) for n in range(500)])
    assert (len(story.items), story.left_out) == (70, 430)
    assert [story.items[9].position, story.items[10].position] == [9, 440]


# Rows


def about(job: Job[Any], blocked: str | None = None) -> tuple[str, str, str]:
    (row,) = rows_of([job], blocked={job.id: blocked} if blocked else {}, stuck=frozenset(), state=None, now=NOW)
    return row.word, row.code, row.text


@pytest.mark.parametrize(
    ("job", "blocked", "expected"),
    [
        (
            a_job(State.FAILED, error_code="HTTP_4XX", error_message="No.", error_detail="x.HTTPError: 401 no"),
            None,
            ("Failed", "HTTP_4XX", "401 no"),
        ),
        (a_job(State.FAILED, error_code="A", error_message="No."), None, ("Failed", "A", "No.")),
        (a_job(State.WAITING, waiting_for="snooze"), None, ("Waiting", "", "Snoozed")),
        (a_job(State.QUEUED), None, ("Queued", "", "Ready for the next free worker")),
        (a_job(State.QUEUED), "service/gateway", ("Queued, held", "", "Service gateway is not available")),
        (a_job(State.RUNNING, progress_text="page 3"), None, ("Running", "", "page 3")),
        (a_job(State.RUNNING, cancel_requested=True), None, ("Running", "", "Is being stopped")),
        (a_job(State.RUNNING, lease_until=NOW), None, ("Running", "", "Its worker sends no heartbeat")),
        (
            a_job(State.SUCCEEDED, last_code="NETWORK", last_message="Reset."),
            None,
            ("Succeeded", "", "Recovered from NETWORK: Reset."),
        ),
        (a_job(State.CANCELLED), None, ("Cancelled", "", "")),
    ],
)
def test_a_row_says_what_matters_in_the_state_of_its_job(
    job: Job[Any], blocked: str | None, expected: tuple[str, str, str]
) -> None:
    assert about(job, blocked) == expected


@pytest.mark.parametrize(
    ("key", "words", "params"),
    [
        ("service/site:a/b", "service site:a/b is not available", {"service": ["site:a/b"]}),
        ("pause/queue/bulk", "queue bulk is paused", {"queue": ["bulk"]}),
        ("pause/kind/a/b", "kind a/b is paused", {"kind": ["a/b"]}),
        ("pause/duty/retry", "retries are paused", None),
        ("limit/owner/acme", "no slot of owner acme is free", {"owner": ["acme"]}),
        ("limit/sender/acme", "no slot of sender acme is free", {"kind": ["mulligan.deliver"]}),
        ("budget/service/gateway", "the retry budget of service gateway is used up", {"service": ["gateway"]}),
        ("budget/owner/acme", "the retries of owner acme are used up", {"owner": ["acme"]}),
        ("batch/b1", "its batch is not published", {"batch": ["b1"]}),
    ],
)
def test_what_blocks_a_job_in_words_and_as_a_filter(key: str, words: str, params: dict[str, list[str]] | None) -> None:
    block = to_block(key)
    assert block.words == words
    assert block.params == ({} if params is None else {"state": ["waiting", "queued"], **params})


def test_strokes_of_a_list_count_and_those_of_a_job_are_in_order() -> None:
    job = a_job(State.WAITING, losses=1, failures=2, snoozes=40)
    assert counted(job).label == "lost with its worker, 40 snoozed, 2 failed, the next one waits"
    assert (len(counted(job).shown), counted(job).before) == (MOST_SHOWN, 44 - MOST_SHOWN)
    items = [an_end("job.released", 1, "WORKER_LOST", reasons={"loss": 1}), an_end("job.retried", 2)]
    strokes = in_order([item.stroke for item in attempts(*items) if item.stroke])
    assert strokes.label == "lost with its worker, failed"


@pytest.mark.parametrize(
    ("view", "number", "is_more", "is_filtered", "title"),
    [
        (None, 0, False, False, "No job is stored."),
        (None, 1, False, False, "1 job is stored."),
        (State.FAILED, 604, False, False, "604 jobs have failed."),
        (State.FAILED, 604, False, True, "604 failed jobs match."),
        (State.RUNNING, 1, False, True, "1 running job matches."),
        (State.CANCELLED, 0, False, True, "No cancelled job matches."),
        (None, 0, False, True, "No job matches."),
        (None, 12, False, True, "12 jobs match."),
        (State.WAITING, 10_000, True, False, "More than 10 k jobs are waiting."),
        (State.QUEUED, 7, True, True, "At least 7 queued jobs match."),
        ("held", 3, True, False, "At least 3 jobs are held."),
        ("held", 0, True, False, "No job is held among the newest."),
        ("stuck", 2, False, False, "2 jobs are stuck."),
    ],
)
def test_the_title_of_the_list(view: Any, number: int, is_more: bool, is_filtered: bool, title: str) -> None:
    assert title_of(view, number, is_more=is_more, is_filtered=is_filtered) == title


def test_a_stuck_job_is_marked_in_the_list() -> None:
    job = a_job(State.RUNNING, **LATE)
    (row,) = rows_of([job], blocked={}, stuck=frozenset({job.id}), state=State.RUNNING, now=NOW)
    assert (row.sign, row.word, row.ran) == ("stuck", "Running, stuck", 60 * MINUTE)
