"""The sentences that open the pages of operators, in each state, and the words of schedules and policies."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from mulligan import App, Exponential, Fixed, RetryPolicy
from mulligan.console.duties import DutyStatus
from mulligan.console.policies import PoliciesInForce, PolicyFileStatus
from mulligan.console.queues import QueueStatus
from mulligan.console.reclassify import Reclassification, Reclassified
from mulligan.console.schedules import ScheduleStatus
from mulligan.failure.policy import schedule
from mulligan.records.alert import AlertBoard, AlertRule, AlertState, AlertStatus
from mulligan.records.alert_rules import check_terms
from mulligan.records.audit import AuditEntry
from mulligan.records.delivery import Delivery, DeliveryState
from mulligan.records.duty import DutyRun
from mulligan.records.finding import Check, Finding, Level
from mulligan.records.key import Key, Scope
from mulligan.records.limit import RetryBudget, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.records.subscription import Channel, EventChoice, SubscriptionRecord
from mulligan.store.messages import QueueLoad, WorkerRecord
from mulligan.web.access.caller import Caller
from mulligan.web.pages.alerts import describe_alerts, describe_rule, source_of, threshold_of, written
from mulligan.web.pages.audit import describe_audit, outcome_of
from mulligan.web.pages.cron_words import describe_cron
from mulligan.web.pages.doctor import describe_findings, place_of
from mulligan.web.pages.duties import describe_duties, describe_run
from mulligan.web.pages.keys import describe_keys, scopes_of, state_of
from mulligan.web.pages.notifications import (
    DeliveriesQuery,
    choice_of,
    describe_deliveries,
    describe_delivery,
    describe_notifications,
    describe_subscription,
)
from mulligan.web.pages.policies import describe_judged, describe_policies, describe_policy
from mulligan.web.pages.policy_views import describe_schedule, draw_schedule, list_values
from mulligan.web.pages.queues import describe_queues, uses_of
from mulligan.web.pages.schedules import describe_schedules
from mulligan.web.pages.sentence import Sentence, plain
from mulligan.web.pages.workers import WorkerRow, describe_workers, find_unhandled, to_rows

NOW = datetime(2026, 11, 16, 14, 32, 7, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def said(sentence: Sentence) -> tuple[str, str]:
    return plain(sentence.title, NOW), plain(sentence.lead, NOW)


# Workers


def worker(host: str = "eu-1", *, holds: int = 0, slots: int = 8, seen: timedelta = timedelta(0), **more: Any) -> Any:
    return WorkerRecord(
        **{
            "incarnation": host,
            "host": host,
            "pid": 1,
            "queues": None,
            "kinds": ("convert",),
            "concurrency": slots,
            "version": "1.8.3",
            "started_at": NOW - HOUR,
            "seen_at": NOW - seen,
            "holds": holds,
            **more,
        }
    )


def stuck_on(*hosts: str) -> list[Any]:
    """As much of the jobs as the page asks for."""
    return [SimpleNamespace(leased_by=host) for host in hosts]


SILENT = 5 * MINUTE


@pytest.mark.parametrize(
    ("workers", "stuck", "title", "lead"),
    [
        ([], [], "No worker runs.", "Ready jobs wait until one is started."),
        ([worker()], [], "1 worker is idle.", "8 of 8 slots are free."),
        ([worker(), worker("eu-2")], [], "2 workers are idle.", "16 of 16 slots are free."),
        ([worker(holds=1)], [], "1 worker runs 1 job.", "7 of 8 slots are free."),
        ([worker(holds=7)], [], "1 worker runs 7 jobs.", "1 of 8 slots is free."),
        ([worker(holds=8)], [], "1 worker runs 8 jobs.", "All 8 slots are taken."),
        ([worker(holds=1, slots=1)], [], "1 worker runs 1 job.", "Its slot is taken."),
        (
            [worker(holds=2), worker("eu-2", seen=SILENT)],
            [],
            "1 worker runs 2 jobs. 1 worker is silent.",
            "6 of 8 slots are free.",
        ),
        ([worker(seen=SILENT)], [], "No worker runs. 1 worker is silent.", "Ready jobs wait until one is started."),
        ([worker(holds=2)], ["eu-1"], "1 worker runs 2 jobs. 1 job is stuck.", "6 of 8 slots are free."),
        (
            [worker(holds=3), worker("a", seen=SILENT), worker("b", seen=SILENT)],
            ["eu-1", "eu-1"],
            "1 worker runs 3 jobs. 2 workers are silent, and 2 jobs are stuck.",
            "5 of 8 slots are free.",
        ),
        (
            [worker(), worker("eu-2", version="1.8.2"), worker("eu-3", version=None)],
            [],
            "3 workers are idle.",
            "24 of 24 slots are free. 2 versions of the app run: 1.8.2 and 1.8.3.",
        ),
    ],
)
def test_workers(workers: list[WorkerRecord], stuck: list[str], title: str, lead: str) -> None:
    jobs = stuck_on(*stuck)
    assert said(describe_workers(to_rows(workers, jobs, NOW), len(jobs))) == (title, lead)


def test_the_squares_of_a_worker_are_its_slots() -> None:
    row = WorkerRow(worker(holds=3, slots=4), is_alive=True, stuck=1)
    assert (row.state, row.squares, row.busy) == ("stuck", ["s", "b", "b", ""], 2)
    assert WorkerRow(worker(holds=1, slots=2), is_alive=False, stuck=0).squares == ["l", ""]
    assert WorkerRow(worker(slots=65), is_alive=True, stuck=0).squares == []


def test_workers_in_trouble_are_first() -> None:
    rows = to_rows([worker("a"), worker("b", seen=SILENT), worker("c", holds=1)], stuck_on("c"), NOW)
    assert [(row.worker.host, row.state) for row in rows] == [("b", "silent"), ("c", "stuck"), ("a", "idle")]


# Queues


def queue(name: str = "default", **more: Any) -> QueueStatus:
    usual: dict[str, Any] = {"ready": 0, "at_least": False, "since": None, "running": 0, "kinds": (), "unhandled": ()}
    return QueueStatus(name=name, **{**usual, "workers": 1, "slots": 8, "paused": None, **more})


def pause(what: str = "queue", name: str = "mail", until: datetime | None = None) -> Pause:
    return Pause(what=what, name=name, since=NOW, until=until, actor="ann", reason=None)


@pytest.mark.parametrize(
    ("queues", "pauses", "title", "lead"),
    [
        ([], [], "There is no queue yet.", "A queue is there as soon as a task or a job names it."),
        ([queue()], [], "No job waits for a worker.", "Nothing is paused."),
        (
            [queue(ready=1, since=NOW - MINUTE)],
            [],
            "1 job is ready, it waits since 14:31:07.",
            "Nothing is paused.",
        ),
        (
            [queue(ready=218, since=NOW - 4 * MINUTE), queue("media", ready=3, since=NOW)],
            [],
            "221 jobs are ready, the oldest since 14:28:07.",
            "Nothing is paused.",
        ),
        (
            [queue(ready=9_000, at_least=True, since=NOW)],
            [],
            "At least 9,000 jobs are ready, the oldest since 14:32:07.",
            "Nothing is paused.",
        ),
        (
            [queue("mail", paused=pause())],
            [pause()],
            "No job waits for a worker. Queue mail is paused.",
            "Paused: queue mail. 1 of 1 has no end.",
        ),
        (
            [queue("a", paused=pause()), queue("b", paused=pause(), ready=2, since=NOW, workers=0)],
            [pause(name="a", until=NOW + HOUR), pause("duty", "prune", NOW + HOUR)],
            "2 jobs are ready, the oldest since 14:32:07. Queues a and b are paused. No worker takes from queue b.",
            "Paused: queue a and duty prune.",
        ),
    ],
)
def test_queues(queues: list[QueueStatus], pauses: list[Pause], title: str, lead: str) -> None:
    assert said(describe_queues(queues, pauses)) == (title, lead)


def test_unhandled_kinds_are_those_with_ready_jobs_that_no_worker_takes() -> None:
    loads = (QueueLoad(queue="media", kind="render", ready=2, since=NOW), QueueLoad(queue="media", kind="convert"))
    (found,) = find_unhandled([queue("media", kinds=loads, unhandled=("render",))])
    assert (found.queue, found.kind, found.ready, found.since) == ("media", "render", 2, NOW)


def test_a_budget_shows_how_much_of_each_bound_is_used() -> None:
    spent = SpendingRecord(
        owner="acme", today=79, this_month=90, cost_this_month=100, budget=RetryBudget(per_day=100, cost_per_month=100)
    )
    assert [(use.label, use.used, use.most, use.tone) for use in uses_of(spent)] == [
        ("today", 79, 100, "running"),
        ("cost this month", 100, 100, "failed"),
    ]
    assert [use.tone for use in uses_of(replace(spent, today=80))] == ["held", "failed"]
    assert [use.label for use in uses_of(replace(spent, budget=RetryBudget()))] == ["today"]


# Duties


def duty(name: str = "retry", *, workers: int = 1, paused: bool = False) -> DutyStatus:
    return DutyStatus(
        name=name,
        alias=name,
        about="",
        interval=MINUTE,
        limit=1,
        workers=workers,
        last=None,
        next=None,
        paused=pause("duty", name) if paused else None,
    )


@pytest.mark.parametrize(
    ("duties", "title", "lead"),
    [
        (
            [duty(workers=0)],
            "No worker runs the duties.",
            "Due retries, schedules and lost jobs wait until a worker is started, or a duty is run from here.",
        ),
        (
            [duty(), duty("prune")],
            "All 2 duties run.",
            "Every worker does them; one at a time is enough.",
        ),
        ([duty(), duty("prune", paused=True)], "Duty prune is paused.", "1 of 2 run."),
        ([duty(paused=True), duty("prune", paused=True)], "Duties retry and prune are paused.", "0 of 2 run."),
    ],
)
def test_duties(duties: list[DutyStatus], title: str, lead: str) -> None:
    assert said(describe_duties(duties)) == (title, lead)


@pytest.mark.parametrize(
    ("name", "did", "text"),
    [("retry", 7, "7 jobs moved in 12 ms"), ("prune", 1, "1 job deleted in 12 ms"), ("retry", 0, "nothing to do")],
)
def test_a_run_says_what_it_did(name: str, did: int, text: str) -> None:
    assert describe_run(DutyRun(duty=name, worker="w", seconds=0.012, did=did)) == text


# Schedules


def scheduled(name: str = "nightly", **more: Any) -> ScheduleStatus:
    usual: dict[str, Any] = {
        "kind": name,
        "expression": "@daily",
        "timezone": "UTC",
        "missed": "once",
        "next": (NOW + 4 * HOUR,),
        "overdue_since": None,
        "last_tick": None,
        "last_job": None,
        "last_state": None,
        "paused": None,
        "is_orphaned": False,
    }
    return ScheduleStatus(name=name, **{**usual, **more})


@pytest.mark.parametrize(
    ("schedules", "held_back", "title", "lead"),
    [
        ([], None, "There is no schedule.", "A schedule enqueues a job by the clock."),
        ([scheduled()], None, "1 schedule. The next is nightly, in 4 h.", ""),
        (
            [scheduled(), scheduled("hourly", next=(NOW + MINUTE,))],
            None,
            "2 schedules. The next is hourly, in 1 min.",
            "",
        ),
        (
            [scheduled(next=(), paused=pause("schedule", "nightly"))],
            None,
            "1 schedule. None of them runs.",
            "Paused: nightly.",
        ),
        (
            [scheduled(), scheduled("old", is_orphaned=True, next=(), overdue_since=NOW)],
            None,
            "2 schedules. The next is nightly, in 4 h.",
            "No code defines old any more.",
        ),
        (
            [scheduled(overdue_since=NOW - HOUR)],
            None,
            "Schedule nightly is overdue.",
            "No worker ran its last tick.",
        ),
        (
            [scheduled(overdue_since=NOW - HOUR), scheduled("b", overdue_since=NOW)],
            None,
            "Schedules nightly and b are overdue.",
            "No worker ran their last ticks.",
        ),
        ([scheduled()], pause("duty", "schedule"), "No schedule runs: the duty schedule is paused.", ""),
    ],
)
def test_schedules(schedules: list[ScheduleStatus], held_back: Pause | None, title: str, lead: str) -> None:
    assert said(describe_schedules(schedules, held_back)) == (title, lead)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("* * * * *", "every minute"),
        ("*/5 * * * *", "every 5 minutes"),
        ("0 * * * *", "every hour"),
        ("@hourly", "every hour"),
        ("15,45 * * * *", "every hour at minute 15 and 45"),
        ("0 */6 * * *", "every 6 hours"),
        ("10 */6 * * *", "every 6 hours, at minute 10"),
        ("@daily", "at 00:00 every day"),
        ("30 2 * * *", "at 02:30 every day"),
        ("0 8,20 * * *", "at 08:00 and 20:00 every day"),
        ("30 2 * * mon-fri", "at 02:30 from Monday to Friday"),
        ("30 2 * * 1,3,5", "at 02:30 on Monday, Wednesday and Friday"),
        ("0 9 * * sun", "at 09:00 on Sunday"),
        ("0 9 * * 7", "at 09:00 on Sunday"),
        ("@monthly", "at 00:00 on day 1 of the month"),
        ("0 4 L * *", "at 04:00 on the last day of the month"),
        ("0 4 1-7 * *", "at 04:00 from day 1 to 7 of the month"),
        ("0 4 13 * fri", "at 04:00 on day 13 of the month or on Friday"),
        ("@yearly", "at 00:00 on day 1 of the month in January"),
        ("0 4 * jan-mar *", "at 04:00 from January to March"),
        ("0 4 1 */3 *", "at 04:00 on day 1 of the month every 3 months"),
        ("*/10 9-17 * * mon-fri", "every 10 minutes, from 09:00 to 17:59 from Monday to Friday"),
        ("*/10 9 * * *", "every 10 minutes, from 09:00 to 09:59"),
        ("*/15 * * * * *", "every 15 seconds"),
        ("0 */5 * * * *", "every 5 minutes"),
        # Best read as they are.
        ("0 9 * * mon#1", ""),
        ("5-10 2 * * *", ""),
        ("0,10,20,30 1,2,3 * * *", ""),
        ("30 * 2 * * *", ""),
        ("nonsense", ""),
    ],
)
def test_cron_expressions_in_words(expression: str, text: str) -> None:
    assert describe_cron(expression) == text


# Policies


def policies(*files: PolicyFileStatus, tasks: int = 1) -> PoliciesInForce:
    app = App("sqlite:///:memory:")
    for number in range(tasks):
        app.task(f"task{number}")(print)
    found = app.policies_in_force()
    return PoliciesInForce(policies=found.policies, file=files[0] if files else None)


FILE = PolicyFileStatus(path="policies.yaml", version="abc", mistakes=())


@pytest.mark.parametrize(
    ("found", "title", "lead"),
    [
        (policies(tasks=0), "This app has no tasks.", "Each task has a policy, which says when it is retried."),
        (policies(), "1 policy is in force, all as in the code.", "A policies file can change them without a deploy."),
        (
            policies(FILE, tasks=2),
            "2 policies are in force, 0 changed by the policies file.",
            "Version abc of policies.yaml.",
        ),
        (
            policies(replace(FILE, mistakes=("a is unknown", "b too"))),
            "The policies file has 2 mistakes.",
            "The previous version stays in force in workers that run; none can start.",
        ),
        (
            policies(replace(FILE, unknown_kinds=("convrt",), unknown_queues=("bulk",))),
            "1 policy is in force, 0 changed by the policies file.",
            "Version abc of policies.yaml. It names what this app does not have: convrt and bulk.",
        ),
    ],
)
def test_policies(found: PoliciesInForce, title: str, lead: str) -> None:
    assert said(describe_policies(found)) == (title, lead)


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (RetryPolicy(max_attempts=1), "Never retried."),
        (RetryPolicy(max_attempts=2, backoff=Fixed("5s")), "Retried after 5 s; in all about 5 s."),
        (
            RetryPolicy(max_attempts=4, backoff=Exponential("15s", jitter=None)),
            "Retried after 15 s, 30 s and 1 min; in all about 1 min 45 s.",
        ),
        (
            RetryPolicy(max_attempts=9, backoff=Fixed("1m")),
            "Retried after 1 min, 1 min, 1 min, 1 min and 4 more; in all about 8 min.",
        ),
    ],
)
def test_delays_in_words(policy: RetryPolicy, text: str) -> None:
    assert describe_schedule(schedule(policy)) == text


def test_attempts_are_drawn_in_order_and_their_labels_do_not_cover_each_other() -> None:
    points = draw_schedule(schedule(RetryPolicy(max_attempts=20, backoff=Exponential("1s", jitter=None))))
    places = [point.x for point in points]
    assert len(points) == 20 and places == sorted(places) and (places[0], places[-1]) == (12, 708)
    labelled = [point.x for point in points if point.label]
    assert all(after - before >= 54 for before, after in pairwise(labelled))
    assert [point.is_last for point in points].index(True) == 19
    (alone,) = draw_schedule(schedule(RetryPolicy(max_attempts=1)))
    assert (alone.x, alone.is_last) == (12, True)


def test_a_policy_names_the_source_of_each_value() -> None:
    app = App("sqlite:///:memory:")
    app.task("convert", retry=RetryPolicy(limits={"IO_ERROR": 1, "GONE": 0, "BUSY": 5}))(print)
    (policy,) = app.policies_in_force().policies
    found = {value.name: value for value in list_values(replace(policy, sources={"timeout": "kinds.convert"}))}
    assert found["an attempt may take"] == ("an attempt may take", "15 min", "kinds.convert")
    assert found["retries by code"].text == "IO_ERROR once, GONE never, BUSY 5 times"
    assert (found["to be done within"].text, found["attempts at most"].source) == ("any time", "")
    assert said(describe_policy(policy))[0] == "convert is tried at most 4 times."
    once = said(describe_policy(replace(policy, max_attempts=1, owner="acme")))
    assert once == ("convert of owner acme is tried once, and never retried.", "")


def judged(decision: str) -> Reclassified:
    return Reclassified("j", "convert", "", "A", "final", "B", "retryable", "r", decision)


@pytest.mark.parametrize(
    ("found", "title", "lead"),
    [
        (Reclassification(jobs=()), "No failed job matches.", "Only failed jobs are judged again."),
        (
            Reclassification(jobs=(judged("fail"),), unjudged=("x",)),
            "None of 2 failed jobs would be retried.",
            "Nothing is changed by this preview.",
        ),
        (
            Reclassification(jobs=(judged("retry"), judged("fail")), is_complete=False),
            "1 of 2 failed jobs would be retried by the rules that are in force now.",
            "The newest 2 jobs were judged; there are more. Nothing is changed by this preview.",
        ),
    ],
)
def test_reclassification(found: Reclassification, title: str, lead: str) -> None:
    assert said(describe_judged(found)) == (title, lead)


# Notifications


def subscription(**more: Any) -> SubscriptionRecord:
    usual: dict[str, Any] = {
        "id": "s",
        "name": "orders",
        "owner": None,
        "choice": EventChoice(types=("job.failed",)),
        "channel": Channel.WEBHOOK,
        "to": "https://example.org",
        "created_at": NOW,
    }
    return SubscriptionRecord(**{**usual, **more})


def delivery(state: DeliveryState = DeliveryState.DELIVERED, **more: Any) -> Delivery:
    usual: dict[str, Any] = {"id": "d", "subscription": "s", "owner": None, "channel": Channel.WEBHOOK}
    usual |= {"type": "job.failed", "about": "job-1", "to": None, "created_at": NOW, "updated_at": NOW}
    return Delivery(**{**usual, "state": state, **more})


FAILED = delivery(DeliveryState.FAILED)


@pytest.mark.parametrize(
    ("subscriptions", "deliveries", "has_more", "title", "lead"),
    [
        (
            [],
            [],
            False,
            "There is no subscription yet.",
            "Failures are shown on these pages only. A subscription sends them by mail or to a webhook.",
        ),
        ([subscription()], [], False, "1 subscription.", "Nothing was delivered yet."),
        ([subscription()], [delivery()], True, "50 or more subscriptions.", "The only delivery did not fail."),
        (
            [subscription(), subscription(disabled_at=NOW)],
            [delivery(), FAILED],
            False,
            "2 subscriptions. 1 is disabled.",
            "1 of the last 2 deliveries failed.",
        ),
    ],
)
def test_notifications(subscriptions: Any, deliveries: Any, has_more: bool, title: str, lead: str) -> None:
    assert said(describe_notifications(subscriptions, deliveries, has_more=has_more)) == (title, lead)


def test_one_subscription() -> None:
    sends = "orders sends job.failed to a webhook."
    assert said(describe_subscription(subscription(), [FAILED], is_used=True)) == (
        sends,
        "The only delivery failed.",
    )
    mailed = subscription(channel=Channel.EMAIL)
    assert said(describe_subscription(mailed, [], is_used=True))[0] == "orders sends job.failed by mail."
    off = subscription(disabled_at=NOW, disabled_because="it moves")
    assert said(describe_subscription(off, [], is_used=False)) == ("orders is disabled since 14:32:07.", "It moves.")
    gone = said(describe_subscription(subscription(is_in_code=True), [], is_used=False))
    assert gone == ("orders is not in the code any more.", "Nothing is sent; it can be removed.")
    chosen = subscription(choice=EventChoice(types=("job.failed",), kind="convert", of_owner="acme"))
    assert (choice_of(chosen), choice_of(subscription())) == ("kind convert, owner acme", "")


@pytest.mark.parametrize(
    ("found", "title", "lead"),
    [
        (delivery(attempts=1), "job.failed about job-1 was delivered.", "1 attempt."),
        (
            replace(FAILED, reason="it answered 503", attempts=8),
            "job.failed about job-1 was not delivered.",
            "It answered 503. 8 attempts.",
        ),
        (
            delivery(DeliveryState.SKIPPED, reason="there is no mail server"),
            "job.failed about job-1 was not sent.",
            "There is no mail server.",
        ),
        (
            delivery(DeliveryState.SUPPRESSED),
            "job.failed about job-1 is part of a digest.",
            "The next digest has it.",
        ),
        (
            delivery(DeliveryState.SUPPRESSED, digest="x"),
            "job.failed about job-1 is part of a digest.",
            "The digest was sent.",
        ),
        (delivery(DeliveryState.PENDING), "job.failed about job-1 is on its way.", "It was not sent yet."),
    ],
)
def test_one_delivery(found: Delivery, title: str, lead: str) -> None:
    assert said(describe_delivery(found)) == (title, lead)


@pytest.mark.parametrize(
    ("number", "query", "title"),
    [
        (0, DeliveriesQuery(), "There are no deliveries."),
        (0, DeliveriesQuery(state="failed"), "There are no deliveries that failed."),
        (2, DeliveriesQuery(state="pending"), "2 deliveries that are pending."),
        (2, DeliveriesQuery(state="suppressed"), "2 deliveries that are part of a digest."),
        (1, DeliveriesQuery(state="skipped"), "1 delivery that was skipped."),
        (50, DeliveriesQuery(), "At least 50 deliveries."),
        (3, DeliveriesQuery(cursor="x"), "Older deliveries."),
    ],
)
def test_deliveries(number: int, query: DeliveriesQuery, title: str) -> None:
    assert said(describe_deliveries([delivery()] * number, query))[0] == title


# Alerts


def alert(state: AlertState = AlertState.FIRING, **more: Any) -> AlertStatus:
    return AlertStatus(**{"check": Check.JOBS_STUCK, "subject": "", "state": state, "since": NOW, **more})


def board(*alerts: AlertStatus, is_stale: bool = False, evaluated_at: datetime | None = NOW - MINUTE) -> AlertBoard:
    return AlertBoard(alerts=alerts, rules=(), evaluated_at=evaluated_at, evaluated_by="w", is_stale=is_stale)


@pytest.mark.parametrize(
    ("found", "title", "lead"),
    [
        (board(alert(AlertState.OK)), "No alert is firing.", "Evaluated 1 min ago."),
        (board(alert()), "1 alert is firing: jobs.stuck.", "Evaluated 1 min ago."),
        (
            board(alert(), alert(check=Check.JOBS_DEPTH, subject="media"), alert(is_silenced=True)),
            "2 alerts are firing: jobs.stuck and jobs.depth of media.",
            "Evaluated 1 min ago.",
        ),
        (board(alert(is_silenced=True)), "1 silenced alert is firing: jobs.stuck.", "Evaluated 1 min ago."),
        (
            board(alert(AlertState.PENDING)),
            "No alert is firing.",
            "1 alert will fire, if it lasts. Evaluated 1 min ago.",
        ),
        (
            board(is_stale=True),
            "No alert is firing.",
            "No worker evaluates alerts since 14:31:07: no notification is sent. This is what the doctor finds now.",
        ),
        (
            board(is_stale=True, evaluated_at=None),
            "No alert is firing.",
            "No worker evaluates alerts yet: no notification is sent. This is what the doctor finds now.",
        ),
    ],
)
def test_alerts(found: AlertBoard, title: str, lead: str) -> None:
    assert said(describe_alerts(found)) == (title, lead)


def rule(check: Check = Check.JOBS_WAITING, **more: Any) -> AlertRule:
    usual: dict[str, Any] = {"level": Level.WARNING, "threshold": 900.0, "unit": "seconds", "after": MINUTE}
    return AlertRule(check=check, **{**usual, "resolve_after": 5 * MINUTE, "is_on": True, **more})


def test_one_rule() -> None:
    assert said(describe_rule(rule())) == (
        "jobs.waiting fires at a warning that lasts for 1 min.",
        "Its threshold is 15 min. It ends after 5 min without it.",
    )
    assert said(describe_rule(rule(after=timedelta(0), threshold=None, unit=None, level=Level.PROBLEM))) == (
        "jobs.waiting fires at a problem, at once.",
        "It ends after 5 min without it.",
    )
    shown = [threshold_of(rule(threshold=0.25, unit="ratio")), threshold_of(rule(threshold=5e3, unit="jobs"))]
    assert shown == ["25 %", "5,000 jobs"]
    assert said(describe_rule(rule(is_on=False)))[0] == "jobs.waiting is off."
    assert [source_of(each) for each in (rule(), rule(is_in_code=True), rule(is_in_code=True, is_edited=True))] == [
        "default",
        "the code",
        "set by a person",
    ]


@pytest.mark.parametrize(
    ("threshold", "unit", "text"),
    [(900.0, "seconds", "15m"), (5_400.0, "seconds", "1h30m"), (10_000.0, "jobs", "10000"), (0.25, "ratio", "0.25")],
)
def test_a_threshold_is_written_as_it_is_read(threshold: float, unit: str, text: str) -> None:
    check = Check.JOBS_WAITING if unit == "seconds" else Check.JOBS_DEPTH if unit == "jobs" else Check.JOBS_FAILING
    found = written(rule(check, threshold=threshold, unit=unit))
    assert found == text
    assert check_terms(check, threshold=found if unit == "seconds" else float(found)).threshold == threshold


# Keys, audit, doctor


def key(name: str = "ci", **more: Any) -> Key:
    usual: dict[str, Any] = {"id": name, "owner": "acme", "scopes": (), "last_four": "abcd", "created_by": None}
    return Key(name=name, **{**usual, "created_at": NOW - DAY, "last_used_at": NOW, **more})


@pytest.mark.parametrize(
    ("keys", "is_whole", "title", "lead"),
    [
        ([], True, "There is no key yet.", "A key lets a program use the API, and a person these pages."),
        ([key()], True, "1 key can be used.", ""),
        ([key(revoked_at=NOW), key(expires_at=NOW)], True, "No key can be used.", ""),
        ([key(last_used_at=None), key("b")], True, "2 keys can be used.", "ci was never used."),
        ([key(expires_at=NOW + DAY)], True, "1 key can be used. 1 expires within a week.", ""),
        ([key(expires_at=NOW + 30 * DAY)], True, "1 key can be used.", ""),
        ([key()], False, "Keys, 50 on a page.", ""),
    ],
)
def test_keys(keys: list[Key], is_whole: bool, title: str, lead: str) -> None:
    assert said(describe_keys(keys, NOW, is_whole=is_whole)) == (title, lead)


def test_a_key_is_usable_until_it_expires_or_is_revoked() -> None:
    assert [state_of(each, NOW) for each in (key(), key(expires_at=NOW), key(expires_at=NOW, revoked_at=NOW))] == [
        "usable",
        "expired",
        "revoked",
    ]


def test_only_scopes_of_the_caller_are_offered_and_none_of_administrators_to_owners() -> None:
    scopes = frozenset({Scope.JOBS_READ, Scope.KEYS_MANAGE})
    offered = scopes_of(Caller(key="k", owner="acme", actor="a", scopes=scopes))
    assert [(scope, is_usual) for scope, _, is_usual in offered] == [
        (Scope.JOBS_READ, True),
        (Scope.KEYS_MANAGE, False),
    ]
    assert len(scopes_of(Caller(key="k", owner=None, actor="a", scopes=frozenset(Scope)))) == len(Scope)
    assert Scope.OPERATE not in [
        each[0] for each in scopes_of(Caller(key="k", owner="acme", actor="a", scopes=frozenset(Scope)))
    ]


def entry(action: str = "POST /jobs", status: int | None = 200, **more: Any) -> AuditEntry:
    return AuditEntry(id="e", at=NOW - MINUTE, actor="ann", action=action, status=status, **more)


def test_audit() -> None:
    recorded = "Each change through the API and these pages is recorded before it is made."
    assert said(describe_audit([], is_first=True)) == ("Nothing was changed yet.", recorded)
    assert said(describe_audit([], is_first=False)) == ("There are no older changes.", recorded)
    assert said(describe_audit([entry()], is_first=True)) == ("ann made the last change, 1 min ago.", "")
    refused = [entry(status=403), entry()]
    assert said(describe_audit(refused, is_first=True))[1] == "1 of the last 2 were refused."
    assert said(describe_audit([entry()], is_first=False))[0] == "Changes up to 14:31:07."


@pytest.mark.parametrize(
    ("action", "status", "outcome"),
    [
        ("POST /jobs", 200, "done"),
        ("POST /jobs", 303, "done"),
        ("POST /jobs", 409, "refused"),
        ("POST /jobs", 503, "failed"),
        ("POST /jobs", None, "open"),
        ("sign in", None, "done"),
        ("create key", None, "done"),
    ],
)
def test_the_outcome_of_a_change(action: str, status: int | None, outcome: str) -> None:
    assert outcome_of(entry(action, status)) == outcome


def finding(level: Level, code: Check = Check.CLOCK) -> Finding:
    return Finding(code, level, "found", "remedy")


@pytest.mark.parametrize(
    ("levels", "title"),
    [
        ([Level.OK], "Everything is in order."),
        ([Level.OK, Level.WARNING], "1 warning."),
        ([Level.OK, Level.PROBLEM, Level.PROBLEM], "2 problems."),
        ([Level.OK, Level.PROBLEM, Level.WARNING, Level.WARNING], "1 problem and 2 warnings."),
    ],
)
def test_doctor(levels: list[Level], title: str) -> None:
    found = [finding(level) for level in levels]
    assert said(describe_findings(found)) == (title, "1 check found nothing wrong.")


def test_a_finding_leads_to_the_page_where_something_can_be_done() -> None:
    places = {Check.JOBS_STUCK: "/workers", Check.JOBS_FAILED: "/", Check.JOBS_WAITING: "/queues", Check.CLOCK: ""}
    assert {code: place_of(code) for code in places} == places
