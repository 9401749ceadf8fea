"""Duties: list them and run one manually. Workers run them on their own (`duties/`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.console.arguments import NAME, REQUEST_ID, STRING, check
from mulligan.explain.context import is_alive
from mulligan.failure.redact import bounded
from mulligan.records.duty import DUTIES, DutyRun, KnownDuty, duty_named
from mulligan.records.pause import Pause
from mulligan.store.requests import AnswerFormat, answer_format, to_once
from mulligan.store.store import Store
from mulligan.values.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyStatus:
    """`workers` counts the live workers that run it. `next` is None while none does, and while it is paused."""

    name: str
    alias: str
    about: str
    interval: timedelta
    limit: int
    workers: int
    last: DutyRun | None
    next: datetime | None
    paused: Pause | None


@dataclass(frozen=True, slots=True)
class DutyPlan:
    """A duty as this app is configured: its interval, its limit per run, and what a manual run does."""

    interval: timedelta
    limit: int
    run: Callable[[str | None], int]


RUN: AnswerFormat[DutyRun] = answer_format(DutyRun)


@dataclass(frozen=True, slots=True)
class Duties:
    store: Callable[[], Store]
    ids: Callable[[], str]
    clock: Callable[[], Clock]
    plans: Callable[[], Mapping[str, DutyPlan]]

    def list_duties(self) -> list[DutyStatus]:
        store = self.store()
        runs, pauses, plans = store.duty_runs(), store.pauses(), self.plans()
        now = store.now()
        alive = {worker.incarnation for worker in store.workers() if is_alive(worker, now)}
        return [_status(duty, plans[duty.name], runs, pauses, alive, now) for duty in DUTIES]

    @check(name=NAME, actor=STRING, reason=STRING, request_id=REQUEST_ID)
    def run(
        self, name: str, *, actor: str | None = None, reason: str | None = None, request_id: str | None = None
    ) -> DutyRun:
        duty = duty_named(name).name
        once = to_once(request_id, "run duty", RUN, duty=duty, actor=actor, reason=reason)
        return self.store().in_parts(once, lambda: self._run(duty, bounded(actor), reason))

    def _run(self, duty: str, actor: str | None, reason: str | None) -> DutyRun:
        began = self.clock().monotonic()
        did = self.plans()[duty].run(actor)
        done = DutyRun(
            duty=duty,
            worker="by hand",
            seconds=self.clock().monotonic() - began,
            did=did,
            request=self.ids(),
            actor=actor,
            reason=bounded(reason),
        )
        self.store().record_runs([done])
        return done


def _status(
    duty: KnownDuty,
    plan: DutyPlan,
    runs: Sequence[DutyRun],
    pauses: Sequence[Pause],
    alive: set[str],
    now: datetime,
) -> DutyStatus:
    own = [done for done in runs if done.duty == duty.name]
    doing = [done for done in own if done.worker in alive]
    pause = next((pause for pause in pauses if (pause.what, pause.name) == ("duty", duty.name)), None)
    # Settings of the workers that run it; those of this app only if no worker does.
    interval = (doing[0].interval if doing else None) or plan.interval
    limit = (doing[0].limit if doing else None) or plan.limit
    # Not every run is recorded, so an overdue one may have happened.
    soonest = min((max(done.at + interval, now) for done in doing if done.at), default=None)
    return DutyStatus(
        name=duty.name,
        alias=duty.alias,
        about=duty.about,
        interval=interval,
        limit=limit,
        workers=len(doing),
        last=own[0] if own else None,
        next=None if pause else soonest,
        paused=pause,
    )
