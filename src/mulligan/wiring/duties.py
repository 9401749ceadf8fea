"""Build the duties of a worker, and of a manual run, from the settings."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from functools import partial

from mulligan.console.duties import DutyPlan
from mulligan.console.stuck import StuckJobs
from mulligan.duties.alert import EvaluateAlerts
from mulligan.duties.expire import Expire
from mulligan.duties.probe import Probe
from mulligan.duties.project import Project
from mulligan.duties.promote import Promote
from mulligan.duties.prune import Prune
from mulligan.duties.reclaim import Reclaim
from mulligan.duties.redrive import RunRedrives
from mulligan.duties.runner import DutiesInTurn, DutyGroup, DutyRunner, DutyWork, PendingDuties, RunRecorder
from mulligan.duties.schedule import RunSchedules
from mulligan.judge import Judge
from mulligan.notify.duties import Digest, Notify
from mulligan.policies.file import PolicyFile
from mulligan.projections.fold import fold
from mulligan.records.alert import AlertTerms
from mulligan.records.finding import Check, Examine
from mulligan.settings import DutyBounds, Settings
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.task.schedule import Timetable
from mulligan.task.task import Task
from mulligan.values.clock import Clock
from mulligan.wiring.notify import Notifications
from mulligan.worker.keeper import BEATS_PER_LEASE
from mulligan.worker.worker import Duty, WorkerOptions

# Stored as the name of the worker.
MANUALLY = "by hand"
NO_WORKER = "no worker"


@dataclass(frozen=True, slots=True)
class DutyBuilder:
    """`probe_task` is None in an app whose services have no probe."""

    store: Callable[[], Store]
    clock: Callable[[], Clock]
    settings: Callable[[], Settings]
    _: KW_ONLY
    tasks: Registry
    timetable: Timetable
    judge: Judge
    policies: PolicyFile
    stuck: StuckJobs
    probe_task: Task[..., object, object] | None
    notifications: Notifications
    examine: Examine
    alerts: Mapping[Check, AlertTerms]

    def for_worker(self, incarnation: str, options: WorkerOptions) -> list[Duty]:
        """All duties of a worker."""
        works: list[DutyWork] = [
            self._reclaim(incarnation, options),
            *self._promotions(),
            self._expire(),
            self._redrive(incarnation),
            self._project(),
            self._prune(),
            *([self._tick(incarnation)] if self.timetable else []),
            *self.probes(options.queues[0] if options.queues else None),
            *self._notify(options.queues[0] if options.queues else None),
            self._alert(incarnation),
        ]
        pending = PendingDuties(self.store(), self.clock())
        return self._file_duty() + list(self._runners(works, pending, RunRecorder(self.store(), worker=incarnation)))

    def for_sandbox(self, ticker: DutyGroup) -> Callable[[str, WorkerOptions], list[Duty]]:
        """The duties of a worker in virtual time: `ticker` does most of them."""

        def build(incarnation: str, options: WorkerOptions) -> list[Duty]:
            (reclaim,) = self._runners([self._reclaim(incarnation, options)], ticker.pending, ticker.recorder)
            return [*self._file_duty(), DutiesInTurn(ticker, reclaim)]

        return build

    def ticker(self) -> DutyGroup:
        """The duties that `app.tick()` runs."""
        pending = PendingDuties(self.store(), self.clock())
        recorder = RunRecorder(self.store(), worker=NO_WORKER, every=math.inf)
        tick = self._tick(NO_WORKER, has_ticks=lambda: pending.now().has_ticks)
        works: list[DutyWork] = [tick, self._redrive(NO_WORKER), self._expire(), *self.probes()]
        runners = list(self._runners(works, pending, recorder))
        return DutyGroup(runners, pending=pending, recorder=recorder, clock=self.clock())

    def manual_plans(self) -> dict[str, DutyPlan]:
        """What a manual run of each duty does.

        A manual `reclaim` settles stuck jobs only. Expired leases are left to workers: only a process that has
        watched the store long enough can tell a lost worker from an outage.
        """
        reclaim, probe = self._bounds("reclaim"), self._bounds("probe")
        limit, take_stuck = reclaim["limit"], partial(self.stuck.settle, requeues=self._requeues)
        works: list[DutyWork] = [
            *self._promotions(),
            self._expire(),
            self._redrive(MANUALLY),
            self._project(),
            self._prune(),
            self._tick(MANUALLY),
            *self.probes(),
            *self._notify(),
            self._alert(MANUALLY, is_manual=True),
        ]
        return {
            "reclaim": _plan(reclaim, lambda actor: len(take_stuck(actor=actor, limit=limit))),
            # Without a probe in any service there is nothing to do.
            "probe": _plan(probe, lambda _actor: 0),
        } | {work.name: _plan({"interval": work.interval, "limit": work.limit}, _manual_run(work)) for work in works}

    def probes(self, queue: str | None = None) -> list[Probe]:
        """The probe duty; empty if no service has a probe."""
        if self.probe_task is None:
            return []
        return [Probe(self.store(), self.judge.services, self.probe_task, queue=queue, **self._bounds("probe"))]

    def _notify(self, queue: str | None = None) -> list[Notify | Digest]:
        """The jobs go to a queue of this worker, so that at least this worker can run them."""
        parts, store, clock = self.notifications, self.store(), self.clock()
        return [
            Notify(
                store,
                parts.jobs,
                definitions=parts.definitions,
                payloads=parts.payloads,
                clock=clock,
                ids=parts.ids,
                secrets=parts.secrets,
                source=self.settings().public_url or "mulligan",
                queue=queue,
                **self._bounds("notify"),
            ),
            Digest(store, parts.jobs, clock=clock, queue=queue, **self._bounds("digest")),
        ]

    def _alert(self, worker: str, *, is_manual: bool = False) -> EvaluateAlerts:
        # A command without the app knows no rules of its code.
        in_code = self.alerts if self.alerts or not is_manual else None
        return EvaluateAlerts(
            self.store(), self.examine, worker=worker, in_code=in_code, is_manual=is_manual, **self._bounds("alert")
        )

    def _bounds(self, duty: str) -> DutyBounds:
        return self.settings().duty_bounds(duty)

    def _file_duty(self) -> list[Duty]:
        """The duty that reads the policies file again; empty if there is no file."""
        return [] if self.policies.path is None else [self.policies]

    def _runners(
        self, works: Iterable[DutyWork], pending: PendingDuties, recorder: RunRecorder
    ) -> Iterator[DutyRunner]:
        return (DutyRunner(work, pending=pending, recorder=recorder, clock=self.clock()) for work in works)

    def _reclaim(self, incarnation: str, options: WorkerOptions) -> Reclaim:
        bounds = self._bounds("reclaim")
        take_stuck = partial(self.stuck.settle, worker=incarnation, requeues=self._requeues)
        return Reclaim(
            self.store(),
            judge=self.judge,
            clock=self.clock(),
            incarnation=incarnation,
            # One beat, plus the time by which the keeper may be late.
            beat=options.lease.total_seconds() / BEATS_PER_LEASE + 2 * bounds["interval"],
            stuck_after=self.settings().stuck_after,
            take_stuck=None if self.settings().stuck == "report" else take_stuck,
            **bounds,
        )

    @property
    def _requeues(self) -> bool:
        return self.settings().stuck == "requeue"

    def _promotions(self) -> list[Promote]:
        return [Promote(name, self.store(), **self._bounds(name)) for name in ("retry", "promote")]

    def _expire(self) -> Expire:
        return Expire(self.store(), **self._bounds("expire"))

    def _tick(self, worker: str, *, has_ticks: Callable[[], bool] = lambda: True) -> RunSchedules:
        bounds = self._bounds("schedule")
        return RunSchedules(self.store(), self.timetable, worker=worker, has_ticks=has_ticks, **bounds)

    def _redrive(self, worker: str) -> RunRedrives:
        return RunRedrives(self.store(), self.tasks, clock=self.clock(), worker=worker, **self._bounds("redrive"))

    def _project(self) -> Project:
        return Project(self.store(), fold, self.clock(), **self._bounds("project"))

    def _prune(self) -> Prune:
        settings = self.settings()
        return Prune(
            self.store(),
            keep=settings.retention,
            results=settings.retention_results,
            audit=settings.retention_audit,
            groups=settings.retention_groups,
            spans=settings.retention_spans,
            deliveries=settings.retention_deliveries,
            **self._bounds("prune"),
        )


def _plan(bounds: DutyBounds, run: Callable[[str | None], int]) -> DutyPlan:
    return DutyPlan(timedelta(seconds=bounds["interval"]), bounds["limit"], run)


def _manual_run(work: DutyWork) -> Callable[[str | None], int]:
    match work:
        case Promote():
            return lambda _actor: work.step_manually()
        case Project():
            return lambda _actor: work.catch_up()
    return lambda _actor: work.step()
