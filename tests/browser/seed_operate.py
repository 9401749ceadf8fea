"""A shop in operation, for the pages of operators: workers that work, are silent or hold stuck jobs, queues with ready
jobs, pauses, limits, budgets, schedules, policies, subscriptions with deliveries, keys and an audit."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

from mulligan import App, Owner, Queue, RetryPolicy, Rule, Steps
from mulligan.records.duty import DUTIES, DutyRun
from mulligan.records.key import Scope
from mulligan.records.schedule import Definition, ScheduleChange, ScheduleRecord
from mulligan.records.subscription import DELIVER_KIND
from mulligan.store.messages import Beat, Claim, WorkerRecord

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
DAY = 24 * HOUR
KINDS = ("charge", "convert", "import_feed", "render", "send_mail", "report", "sync_stock", DELIVER_KIND)
# A claim with a number that its worker has used would be answered as the first time.
CLAIMS = count(1)
POLICIES = """
kinds:
  charge:
    max_attempts: 3
    timeout: 30s
  convert:
    limits: {IO_ERROR: 1}
owners:
  acme: {max_attempts: 8}
"""


def make_shop(url: str, *, policies: Path | None = None, rules: tuple[Rule, ...] = ()) -> App:
    app = App(
        url,
        rules=rules,
        queues=[Queue("media"), Queue("mail"), Queue("bulk", concurrency=20)],
        owners=[
            Owner("acme", concurrency=10, retries_per_day=500, cost_per_month=2_000),
            Owner("globex", retries_per_month=1_000, over_budget="fail"),
            Owner("*", concurrency=5, retries_per_day=100),
        ],
        policies=policies,
        version="1.8.3",
    )

    @app.task(timeout="2m", retry=RetryPolicy(max_attempts=5))
    def convert(path: str) -> str:
        return path

    @app.task(queue="media", timeout="10m")
    def render(frame: int) -> int:
        return frame

    @app.task(queue="mail", retry=RetryPolicy(max_attempts=4, backoff=Steps(["1m", "10m", "2h"])))
    def send_mail(to: str) -> None: ...

    @app.task(retry=RetryPolicy(max_attempts=2), rules=[Rule("CARD_DECLINED", "final", message="card declined")])
    def charge(order: int) -> None: ...

    @app.task(retry=RetryPolicy(max_attempts=3))
    def import_feed(name: str) -> None:
        raise ValueError(f"feed {name} is truncated")

    @app.cron("30 2 * * mon-fri", name="nightly-report", timezone="Europe/Berlin")
    @app.task
    def report() -> None: ...

    @app.cron("*/5 * * * *", missed="skip")
    @app.task
    def sync_stock() -> None: ...

    return app


BROKEN = Rule("BAD_FEED", "final", message="truncated", kind="import_feed")
TRUNCATED = Rule("FEED_TRUNCATED", "retryable", message="truncated", kind="import_feed")


def change(app: App, statement: str) -> None:
    """Make something older than a test can wait for."""
    app.store._write(lambda session: session.execute(statement, {}))


def microseconds(length: timedelta) -> int:
    return round(length.total_seconds() * 1e6)


class Worker:
    """A worker of another machine, as far as the store can tell."""

    def __init__(self, app: App, host: str, slots: int, **options: Any) -> None:
        self.app = app
        self.record = WorkerRecord(
            **{
                "incarnation": f"{host}/4711/1",
                "host": host,
                "pid": 4711,
                "queues": None,
                "kinds": KINDS,
                "concurrency": slots,
                "version": "1.8.3",
                **options,
            }
        )
        self.beat()

    def beat(self) -> None:
        self.app.store.beat(Beat(worker=self.record, lease=DAY))

    def run(self, *kinds: str, number: int) -> list[str]:
        """Take ready jobs of these kinds, and keep them."""
        claim = Claim(
            incarnation=self.record.incarnation, number=next(CLAIMS), kinds=kinds, limit=number, lease=DAY, queues=None
        )
        return [lease.fence.id for lease in self.app.store.claim(claim).leases]

    def fall_silent(self, since: timedelta) -> None:
        by = microseconds(since)
        earlier = f"seen_at = seen_at - {by}, started_at = started_at - {by}"
        change(self.app, f"UPDATE mulligan_workers SET {earlier} WHERE host = '{self.record.host}'")


def enqueue(app: App, kind: str, number: int, *, owner: str = "", **options: Any) -> None:
    task = app.tasks[kind]
    argument = 7 if kind in ("render", "charge") else "x"
    app.enqueue_many([task.options(owner=owner, **options).bind(argument) for _ in range(number)])


def make_old(app: App, ids: list[str], by: timedelta) -> None:
    earlier = f"last_attempt_at = last_attempt_at - {microseconds(by)}"
    for job in ids:
        change(app, f"UPDATE mulligan_jobs SET {earlier} WHERE id = '{job}'")


def seed_workers(app: App) -> list[Worker]:
    """Four workers of 56 slots; one has two stuck jobs, one fell silent with seven."""
    first, second, stuck, media, silent = (
        Worker(app, "eu-1", 16),
        Worker(app, "eu-4", 16),
        Worker(app, "eu-3", 16, version="1.8.2"),
        Worker(app, "media-1", 8, queues=("media",), kinds=("render",)),
        Worker(app, "eu-2", 16, version="1.8.1"),
    )
    enqueue(app, "convert", 46)
    enqueue(app, "render", 8, owner="acme")
    first.run("convert", number=13)
    second.run("convert", number=15)
    taken = stuck.run("convert", number=11)
    silent.run("convert", number=7)
    media.run("render", number=8)
    make_old(app, taken[:2], 52 * MINUTE)
    silent.fall_silent(32 * MINUTE)
    return [first, second, stuck, media]


def seed_queues(app: App) -> None:
    enqueue(app, "convert", 41)
    enqueue(app, "render", 218)
    enqueue(app, "send_mail", 107)
    change(app, "UPDATE mulligan_jobs SET queued_at = queued_at - 1080000000 WHERE state = 'queued' AND queue = 'mail'")
    change(app, "UPDATE mulligan_jobs SET queued_at = queued_at - 250000000 WHERE state = 'queued' AND queue = 'media'")
    app.pause("28m", queue="mail", actor="on-call", reason="the provider asks for quiet")
    app.pause(None, intake="import_feed", actor="ann", reason="feeds are broken")
    app.pause("2h", duty="prune", actor="ann", reason="an audit needs the old jobs")
    day, month = (app.store.now().strftime(form) for form in ("%Y-%m-%d", "%Y-%m"))
    for spent in (f"'acme', '{day}', 431, 0", f"'acme', '{month}', 900, 1204", f"'globex', '{month}', 1000, 0"):
        change(app, f"INSERT INTO mulligan_spending (owner, period, retries, cost) VALUES ({spent})")


def seed_duties(app: App) -> None:
    did = {"reclaim": 7, "retry": 2_141, "promote": 12, "project": 480}
    app.store.record_runs(
        [
            DutyRun(
                duty=duty.name,
                worker="eu-1/4711/1",
                seconds=0.012,
                did=did.get(duty.name, 0),
                interval=timedelta(seconds=1 if duty.name != "prune" else 60),
                limit=1_000,
            )
            for duty in DUTIES
        ]
    )


def seed_schedules(app: App) -> None:
    """Both have run; a third one is not in the code any more."""
    now = app.store.now()
    app.run_schedule("sync_stock", actor="ann", reason="stock was corrected")
    app.pause("3h", schedule="nightly-report", actor="ann", reason="month-end closing")
    gone = Definition(kind="old_export", expression="@daily", timezone="UTC", missed="once", arguments="{}")
    record = ScheduleRecord(name="old-export", definition=gone, next_tick=now + HOUR, since=now, planned_by="eu-9/1")
    app.store.change_schedule(ScheduleChange(record=record))
    change(app, "UPDATE mulligan_schedules SET seen_at = seen_at - 600000000 WHERE name = 'old-export'")


def seed_failures(url: str) -> None:
    """Feeds that failed for good, by rules of an earlier version."""
    with make_shop(url, rules=(BROKEN,)) as app:
        app.migrate()
        for owner, number in (("acme", 4), ("globex", 2)):
            enqueue(app, "import_feed", number, owner=owner)
        # A thread of its own: a browser that is driven from here has a loop running.
        with ThreadPoolExecutor(1) as threads:
            threads.submit(app.run_until_idle).result()


def seed_notifications(app: App) -> None:
    hooked = app.subscribe(
        "orders of acme",
        types=["job.failed", "batch.settled"],
        channel="webhook",
        to="https://hooks.acme.example/mulligan",
        owner="acme",
        kind="convert",
    ).subscription
    mailed = app.subscribe(
        "failures to on-call", types=["job.failed"], channel="email", to="on-call@example.org"
    ).subscription
    off = app.subscribe(
        "ledger", types=["redrive.finished"], channel="webhook", to="https://ledger.example/in"
    ).subscription
    for each in (hooked, hooked, hooked, mailed, mailed):
        app.test_subscription(each.id)
    app.disable_subscription(off.id, reason="the ledger moves to another host", actor="ann")
    states = ("delivered", "failed", "skipped", "suppressed", "pending")
    for delivery, state in zip(app.deliveries(limit=5), states, strict=True):
        change(app, _delivery(delivery.id, state))
    hook = {"name": "gateway is repaired", "owner": "acme", "error_group": "5f1d7a84", "batch": None}
    # Of a group whose jobs were deleted since.
    app.store.create_hook({**hook, "id": "gateway-is-repaired", "secret": "whsec_aGVsbG8=", "created_by": "ann"})


def _delivery(delivery: str, state: str) -> str:
    outcomes: dict[str, str] = {
        "delivered": "attempts = 1, status = 204, response = '', seconds = 0.21",
        "failed": "attempts = 8, status = 503, response = 'upstream is down', seconds = 1.4, "
        "reason = 'the receiver answered 503 Service Unavailable'",
        "skipped": "reason = 'there is no mail server'",
        "suppressed": "reason = NULL",
        "pending": "attempts = 2, status = 500, reason = 'the receiver answered 500', seconds = 0.3",
    }
    return f"UPDATE mulligan_deliveries SET state = '{state}', {outcomes[state]} WHERE id = '{delivery}'"


def seed_alerts(app: App) -> None:
    """Stuck jobs fire at once; a paused duty is silenced."""
    app.set_alert("duties.paused", level="warning", after="0s", actor="ann", reason="every pause is looked at")
    app.run_duty("alert")
    app.silence_alert("duties.paused", "2h", actor="ann", reason="it is planned")


def seed_keys(app: App) -> None:
    app.create_key(owner="acme", name="ci of acme", actor="ann", expires_in="3d")
    app.create_key(owner="globex", name="import", scopes=[Scope.JOBS_READ, Scope.JOBS_ENQUEUE], actor="ann")
    gone = app.create_key(owner=None, name="contractor", actor="ann")
    app.revoke_key(gone.key.id, actor="ann")


def seed_all(app: App) -> list[Worker]:
    """`seed_failures` comes first, with an app of its own."""
    workers = seed_workers(app)
    seed_queues(app)
    seed_duties(app)
    seed_schedules(app)
    seed_notifications(app)
    seed_keys(app)
    seed_alerts(app)
    return workers
