"""Build the duties of a worker, and of a manual run, from the settings."""

import math
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

from mulligan.console.duties import DutyPlan
from mulligan.console.stuck import StuckJobs
from mulligan.duties.expire import Expire
from mulligan.duties.probe import Probe
from mulligan.duties.promote import Promote
from mulligan.duties.prune import Prune
from mulligan.duties.reclaim import Reclaim
from mulligan.duties.redrive import RunRedrives
from mulligan.duties.runner import DutyGroup, DutyRunner, DutyWork, PendingDuties, RunRecorder
from mulligan.duties.schedule import RunSchedules
from mulligan.judge import Judge
from mulligan.policies import PolicyFile
from mulligan.settings import Settings
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.task.schedule import Timetable
from mulligan.task.task import Task
from mulligan.values.clock import Clock
from mulligan.worker.keeper import BEATS_PER_LEASE
from mulligan.worker.worker import Duty, WorkerOptions

# Stored as the name of the worker.
MANUALLY = "by hand"
NO_WORKER = "no worker"


class DutyBuilder:
    """`probe_task` is None in an app whose services have no probe."""

    def __init__(
        self,
        store: Callable[[], Store],
        clock: Callable[[], Clock],
        settings: Callable[[], Settings],
        *,
        tasks: Registry,
        timetable: Timetable,
        judge: Judge,
        policies: PolicyFile,
        stuck: StuckJobs,
        probe_task: Task[..., object, object] | None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._tasks = tasks
        self._timetable = timetable
        self._judge = judge
        self._policies = policies
        self._stuck = stuck
        self._probe_task = probe_task

    def for_worker(self, incarnation: str, options: WorkerOptions) -> list[Duty]:
        """All duties of a worker."""
        works: list[DutyWork] = [
            self._reclaim(incarnation, options),
            *self._promotions(),
            self._expire(),
            self._redrive(incarnation),
            self._prune(),
            *([self._tick(incarnation)] if self._timetable else []),
            *self.probes(options.queues[0] if options.queues else None),
        ]
        pending = PendingDuties(self._store(), self._clock())
        return self._file_duty() + list(self._runners(works, pending, RunRecorder(self._store(), worker=incarnation)))

    def for_sandbox(self, ticker: DutyGroup) -> Callable[[str, WorkerOptions], list[Duty]]:
        """The duties of a worker in virtual time: `ticker` does most of them."""

        def build(incarnation: str, options: WorkerOptions) -> list[Duty]:
            reclaim = self._runners([self._reclaim(incarnation, options)], ticker.pending, ticker.recorder)
            return [*self._file_duty(), ticker, *reclaim]

        return build

    def ticker(self) -> DutyGroup:
        """The duties that `app.tick()` runs."""
        pending = PendingDuties(self._store(), self._clock())
        recorder = RunRecorder(self._store(), worker=NO_WORKER, every=math.inf)
        tick = self._tick(NO_WORKER, has_ticks=lambda: pending.now().has_ticks)
        works: list[DutyWork] = [tick, self._redrive(NO_WORKER), self._expire(), *self.probes()]
        runners = list(self._runners(works, pending, recorder))
        return DutyGroup(runners, pending=pending, recorder=recorder, clock=self._clock())

    def manual_plans(self) -> dict[str, DutyPlan]:
        """What a manual run of each duty does.

        A manual `reclaim` settles stuck jobs only. Expired leases are left to workers: only a process that has
        watched the store long enough can tell a lost worker from an outage.
        """
        settings = self._settings()
        limit = settings.duty_reclaim_limit
        reclaim = DutyPlan(
            settings.reclaim_interval, limit, lambda actor: len(self._stuck.settle(actor=actor, limit=limit))
        )
        others: list[Promote | Expire | RunRedrives | Prune | RunSchedules | Probe] = [
            *self._promotions(),
            self._expire(),
            self._redrive(MANUALLY),
            self._prune(),
            self._tick(MANUALLY),
            *self.probes(),
        ]
        # Without a probe in any service there is nothing to do.
        no_probe = DutyPlan(settings.duty_probe_interval, settings.duty_probe_limit, lambda _actor: 0)
        return {"reclaim": reclaim, "probe": no_probe} | {
            work.name: DutyPlan(timedelta(seconds=work.interval), work.limit, work.run) for work in others
        }

    def probes(self, queue: str | None = None) -> list[Probe]:
        """The probe duty; empty if no service has a probe."""
        if self._probe_task is None:
            return []
        settings = self._settings()
        return [
            Probe(
                self._store(),
                self._judge.services,
                self._probe_task,
                queue=queue,
                interval=settings.duty_probe_interval.total_seconds(),
                limit=settings.duty_probe_limit,
            )
        ]

    def _file_duty(self) -> list[Duty]:
        """The duty that reads the policies file again; empty if there is no file."""
        return [] if self._policies.path is None else [self._policies]

    def _runners(
        self, works: Iterable[DutyWork], pending: PendingDuties, recorder: RunRecorder
    ) -> Iterator[DutyRunner]:
        return (DutyRunner(work, pending=pending, recorder=recorder, clock=self._clock()) for work in works)

    def _reclaim(self, incarnation: str, options: WorkerOptions) -> Reclaim:
        settings = self._settings()
        interval = settings.reclaim_interval.total_seconds()
        return Reclaim(
            self._store(),
            judge=self._judge,
            clock=self._clock(),
            incarnation=incarnation,
            interval=interval,
            # One beat, plus the time by which the keeper may be late.
            beat=options.lease.total_seconds() / BEATS_PER_LEASE + 2 * interval,
            limit=settings.duty_reclaim_limit,
            stuck_after=settings.stuck_after,
        )

    def _promotions(self) -> list[Promote]:
        settings = self._settings()
        plans = {
            "retry": (settings.duty_retry_interval, settings.duty_retry_limit),
            "promote": (settings.duty_promote_interval, settings.duty_promote_limit),
        }
        return [
            Promote(name, self._store(), interval=interval.total_seconds(), limit=limit)
            for name, (interval, limit) in plans.items()
        ]

    def _expire(self) -> Expire:
        settings = self._settings()
        interval = settings.duty_expire_interval.total_seconds()
        return Expire(self._store(), interval=interval, limit=settings.duty_expire_limit)

    def _tick(self, worker: str, *, has_ticks: Callable[[], bool] = lambda: True) -> RunSchedules:
        settings = self._settings()
        return RunSchedules(
            self._store(),
            self._timetable,
            worker=worker,
            interval=settings.duty_schedule_interval.total_seconds(),
            limit=settings.duty_schedule_limit,
            has_ticks=has_ticks,
        )

    def _redrive(self, worker: str) -> RunRedrives:
        settings = self._settings()
        return RunRedrives(
            self._store(),
            self._tasks,
            clock=self._clock(),
            worker=worker,
            interval=settings.duty_redrive_interval.total_seconds(),
            limit=settings.duty_redrive_limit,
        )

    def _prune(self) -> Prune:
        settings = self._settings()
        interval = settings.duty_prune_interval.total_seconds()
        return Prune(self._store(), keep=settings.retention, interval=interval, limit=settings.duty_prune_limit)
