"""Requests with an id of the caller: carried out once, and answered as the first time."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from postgres_server import emptied

from conformance.bench import HOUR, at_once, failing
from mulligan import (
    App,
    IllegalMove,
    Job,
    JobFilter,
    JobNotFound,
    NotAllowed,
    RequestMismatch,
    RetryPolicy,
    Service,
)
from mulligan.errors import BadArgument
from mulligan.failure.decision import Succeed
from mulligan.store.messages import Claim, Outcome
from mulligan.store.requests import REQUESTS_KEPT
from mulligan.testing import sandbox


class Desk:
    """An app on one of the stores, with jobs in every state that a verb needs."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.apps: list[App] = []
        self.asked: list[str] = []
        self.before_answer: Callable[[], object] = lambda: None
        self.app = self.open()
        self.app.migrate()
        self._numbers = iter(range(1, 1_000))

    def open(self) -> App:
        app = App(self.url, services=[Service("gateway")])
        task = app.task("send", retry=RetryPolicy(1), service="gateway", can_retry=self._can_retry)(_nothing)
        app.cron("0 0 1 1 *", name="yearly")(task)
        self.apps.append(app)
        return app

    def _can_retry(self, job: Job[Any]) -> None:
        self.asked.append(job.id)
        self.before_answer()

    def failed(self, **options: Any) -> Job[Any]:
        job = self.app.tasks["send"].options(**options).enqueue()
        claim = Claim(incarnation="w", number=next(self._numbers), kinds=["send"], limit=9, lease=HOUR)
        self.app.store.settle([Outcome(lease, failing()) for lease in self.app.store.claim(claim).leases])
        return job

    def batch(self) -> str:
        batch = self.app.batch("import")
        self.failed(batch=batch)
        return batch.id

    def failed_batch(self) -> str:
        batch = self.app.batch("import")
        self.app.tasks["send"].options(batch=batch).enqueue()
        batch.publish()
        claim = Claim(incarnation="w", number=next(self._numbers), kinds=["send"], limit=9, lease=HOUR)
        self.app.store.settle([Outcome(lease, failing()) for lease in self.app.store.claim(claim).leases])
        return batch.id

    def events(self) -> list[tuple[str, str]]:
        return [(event.type, event.job) for event in self.app.events(limit=1_000)]

    def connect(self) -> Any:
        if self.url.startswith("sqlite"):
            return closing(sqlite3.connect(self.url.removeprefix("sqlite:///"), isolation_level=None))
        return psycopg.connect(self.url, autocommit=True)

    def stored(self) -> int:
        with self.connect() as connection:
            return int(connection.execute("SELECT count(*) FROM mulligan_requests").fetchone()[0])


def _nothing() -> None: ...


@pytest.fixture(params=["sqlite", "postgres"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    is_file = request.param == "sqlite"
    opened = Desk(f"sqlite:///{tmp_path}/jobs.db" if is_file else emptied(request.getfixturevalue("database")))
    yield opened
    for app in opened.apps:
        app.close()


# Prepares what the verb needs, and returns the call.
Prepared = Callable[[Desk], Callable[..., Any]]


def _on(prepare: Callable[[Desk], Any], call: Callable[..., Any]) -> Prepared:
    def prepared(desk: Desk) -> Callable[..., Any]:
        subject = prepare(desk)
        return lambda **more: call(desk.app, subject, **more)

    return prepared


def _redriven(desk: Desk) -> str:
    desk.failed()
    return desk.app.redrive(JobFilter(state="failed")).id


def _paused(desk: Desk) -> None:
    desk.app.pause(queue="default")


def _orphaned(desk: Desk) -> str:
    with App(desk.url) as other:
        task = other.task("other")(_nothing)
        other.cron("0 0 1 1 *", name="old")(task)
        other.tick()
    with desk.connect() as connection:
        connection.execute("UPDATE mulligan_schedules SET seen_at = 1")
    return "old"


VERBS: dict[str, Prepared] = {
    "retry": _on(lambda desk: desk.failed().id, App.retry),
    "run_now": _on(lambda desk: desk.failed().id, App.run_now),
    "cancel": _on(lambda desk: desk.app.tasks["send"].enqueue().id, App.cancel),
    "snooze": _on(
        lambda desk: desk.app.tasks["send"].enqueue().id, lambda app, job, **more: app.snooze(job, "1h", **more)
    ),
    "release_key": _on(lambda desk: desk.failed(dedupe="k").id, App.release_key),
    "batch": _on(lambda _: None, lambda app, _, actor="ann", **more: app.batch(actor, **more)),
    "publish_batch": _on(lambda desk: desk.app.batch("b").id, App.publish_batch),
    "retry_batch": _on(Desk.failed_batch, App.retry_batch),
    "cancel_batch": _on(Desk.batch, App.cancel_batch),
    "cancel_redrive": _on(_redriven, App.cancel_redrive),
    "reclassify": _on(Desk.failed, lambda app, _, **more: app.reclassify(dry_run=False, **more)),
    "process_stuck": _on(lambda _: None, lambda app, _, **more: app.process_stuck(**more)),
    "purge": _on(
        Desk.failed,
        lambda app, _, **more: app.purge(JobFilter(state="failed"), older_than=0, dry_run=False, **more),
    ),
    "pause": _on(lambda _: None, lambda app, _, **more: app.pause("1h", queue="default", **more)),
    "resume": _on(_paused, lambda app, _, **more: app.resume(queue="default", **more)),
    "open": _on(lambda _: None, lambda app, _, **more: app.service("gateway").open(**more)),
    "close": _on(lambda _: None, lambda app, _, **more: app.service("gateway").close(**more)),
    "auto": _on(lambda desk: desk.app.service("gateway").open(), lambda app, _, **m: app.service("gateway").auto(**m)),
    "run_schedule": _on(lambda _: "yearly", App.run_schedule),
    "remove_schedule": _on(_orphaned, App.remove_schedule),
    "run_duty": _on(lambda _: "promote", App.run_duty),
}
# Each of these also has an entry in the audit.
MAIL = {"types": ["job.failed"], "channel": "email", "to": "ops@example.org"}
WEBHOOK = {"types": ["job.failed"], "channel": "webhook", "to": "https://example.org/hook"}


def _subscribed(desk: Desk) -> str:
    return desk.app.subscribe("partner", **WEBHOOK).subscription.id


def _delivered(desk: Desk) -> str:
    return desk.app.test_subscription(_subscribed(desk)).id


def _grouped(desk: Desk) -> str:
    desk.failed()
    desk.app.run_duty("project")
    return desk.app.failures().groups[0].id


AUDITED: dict[str, Prepared] = {
    "subscribe by mail": _on(lambda _: "failures", lambda app, name, **more: app.subscribe(name, **MAIL, **more)),
    "subscribe a webhook": _on(lambda _: "hook", lambda app, name, **more: app.subscribe(name, **WEBHOOK, **more)),
    "unsubscribe": _on(_subscribed, App.unsubscribe),
    "disable_subscription": _on(_subscribed, App.disable_subscription),
    "enable_subscription": _on(_subscribed, App.enable_subscription),
    "rotate_secret": _on(_subscribed, App.rotate_secret),
    "test_subscription": _on(_subscribed, App.test_subscription),
    "redeliver": _on(_delivered, App.redeliver),
    "create_hook": _on(_grouped, lambda app, group, **more: app.create_hook("back", group=group, **more)),
    "remove_hook": _on(lambda desk: desk.app.create_hook("back", group=_grouped(desk)).hook.id, App.remove_hook),
    "set_alert": _on(lambda _: "jobs.depth", lambda app, check, **more: app.set_alert(check, threshold=9, **more)),
    "silence_alert": _on(lambda _: "jobs.depth", lambda app, check, **more: app.silence_alert(check, "1h", **more)),
    "unsilence_alert": _on(lambda _: "jobs.depth", App.unsilence_alert),
}
VERBS |= AUDITED | {
    "ignore_failure": _on(_grouped, lambda app, group, **more: app.ignore_failure(group, "1h", **more)),
    "resolve_failure": _on(_grouped, App.resolve_failure),
    "reopen_failure": _on(_grouped, App.reopen_failure),
}
EACH_VERB = pytest.mark.parametrize("verb", VERBS)


@EACH_VERB
def test_a_repeated_request_is_carried_out_once_and_answered_as_the_first_time(desk: Desk, verb: str) -> None:
    call = VERBS[verb](desk)
    first = call(request_id="r-1", actor="ann")
    events = desk.events()
    assert call(request_id="r-1", actor="ann") == first
    assert (desk.events(), desk.stored()) == (events, 1)


@pytest.mark.parametrize("verb", AUDITED)
def test_a_repeated_request_is_in_the_audit_once(desk: Desk, verb: str) -> None:
    call = AUDITED[verb](desk)
    before = len(desk.app.audit())
    call(request_id="r-1", actor="ann")
    call(request_id="r-1", actor="ann")
    assert len(desk.app.audit()) == before + 1


@pytest.mark.parametrize("verb", ["unsubscribe", "disable_subscription", "rotate_secret", "test_subscription"])
def test_a_request_about_what_is_gone_by_now_is_answered_as_the_first_time(desk: Desk, verb: str) -> None:
    subscription = _subscribed(desk)
    first = getattr(desk.app, verb)(subscription, request_id="r-1", actor="ann")
    if verb != "unsubscribe":
        desk.app.unsubscribe(subscription)
    assert getattr(desk.app, verb)(subscription, request_id="r-1", actor="ann") == first


@EACH_VERB
def test_without_a_request_id_nothing_is_stored(desk: Desk, verb: str) -> None:
    VERBS[verb](desk)(actor="ann")
    assert desk.stored() == 0


@EACH_VERB
def test_the_same_id_with_other_arguments_is_refused(desk: Desk, verb: str) -> None:
    call = VERBS[verb](desk)
    first = call(request_id="r-1", actor="ann")
    events = desk.events()
    with pytest.raises(RequestMismatch, match="request id 'r-1' was used for another request"):
        call(request_id="r-1", actor="bob")
    with pytest.raises(RequestMismatch):
        desk.app.pause(kind="send", request_id="r-1")
    assert (desk.events(), call(request_id="r-1", actor="ann")) == (events, first)


def test_a_refused_request_leaves_nothing_and_is_carried_out_when_it_is_repeated(desk: Desk) -> None:
    job = desk.app.tasks["send"].enqueue()
    for _ in range(2):
        with pytest.raises(IllegalMove):
            desk.app.retry(job.id, request_id="r-1")
    assert desk.stored() == 0
    desk.app.cancel(job.id)
    assert desk.app.retry(job.id, request_id="r-1").state == "queued"


def test_a_precondition_is_asked_once_for_a_repeated_request_and_again_after_a_refusal(desk: Desk) -> None:
    job, answers = desk.failed(), [NotAllowed("no"), None]

    def answer() -> None:
        if (error := answers.pop(0)) is not None:
            raise error

    desk.before_answer = answer
    with pytest.raises(NotAllowed):
        desk.app.retry(job.id, request_id="r-1")
    first = desk.app.retry(job.id, request_id="r-1")
    assert desk.app.retry(job.id, request_id="r-1") == first
    assert len(desk.asked) == 2


def test_a_request_that_comes_while_the_first_is_under_way_waits_for_its_answer(desk: Desk) -> None:
    job, entered, other = desk.failed(), threading.Event(), desk.open()
    go_on = threading.Event()
    desk.before_answer = lambda: (entered.set(), go_on.wait(20))
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(desk.app.retry, job.id, request_id="r-1")
        assert entered.wait(20)
        twin = pool.submit(other.retry, job.id, request_id="r-1")
        assert not twin.done()
        go_on.set()
        assert first.result(20) == twin.result(20)
    assert (desk.asked, desk.events().count(("job.retry_requested", job.id))) == ([job.id], 1)


def test_a_request_whose_first_call_fails_is_carried_out_by_the_one_that_waits(desk: Desk) -> None:
    job, entered, go_on, other = desk.failed(), threading.Event(), threading.Event(), desk.open()

    def answer() -> None:
        if len(desk.asked) == 1:
            entered.set()
            go_on.wait(20)
            raise NotAllowed("not the first")

    desk.before_answer = answer
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(desk.app.retry, job.id, request_id="r-1")
        assert entered.wait(20)
        twin = pool.submit(other.retry, job.id, request_id="r-1")
        go_on.set()
        with pytest.raises(NotAllowed):
            first.result(20)
        assert twin.result(20).state == "queued"


@pytest.mark.parametrize("verb", ["retry", "batch", "pause", "retry_batch", "cancel_batch", "run_schedule", "purge"])
def test_of_many_at_once_one_is_carried_out_and_all_get_its_answer(desk: Desk, verb: str) -> None:
    call = VERBS[verb](desk)
    before = len(desk.events())
    answers = at_once([lambda: call(request_id="r-1", actor="ann") for _ in range(4)])
    assert all(answer == answers[0] for answer in answers), answers
    assert not isinstance(answers[0], Exception), answers[0]
    assert len(desk.events()) - before <= 3, "no more events than one call writes"


def test_owners_have_their_own_request_ids(desk: Desk) -> None:
    jobs = {owner: desk.app.tasks["send"].options(owner=owner).enqueue() for owner in ("a", "b")}
    mine = desk.app.cancel(jobs["a"].id, owner="a", request_id="1")
    assert desk.app.cancel(jobs["b"].id, owner="b", request_id="1").id == jobs["b"].id
    with pytest.raises(JobNotFound):
        desk.app.cancel(jobs["a"].id, request_id="1", owner="c")
    with pytest.raises(IllegalMove):
        desk.app.cancel(jobs["a"].id, request_id="1")
    assert desk.app.cancel(jobs["a"].id, owner="a", request_id="1") == mine


def test_a_request_is_answered_after_its_job_was_purged(desk: Desk) -> None:
    job = desk.failed()
    retried = desk.app.retry(job.id, request_id="r-1")
    desk.app.cancel(job.id)
    assert desk.app.purge(JobFilter(), older_than=0, dry_run=False).purged == 1
    assert desk.app.retry(job.id, request_id="r-1") == retried
    with pytest.raises(JobNotFound):
        desk.app.retry(job.id, request_id="r-2")


def test_a_request_in_the_callers_transaction_is_part_of_it(desk: Desk) -> None:
    job = desk.app.tasks["send"].enqueue()
    with desk.connect() as connection:
        connection.execute("BEGIN")
        desk.app.cancel(job.id, connection=connection, request_id="r-1")
        connection.execute("ROLLBACK")
        assert (desk.stored(), desk.app.job(job.id).state) == (0, "queued")
        connection.execute("BEGIN")
        first = desk.app.cancel(job.id, connection=connection, request_id="r-1")
        assert desk.app.cancel(job.id, connection=connection, request_id="r-1") == first
        connection.execute("COMMIT")
    assert desk.app.cancel(job.id, request_id="r-1") == first


def test_a_result_expires_in_the_callers_transaction(desk: Desk) -> None:
    job = desk.app.tasks["send"].enqueue()
    claim = Claim(incarnation="w", number=99, kinds=("send",), limit=1, lease=HOUR)
    (lease,) = desk.app.store.claim(claim).leases
    desk.app.store.settle([Outcome(lease, Succeed('"sent"'))])
    with desk.connect() as connection:
        connection.execute("BEGIN")
        desk.app.expire_result(job.id, connection=connection, request_id="r-1")
        connection.execute("ROLLBACK")
        assert (desk.stored(), desk.app.job(job.id).result) == (0, "sent")
        connection.execute("BEGIN")
        first = desk.app.expire_result(job.id, connection=connection, request_id="r-1")
        connection.execute("COMMIT")
    assert (first.result, first.result_expired_at is not None) == (None, True)
    assert desk.app.expire_result(job.id, request_id="r-1") == first


def test_requests_are_kept_for_a_day() -> None:
    app = App("sqlite:///:memory:")
    app.task("send")(_nothing)
    with sandbox(app) as box:
        first = app.pause(kind="send", request_id="r-1")
        app.resume(kind="send")
        box._clock.advance(REQUESTS_KEPT - timedelta(seconds=1))
        app.run_duty("prune")
        assert app.pause(kind="send", request_id="r-1") == first
        box._clock.advance(timedelta(seconds=2))
        app.run_duty("prune")
        assert app.pause(kind="send", request_id="r-1").since > first.since


def test_a_redrive_s_own_request_id_is_a_request_id_too(desk: Desk) -> None:
    desk.failed()
    begun = desk.app.redrive(JobFilter(state="failed"), request_id="r-1")
    assert desk.app.redrive(JobFilter(state="failed"), request_id="r-1").id == begun.id
    with pytest.raises(RequestMismatch):
        desk.app.redrive(JobFilter(kind="other"), request_id="r-1")


@pytest.mark.parametrize("wrong", ["", "x" * 201, "\0", 5])
def test_an_id_that_is_none_is_refused(desk: Desk, wrong: Any) -> None:
    job = desk.failed()
    for verb in (desk.app.retry, desk.app.release_key, desk.app.expire_result):
        with pytest.raises(BadArgument, match="a string of 1 to 200 characters"):
            verb(job.id, request_id=wrong)
