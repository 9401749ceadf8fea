"""App: the public verbs. Each one hands over to a part in `console/` or to `wiring/`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from datetime import datetime
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, overload

from msgspec import UNSET, UnsetType

from mulligan.console.arguments import BY_THE_CALL, CONCURRENCY, FLAG, PORT, QUEUES, ROOT_PATH, STRING, check
from mulligan.console.batches import Batch, Retried
from mulligan.console.dead_letters import ExportedJob, Purge
from mulligan.console.duties import DutyStatus
from mulligan.console.policies import PackStatus, PoliciesInForce
from mulligan.console.queues import QueueStatus
from mulligan.console.reclassify import Reclassification
from mulligan.console.schedules import ScheduleStatus
from mulligan.console.services import ServiceHandle
from mulligan.errors import BadSchedule, ConfigurationError
from mulligan.explain import Explanation
from mulligan.failure.error_codes import ErrorCode
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.redact import Secret, redact
from mulligan.failure.rule import AnyRule
from mulligan.lifecycle import Move
from mulligan.notify.subscription import Subscription, WritePayload
from mulligan.policies.alert import Alert
from mulligan.policies.owner import Owner
from mulligan.policies.queue import Queue
from mulligan.policies.unknown_names import Names
from mulligan.records.alert import AlertBoard, AlertRule
from mulligan.records.audit import AuditEntry
from mulligan.records.batch import BatchState
from mulligan.records.counts import Counts
from mulligan.records.delivery import Delivery
from mulligan.records.duty import DutyRun
from mulligan.records.event import Cursor, Event, EventPage
from mulligan.records.failure_group import FailureGroup, GroupPage, GroupState
from mulligan.records.finding import Finding, Limits
from mulligan.records.hook import CreatedHook, IncomingHook
from mulligan.records.job import DEFAULT_QUEUE, Job, JobFilter, Page
from mulligan.records.key import CreatedKey, Key, Scope
from mulligan.records.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.records.metric import Metric
from mulligan.records.pause import Pause
from mulligan.records.progress import Progress
from mulligan.records.rate import Rate
from mulligan.records.readiness import Component
from mulligan.records.redrive import Redrive
from mulligan.records.statistics import FailureTrend, Statistics
from mulligan.records.subscription import CreatedSubscription, SubscriptionRecord
from mulligan.service.config import Service
from mulligan.service.records import ServiceStatus
from mulligan.settings import Settings, load
from mulligan.store.messages import WorkerRecord
from mulligan.store.store import Store
from mulligan.task.checks import CanRetry, Priority, ServiceName
from mulligan.task.schedule import Schedule
from mulligan.task.task import DEFAULT_TIMEOUT, Binding, Task, check_bindings
from mulligan.values.duration import Duration
from mulligan.wiring import Wiring
from mulligan.worker.hooks import Hook
from mulligan.worker.worker import Worker

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any, Any])
H = TypeVar("H", bound=Callable[..., Any])


class App:
    """Tasks, a store, and everything that can be done with them. It connects when the store is first needed.

        app = App("sqlite:///jobs.db")

        @app.task
        def greet(name: str) -> str:
            return f"Hello, {name}"

        job = greet.enqueue("Ada")
        app.run_until_idle()
        print(app.wait(job))

    `url`       database URL such as `sqlite:///jobs.db` or `postgresql://…`; the settings may override it
    `rules`     `Rule(…)` values or functions of a `Failure` that classify failures, after those of the task
    `catalogue` `ErrorCode(…)` values: codes of your own, or other messages for built-in ones
    `services`  `Service(…)` values: breaker, pace and budget of the services that tasks call
    `queues`    `Queue(…)` values: which queues are fair, and how many of their jobs may run at once
    `owners`    `Owner(…)` values: weight, concurrency, submit rate, unfinished jobs and retry budget of owners
    `subscriptions` `Subscription(…)` values: who is told about which events, by mail or webhook
    `payloads`  by the type of the event, functions of a `Notice` that return the type and the data of a webhook's body,
                for subscriptions without such a function of their own
    `alerts`    `Alert(…)` values: terms of alert rules that differ from the defaults
    `lifespan`  a context manager that a worker enters before its first job; tasks find its value in
                `attempt().resources`
    `version`   the release of your code, kept with each attempt
    `redact`    strings and compiled patterns to mask in everything that is stored or logged
    `stuck`     what workers do about stuck jobs every few minutes: `"report"` them in the log, the default; `"process"`
                them as TIMEOUT failures; or `"requeue"` them without using up a retry
    `policies`  path of a YAML file that overrides policies, services, queues and owners while workers run
    `settings`  fields of `Settings` with other defaults in this app, such as `{"metrics_prefix": ""}`: `mulligan.toml`
                and the environment override them. Or complete `Settings`, instead of those read from there

    Options that cannot work raise a ConfigurationError. An app can be used from several threads; in a coroutine, call
    its blocking verbs with `asyncio.to_thread`.

    All verbs share some errors: StoreUnavailable if the database cannot be reached, SchemaMismatch if it must be
    migrated first, and BadArgument for a value that a parameter does not take.

    `owner=` restricts a verb to the jobs of one owner: a job of another owner is not found. Without it, all jobs are
    visible. `actor=` and `reason=` are stored in the event log and change nothing else.

    `request_id=`, a string of your own, makes a change repeatable: the same call with the same id is carried out once
    and answered as the first time, for at least 24 hours. The same id with another verb or other arguments raises
    RequestMismatch. A call that raised an error is carried out when it is repeated.

    `connection=`, a blocking database connection of your own with an open transaction, makes a move part of that
    transaction. The job is queued by the next claim after the commit.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        rules: Sequence[AnyRule] = (),
        catalogue: Iterable[ErrorCode] = (),
        services: Iterable[Service] = (),
        queues: Iterable[Queue] = (),
        owners: Iterable[Owner] = (),
        subscriptions: Iterable[Subscription] = (),
        payloads: Mapping[str, WritePayload] | None = None,
        alerts: Iterable[Alert] = (),
        lifespan: Callable[..., Any] | None = None,
        version: str | None = None,
        redact: Iterable[Secret] = (),
        stuck: str | None = None,
        policies: str | os.PathLike[str] | None = None,
        settings: Settings | Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(settings, Settings):
            file = None if policies is None else os.fspath(policies)
            options = {"database_url": url, "policies_file": file, "stuck": stuck}
            settings = load({**(settings or {}), **{name: each for name, each in options.items() if each is not None}})
        self.redact(*settings.passwords, *redact)
        self.wiring = wiring = Wiring(
            self,
            settings,
            rules=rules,
            catalogue=catalogue,
            services=services,
            queues=queues,
            owners=owners,
            subscriptions=subscriptions,
            payloads=payloads or {},
            alerts=alerts,
            lifespan=lifespan,
            version=version,
        )
        self.tasks = wiring.tasks
        self.timetable = wiring.timetable
        self.hooks = wiring.hooks
        self.policies = wiring.policies
        self.quotas = wiring.quotas
        self.judge = wiring.judge
        self.client = wiring.client

    @property
    def settings(self) -> Settings:
        """The settings in force: code, then mulligan.toml, then the environment. Replace them before the first use."""
        return self.wiring.settings

    @settings.setter
    def settings(self, settings: Settings) -> None:
        self.wiring.settings = settings

    @property
    def store(self) -> Store:
        """The open store. The first access connects; it raises BadUrl or StoreUnavailable if that fails."""
        return self.wiring.store()

    @property
    def has_database(self) -> bool:
        """Whether the database exists. The first use creates a missing SQLite file."""
        return self.wiring.has_database()

    def migrate(self) -> list[str]:
        """Bring the database schema up to date and return the names of the applied migrations.

        SQLite is migrated at first use; PostgreSQL must be migrated before it: `mulligan migrate`.
        """
        return self.store.migrate()

    def check_store(self) -> None:
        """Raise the error that keeps the store from being used: StoreUnavailable, or SchemaMismatch on PostgreSQL."""
        self.store.now()

    def close(self) -> None:
        """Close the connections to the store. The next use opens them again. `with App(…) as app:` does it too."""
        self.wiring.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def redact(self, *secrets: Secret) -> None:
        """Mask these strings, and the matches of these compiled patterns, in stored failures and in logs.

        This applies to the whole process, whichever app logs.
        """
        redact(*secrets)

    # Tasks

    @overload
    def task(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    @overload
    def task(
        self,
        name: str | None = None,
        *,
        retry: RetryPolicy | None = None,
        rules: Sequence[AnyRule] = (),
        service: ServiceName = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority = "normal",
        timeout: Duration = DEFAULT_TIMEOUT,
        isolate: bool | None = None,
        memory: int | str | None = None,
        cost: int = 0,
        concurrency: int | None = None,
        can_retry: CanRetry | None = None,
        on_failed: Task[..., Any, Any] | None = None,
        on_cancelled: Task[..., Any, Any] | None = None,
        at_most_once: bool = False,
        public: bool = False,
        aliases: Iterable[str] = (),
    ) -> "Decorator": ...

    def task(
        self,
        name: Any = None,
        *,
        retry: RetryPolicy | None = None,
        rules: Sequence[AnyRule] = (),
        service: ServiceName = None,
        queue: str = DEFAULT_QUEUE,
        priority: Priority = "normal",
        timeout: Duration = DEFAULT_TIMEOUT,
        isolate: bool | None = None,
        memory: int | str | None = None,
        cost: int = 0,
        concurrency: int | None = None,
        can_retry: CanRetry | None = None,
        on_failed: Task[..., Any, Any] | None = None,
        on_cancelled: Task[..., Any, Any] | None = None,
        at_most_once: bool = False,
        public: bool = False,
        aliases: Iterable[str] = (),
    ) -> Any:
        """Register a function as a task: `@app.task` or `@app.task(retry=…, timeout=…)`.

        `name`         the kind of its jobs; default: the name of the function
        `retry`        RetryPolicy(…): how often and when a failed job is retried; default: 4 attempts, first after 15 s
        `rules`        Rule(…)s or functions of a Failure that classify its failures, before those of the app
        `service`      the service it depends on: a name, or a function of its arguments that returns one
        `queue`        the queue of its jobs; default: "default"
        `priority`     "high", "normal", "low" or an integer, lower first; default: "normal"
        `timeout`      how long an attempt may take; default: "15m"
        `isolate`      True: always in a child process; False: never; None, the default: only after a lost worker
        `memory`       the memory limit of its child process, such as "512M"; implies `isolate=True`
        `cost`         what each automatic retry costs the budget of its owner; default: 0
        `concurrency`  how many of its jobs may run at once, over all workers; default: no limit
        `can_retry`    a function of the job, or of the job and a database connection, that may raise NotAllowed or
                       InsufficientCredits on a manual retry; it is called inside the transaction of the retry
        `on_failed`    a task that is enqueued with the id of each of its jobs that fails
        `on_cancelled` a task that is enqueued with the id of each of its jobs that is cancelled
        `at_most_once` True: once its code has begun, only a person can run a job again; default: False
        `public`       True: clients of the HTTP API may enqueue it; default: False
        `aliases`      former names: jobs that were enqueued under them are run too

        `task.options(…)` sets queue, priority and more for one call. Raises BadTask for options that cannot work, and
        for a name that is already registered.
        """
        if callable(name):
            return self.task()(name)

        def register(function: Callable[..., Any]) -> Task[..., Any, Any]:
            task: Task[..., Any, Any] = Task(
                function,
                client=self.client,
                name=name or getattr(function, "__name__", ""),
                retry=retry or self._default_policy(at_most_once=at_most_once),
                rules=rules,
                service=service,
                queue=queue,
                priority=priority,
                timeout=timeout,
                isolate=isolate,
                memory=memory,
                cost=cost,
                concurrency=concurrency,
                can_retry=can_retry,
                on_failed=on_failed,
                on_cancelled=on_cancelled,
                at_most_once=at_most_once,
                public=public,
                aliases=aliases,
            )
            self.tasks.add(task)
            return task

        return register

    def _default_policy(self, *, at_most_once: bool) -> RetryPolicy:
        default = self.settings.default_policy
        return replace(default, max_attempts=1) if at_most_once else default

    def cron(
        self,
        expression: str,
        *,
        name: str | None = None,
        args: Sequence[Any] = (),
        timezone: str = "UTC",
        missed: str = "once",
    ) -> Callable[[AnyTask], AnyTask]:
        """Schedule a task: `@app.cron("30 2 * * *", timezone="Europe/Berlin")` above `@app.task`.

        Each tick enqueues one job, however many workers run. `missed` decides about the ticks that passed while no
        worker ran: `"once"` enqueues one job for all of them, `"skip"` none, `"all"` one for each, up to a bound.
        Raises BadSchedule for an expression, time zone or name that cannot work.
        """

        def schedule(task: AnyTask) -> AnyTask:
            if not isinstance(task, Task) or task.client is not self.client:
                raise BadSchedule(f"@app.cron must stand above @app.task of the same app; it got {task!r:.200}")
            self.timetable.add(Schedule(task, expression, name=name, args=args, timezone=timezone, missed=missed))
            return task

        return schedule

    def around(self, hook: H) -> H:
        """Wrap every attempt, also in child processes, in a context manager; the first hook is the outermost.

            @app.around
            def traced(attempt):
                with tracer.span(attempt.job.kind):
                    yield

        The hook is a function of the attempt, plain or async. An error in it fails the attempt.
        """
        self.hooks.around.append(Hook("around", hook))
        return hook

    def enqueue_many(self, bindings: Iterable[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        """Store calls made with `task.bind(…)`, of any kinds, all or none, in one transaction.

            app.enqueue_many([convert.bind("a.pdf"), notify.bind("ann")])

        With `connection`, a database connection of your own, they become part of its transaction. Raises
        InvalidArguments, PayloadTooLarge, Conflict, SubmitRateExceeded, TooManyJobs or IntakePaused; then nothing is
        stored.
        """
        return self.client.enqueue(check_bindings(bindings), connection=connection)

    async def enqueue_many_async(self, bindings: Iterable[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        """Like `enqueue_many`, without blocking the event loop."""
        return await self.client.enqueue_async(check_bindings(bindings), connection=connection)

    def wait(self, job: Job[R] | str, timeout: Duration | None = None) -> R:
        """Wait until a job is over and return its result.

            result = app.wait(convert.enqueue("a.pdf"), timeout="30s")

        Raises JobFailed if it failed, JobCancelled if it was cancelled, ResultExpired if its result was deleted,
        TimeoutError after `timeout`, and JobNotFound.
        """
        result: R = self.wiring.results.wait(job, timeout)
        return result

    async def wait_async(self, job: Job[R] | str, timeout: Duration | None = None) -> R:
        """Like `wait`, without blocking the event loop."""
        return await asyncio.to_thread(self.wait, job, timeout)

    # Jobs

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        """Return one job as it is now. Raises JobNotFound."""
        return self.wiring.jobs.find(job_id, owner=owner)

    def find_id(self, what: str, part: str, *, owner: str | None = None) -> str:
        """Complete an id: return the id of a `"job"`, `"batch"`, `"redrive"`, `"group"`, `"key"`, `"subscription"`,
        `"delivery"` or `"hook"` that begins or ends with `part`.

        A part has at least 6 characters. Raises AmbiguousId, with candidates, if several ids match, and JobNotFound,
        BatchNotFound and so on if none does.
        """
        return self.wiring.ids.find(what, part, owner=owner)

    def jobs(
        self,
        wanted: JobFilter | None = None,
        *,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        """Return one page of jobs, newest first.

            page = app.jobs(JobFilter(state="failed", code="TIMEOUT"), limit=100)
            more = app.jobs(JobFilter(state="failed", code="TIMEOUT"), limit=100, cursor=page.cursor)

        `limit` is at most 1,000. A page has fewer jobs if their arguments and results are more than 1 MiB together.
        `page.cursor` is None on the last page.
        """
        return self.wiring.jobs.search(wanted, owner=owner, limit=limit, cursor=cursor)

    def counts(self, wanted: JobFilter | None = None, *, by: str = "state", owner: str | None = None) -> Counts:
        """Count the jobs that match a filter by state, kind, queue, code, last code, group, owner or batch.

            counts = app.counts(JobFilter(kind="convert"), by="code")
            print(counts.total, counts.groups)  # 7 {'TIMEOUT': 5, 'IO_ERROR': 2}

        At most 10,000 jobs of each state are read, so a count is fast at any size. If there are more,
        `counts.at_least` is True and the numbers may be higher.
        """
        return self.wiring.jobs.count(wanted, by=by, owner=owner)

    def blocked_by(self, jobs: Sequence[Job[Any]]) -> dict[str, str]:
        """Say what keeps waiting and queued jobs from running, besides their due time.

        Returns `{job.id: "service/gateway"}` or the like for a service, a limit, a pause or a budget. Jobs that are not
        blocked are missing.
        """
        return self.wiring.jobs.find_blocks(jobs)

    def queue_position(self, job_id: str, *, owner: str | None = None) -> int | None:
        """Return the place of a queued job in the order in which workers claim; None if it is not queued.

        The next job is 1. Jobs of all queues and kinds count, except those that are paused or held by their service. It
        is counted up to 1,000, which means 1,000 or more. Raises JobNotFound.
        """
        return self.wiring.jobs.queue_position(job_id, owner=owner)

    def last_failures(self, job_ids: Sequence[str], *, owner: str | None = None) -> dict[str, Event]:
        """Return the event of the last failure of each job, by id, in one query: for a page of jobs at once.

            failures = app.last_failures([job.id for job in page.jobs])

        Its `data` has the message, the technical detail and the reasons of the decision. Jobs that never failed are
        missing. At most 1,000 ids.
        """
        return self.wiring.jobs.last_failures(job_ids, owner=owner)

    def explain(self, job_id: str, *, owner: str | None = None, for_owner: bool = False) -> Explanation:
        """Explain what happened to a job, what happens next, and what can be done. Raises JobNotFound.

        The answer has sentences, and the same as data: what holds the job, and the moves that are legal now. With
        `for_owner` it names no worker, no person and no shell command.
        """
        return self.wiring.jobs.explain(job_id, owner=owner, for_owner=for_owner)

    def events(
        self, job: str | None = None, *, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        """Return events of the log, oldest first: those of one job, or all, after the position `after`.

        `limit` is at most 1,000. Continue with `after=events[-1].position`, or follow the log with `stream`.
        """
        return self.wiring.events.events(job=job, owner=owner, after=after, limit=limit)

    def history(
        self, *, service: str | None = None, batch: str | None = None, owner: str | None = None, limit: int = 100
    ) -> list[Event]:
        """Return the newest events about one service or one batch itself, newest first; those of jobs are in `events`.

            for event in app.history(service="gateway"):
                print(event.at, event.type, event.data)

        It looks at the last 10,000 events that belong to no job. `limit` is at most 1,000. Raises UnknownService and
        BatchNotFound.
        """
        return self.wiring.events.history(service=service, batch=batch, owner=owner, limit=limit)

    def stream(
        self,
        *,
        after: int = 0,
        job: str | None = None,
        batch: str | None = None,
        kind: str | None = None,
        owner: str | None = None,
        types: Sequence[str] | None = None,
        limit: int = 500,
    ) -> EventPage:
        """Return the next page of the log after the position `after`: the events that match, oldest first.

            page = app.stream(after=position, owner="acme", types=["job.failed", "batch.settled"])
            position = page.position

        Continue with `after=page.position`: it advances even if no event matched, because one call reads at most
        10,000 events. `page.is_end` says that there is nothing more to read now. No event is skipped or repeated. If
        an event after the position was deleted before it was read, `page.is_pruned` says so. On PostgreSQL the events
        of one transaction share a position and come in one page, which may then be longer than `limit`. Raises
        JobNotFound, and BadArgument for a position that this log has not reached.
        """
        return self.wiring.events.stream(
            after=after, job=job, batch=batch, kind=kind, owner=owner, types=types, limit=limit
        )

    def progress(
        self,
        *,
        job: str | None = None,
        batch: str | None = None,
        owner: str | None = None,
        since: datetime | None = None,
        limit: int = 500,
    ) -> list[Progress]:
        """Return the progress of running jobs that changed after `since`, the oldest change first.

            changed = app.progress(batch=batch.id, since=changed[-1].at if changed else None)

        Progress is no event: only the last one of each job is kept, and a job that is over has none here.
        """
        return self.wiring.events.progress(job=job, batch=batch, owner=owner, since=since, limit=limit)

    def project(self, name: str, apply: Callable[[Sequence[Event], Any], object], *, limit: int = 1_000) -> int:
        """Apply the next events of the log to a projection: tables of your own in the same database.

            def count(events, connection):
                for event in events:
                    connection.execute("UPDATE totals SET number = number + 1 WHERE type = ?", (event.type,))

            while app.project("totals", count):
                pass

        `apply` runs in the transaction that moves the cursor stored under `name`, on the driver's own connection. So
        each event is applied exactly once, also by several processes and after a crash. Returns how many events were
        applied: 0 if there are none, or if another process applied them. An error of `apply` undoes its changes and
        is raised. `apply` must not commit or roll back. Events that a projection has not applied are not deleted.
        """
        return self.wiring.events.project(name, apply, limit=limit)

    def projections(self) -> list[Cursor]:
        """Return the cursors of all projections, the one that is furthest behind first."""
        return self.wiring.events.projections()

    def drop_projection(self, name: str, *, request_id: str | None = None) -> None:
        """Delete the cursor of a projection, so that no events are kept for it. A later use starts from the beginning.

        Raises UnknownProjection, with the names that exist.
        """
        self.wiring.events.drop_projection(name, request_id=request_id)

    def now(self) -> datetime:
        """Return the time by the clock of the store, which decides about jobs; in a sandbox, the simulated time."""
        return self.store.now()

    def last_position(self, *, back: int = 0) -> int:
        """Return the position of the last event in the log; with `back=N`, the position N events earlier."""
        return self.wiring.events.last_position(back=back)

    def retry(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Start a failed, cancelled or waiting job again: its counters are reset and it is due now.

            app.retry(job.id, actor="ann", reason="the gateway is fixed")

        A planned automatic retry is replaced, never doubled. A running job can be retried if it is stuck: its lease is
        taken from its worker first. Raises JobNotFound; IllegalMove if its state does not allow it; NotAllowed or
        InsufficientCredits if `can_retry` of its task refuses; Conflict if another job holds its dedupe key.
        """
        return self.wiring.jobs.move(
            Move.MANUAL_RETRY,
            job_id,
            owner=owner,
            actor=actor,
            reason=reason,
            connection=connection,
            request_id=request_id,
        )

    def run_now(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Run a waiting job now, or a failed or cancelled job once more. Its counters are kept.

        Raises the same errors as `retry`.
        """
        return self.wiring.jobs.move(
            Move.RUN_NOW,
            job_id,
            owner=owner,
            actor=actor,
            reason=reason,
            connection=connection,
            request_id=request_id,
        )

    def cancel(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Cancel a job. A running job is asked to stop, and is cancelled when its attempt ends.

        Raises JobNotFound, and IllegalMove if it is over.
        """
        return self.wiring.jobs.move(
            Move.MANUAL_CANCEL,
            job_id,
            owner=owner,
            actor=actor,
            reason=reason,
            connection=connection,
            request_id=request_id,
        )

    def snooze(
        self,
        job_id: str,
        delay: Duration,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Postpone a waiting or queued job: `app.snooze(job.id, "1h")` makes it due in an hour.

        Raises JobNotFound, and IllegalMove if it is running or over.
        """
        return self.wiring.jobs.move(
            Move.MANUAL_SNOOZE,
            job_id,
            owner=owner,
            actor=actor,
            reason=reason,
            delay=delay,
            connection=connection,
            request_id=request_id,
        )

    def release_key(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Take the dedupe key from a job that is over, so that another job can have it.

            app.release_key(job.id, actor="ann", reason="its result was lost")

        A job without a key does not change. Raises JobNotFound, and IllegalMove if the job is not over.
        """
        return self.wiring.jobs.release_key(
            job_id, owner=owner, actor=actor, reason=reason, connection=connection, request_id=request_id
        )

    def expire_result(
        self,
        job_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        connection: Any = None,
        request_id: str | None = None,
    ) -> Job[Any]:
        """Delete the result of a succeeded job. The job stays, with `result_expired_at`.

        `app.wait` then raises ResultExpired. A result that has expired already does not change. With `connection`, a
        database connection of your own, it becomes part of its transaction. Raises JobNotFound, and NoResult if the job
        has not succeeded.
        """
        return self.wiring.jobs.expire_result(
            job_id, owner=owner, actor=actor, reason=reason, connection=connection, request_id=request_id
        )

    # Failure groups and statistics

    def failures(
        self,
        *,
        state: GroupState | str | Sequence[GroupState | str] | None = None,
        kind: str | None = None,
        code: str | None = None,
        order: str = "impact",
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> GroupPage:
        """Return one page of failure groups: similar failures of attempts, also of those that recovered later.

            for group in app.failures(state=["open", "regressed"]).groups:
                print(group.title, group.failures, group.failed, group.impact)

        `order` is "impact", "last_seen", "first_seen" or "failures", the highest first. With `owner`, groups with jobs
        of that owner, and only their counts. The duty `project` derives groups from the event log, about a second
        late; `page.reached_at` says how far it is.
        """
        return self.wiring.failures.search(
            state=state, kind=kind, code=code, order=order, owner=owner, limit=limit, cursor=cursor
        )

    def failure(self, group: str, *, owner: str | None = None) -> FailureGroup:
        """Return one failure group. Raises GroupNotFound."""
        return self.wiring.failures.find(group, owner=owner)

    def retry_failure(
        self,
        group: str,
        *,
        rate: Rate | float | str = "50/s",
        canary: int = 5,
        abort_above: float = 0.5,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Retry the failed jobs of a group, at a rate: a `redrive` with `JobFilter(group=…)`.

            app.retry_failure(group.id, actor="ann", reason="the gateway is fixed")

        Raises what `redrive` raises, and GroupNotFound.
        """
        return self.wiring.failures.retry(
            group,
            rate=rate,
            canary=canary,
            abort_above=abort_above,
            owner=owner,
            actor=actor,
            reason=reason,
            dry_run=dry_run,
            request_id=request_id,
        )

    def ignore_failure(
        self,
        group: str,
        duration: Duration | None = None,
        *,
        growth: float | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> FailureGroup:
        """Ignore a failure group: for `duration`, or until it has `growth` times its failures, or until reopened.

            app.ignore_failure(group.id, "7d", growth=10, actor="ann", reason="the customer knows")

        With both, it is open again with whichever comes first. Raises GroupNotFound.
        """
        return self.wiring.failures.ignore(
            group, duration, growth=growth, actor=actor, reason=reason, request_id=request_id
        )

    def resolve_failure(
        self, group: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> FailureGroup:
        """Resolve a failure group. It is `regressed` once it is seen in a version that was first seen later.

        Without `App(version=…)`, any later failure counts. Raises GroupNotFound.
        """
        return self.wiring.failures.resolve(group, actor=actor, reason=reason, request_id=request_id)

    def reopen_failure(
        self, group: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> FailureGroup:
        """Open a failure group that is ignored or resolved. Raises GroupNotFound."""
        return self.wiring.failures.reopen(group, actor=actor, reason=reason, request_id=request_id)

    def statistics(
        self,
        *,
        span: str = "hour",
        since: datetime | None = None,
        until: datetime | None = None,
        kind: str | None = None,
        service: str | None = None,
        outcome: str | None = None,
        code: str | None = None,
        owner: str | None = None,
        limit: int = 10_000,
    ) -> Statistics:
        """Return what happened in each minute, hour or day, and what that says about retries.

            retries = app.statistics(span="day", kind="convert").retries
            for result in retries.never_helped:
                print(result.kind, result.code, result.retried)

        `span` is "minute", "hour" or "day". By default it covers the last hour, day or 30 days. `limit` is at most
        100,000 rows; `is_cut` says that the oldest are missing. `status` says how far the log was folded.
        """
        return self.wiring.statistics.read(
            span=span,
            since=since,
            until=until,
            kind=kind,
            service=service,
            outcome=outcome,
            code=code,
            owner=owner,
            limit=limit,
        )

    def failure_trend(
        self,
        *,
        step: Duration = "10m",
        since: datetime | None = None,
        until: datetime | None = None,
        kind: str | None = None,
        code: str | None = None,
        owner: str | None = None,
    ) -> FailureTrend:
        """Return how many attempts were retried, and how many jobs failed and recovered, in each step of time.

            for point in app.failure_trend(step="1h").points:
                print(point.at, point.failed, point.recovered)

        `step` is a whole number of minutes. By default it covers the last 144 steps, at most 2,000. Minutes are kept
        for two days, hours for 60: a step of whole hours reads hours.
        """
        return self.wiring.statistics.failures(step=step, since=since, until=until, kind=kind, code=code, owner=owner)

    def rebuild_statistics(self, *, request_id: str | None = None) -> None:
        """Fold the event log again into failure groups and statistics, as far as the log is complete.

        Groups and minutes that are older stay as they are, and so does what people decided. Workers do it with the
        duty `project`; until then numbers are too low, and `statistics().status.is_rebuilding` is True.
        """
        self.wiring.statistics.rebuild(request_id=request_id)

    def metrics(self, prefix: str | None = None) -> str:
        """Return all metrics of this installation in the text format of Prometheus, for a route of your own.

            return Response(app.metrics(prefix=""), media_type="text/plain; version=0.0.4")

        They are read from the store, so any process shows the whole. `prefix` is what the names begin with; by default
        the setting `MULLIGAN_METRICS_PREFIX`.
        """
        return self.wiring.metrics.text(prefix)

    def read_metrics(self) -> list[Metric]:
        """Return all metrics as records, without a prefix."""
        return self.wiring.metrics.read()

    # Failed and stuck jobs

    def redrive(
        self,
        wanted: JobFilter,
        *,
        rate: Rate | float | str = "50/s",
        canary: int = 5,
        abort_above: float = 0.5,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Retry all failed jobs that match a filter, at a rate. Workers carry it out, also after a restart.

            app.redrive(JobFilter(code="TIMEOUT"), rate="20/s", actor="ann", reason="the gateway is fixed")

        The first `canary` jobs go alone. If more than the fraction `abort_above` of them, or later of the newest jobs,
        do not succeed at their next attempt, the redrive stops itself. `dry_run=True` only counts the jobs. A repeated
        `request_id` returns the first redrive. If no job matches, nothing is stored and the redrive has no id.
        Raises BadFilter or BadRate for terms that cannot work, and RequestIdUsed if the id belongs to another redrive.
        """
        return self.wiring.redrives.start(
            wanted,
            rate=rate,
            canary=canary,
            abort_above=abort_above,
            owner=owner,
            actor=actor,
            reason=reason,
            dry_run=dry_run,
            request_id=request_id,
        )

    def bulk(
        self,
        verb: str,
        wanted: JobFilter | None = None,
        *,
        ids: Sequence[str] | None = None,
        delay: Duration | None = None,
        rate: Rate | float | str = "500/s",
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Cancel, snooze or run many jobs: `"cancel"`, `"snooze"` or `"run_now"`. Workers carry it out.

            app.bulk("cancel", JobFilter(kind="convert"), actor="ann", reason="wrong input")
            app.bulk("snooze", ids=["…", "…"], delay="1h")

        It includes jobs enqueued before now and in a state in which the move is possible; failed and cancelled jobs
        are run again only if `ids` or the filter's `state` ask for them. Each job is moved as by `cancel`, `snooze` or
        `run_now`; one that cannot be moved is skipped, with the reason. `dry_run=True` only counts the jobs. The
        answer is a durable record like that of `redrive`, with the same verbs: `redrive_status`, `cancel_redrive`.
        Raises BadArgument, BadFilter or BadRate for terms that cannot work, and RequestIdUsed if the id belongs to
        another operation.
        """
        return self.wiring.redrives.start_bulk(
            verb,
            wanted,
            ids=ids,
            delay=delay,
            rate=rate,
            owner=owner,
            actor=actor,
            reason=reason,
            dry_run=dry_run,
            request_id=request_id,
        )

    def forget_owner(
        self,
        owner: str,
        *,
        actor: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        request_id: str | None = None,
    ) -> Redrive:
        """Cancel all jobs of an owner and delete everything stored about it. Workers carry it out.

            begun = app.forget_owner("acme", actor="ann", reason="account closed")
            print(app.redrive_status(begun.id).purged)

        Live jobs are cancelled; running ones are waited for. Jobs, events, batches, spending, submissions, shares,
        limits and stored answers of the owner are deleted, whatever their retention or dedupe keys. Jobs that come
        meanwhile are included, for at most 15 minutes; later ones stay, and so do live jobs whose row is damaged.
        `because` says what stayed. While it is under way, a repeated call returns the same operation; with
        `request_id`, also later. Its record and events keep the owner's name. `dry_run=True` only counts the jobs.
        Raises BadArgument for an empty name.
        """
        return self.wiring.redrives.forget(owner, actor=actor, reason=reason, dry_run=dry_run, request_id=request_id)

    def redrives(self, *, owner: str | None = None, limit: int = 50) -> list[Redrive]:
        """Return redrives and bulk operations, newest first."""
        return self.wiring.redrives.search(owner=owner, limit=limit)

    def redrive_status(self, redrive_id: str, *, owner: str | None = None) -> Redrive:
        """Return a redrive with its progress. Raises RedriveNotFound."""
        return self.wiring.redrives.find(redrive_id, owner=owner)

    def cancel_redrive(
        self,
        redrive_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Redrive:
        """End a redrive. Jobs that it has retried stay retried. A redrive that is over does not change.

        Raises RedriveNotFound.
        """
        return self.wiring.redrives.cancel(redrive_id, owner=owner, actor=actor, reason=reason, request_id=request_id)

    def reclassify(
        self,
        wanted: JobFilter | None = None,
        *,
        dry_run: bool = True,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        limit: int = 1_000,
        request_id: str | None = None,
    ) -> Reclassification:
        """Classify the last failure of failed jobs again, by the current rules and policies.

        With `dry_run=False`, jobs that would now be retried are retried manually. The answer names those that could
        not be, each with the reason. Raises BadFilter for a filter of another state.
        """
        return self.wiring.reclassifier.reclassify(
            wanted, dry_run=dry_run, owner=owner, actor=actor, reason=reason, limit=limit, request_id=request_id
        )

    def stuck(self, *, owner: str | None = None, limit: int = 50) -> list[Job[Any]]:
        """Return jobs that run longer than the stuck limit and than their own timeout, longest first."""
        return self.wiring.stuck.find(owner=owner, limit=limit)

    def process_stuck(
        self,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        limit: int = 200,
        request_id: str | None = None,
    ) -> list[Job[Any]]:
        """Take stuck jobs from their workers and settle each as a TIMEOUT failure through its policy; those jobs.

        A worker that settles such a job first wins; one that settles it later is refused. The reason is stored in the
        technical detail of each failure.
        """
        return self.wiring.stuck.process(owner=owner, actor=actor, reason=reason, limit=limit, request_id=request_id)

    def export(
        self, wanted: JobFilter | None = None, *, owner: str | None = None, events: bool = False
    ) -> Iterator[ExportedJob]:
        """Iterate over all matching jobs, newest first; with `events=True`, each with its history.

            for exported in app.export(JobFilter(state="failed"), events=True):
                print(exported.job.id, len(exported.events))

        Raises StoreDamaged at the end if some rows could not be read.
        """
        return self.wiring.dead_letters.export(wanted, owner=owner, events=events)

    def purge(
        self,
        wanted: JobFilter,
        *,
        older_than: Duration,
        owner: str | None = None,
        dry_run: bool = True,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Purge:
        """Delete jobs that have been over for at least `older_than`, with their histories.

            app.purge(JobFilter(state="failed"), older_than="90d", dry_run=False, actor="ann")

        By default nothing is deleted, only counted. Jobs whose dedupe key is still in force, and members of a batch
        that is not over, stay. Raises BadFilter for a state that is not final.
        """
        return self.wiring.dead_letters.purge(
            wanted,
            older_than=older_than,
            owner=owner,
            dry_run=dry_run,
            actor=actor,
            reason=reason,
            request_id=request_id,
        )

    # Batches

    def batch(
        self,
        name: str,
        *,
        owner: str = "",
        expires_in: Duration | None = None,
        on_settled: Task[..., Any, Any] | None = None,
        success_at: float = 1.0,
        abort_above: float | None = None,
        request_id: str | None = None,
    ) -> Batch:
        """Create a draft of a batch.

            batch = app.batch("import", on_settled=report)
            batch.add(convert.bind("a.pdf"), convert.bind("b.pdf"))
            batch.publish()

        The members wait until it is published. When all are over, the batch is `ready` if at least the fraction
        `success_at` succeeded, `failed` if none did, and `partial` otherwise; then the task `on_settled` is enqueued
        with the id of the batch. If more than the fraction `abort_above` failed, members that have not started are
        cancelled. A batch that is settled becomes `expired` after `expires_in`, counted from now.
        Raises BadBatch for terms that cannot work.
        """
        return self.wiring.batches.create(
            name,
            owner=owner,
            expires_in=expires_in,
            on_settled=on_settled,
            success_at=success_at,
            abort_above=abort_above,
            request_id=request_id,
        )

    def find_batch(self, batch_id: str, *, owner: str | None = None) -> Batch:
        """Return one batch with its counts. Raises BatchNotFound."""
        return self.wiring.batches.find(batch_id, owner=owner)

    def batches(
        self,
        *,
        state: BatchState | str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Batch]:
        """Return batches, newest first. `limit` is at most 1,000; `cursor` is the id of the last batch seen."""
        return self.wiring.batches.search(state=state, owner=owner, limit=limit, cursor=cursor)

    def publish_batch(
        self, batch_id: str, *, owner: str | None = None, actor: str | None = None, request_id: str | None = None
    ) -> Batch:
        """Count the members of a draft and let them run. A published batch does not change.

        Raises BatchNotFound.
        """
        return self.wiring.batches.publish(batch_id, owner=owner, actor=actor, request_id=request_id)

    def retry_batch(
        self,
        batch_id: str,
        *,
        cancelled: bool = False,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Retried:
        """Retry all failed members in one step, with `cancelled=True` the cancelled ones too.

        The answer names the members that were skipped, each with the reason. Raises BatchNotFound and BatchExpired.
        """
        return self.wiring.batches.retry(
            batch_id, cancelled=cancelled, owner=owner, actor=actor, reason=reason, request_id=request_id
        )

    def cancel_batch(
        self,
        batch_id: str,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Batch:
        """Cancel all members that are not over. Running ones are asked to stop. Raises BatchNotFound."""
        return self.wiring.batches.cancel(batch_id, owner=owner, actor=actor, reason=reason, request_id=request_id)

    # Services, limits and pauses

    def services(self) -> list[ServiceStatus]:
        """Return every service that a task names, that is configured, or that the store knows, by name."""
        return self.wiring.services.list_services()

    def service(self, name: str) -> ServiceHandle:
        """Return one service, to read its status or to force its circuit breaker.

            app.service("gateway").open(actor="ann", reason="maintenance")
            app.service("gateway").auto()

        Raises UnknownService for a name that neither the app nor the store knows.
        """
        return self.wiring.services.handle(name)

    def limits(self, *, owner: str | None = None) -> list[LimitRecord]:
        """Return the limits in force and how many slots of each are taken; with `owner`, also that owner's."""
        return self.wiring.limits.list_limits(owner=owner)

    def default_owner_limit(self) -> int | None:
        """Return the limit of owners that have none of their own, or None: `Owner("*", concurrency=…)`."""
        return self.wiring.limits.default_for_owners()

    def limits_in_force(self) -> LimitBook:
        """Return the limits of kinds, queues and owners, and the retry budgets, from code and policies file."""
        return self.wiring.limits_in_force()

    def budgets(self) -> list[SpendingRecord]:
        """Return the owners that have a retry budget of their own, and what their automatic retries have cost of it."""
        return self.wiring.limits.list_budgets()

    def spending(self, owner: str) -> SpendingRecord | None:
        """Return what the automatic retries of an owner have cost of its budget; None if it has no budget."""
        return self.wiring.limits.spending(owner)

    def queues(self) -> list[QueueStatus]:
        """Return every queue with its ready and running jobs, since when the oldest waits, its workers and its pause.

        The numbers are exact up to 10,000 ready jobs in all. Above, `at_least` is True where there are more.
        """
        return self.wiring.queues.list_queues()

    def pauses(self) -> list[Pause]:
        """Return all pauses in force: queues, kinds, services, duties, schedules and intake."""
        return self.wiring.pauses.list_pauses()

    def pause(
        self,
        duration: Duration | None = None,
        *,
        queue: str | None = None,
        kind: str | None = None,
        service: str | None = None,
        duty: str | None = None,
        schedule: str | None = None,
        intake: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Pause:
        """Pause a queue, a kind, a service, a duty or a schedule in all workers, for `duration` or until resumed.

            app.pause("30m", queue="bulk", actor="ann", reason="database maintenance")

        Running jobs go on. A paused duty or schedule can still be run manually. `intake` is a task, a queue or `"*"`:
        new jobs of it are refused with IntakePaused, and everything else goes on. Raises UnknownQueue, UnknownKind,
        UnknownService, UnknownDuty, UnknownSchedule or UnknownIntake for a name that does not exist.
        """
        return self.wiring.pauses.pause(
            duration,
            queue=queue,
            kind=kind,
            service=service,
            duty=duty,
            schedule=schedule,
            intake=intake,
            actor=actor,
            reason=reason,
            request_id=request_id,
        )

    def resume(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        service: str | None = None,
        duty: str | None = None,
        schedule: str | None = None,
        intake: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        request_id: str | None = None,
    ) -> Pause | None:
        """End a pause and return it; None if there was none. Raises the same errors as `pause`."""
        return self.wiring.pauses.resume(
            queue=queue,
            kind=kind,
            service=service,
            duty=duty,
            schedule=schedule,
            intake=intake,
            actor=actor,
            reason=reason,
            request_id=request_id,
        )

    # Schedules, duties and workers

    def schedules(self) -> list[ScheduleStatus]:
        """Return every schedule with its next ticks, its last run and its pause."""
        return self.wiring.schedules.list_schedules()

    def run_schedule(
        self, name: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> Job[Any]:
        """Enqueue the job of a schedule now, even if it is paused. Its next tick does not change.

        Raises UnknownSchedule, and BadSchedule if this app does not define it.
        """
        return self.wiring.schedules.run(name, actor=actor, reason=reason, request_id=request_id)

    def remove_schedule(
        self, name: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> None:
        """Delete a schedule that no code defines any more. Its jobs stay.

        Raises UnknownSchedule, and ScheduleInUse while this app or a worker defines it.
        """
        self.wiring.schedules.remove(name, actor=actor, reason=reason, request_id=request_id)

    def duties(self) -> list[DutyStatus]:
        """Return every duty with its interval, its last run, its next run and its pause."""
        return self.wiring.duties.list_duties()

    def run_duty(
        self, name: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> DutyRun:
        """Run a duty once in this process, even if it is paused: `app.run_duty("prune", actor="ann")`.

        The returned round says how many jobs it moved. Raises UnknownDuty.
        """
        return self.wiring.duties.run(name, actor=actor, reason=reason, request_id=request_id)

    def tick(self) -> int:
        """Do once what every worker does each second, and return how many jobs and batches were moved.

        It enqueues the jobs of due schedules and the probes of services, advances redrives, and expires jobs and
        batches.
        """
        ticker = self.wiring.duty_builder.ticker()
        did = ticker.run_now()
        ticker.record_runs()
        return did

    def workers(self) -> list[WorkerRecord]:
        """Return the workers that the store knows, each with its host, process id, last beat and jobs."""
        return self.store.workers()

    def doctor(self, limits: Limits | None = None) -> list[Finding]:
        """Examine store, workers and jobs. Each finding says what is wrong, if anything, and the remedy.

        Nothing is changed. `limits` sets from when on a finding is a warning or a problem.
        """
        return self.wiring.doctor.examine(limits)

    def readiness(self, limits: Limits | None = None) -> list[Component]:
        """Examine what this installation needs: store, schema, workers, projection, notifications, and each duty.

        These are the checks of `doctor` that cost the same however many jobs there are; `GET /readyz` shows them.
        """
        return self.wiring.doctor.check_components(limits)

    def alerts(self) -> AlertBoard:
        """Return all alerts, firing ones first, and their rules.

            for alert in app.alerts().firing:
                print(alert.check, alert.since, alert.found)

        Workers evaluate them by the duty `alert`. If none does (`is_stale`), the doctor examines the store now.
        """
        return self.wiring.alerts.read()

    def set_alert(
        self,
        check: str,
        *,
        threshold: Duration | None = None,
        level: str | None = None,
        after: Duration | None = None,
        resolve_after: Duration | None = None,
        is_on: bool | None = None,
        actor: str | None = None,
        reason: str | None = None,
        is_audited: bool = False,
        request_id: str | None = None,
    ) -> AlertRule:
        """Set the terms of an alert rule in all workers, and return the rule.

            app.set_alert("jobs.depth", threshold=5_000, after="10m", actor="ann")

        The terms are those of `Alert(…)`. They replace all that were set before: what is not given is as in the code,
        or as by default. `mulligan doctor` goes by the same thresholds. With `is_audited`, the caller has recorded the
        change. Raises UnknownCheck or BadAlertTerm.
        """
        return self.wiring.alerts.set_rule(
            check,
            threshold=threshold,
            level=level,
            after=after,
            resolve_after=resolve_after,
            is_on=is_on,
            actor=actor,
            reason=reason,
            is_audited=is_audited,
            request_id=request_id,
        )

    def silence_alert(
        self,
        check: str,
        duration: Duration | None = None,
        *,
        actor: str | None = None,
        reason: str | None = None,
        is_audited: bool = False,
        request_id: str | None = None,
    ) -> AlertRule:
        """Do not notify of an alert for a time; without a duration, until `unsilence_alert`. It is shown as before.

        If it still fires when the silence ends, it is notified then. Raises UnknownCheck.
        """
        return self.wiring.alerts.silence(
            check, duration, actor=actor, reason=reason, is_audited=is_audited, request_id=request_id
        )

    def unsilence_alert(
        self, check: str, *, actor: str | None = None, is_audited: bool = False, request_id: str | None = None
    ) -> AlertRule:
        """End the silence of an alert. Raises UnknownCheck."""
        return self.wiring.alerts.unsilence(check, actor=actor, is_audited=is_audited, request_id=request_id)

    def policies_in_force(self, kind: str | None = None, *, of_owner: str = "") -> PoliciesInForce:
        """Return the retry policy of each task, or of one: code and policies file, for the jobs of one owner.

            for policy in app.policies_in_force(of_owner="acme").policies:
                print(policy.kind, *policy.in_words)

        Raises UnknownKind.
        """
        return self.wiring.policy_console.find(kind, of_owner=of_owner)

    def packs(self) -> list[PackStatus]:
        """Return the packs of rules that are installed, in the order in which they are tried: after the rules of the
        policies file, of the task and of the app."""
        return self.wiring.policy_console.packs()

    # Access to the HTTP API

    def create_key(
        self,
        *,
        owner: str | None,
        name: str,
        scopes: Iterable[Scope | str] | None = None,
        expires_in: Duration | None = None,
        within: Collection[Scope] | None = None,
        expires_before: datetime | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedKey:
        """Create a key of the HTTP API. Its token is in the answer, and is not stored: it cannot be shown again.

            created = app.create_key(owner="acme", name="import", scopes=["jobs:read", "jobs:enqueue"])
            print(created.token)

        `owner`      whose jobs the key can reach; None: those of all owners, as an administrator
        `name`       for people: what the key is used for
        `scopes`     what it allows; default: to read, enqueue, retry and cancel jobs; an administrator's: everything
        `expires_in` how long it is valid, such as "90d"; default: until it is revoked
        `within`     the scopes that the new key may have at most; default: no bound
        `expires_before` the new key expires at this time at the latest; default: no bound
        `is_audited` True: the caller has recorded the change in the audit; default: it is recorded here

        Raises KeyNotAllowed for scopes that the key cannot have. A repeated `request_id` raises KeyExists, because the
        token is not shown again.
        """
        return self.wiring.keys.create(
            owner=owner,
            name=name,
            scopes=scopes,
            expires_in=expires_in,
            within=within,
            expires_before=expires_before,
            is_audited=is_audited,
            actor=actor,
            request_id=request_id,
        )

    def keys(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[Key]:
        """Return keys by id, also revoked and expired ones. `cursor` is the id of the last key seen."""
        return self.wiring.keys.list_keys(owner=owner, limit=limit, cursor=cursor)

    def sign_in_link(
        self,
        key_id: str,
        *,
        owner: str | None = None,
        within: Collection[Scope] | None = None,
        is_audited: bool = False,
        actor: str | None = None,
    ) -> str:
        """Return a token that signs in to the dashboard with this key, valid once and for ten minutes. Its address is
        `/sign-in?link=TOKEN`. Raises KeyNotFound for a key that is unknown, expired, revoked or of another owner, and
        KeyNotAllowed for one with scopes beyond `within`."""
        return self.wiring.web_sessions.offer_link(
            key_id, owner=owner, within=within, is_audited=is_audited, actor=actor
        )

    def revoke_key(
        self,
        key_id: str,
        *,
        owner: str | None = None,
        within: Collection[Scope] | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Key:
        """Revoke a key and return it. Within a second, every server refuses it.

        `within` are the scopes of the caller's key: one that has others is refused; default: no bound. Raises
        KeyNotFound and KeyNotAllowed.
        """
        return self.wiring.keys.revoke(
            key_id, owner=owner, within=within, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def find_key(self, token: str) -> Key:
        """Return the key of a token. Raises KeyRefused for a token that is unknown, revoked or expired."""
        return self.wiring.keys.find(token)

    def audit(self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None) -> list[AuditEntry]:
        """Return changes made through the HTTP API, and changes of keys, newest first.

        With `owner`, those made by keys of this owner. `cursor` is the id of the last entry seen.
        """
        return self.wiring.audit.list_entries(owner=owner, limit=limit, cursor=cursor)

    # Notifications

    def subscribe(
        self,
        name: str,
        *,
        types: Iterable[str],
        channel: str,
        to: str,
        owner: str | None = None,
        digest: Duration | UnsetType | None = UNSET,
        kind: str | None = None,
        queue: str | None = None,
        batch: str | None = None,
        code: str | None = None,
        group: str | None = None,
        of_owner: str | None = None,
        tag: str | None = None,
        for_owner: bool = False,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedSubscription:
        """Store a subscription: from now on, matching events are told by mail or webhook.

            created = app.subscribe("failures", types=["job.failed"], channel="email", to="ops@example.org")
            created = app.subscribe("ready", types=["batch.settled"], channel="webhook", to="https://example.org/hook")
            print(created.secret)

        `types`      names of events, such as "job.failed"
        `channel`    "email" or "webhook"
        `to`         an address of mail, or a URL
        `owner`      whose events; then the subscription belongs to that owner; default: those of all owners
        `digest`     how long like failures are collected after the first, which is told at once; None: each is told at
                     once, as far as the recipient's mails of an hour allow; default: "5m" for mail
        `kind`, `queue`, `batch`, `code`, `group`, `of_owner`, `tag`   only events with these
        `for_owner`  True: the owner itself subscribes, which mails do not allow; default: an administrator does
        `is_audited` True: the caller has recorded the change in the audit; default: it is recorded here

        The secret that signs webhooks is in the answer, and is not shown again. Raises BadSubscriptionOption,
        SubscriptionExists, TooManySubscriptions or SubscriptionNotAllowed.
        """
        chosen = {
            "kind": kind, "queue": queue, "batch": batch, "code": code, "group": group, "of_owner": of_owner, "tag": tag
        }  # fmt: skip
        return self.wiring.subscriptions.create(
            name,
            types=types,
            channel=channel,
            to=to,
            owner=owner,
            digest=digest,
            fields=chosen,
            for_owner=for_owner,
            is_audited=is_audited,
            actor=actor,
            request_id=request_id,
        )

    def subscriptions(
        self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> list[SubscriptionRecord]:
        """Return subscriptions by id, those of the code and disabled ones too. `cursor` is the last id seen."""
        return self.wiring.subscriptions.list_all(owner=owner, limit=limit, cursor=cursor)

    def subscription(self, subscription: str, *, owner: str | None = None) -> SubscriptionRecord:
        """Return one subscription. Raises SubscriptionNotFound."""
        return self.wiring.subscriptions.find(subscription, owner=owner)

    def unsubscribe(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        """Remove a subscription. What was not sent yet is skipped; the log of its deliveries stays.

        Raises SubscriptionNotFound, and SubscriptionNotAllowed for one in the code of an app: disable it instead.
        """
        return self.wiring.subscriptions.remove(
            subscription, owner=owner, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def disable_subscription(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        reason: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        """Stop telling a subscription; what was not sent yet is skipped. Raises SubscriptionNotFound."""
        return self.wiring.subscriptions.disable(
            subscription, owner=owner, reason=reason, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def enable_subscription(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> SubscriptionRecord:
        """Tell a disabled subscription again, from now on. Raises SubscriptionNotFound."""
        return self.wiring.subscriptions.enable(
            subscription, owner=owner, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def rotate_secret(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedSubscription:
        """Give a webhook a new secret, which is in the answer. For a day, the previous one signs as well.

        Raises SubscriptionNotFound, and SubscriptionNotAllowed for mails.
        """
        return self.wiring.subscriptions.rotate(
            subscription, owner=owner, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def test_subscription(
        self,
        subscription: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Delivery:
        """Send a sample to the recipient of a subscription, by a worker. `app.delivery(id)` shows what came of it.

        Raises SubscriptionNotFound, and SubscriptionNotAllowed if a function of the code finds the recipient.
        """
        return self.wiring.subscriptions.test(
            subscription, owner=owner, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def deliveries(
        self,
        *,
        subscription: str | None = None,
        state: str | None = None,
        about: str | None = None,
        digest: str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Delivery]:
        """Return what subscriptions were told, newest first: sent, waiting, failed, skipped, or told in a digest.

        `state`  "pending", "delivered", "failed", "skipped" or "suppressed"
        `about`  the id of the job or batch that the event is about
        `digest` the id of a digest: the deliveries that it tells of
        `cursor` the id of the last delivery seen
        """
        return self.wiring.deliveries.list_all(
            subscription=subscription,
            state=state,
            about=about,
            digest=digest,
            owner=owner,
            limit=limit,
            cursor=cursor,
        )

    def delivery(self, delivery: str, *, owner: str | None = None) -> Delivery:
        """Return one delivery, with the body that is sent. Raises DeliveryNotFound."""
        return self.wiring.deliveries.find(delivery, owner=owner)

    def redeliver(
        self,
        delivery: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> Delivery:
        """Send the same body under the same id again. One that is pending or told in a digest does not change.

        Raises DeliveryNotFound.
        """
        return self.wiring.deliveries.redeliver(
            delivery, owner=owner, is_audited=is_audited, actor=actor, request_id=request_id
        )

    def create_hook(
        self,
        name: str,
        *,
        group: str | None = None,
        batch: str | None = None,
        owner: str | None = None,
        within: Collection[Scope] | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> CreatedHook:
        """Create an incoming hook: a signed call of `POST /hooks/{id}` retries the failed jobs of a group or a batch.

            created = app.create_hook("partner is back", group="3f2a…")
            print(created.hook.id, created.secret)

        The jobs are retried as by `app.redrive`, with its default rate and canaries. The secret is in the answer, and
        is not shown again. `within` are the scopes of the caller's key; default: no bound. Raises
        BadSubscriptionOption, GroupNotFound, BatchNotFound, HookExists, TooManyHooks, or SubscriptionNotAllowed.
        """
        return self.wiring.incoming.create(
            name,
            group=group,
            batch=batch,
            owner=owner,
            within=within,
            is_audited=is_audited,
            actor=actor,
            request_id=request_id,
        )

    def incoming_hooks(
        self, *, owner: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> list[IncomingHook]:
        """Return incoming hooks by id. `cursor` is the id of the last hook seen."""
        return self.wiring.incoming.list_all(owner=owner, limit=limit, cursor=cursor)

    def remove_hook(
        self,
        hook: str,
        *,
        owner: str | None = None,
        is_audited: bool = False,
        actor: str | None = None,
        request_id: str | None = None,
    ) -> IncomingHook:
        """Remove an incoming hook. Raises HookNotFound."""
        return self.wiring.incoming.remove(hook, owner=owner, is_audited=is_audited, actor=actor, request_id=request_id)

    def receive_hook(self, hook: str, headers: Mapping[str, str], body: bytes, *, ip: str | None = None) -> Redrive:
        """Carry out a call of an incoming hook, for web applications that receive it themselves.

        The signature is that of Standard Webhooks, and its time must be within five minutes. The same call again
        returns the same redrive. Raises HookRefused or HookCalledTooOften.
        """
        return self.wiring.incoming.receive(hook, headers, body, ip=ip)

    def names(self) -> Names:
        """Return the names of this app that a policies file can refer to: kinds, queues and services."""
        return self.wiring.names()

    # Work

    @check(concurrency=CONCURRENCY, queues=QUEUES)
    def run(self, *, concurrency: int | None = None, queues: Sequence[str] | None = None) -> None:
        """Run a worker in this process until SIGTERM or Ctrl-C. It finishes its running jobs first.

            app.run(concurrency=20, queues=["default", "bulk"])

        A second signal releases the running jobs for other workers. Call it in the main thread. Raises what keeps a
        worker from starting, such as BadPolicies, SchemaMismatch or LifespanFailed.
        """
        self.wiring.loop.run_until_signal(self.wiring.build_worker(concurrency, queues))

    @check(concurrency=CONCURRENCY, queues=QUEUES)
    @asynccontextmanager
    async def worker(
        self, *, concurrency: int | None = None, queues: Sequence[str] | None = None
    ) -> AsyncIterator[Worker]:
        """Run a worker on the current event loop, for example in the lifespan of a web framework.

            async with app.worker(concurrency=5):
                yield

        Leaving the block stops claiming and waits for the running jobs.
        """
        worker = self.wiring.build_worker(concurrency, queues)
        async with self.wiring.loop.run_alongside(worker):
            yield worker

    def asgi(self) -> Any:
        """Return the HTTP API as an ASGI application, to be served alone or mounted in another application.

            app = FastAPI()
            app.mount("/ops", jobs.asgi())

        `mulligan serve MODULE:APP` serves it alone. It needs the extra `web`: `pip install 'mulligan[web]'`. Raises
        ConfigurationError without it.
        """
        with _extra_needed():
            from mulligan.web import asgi
        return asgi(self)

    @check(
        host=STRING,
        port=PORT,
        root_path=ROOT_PATH,
        with_worker=FLAG,
        concurrency=CONCURRENCY,
        announce=BY_THE_CALL,
        application=BY_THE_CALL,
        mounted_at=ROOT_PATH,
    )
    def serve(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        root_path: str = "",
        with_worker: bool = False,
        concurrency: int | None = None,
        announce: Callable[[str, str | None], object] = print,
        application: Any = None,
        mounted_at: str = "",
    ) -> None:
        """Serve the HTTP API until SIGTERM or Ctrl-C; with `with_worker=True`, run a worker in the same process.

            app.serve(port=8080, with_worker=True)

        `root_path` is the path below which a proxy offers the API, such as `/ops`; the proxy strips it. `announce` is
        called once the address can be used: with the address, and with the link that makes a first administrator's
        key, or None if there are keys. `application` is another ASGI application that is served instead; if it mounts
        `app.asgi()`, `mounted_at` is where. Call it in the main thread. Raises ConfigurationError if the address cannot
        be used, or for an address beyond this machine without credentials.
        """
        with _extra_needed():
            from mulligan.web.serving import serve
        serve(
            self,
            host=host,
            port=port,
            root_path=root_path,
            with_worker=with_worker,
            concurrency=concurrency,
            announce=announce,
            application=application,
            mounted_at=mounted_at,
        )

    @check(retries=FLAG, timeout=BY_THE_CALL, concurrency=CONCURRENCY)
    def run_until_idle(
        self,
        *,
        retries: bool = False,
        timeout: Duration | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Run a worker until no job of this app is queued or running; for scripts and tests.

        With `retries=True`, also until no job waits for a retry. Raises TimeoutError, with the number of unfinished
        jobs, after `timeout`.
        """
        self.wiring.run_until_idle(retries=retries, timeout=timeout, concurrency=concurrency)


@contextmanager
def _extra_needed() -> Iterator[None]:
    """Name the extra if one of its packages is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "mulligan":
            raise
        raise ConfigurationError(f"the HTTP API needs {error.name}: pip install 'mulligan[web]'") from None


class Decorator(Protocol):
    """What `@app.task(…)` returns: it keeps the signature of the function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    def __call__(self, function: Any, /) -> Any: ...
