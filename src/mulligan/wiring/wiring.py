"""Wiring: builds the parts of one app and connects them. The store is opened when it is first needed."""

import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from mulligan.console.alerts import AlertRules, Alerts
from mulligan.console.audit import Audit
from mulligan.console.batches import Batches
from mulligan.console.dead_letters import DeadLetters
from mulligan.console.deliveries import Deliveries
from mulligan.console.doctor import Doctor
from mulligan.console.duties import Duties
from mulligan.console.events import EventLog
from mulligan.console.failures import Failures
from mulligan.console.hooks import IncomingHooks
from mulligan.console.ids import IdSearch
from mulligan.console.jobs import Jobs
from mulligan.console.keys import ApiKeys
from mulligan.console.limits import LimitUsage
from mulligan.console.metrics import MetricConsole
from mulligan.console.pauses import Pauses
from mulligan.console.policies import PolicyConsole
from mulligan.console.queues import Queues
from mulligan.console.reclassify import Reclassifier
from mulligan.console.redrives import Redrives
from mulligan.console.results import Results
from mulligan.console.schedules import Schedules
from mulligan.console.services import Services
from mulligan.console.statistics import StatisticConsole
from mulligan.console.stuck import StuckJobs
from mulligan.console.subscriptions import Subscriptions
from mulligan.console.web_sessions import WebSessions
from mulligan.duties.probe import TIMEOUT_SECONDS, ProbeTask, has_probes
from mulligan.duties.runner import DutyGroup
from mulligan.failure.error_codes import Catalogue, ErrorCode
from mulligan.failure.policy import RetryPolicy
from mulligan.failure.rule import AnyRule, check_rules
from mulligan.judge import Judge
from mulligan.lifecycle import LIVE
from mulligan.notify.duties import CURSOR
from mulligan.notify.signature import encode_secret, is_signed
from mulligan.notify.subscription import Subscription, WritePayload, check_target
from mulligan.policies.alert import Alert, by_check
from mulligan.policies.file import PolicyFile
from mulligan.policies.owner import Owner
from mulligan.policies.queue import Queue
from mulligan.policies.quotas import Quotas
from mulligan.policies.unknown_names import Names
from mulligan.records.duty import RETRY_REASONS
from mulligan.records.job import DEFAULT_QUEUE
from mulligan.records.limit import LimitBook
from mulligan.records.subscription import Channel
from mulligan.service.config import Service, ServiceBook
from mulligan.service.records import PROBE_KIND
from mulligan.settings import Settings
from mulligan.store import has_database, open_store
from mulligan.store.messages import Outlook
from mulligan.store.store import Store
from mulligan.task.checks import check_version
from mulligan.task.client import Client
from mulligan.task.registry import Registry
from mulligan.task.schedule import Timetable
from mulligan.task.task import Task
from mulligan.values.clock import Clock, Ids
from mulligan.values.duration import Duration, parse
from mulligan.wiring.duties import DutyBuilder
from mulligan.wiring.loop import WorkerLoop
from mulligan.wiring.notify import build_notifications
from mulligan.wiring.parts import AppParts
from mulligan.worker.children.locate import end_reading, locate_app
from mulligan.worker.children.pool import ChildPool
from mulligan.worker.hooks import Hooks
from mulligan.worker.worker import Duty, Idle, Worker, WorkerOptions

BuildDuties = Callable[[str, WorkerOptions], list[Duty]]


class Wiring:
    """Everything that one app is made of. `app` itself is passed to hooks and found again by child processes."""

    def __init__(
        self,
        app: object,
        settings: Settings,
        *,
        rules: Sequence[AnyRule],
        catalogue: Iterable[ErrorCode],
        services: Iterable[Service],
        queues: Iterable[Queue],
        owners: Iterable[Owner],
        subscriptions: Iterable[Subscription],
        payloads: Mapping[str, WritePayload],
        alerts: Iterable[Alert],
        lifespan: Callable[..., Any] | None,
        version: str | None,
    ) -> None:
        self._app = app
        self.settings = settings
        self.tasks = Registry()
        self.timetable = Timetable()
        self.hooks = Hooks(lifespan)
        self.version = check_version(version)
        self.catalogue = Catalogue.default().with_codes(catalogue)
        self._opening = threading.Lock()
        self._opened: Store | None = None
        self._set(AppParts())
        file = settings.policies_file
        self.policies = PolicyFile(None if file is None else Path(file), self.clock)
        self._book = ServiceBook(services, default=settings.default_service)
        self.quotas = Quotas(queues, owners, file=self.policies)
        self.judge = Judge(
            self.tasks,
            rules=check_rules(rules, "the rules of the app"),
            catalogue=self.catalogue,
            default=settings.default_policy,
            draw=lambda: self.parts.randomness.random(),
            policies=self.policies,
            services=self._book,
        )
        self.client = Client(
            self.store,
            lambda number: self._new_ids.many(number),
            self.judge.in_force,
            quotas=self.quotas,
            classify=self.judge.verdict,
            uses_connections=lambda: self.parts.uses_connections,
            is_open=lambda: self._opened is not None,
        )
        self._probe_task = self._register_probe_task() if has_probes(self._book) else None
        self.notifications = build_notifications(
            subscriptions,
            payloads,
            store=self.store,
            clock=self.clock,
            settings=lambda: self.settings,
            client=self.client,
            tasks=self.tasks,
            ids=self.new_id,
            secrets=self._draw,
        )
        self._alert_terms = by_check(alerts)
        self._wire_console()
        self.loop = WorkerLoop(app, self.hooks, lambda: self.parts.loop())

    def _wire_console(self) -> None:
        store, ids, tasks = self.store, self.new_id, self.tasks
        self.stuck = StuckJobs(store, self.judge, self._stuck_after)
        self.services = Services(store, ids, tasks, self.judge.services)
        self.schedules = Schedules(store, ids, self.timetable)
        self.pauses = Pauses(
            store,
            ids,
            tasks,
            services=self.services,
            schedules=self.schedules,
            queues=lambda: self.quotas.in_force.queues,
        )
        self.queues = Queues(store, self.pauses)
        self.jobs = Jobs(
            store,
            ids,
            tasks,
            judge=self.judge,
            services=self.services,
            stuck=self.stuck,
            uses_connections=lambda: self.parts.uses_connections,
        )
        self.results = Results(store, lambda: self.parts.changes(self.store()), self.clock, tasks)
        self.events = EventLog(store, self.services.require_known)
        self.policy_console = PolicyConsole(tasks, self.judge.rules, self.judge.in_force, self.policies, self.names)
        self.ids = IdSearch(store)
        self.limits = LimitUsage(store)
        self.keys = ApiKeys(store, ids, self._draw)
        self.web_sessions = WebSessions(store, ids, self._draw)
        self.audit = Audit(store)
        self.subscriptions = Subscriptions(
            store,
            ids,
            cursor=CURSOR,
            new_secret=self._new_secret,
            check_target=self._check_target,
            to_job=self.notifications.jobs.to_send,
        )
        self.deliveries = Deliveries(store, ids, self.notifications.jobs.to_send)
        self.batches = Batches(store, ids, self.client, tasks.permission)
        self.redrives = Redrives(store, ids)
        self.failures = Failures(store, ids, self.redrives)
        self.statistics = StatisticConsole(store)
        self.metrics = MetricConsole(store, lambda: self.settings.metrics_prefix)
        self.incoming = IncomingHooks(
            store, ids, redrives=self.redrives, new_secret=self._new_secret, is_signed=is_signed
        )
        self.reclassifier = Reclassifier(store, self.judge, self.jobs)
        self.dead_letters = DeadLetters(store, ids)
        rules = AlertRules(store, self._alert_terms)
        self.doctor = Doctor(
            store,
            self.clock,
            has_database=self.has_database,
            stuck_after=self._stuck_after,
            policies=self.policies,
            names=self.names,
            has_smtp=lambda: self.settings.smtp_url is not None,
            duties=lambda: self.duties.list_duties(),
            limits=rules.limits,
        )
        self.alerts = Alerts(
            store,
            ids,
            rules=rules,
            examine=self.doctor.examine,
            interval=lambda: self.settings.duty_alert_interval,
        )
        self.duty_builder = DutyBuilder(
            store,
            self.clock,
            lambda: self.settings,
            tasks=tasks,
            timetable=self.timetable,
            judge=self.judge,
            policies=self.policies,
            stuck=self.stuck,
            probe_task=self._probe_task,
            notifications=self.notifications,
            examine=self.doctor.examine,
            alerts=self._alert_terms,
        )
        self.duties = Duties(store, ids, self.clock, self.duty_builder.manual_plans)

    def _register_probe_task(self) -> Task[..., Any, Any]:
        """The engine's own task, which runs the probes of services."""
        task: Task[..., Any, Any] = Task(
            ProbeTask(self.judge.services).probe,
            client=self.client,
            name=PROBE_KIND,
            retry=RetryPolicy(max_attempts=1),
            service=lambda service: service,
            priority="high",
            timeout=timedelta(seconds=TIMEOUT_SECONDS),
        )
        self.tasks.add(task)
        return task

    # Parts that can be replaced

    @contextmanager
    def use(self, parts: AppParts) -> Iterator[None]:
        """Run the same app on other parts inside the block. The previous store is left untouched."""
        before, store, self._opened = self.parts, self._opened, None
        self._set(parts)
        try:
            yield
        finally:
            self.close()
            self._set(before)
            self._opened = store

    def _set(self, parts: AppParts) -> None:
        self.parts = parts
        self._new_ids = Ids(parts.clock, parts.randomness)

    def clock(self) -> Clock:
        return self.parts.clock

    def new_id(self) -> str:
        return self._new_ids()

    def _draw(self, length: int) -> bytes:
        return self.parts.secrets(length)

    def _new_secret(self) -> str:
        return encode_secret(self._draw(32))

    def _check_target(self, channel: Channel, to: str) -> str:
        """An address of mail, or a URL that may be called as far as its form tells. Raises ValueError."""
        if channel is Channel.WEBHOOK:
            # Late: it imports TLS, which most programs do not need from us.
            from mulligan.egress import check_literal, check_url

            check_literal(check_url(to, self.settings.egress), self.settings.egress)
        return check_target(channel, to)

    def _stuck_after(self) -> timedelta:
        return self.settings.stuck_after

    # Store

    def store(self) -> Store:
        with self._opening:
            if self._opened is None:
                end_reading()
                self._opened = self._open_store()
                self._opened.limit_by(self.limits_in_force)
            return self._opened

    def _open_store(self) -> Store:
        url, services = self.settings.database_url, self.judge.services
        if self.parts.open_store is not None:
            return self.parts.open_store(url, services)
        return open_store(url, services, self.settings.store_timeout)

    def has_database(self) -> bool:
        return self._opened is not None or has_database(self.settings.database_url)

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    # What the app and its policies file name

    def limits_in_force(self) -> LimitBook:
        """The concurrency limits of kinds, queues and owners, and the retry budgets of owners."""
        return self.quotas.limits(self.tasks.concurrency)

    def names(self) -> Names:
        """The kinds, queues and services of this app. It knows no owners."""
        tasks = [task for task in self.tasks.values() if task is not self._probe_task]
        of_tasks = [task.service for task in tasks]
        return Names(
            kinds=self.tasks.own_kinds,
            queues={DEFAULT_QUEUE, *(task.queue for task in tasks), *self.quotas.named_queues},
            services={
                *filter(None, (one for one in of_tasks if not callable(one))),
                *(one.name for one in self._book),
            },
            is_possible=any(map(callable, of_tasks)),
        )

    # Workers

    def build_worker(
        self,
        concurrency: int | None = None,
        queues: Sequence[str] | None = None,
        duties: BuildDuties | None = None,
    ) -> Worker:
        # What cannot work raises here, once, and is not logged again and again by a running worker.
        for task in self.tasks.values():
            task.prepare()
        self.judge.prepare()
        self.timetable.prepare()
        self.policies.require()
        self.store().now()
        incarnation = self.new_id()
        options = WorkerOptions(
            concurrency=concurrency or self.settings.worker_concurrency,
            queues=None if queues is None else tuple(queues),
            lease=self.settings.worker_lease_ttl,
            version=self.version,
            at_once=self.parts.at_once,
        )
        return Worker(
            store=self.store(),
            tasks=self.tasks,
            judge=self.judge,
            driver=self.parts.driver(),
            clock=self.parts.clock,
            incarnation=incarnation,
            host=socket.gethostname(),
            pid=os.getpid(),
            options=options,
            duties=(duties or self.duty_builder.for_worker)(incarnation, options),
            children=self._children() if self.parts.isolates else None,
            around=self.hooks.around,
            fair_queues=self.quotas.fair_queues,
        )

    def _children(self) -> ChildPool:
        return ChildPool(
            lambda: locate_app(self._app, self.tasks, self.hooks.functions),
            database_url=self.settings.database_url,
            catalogue=self.catalogue,
            clock=self.parts.clock,
            policies=self.policies,
        )

    def run_until_idle(self, *, retries: bool, timeout: Duration | None, concurrency: int | None) -> None:
        waiting_for = RETRY_REASONS if retries else ()

        def when_idle(*, is_vain: bool) -> Idle:  # noqa: ARG001
            return Idle.WAIT if self.store().is_busy(self.tasks.kinds, waiting_for=waiting_for) else Idle.STOP

        self.loop.run_while_needed(
            self.build_worker(concurrency),
            when_idle,
            timeout=None if timeout is None else parse(timeout),
            unfinished=self._unfinished,
        )

    def run_while(self, goes_on: Callable[[Outlook], bool], ticker: DutyGroup) -> None:
        """Work until no job is queued or running and `goes_on(outlook)`, which may move the clock, returns False."""
        worker, store = self.build_worker(duties=self.duty_builder.for_sandbox(ticker)), self.store()

        def when_idle(*, is_vain: bool) -> Idle:
            outlook = store.outlook(self.tasks.kinds)
            if outlook.is_busy or (outlook.has_promotable and not is_vain):
                return Idle.WAIT
            return Idle.CLAIM if goes_on(outlook) else Idle.STOP

        self.loop.run_while_needed(worker, when_idle, timeout=None, unfinished=self._unfinished)

    def _unfinished(self) -> str:
        """The number of unfinished jobs of this app, by state."""
        found = Counter[str]()
        for kind, states in self.store().counts().items():
            found.update(states if kind in self.tasks else {})
        return ", ".join(f"{found[state]:,} {state}" for state in LIVE if found[state]) or "all jobs are over by now"
