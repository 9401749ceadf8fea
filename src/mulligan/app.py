"""App: the front door. It wires and delegates; it has no logic of its own."""

import asyncio
import math
import os
import random
import signal
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar, overload

from mulligan.console.arguments import checked
from mulligan.console.batches import Batch
from mulligan.console.console import Console
from mulligan.console.dead_letters import Letter, Purge
from mulligan.console.doctor import Doctor
from mulligan.console.duties import DutyPlan, DutyStatus, Roster
from mulligan.console.reclassify import Reclassification
from mulligan.console.schedules import Agenda, ScheduleStatus
from mulligan.console.services import ServiceHandle, Switchboard
from mulligan.console.stuck import Stuck
from mulligan.duties.expire import Expire
from mulligan.duties.probe import TIMEOUT_SECONDS, Probe, ProbeTask, has_probes
from mulligan.duties.promote import Promote
from mulligan.duties.prune import Prune
from mulligan.duties.reclaim import Reclaim
from mulligan.duties.redrive import RunRedrives
from mulligan.duties.runner import DutyGroup, DutyRunner, DutyWork, PendingDuties, RunRecorder
from mulligan.duties.schedule import RunSchedules
from mulligan.errors import BadSchedule, JobCancelled, JobFailed
from mulligan.explain import Explanation
from mulligan.failure.catalogue import Catalogue, ErrorCode
from mulligan.failure.classify import AnyRule
from mulligan.failure.packs.installed import packs
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.redact import Secret, password_of, redact
from mulligan.failure.rule import check_rules
from mulligan.judge import Judge
from mulligan.lifecycle import LIVE, State
from mulligan.policies import Names, Owner, PolicyFile, Queue, Quotas
from mulligan.records.batch import BatchState
from mulligan.records.duty import RETRY_REASONS
from mulligan.records.event import Event
from mulligan.records.finding import Finding, Limits
from mulligan.records.job import DEFAULT_QUEUE, Job, JobFilter, Page
from mulligan.records.limit import LimitBook, LimitRecord, SpendingRecord
from mulligan.records.pause import Pause
from mulligan.records.rate import Rate
from mulligan.records.redrive import Redrive
from mulligan.service import Service, ServiceBook
from mulligan.service.records import PROBE_KIND, ServiceStatus
from mulligan.settings import Settings, load
from mulligan.store import has_database, open_store
from mulligan.store.messages import Changes
from mulligan.store.store import Store
from mulligan.task.checks import CanRetry, Priority, ServiceName, check_version
from mulligan.task.client import Client
from mulligan.task.registry import Registry
from mulligan.task.schedule import Schedule, Timetable
from mulligan.task.task import DEFAULT_TIMEOUT, Binding, Task, check_bindings
from mulligan.values.clock import Clock, Ids, SystemClock, system_randomness
from mulligan.values.duration import Duration, describe, parse
from mulligan.worker.children.locate import end_reading, locate_app
from mulligan.worker.children.pool import ChildPool
from mulligan.worker.drivers import Driver, ThreadDriver
from mulligan.worker.forks import Executor, hide_signals_from_forks
from mulligan.worker.hooks import Hook, Hooks, enter_lifespan
from mulligan.worker.keeper import BEATS_PER_LEASE
from mulligan.worker.loop_guard import guard_loop, run_to_end
from mulligan.worker.settler import BATCH
from mulligan.worker.tuning import collect_every_second, collect_less, shorten_turns
from mulligan.worker.worker import Duty, Worker, WorkerOptions

P = ParamSpec("P")
R = TypeVar("R")
AnyTask = TypeVar("AnyTask", bound=Task[..., Any, Any])
H = TypeVar("H", bound=Callable[..., Any])

LONGEST_WAIT = 60.0
STOPPING = (signal.SIGTERM, signal.SIGINT)


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed (`mulligan[fast]`): less work for tiny jobs."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


@dataclass(frozen=True, slots=True)
class Parts:
    """What an app is made of. The sandbox puts others in their place."""

    open_store: Callable[[str, Callable[[], ServiceBook]], Store] | None = None
    """Instead of the one that the URL names."""
    changes: Callable[[Store], Changes] = field(default=lambda store: store.changes())
    driver: Callable[[], Driver] = ThreadDriver
    loop: Callable[[], asyncio.AbstractEventLoop] = _new_loop
    clock: Clock = field(default_factory=SystemClock)
    randomness: random.Random = field(default_factory=system_randomness)
    uses_connections: bool = True
    isolates: bool = True
    at_once: int = BATCH
    """How many a worker claims, or settles."""


class App:
    """Tasks, a store, and all that can be done with them. Connects when first needed.

    `url`       database URL such as `sqlite:///jobs.db` or `postgresql://…`; the settings may override it
    `rules`     `Rule(…)` values or functions of a `Failure` that classify failures, after those of the task
    `catalogue` `ErrorCode(…)` values: codes of your own, or other messages for built-in ones
    `services`  `Service(…)` values: breaker, pace and budget of the services that tasks call
    `queues`    `Queue(…)` values: which queues are fair, and how many of their jobs may run at once
    `owners`    `Owner(…)` values: weight, concurrency, submit rate and retry budget of owners
    `lifespan`  a context manager that a worker enters before its first job; tasks find its value in
                `attempt().resources`
    `version`   the release of your code, kept with each attempt
    `redact`    strings and compiled patterns to mask in everything that is stored or logged
    `policies`  path of a YAML file that overrides policies, services, queues and owners while workers run
    `settings`  complete `Settings`, instead of those read from the environment and `mulligan.toml`
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
        lifespan: Callable[..., Any] | None = None,
        version: str | None = None,
        redact: Iterable[Secret] = (),
        policies: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
    ) -> None:
        file = None if policies is None else os.fspath(policies)
        self.settings = settings or load({"database_url": url, "policies_file": file})
        self.redact(*password_of(self.settings.database_url), *redact)
        self.tasks = Registry()
        self.timetable = Timetable()
        self.hooks = Hooks(lifespan)
        self.version = check_version(version)
        self.catalogue = Catalogue.default().with_codes(catalogue)
        self._store: Store | None = None
        self._opening = threading.Lock()
        self._use(Parts())
        file = self.settings.policies_file
        self.policies = PolicyFile(None if file is None else Path(file), lambda: self._parts.clock)
        book = ServiceBook(services, default=self.settings.default_service)
        self._services = book
        self.quotas = Quotas(queues, owners, file=self.policies)
        self.judge = Judge(
            self.tasks,
            rules=check_rules(rules, "the rules of the app"),
            catalogue=self.catalogue,
            default=self.settings.default_policy,
            draw=lambda: self._parts.randomness.random(),
            policies=self.policies,
            services=book,
        )
        self.client = Client(
            lambda: self.store,
            lambda: self._ids(),
            self.judge.in_force,
            quotas=self.quotas,
            uses_connections=lambda: self._parts.uses_connections,
        )
        self._probing = self._probe_task() if has_probes(book) else None
        self._stuck = Stuck(lambda: self.store, self.judge, lambda: self.settings.stuck_after_sec)
        self.console = Console(
            lambda: self.store,
            self.tasks,
            lambda: self._ids(),
            judge=self.judge,
            stuck=self._stuck,
            roster=Roster(lambda: self.store, lambda: self._ids(), lambda: self._parts.clock, self._plans),
            agenda=Agenda(lambda: self.store, lambda: self._ids(), self.timetable),
            client=self.client,
            switchboard=Switchboard(lambda: self.store, lambda: self._ids(), self.tasks, self.judge.services),
            queues=lambda: self.quotas.in_force.queues,
            doctor=Doctor(
                lambda: self.store,
                lambda: self._parts.clock,
                has_database=lambda: self.has_database,
                stuck_after=lambda: self.settings.stuck_after_sec,
                policies=self.policies,
                names=self.names,
            ),
        )

    def names(self) -> Names:
        """What of it a policies file can be about; of owners it knows none."""
        tasks = [task for task in self.tasks.values() if task is not self._probing]
        of_tasks = [task.service for task in tasks]
        return Names(
            kinds=self.tasks.kinds,
            queues={DEFAULT_QUEUE, *(task.queue for task in tasks), *self.quotas.named_queues},
            services={
                *filter(None, (one for one in of_tasks if not callable(one))),
                *(one.name for one in self._services),
            },
            is_possible=any(map(callable, of_tasks)),
        )

    def _probe_task(self) -> Task[..., Any, Any]:
        """The task of the engine's own that runs probes."""
        probing = self.task(
            PROBE_KIND,
            retry=RetryPolicy(max_attempts=1),
            service=lambda service: service,
            priority="high",
            timeout=timedelta(seconds=TIMEOUT_SECONDS),
        )
        return probing(ProbeTask(self.judge.services).probe)

    def _use(self, parts: Parts) -> None:
        self._parts = parts
        self._ids = Ids(parts.clock, parts.randomness)

    @contextmanager
    def made_of(self, parts: Parts) -> Iterator[None]:
        """The same app on other parts for a while; the store in use before is left untouched."""
        before, store, self._store = self._parts, self._store, None
        self._use(parts)
        try:
            yield
        finally:
            self.close()
            self._use(before)
            self._store = store

    @property
    def store(self) -> Store:
        with self._opening:
            if self._store is None:
                end_reading()
                self._store = self._open_store()
                self._store.limit_by(self.limits_in_force)
            return self._store

    def _open_store(self) -> Store:
        url, services = self.settings.database_url, self.judge.services
        if self._parts.open_store is not None:
            return self._parts.open_store(url, services)
        return open_store(url, services, self.settings.store_timeout_sec)

    def limits_in_force(self) -> LimitBook:
        """How many jobs may run at once, by kind, queue and owner, and how many retries owners have, as it stands."""
        return self.quotas.limits(self.tasks.concurrency)

    @property
    def has_database(self) -> bool:
        """Whether the database is there already: the first use makes a file that is not."""
        return self._store is not None or has_database(self.settings.database_url)

    def migrate(self) -> list[str]:
        """Bring the database up to date; the names of what was applied. Done at first use on SQLite."""
        return self.store.migrate()

    def check_store(self) -> None:
        """Raise what keeps the store from being used: it is away, or must be migrated first (PostgreSQL)."""
        self.store.now()

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def redact(self, *secrets: Secret) -> None:
        """Mask these texts, and what these compiled patterns match, in all that is kept about failures and logged.

        For the whole process: a secret is one, whichever app speaks of it.
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
        at_most_once: bool = False,
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
        at_most_once: bool = False,
        aliases: Iterable[str] = (),
    ) -> Any:
        """Register a function as a task: `@app.task` or `@app.task(retry=…, timeout=…)`.

        name         what its jobs carry as their kind; the function's own name
        `retry`        RetryPolicy(…): how often and when a failed job is tried again; 4 attempts, from 15 s on
        `rules`        Rule(…) or functions of a Failure, asked before the app's own what a failure is; none
        `service`      what it depends on: a name, or a function of its arguments that gives one; none
        `queue`        where its jobs wait; "default"
        `priority`     "high", "normal", "low" or an integer, lower first; "normal"
        `timeout`      how long an attempt may take; "15m"
        `isolate`      True runs it in a child process, False never does, None only after a lost worker; None
        `memory`       limit of its child process, such as "512M", which implies `isolate`; none
        `cost`         what a retry of it costs its owner's budget; 0
        `concurrency`  how many of its jobs may run at once, over all workers; no limit
        `can_retry`    a function of the job that may raise NotAllowed or InsufficientCredits on a manual retry; none
        `on_failed`    a task that is enqueued with the job's id when a job of this one fails; none
        `at_most_once` True: once its code has begun, nothing but a person runs a job of it again; False
        `aliases`      former names: jobs that were enqueued under them are run too; none

        Queue, priority and more can be given for one call: see `task.options`.
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
                at_most_once=at_most_once,
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
        """Run a task by the clock: `@app.cron("30 2 * * *", timezone="Europe/Berlin")` above `@app.task`.

        Each tick is one job, however many workers there are. `missed` says what becomes of ticks while none ran:
        `"once"` one run for all of them, `"skip"` none, `"all"` one for each, within a bound.
        """

        def schedule(task: AnyTask) -> AnyTask:
            if not isinstance(task, Task) or task.client is not self.client:
                raise BadSchedule(f"@app.cron stands above @app.task of the same app; it was given {task!r:.200}")
            self.timetable.add(Schedule(task, expression, name=name, args=args, timezone=timezone, missed=missed))
            return task

        return schedule

    def around(self, hook: H) -> H:
        """Wrap every attempt, here and in child processes: a function of the attempt that gives a context manager,
        plain or async. The first one is the outermost."""
        self.hooks.around.append(Hook("around", hook))
        return hook

    def enqueue_many(self, bindings: Iterable[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        """Store calls made with `task.bind(…)`, of any kinds, all or none in one transaction.

        `connection` is one of your own: they go into its transaction, as with `task.options(connection=…)`.
        """
        return self.client.enqueue(check_bindings(bindings), connection=connection)

    async def enqueue_many_async(self, bindings: Iterable[Binding[Any]], *, connection: Any = None) -> list[Job[Any]]:
        return await self.client.enqueue_async(check_bindings(bindings), connection=connection)

    def batch(
        self,
        name: str,
        *,
        owner: str = "",
        expires_in: Duration | None = None,
        on_settled: Task[..., Any, Any] | None = None,
        success_at: float = 1.0,
        abort_above: float | None = None,
    ) -> Batch:
        """Draft a batch: add members with `batch.add(task.bind(…), …)`, then `batch.publish()` lets them run.

        When all are over it is `ready` (at least the share `success_at` succeeded), `partial` or `failed` (none did),
        and `on_settled`, a task, is enqueued with the batch's id. When more than the share `abort_above` failed, those
        that do not run are cancelled. `expires_in` counts from now: what is settled by then becomes `expired`.
        """
        return self.console.create_batch(
            name,
            owner=owner,
            expires_in=expires_in,
            on_settled=on_settled,
            success_at=success_at,
            abort_above=abort_above,
        )

    @checked
    def wait(self, job: Job[R] | str, timeout: Duration | None = None) -> R:
        """The job's result. Raises JobFailed, JobCancelled, or TimeoutError when it takes too long."""
        job_id = job if isinstance(job, str) else job.id
        end = None if timeout is None else self._parts.clock.monotonic() + parse(timeout).total_seconds()
        changes = self._parts.changes(self.store)
        try:
            while not (found := self.job(job_id)).state.is_final:
                left = LONGEST_WAIT if end is None else end - self._parts.clock.monotonic()
                if left <= 0:
                    raise TimeoutError(f"job {job_id!r} is still {found.state} after {describe(parse(timeout or 0))}")
                changes.wait(left)
        finally:
            changes.close()
        result: R = self._result(found)
        return result

    async def wait_async(self, job: Job[R] | str, timeout: Duration | None = None) -> R:
        return await asyncio.to_thread(self.wait, job, timeout)

    def _result(self, job: Job[Any]) -> Any:
        match job.state:
            case State.FAILED:
                raise JobFailed(
                    job.id,
                    job.error_code or "",
                    job.error_message or "",
                    error_class=job.error_class,
                    detail=job.error_detail,
                    group=job.group,
                )
            case State.CANCELLED:
                raise JobCancelled(job.id)
        return self.tasks[job.kind].payload.decode_result(job.result) if job.kind in self.tasks else job.result

    # Ask and do: the console's words

    def job(self, job_id: str, *, owner: str | None = None) -> Job[Any]:
        return self.console.job(job_id, owner=owner)

    def jobs(
        self,
        wanted: JobFilter | None = None,
        *,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Any]:
        return self.console.jobs(wanted, owner=owner, limit=limit, cursor=cursor)

    def blocked_by(self, jobs: Sequence[Job[Any]]) -> dict[str, str]:
        return self.console.blocked_by(jobs)

    def find_batch(self, batch_id: str, *, owner: str | None = None) -> Batch:
        return self.console.batch(batch_id, owner=owner)

    def batches(
        self,
        *,
        state: BatchState | str | None = None,
        owner: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> list[Batch]:
        return self.console.batches(state=state, owner=owner, limit=limit, cursor=cursor)

    def export(
        self, wanted: JobFilter | None = None, *, owner: str | None = None, events: bool = False
    ) -> Iterator[Letter]:
        return self.console.export(wanted, owner=owner, events=events)

    def events(
        self, job: str | None = None, *, owner: str | None = None, after: int = 0, limit: int = 500
    ) -> list[Event]:
        return self.console.events(job=job, owner=owner, after=after, limit=limit)

    def explain(self, job_id: str, *, owner: str | None = None) -> Explanation:
        return self.console.explain(job_id, owner=owner)

    def retry(
        self, job_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Job[Any]:
        return self.console.retry(job_id, owner=owner, actor=actor, reason=reason)

    def cancel(
        self, job_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Job[Any]:
        return self.console.cancel(job_id, owner=owner, actor=actor, reason=reason)

    def snooze(
        self,
        job_id: str,
        delay: Duration,
        *,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Job[Any]:
        return self.console.snooze(job_id, delay, owner=owner, actor=actor, reason=reason)

    def run_now(
        self, job_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Job[Any]:
        return self.console.run_now(job_id, owner=owner, actor=actor, reason=reason)

    def reclassify(
        self,
        wanted: JobFilter | None = None,
        *,
        dry_run: bool = True,
        owner: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
        limit: int = 1_000,
    ) -> Reclassification:
        return self.console.reclassify(wanted, dry_run=dry_run, owner=owner, actor=actor, reason=reason, limit=limit)

    def stuck(self, *, owner: str | None = None, limit: int = 50) -> list[Job[Any]]:
        return self.console.stuck(owner=owner, limit=limit)

    def process_stuck(self, *, owner: str | None = None, actor: str | None = None, limit: int = 200) -> list[Job[Any]]:
        return self.console.process_stuck(owner=owner, actor=actor, limit=limit)

    def purge(
        self,
        wanted: JobFilter,
        *,
        older_than: Duration,
        owner: str | None = None,
        dry_run: bool = True,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Purge:
        return self.console.purge(
            wanted, older_than=older_than, owner=owner, dry_run=dry_run, actor=actor, reason=reason
        )

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
        return self.console.redrive(
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

    def redrives(self, *, owner: str | None = None, limit: int = 50) -> list[Redrive]:
        return self.console.redrives(owner=owner, limit=limit)

    def redrive_status(self, redrive_id: str, *, owner: str | None = None) -> Redrive:
        return self.console.redrive_status(redrive_id, owner=owner)

    def cancel_redrive(
        self, redrive_id: str, *, owner: str | None = None, actor: str | None = None, reason: str | None = None
    ) -> Redrive:
        return self.console.cancel_redrive(redrive_id, owner=owner, actor=actor, reason=reason)

    def limits(self) -> list[LimitRecord]:
        return self.console.limits()

    def spending(self, owner: str) -> SpendingRecord | None:
        return self.console.spending(owner)

    def doctor(self, limits: Limits | None = None) -> list[Finding]:
        return self.console.doctor(limits)

    def duties(self) -> list[DutyStatus]:
        return self.console.duties()

    def schedules(self) -> list[ScheduleStatus]:
        return self.console.schedules()

    def run_schedule(self, name: str, *, actor: str | None = None, reason: str | None = None) -> Job[Any]:
        return self.console.run_schedule(name, actor=actor, reason=reason)

    def remove_schedule(self, name: str, *, actor: str | None = None, reason: str | None = None) -> None:
        self.console.remove_schedule(name, actor=actor, reason=reason)

    def services(self) -> list[ServiceStatus]:
        return self.console.services()

    def service(self, name: str) -> ServiceHandle:
        """A service to be looked at or forced; raises UnknownService for one of which nobody has heard."""
        self.console.service(name)
        return ServiceHandle(name, self.console.force_service, self.console.service)

    def pauses(self) -> list[Pause]:
        return self.console.pauses()

    def pause(
        self,
        duration: Duration | None = None,
        *,
        queue: str | None = None,
        kind: str | None = None,
        service: str | None = None,
        duty: str | None = None,
        schedule: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Pause:
        return self.console.pause(
            duration,
            queue=queue,
            kind=kind,
            service=service,
            duty=duty,
            schedule=schedule,
            actor=actor,
            reason=reason,
        )

    def resume(
        self,
        *,
        queue: str | None = None,
        kind: str | None = None,
        service: str | None = None,
        duty: str | None = None,
        schedule: str | None = None,
        actor: str | None = None,
        reason: str | None = None,
    ) -> Pause | None:
        return self.console.resume(
            queue=queue, kind=kind, service=service, duty=duty, schedule=schedule, actor=actor, reason=reason
        )

    # Work

    @checked
    def run(self, *, concurrency: int | None = None, queues: Sequence[str] | None = None) -> None:
        """Run a worker in this process until SIGTERM or Ctrl-C; a second one releases what is in flight."""
        before = {number: signal.getsignal(number) for number in STOPPING}
        try:
            with shorten_turns(), collect_less(), hide_signals_from_forks():
                self._run(self._serve(self._worker(concurrency, queues)), goes_on=True)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    async def _serve(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        for number in STOPPING:
            loop.add_signal_handler(number, worker.stop)
        loop.set_default_executor(Executor(thread_name_prefix="asyncio"))
        collecting = loop.create_task(collect_every_second())
        try:
            with guard_loop(loop, worker.stop):
                async with self._prepared(worker):
                    await worker.run()
        finally:
            collecting.cancel()
            # It has stopped: to be told so again must not cut off what is tidied up now.
            for number in STOPPING:
                loop.remove_signal_handler(number)
                signal.signal(number, signal.SIG_IGN)

    @asynccontextmanager
    async def _prepared(self, worker: Worker) -> AsyncIterator[None]:
        async with enter_lifespan(self.hooks.lifespan, self) as resources:
            await worker.prepare(resources)
            yield

    @checked
    @asynccontextmanager
    async def worker(
        self, *, concurrency: int | None = None, queues: Sequence[str] | None = None
    ) -> AsyncIterator[Worker]:
        """A worker beside other work on this loop; leaving the block drains it."""
        worker = self._worker(concurrency, queues)
        loop = asyncio.get_running_loop()
        with guard_loop(loop, loop.stop):
            async with self._beside(worker):
                yield worker

    @asynccontextmanager
    async def _beside(self, worker: Worker) -> AsyncIterator[None]:
        async with self._prepared(worker):
            running = asyncio.create_task(worker.run())
            try:
                yield
            finally:
                worker.stop()
                await running

    @checked
    def run_until_idle(
        self,
        *,
        retries: bool = False,
        timeout: Duration | None = None,
        concurrency: int | None = None,
    ) -> None:
        """Work until nothing is queued or running; with `retries` also until nothing waits for a retry.

        Raises TimeoutError, with what is left, when that takes longer than `timeout`."""
        waiting_for = RETRY_REASONS if retries else ()
        self._run_until(lambda _: not self.store.busy(self.tasks.kinds, waiting_for=waiting_for), timeout, concurrency)

    def _run_while(self, goes_on: Callable[[], bool], ticker: DutyGroup) -> None:
        """Work until nothing is queued or running, and on from there while `goes_on`, which may move the clock.

        The worker's duties are `ticker` and to take back leases: the others have nothing to do where time is made.
        """

        def is_over(worker: Worker) -> bool:
            if self.store.busy(self.tasks.kinds):
                return False
            if not goes_on():
                return True
            worker.look()
            return False

        def duties(incarnation: str, options: WorkerOptions) -> list[Duty]:
            reclaim = self._duty_runners([self._reclaim(incarnation, options)], ticker.pending, ticker.recorder)
            return [*self._look(), ticker, *reclaim]

        self._run_until(is_over, None, None, duties)

    def _run_until(
        self,
        is_over: Callable[[Worker], bool],
        timeout: Duration | None,
        concurrency: int | None,
        duties: Callable[[str, WorkerOptions], list[Duty]] | None = None,
    ) -> None:
        worker = self._worker(concurrency, None, duties)

        async def work() -> None:
            limit = asyncio.timeout(None if timeout is None else parse(timeout).total_seconds())
            try:
                with guard_loop(asyncio.get_running_loop(), worker.stop):
                    async with self._prepared(worker), limit:
                        await worker.run(until=lambda: is_over(worker))
            except TimeoutError:
                if timeout is None or not limit.expired():
                    raise
                raise TimeoutError(f"not idle after {describe(parse(timeout))}: {self._left()}") from None

        self._run(work())

    def _left(self) -> str:
        """How many jobs of this app are not over, by their states."""
        found = Counter[str]()
        for kind, states in self.store.counts().items():
            found.update(states if kind in self.tasks else {})
        return ", ".join(f"{found[state]:,} {state}" for state in LIVE if found[state]) or "all jobs are over by now"

    def _run(self, work: Coroutine[Any, Any, None], *, goes_on: bool = False) -> None:
        with asyncio.Runner(loop_factory=self._parts.loop) as runner:
            run_to_end(runner, work, goes_on=goes_on)

    def _worker(
        self,
        concurrency: int | None,
        queues: Sequence[str] | None,
        duties: Callable[[str, WorkerOptions], list[Duty]] | None = None,
    ) -> Worker:
        # What cannot work is said now, in one sentence, not in a log that repeats itself.
        for task in self.tasks.values():
            task.prepare()
        packs()
        self.timetable.prepare()
        self.policies.require()
        self.check_store()
        incarnation = self._ids()
        options = WorkerOptions(
            concurrency=concurrency or self.settings.worker_concurrency,
            queues=None if queues is None else tuple(queues),
            lease=self.settings.worker_lease_ttl_sec,
            version=self.version,
            at_once=self._parts.at_once,
        )
        return Worker(
            store=self.store,
            tasks=self.tasks,
            judge=self.judge,
            driver=self._parts.driver(),
            clock=self._parts.clock,
            incarnation=incarnation,
            host=socket.gethostname(),
            pid=os.getpid(),
            options=options,
            duties=(duties or self._duties)(incarnation, options),
            children=self._children() if self._parts.isolates else None,
            around=self.hooks.around,
            fair_queues=self.quotas.fair_queues,
        )

    def _children(self) -> ChildPool:
        return ChildPool(
            lambda: locate_app(self, self.tasks, self.hooks.functions),
            database_url=self.settings.database_url,
            catalogue=self.catalogue,
            clock=self._parts.clock,
            policies=self.policies,
        )

    def _reclaim(self, incarnation: str, options: WorkerOptions) -> Reclaim:
        interval = self.settings.reclaim_interval.total_seconds()
        return Reclaim(
            self.store,
            judge=self.judge,
            clock=self._parts.clock,
            incarnation=incarnation,
            interval=interval,
            # A beat, and once more what the keeper may be late.
            beat=options.lease.total_seconds() / BEATS_PER_LEASE + 2 * interval,
            limit=self.settings.duty_reclaim_limit,
            stuck_after=self.settings.stuck_after_sec,
        )

    def _duties(self, incarnation: str, options: WorkerOptions) -> list[Duty]:
        reclaim = self._reclaim(incarnation, options)
        ticks = [self._tick(incarnation)] if self.timetable else []
        redriving = self._redriving(incarnation)
        probes = self._probes(options.queues[0] if options.queues else None)
        works: list[DutyWork] = [
            reclaim,
            *self._promotions(),
            self._expire(),
            redriving,
            self._prune(),
            *ticks,
            *probes,
        ]
        pending = PendingDuties(self.store, self._parts.clock)
        return self._look() + list(self._duty_runners(works, pending, RunRecorder(self.store, worker=incarnation)))

    def _look(self) -> list[Duty]:
        """At the policies file, if there is one."""
        return [] if self.policies.path is None else [self.policies]

    def _duty_runners(
        self, works: Iterable[DutyWork], pending: PendingDuties, recorder: RunRecorder
    ) -> Iterator[DutyRunner]:
        return (DutyRunner(work, pending=pending, recorder=recorder, clock=self._parts.clock) for work in works)

    def _promotions(self) -> list[Promote]:
        settings = self.settings
        plans = {
            "retry": (settings.duty_retry_interval_sec, settings.duty_retry_limit),
            "promote": (settings.duty_promote_interval_sec, settings.duty_promote_limit),
        }
        return [
            Promote(name, self.store, interval=interval.total_seconds(), limit=limit)
            for name, (interval, limit) in plans.items()
        ]

    def _expire(self) -> Expire:
        interval = self.settings.duty_expire_interval_sec.total_seconds()
        return Expire(self.store, interval=interval, limit=self.settings.duty_expire_limit)

    def tick(self) -> int:
        """Enqueue the jobs of schedules whose tick has come and the probes of services, carry on redrives, and end what
        has run out of time, as every worker does once a second; how many jobs and batches that were."""
        ticker = self._ticker()
        did = ticker.run_now()
        ticker.record_runs()
        return did

    def _ticker(self) -> DutyGroup:
        """What `tick` does, again and again."""
        worker, clock = "no worker", self._parts.clock
        pending, recorder = PendingDuties(self.store, clock), RunRecorder(self.store, worker=worker, every=math.inf)
        tick = self._tick(worker, has_ticks=lambda: pending.now().has_ticks)
        works: list[DutyWork] = [tick, self._redriving(worker), self._expire(), *self._probes()]
        return DutyGroup(
            list(self._duty_runners(works, pending, recorder)), pending=pending, recorder=recorder, clock=clock
        )

    def _tick(self, worker: str, *, has_ticks: Callable[[], bool] = lambda: True) -> RunSchedules:
        interval = self.settings.duty_schedule_interval_sec.total_seconds()
        limit = self.settings.duty_schedule_limit
        return RunSchedules(
            self.store, self.timetable, worker=worker, interval=interval, limit=limit, has_ticks=has_ticks
        )

    def _redriving(self, worker: str) -> RunRedrives:
        interval = self.settings.duty_redrive_interval_sec.total_seconds()
        limit = self.settings.duty_redrive_limit
        clock = self._parts.clock
        return RunRedrives(self.store, self.tasks, clock=clock, worker=worker, interval=interval, limit=limit)

    def _probes(self, queue: str | None = None) -> list[Probe]:
        """The duty, where a service has a probe."""
        if self._probing is None:
            return []
        interval = self.settings.duty_probe_interval_sec.total_seconds()
        limit = self.settings.duty_probe_limit
        return [Probe(self.store, self.judge.services, self._probing, queue=queue, interval=interval, limit=limit)]

    def _prune(self) -> Prune:
        interval = self.settings.duty_prune_interval_sec.total_seconds()
        limit = self.settings.duty_prune_limit
        return Prune(self.store, keep=self.settings.retention, interval=interval, limit=limit)

    def _plans(self) -> dict[str, DutyPlan]:
        """Duties as people run them by hand. Leases that expired are the workers' own business: they alone have
        watched long enough to tell a lost worker from an outage. So `reclaim` by hand is for stuck jobs."""
        limit = self.settings.duty_reclaim_limit
        reclaim = DutyPlan(
            self.settings.reclaim_interval, limit, lambda actor: len(self._stuck.process(actor=actor, limit=limit))
        )
        others: list[Promote | Expire | RunRedrives | Prune | RunSchedules | Probe] = [
            *self._promotions(),
            self._expire(),
            self._redriving("by hand"),
            self._prune(),
            self._tick("by hand"),
            *self._probes(),
        ]
        # Where no service has a probe there is nothing to do.
        nothing = DutyPlan(self.settings.duty_probe_interval_sec, self.settings.duty_probe_limit, lambda _actor: 0)
        return {"reclaim": reclaim, "probe": nothing} | {
            work.name: DutyPlan(timedelta(seconds=work.interval), work.limit, work.run) for work in others
        }


class Decorator(Protocol):
    """What `@app.task(…)` is: it keeps the function's own signature."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...
    def __call__(self, function: Any, /) -> Any: ...
