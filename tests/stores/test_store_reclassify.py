"""Failed jobs judged again, on each store: preview, then retry those that would be retried by now."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from postgres_server import PostgresServer

from live import eventually
from mulligan import App, FinalError, Fixed, JobFilter, NotAllowed, RetryPolicy, State
from mulligan.console.reclassify import PAGE
from mulligan.errors import BadFilter
from mulligan.records.job import Job
from mulligan.store.session import Session

FINAL = "kinds: {convert: {rules: [{code: GATEWAY, class: final, status: 500-599}]}}"
RETRYABLE = "kinds: {convert: {rules: [{code: GATEWAY_BUSY, class: retryable, status: 503}]}}"


class GatewayError(Exception):
    def __init__(self, status: int) -> None:
        super().__init__(f"the gateway said {status}")
        self.status = status


def put(text: str) -> None:
    new = Path("policies.new")
    new.write_text(text)
    new.replace("policies.yaml")


@pytest.fixture(params=["sqlite", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    url = f"sqlite:///{tmp_path}/jobs.db"
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("server")
        url = server.fresh_database("reclassify")
    put(FINAL)
    app = App(url, policies="policies.yaml")
    with app:
        app.migrate()
        yield app


def no_more_than_one(job: Job[object]) -> None:
    if job.owner == "blocked":
        raise NotAllowed("the source file is gone")


def failing(app: App) -> dict[str, str]:
    """A job for each way to fail: its id by the way's name."""

    @app.task(retry=RetryPolicy(2, Fixed("1h")), can_retry=no_more_than_one)
    def convert(way: str) -> None:
        match way:
            case "raised":
                raise FinalError("not a PDF", code="NOT_PDF")
            case "other":
                raise LookupError("nothing here")
        raise GatewayError(int(way))

    bindings = [convert.bind(way) for way in ("503", "500", "raised", "other")]
    blocked = convert.options(owner="blocked").bind("503")
    names = ["503", "500", "raised", "other", "blocked"]
    jobs = dict(zip(names, app.enqueue_many([*bindings, blocked]), strict=True))
    app.run_until_idle(timeout="60s")
    app.run_now(jobs["other"].id)
    app.run_until_idle(timeout="60s")
    return {name: job.id for name, job in jobs.items()}


def test_a_preview_says_what_would_be_retried_and_changes_nothing(app: App) -> None:
    ids = failing(app)
    assert {app.job(job_id).state for job_id in ids.values()} == {State.FAILED}
    assert app.reclassify().would_retry == ()
    put(RETRYABLE)
    app.policies.look()
    found = app.reclassify(JobFilter(kind="convert"))
    changes = {job.id: (job.old_code, job.new_code, job.new_class, job.decision) for job in found.jobs}
    assert changes == {
        ids["503"]: ("GATEWAY", "GATEWAY_BUSY", "retryable", "retry"),
        ids["blocked"]: ("GATEWAY", "GATEWAY_BUSY", "retryable", "retry"),
        ids["500"]: ("GATEWAY", "HTTP_5XX", "retryable", "retry"),
        ids["raised"]: ("NOT_PDF", "NOT_PDF", "final", "fail"),
        ids["other"]: ("UNKNOWN", "UNKNOWN", "retryable", "fail"),
    }
    assert set(found.would_retry) == {ids["503"], ids["blocked"], ids["500"]}
    assert (found.retried, found.policies) == ((), app.policies.current.version)
    assert {app.job(job_id).state for job_id in ids.values()} == {State.FAILED}


def test_applied_it_retries_those_each_checked_and_signed(app: App) -> None:
    ids = failing(app)
    put(RETRYABLE)
    app.policies.look()
    found = app.reclassify(JobFilter(code="GATEWAY"), dry_run=False, actor="ann", reason="503 passes")
    assert set(found.retried) == {ids["503"], ids["500"]}
    assert found.skipped == {ids["blocked"]: "the source file is gone"}
    moved = [event for event in app.events(ids["503"]) if event.actor == "ann"]
    assert [event.data["reason"] for event in moved] == ["503 passes"]
    assert app.job(ids["503"]).state is State.QUEUED and app.job(ids["raised"]).state is State.FAILED
    assert app.reclassify(JobFilter(code="GATEWAY")).would_retry == (ids["blocked"],)


def test_more_attempts_are_a_reason_to_retry_too(app: App) -> None:
    ids = failing(app)
    put("kinds: {convert: {max_attempts: 3, limits: {UNKNOWN: 2}}}")
    app.policies.look()
    assert ids["other"] in app.reclassify().would_retry
    put("kinds: {convert: {max_attempts: 3, limits: {UNKNOWN: 1}}}")
    app.policies.look()
    assert ids["other"] not in app.reclassify().would_retry


def test_a_deadline_counts_as_it_stood_when_the_job_failed(app: App) -> None:
    @app.task(retry=RetryPolicy(2, Fixed("1h"), deadline="90m"))
    def convert() -> None:
        raise GatewayError(503)

    @app.task(retry=RetryPolicy(2, Fixed("1h"), deadline="30m"))
    def urgent() -> None:
        raise GatewayError(503)

    jobs = [convert.enqueue(), urgent.enqueue()]
    put("default: {rules: [{code: GATEWAY, class: final, status: 503}]}")
    app.policies.look()
    app.run_until_idle(timeout="60s")
    put("default: {}")
    app.policies.look()
    found = {job.id: (job.new_code, job.decision) for job in app.reclassify().jobs}
    assert found == {jobs[0].id: ("HTTP_5XX", "retry"), jobs[1].id: ("DEADLINE", "fail")}


def test_what_is_stored_is_matched_by_the_names_of_its_classes(app: App) -> None:
    ids = failing(app)
    put("default: {rules: [{code: NOTHING, class: final, exception: LookupError}]}")
    app.policies.look()
    (other,) = (job for job in app.reclassify().jobs if job.id == ids["other"])
    assert (other.new_code, other.rule) == ("NOTHING", "default.rules[0]")


def test_it_looks_at_the_newest_within_the_limit_and_leaves_alone_what_has_no_failure(app: App) -> None:
    @app.task(retry=RetryPolicy(deadline="1ms"))
    def late() -> None: ...

    job = late.options(delay="2ms").enqueue()
    eventually(lambda: app.run_duty("expire") and app.job(job.id).state is State.FAILED)
    found = app.reclassify(limit=1)
    assert (found.jobs, found.unjudged, found.is_complete) == ((), (job.id,), True)
    ids = failing(app)
    found = app.reclassify(limit=2)
    assert len(found.jobs) == 2 and not found.is_complete
    assert {job.id for job in found.jobs} == {ids["blocked"], ids["other"]}
    with pytest.raises(BadFilter, match="only failed jobs are reclassified"):
        app.reclassify(JobFilter(state="queued"))


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that a store is asked from now on."""
    asked, rows = list[str](), Session.rows

    def listened(session: Session, name: str, *values: Any, **more: Any) -> Any:
        asked.append(name)
        return rows(session, name, *values, **more)

    monkeypatch.setattr(Session, "rows", listened)
    return asked


def test_many_failed_jobs_are_read_by_few_statements(app: App, statements: list[str]) -> None:
    @app.task(retry=RetryPolicy(1))
    def convert() -> None:
        raise GatewayError(503)

    app.enqueue_many([convert.bind() for _ in range(2 * PAGE + 1)])
    app.run_until_idle(timeout="120s")
    statements.clear()
    found = app.reclassify(limit=10 * PAGE)
    assert (len(found.jobs), found.is_complete) == (2 * PAGE + 1, True)
    assert 0 < len(statements) <= 2 * 3
    statements.clear()
    found = app.reclassify(limit=2 * PAGE)
    assert (len(found.jobs), found.is_complete) == (2 * PAGE, False)
    assert 0 < len(statements) <= 2 * 2


def test_what_is_kept_of_a_failure_is_small(app: App) -> None:
    @app.task(retry=RetryPolicy(1))
    def loud() -> None:
        raise ValueError("x" * 1_000_000)

    job = loud.enqueue()
    app.run_until_idle(timeout="60s")
    kept = app.events(job.id)[-1].data["failure"]
    assert kept.keys() == {"type", "types", "message"} and len(kept["message"]) < 5_000
