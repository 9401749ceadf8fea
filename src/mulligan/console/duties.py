"""The roster: duties as people see and steer them. Workers do them; here they are listed, paused, and run by hand."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from mulligan.explain.next import is_alive
from mulligan.records.duty import DUTIES, DutyRun, KnownDuty, duty_named
from mulligan.records.pause import Pause, PauseRequest
from mulligan.store.store import Store
from mulligan.values.clock import Clock

DUTY = "duty"


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyStatus:
    """`workers` is how many did it lately; `next` is None when nobody will, or while it is paused."""

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
    """A duty as this app has it: how often, how many at once, and what it does when somebody runs it by hand."""

    interval: timedelta
    limit: int
    run: Callable[[str | None], int]


class Roster:
    def __init__(
        self,
        store: Callable[[], Store],
        ids: Callable[[], str],
        clock: Callable[[], Clock],
        plans: Callable[[], Mapping[str, DutyPlan]],
    ) -> None:
        self._store = store
        self._ids = ids
        self._clock = clock
        self._plans = plans

    def duties(self) -> list[DutyStatus]:
        store = self._store()
        rounds, pauses, plans = store.rounds(), store.pauses(), self._plans()
        now = store.now()
        alive = {worker.incarnation for worker in store.workers() if is_alive(worker, now)}
        return [_status(duty, plans[duty.name], rounds, pauses, alive, now) for duty in DUTIES]

    def pause(
        self, duration: timedelta | None, *, duty: str, actor: str | None = None, reason: str | None = None
    ) -> Pause:
        return self._store().pause(self._request(duty, duration, actor, reason))

    def resume(self, *, duty: str, actor: str | None = None, reason: str | None = None) -> Pause | None:
        return self._store().resume(self._request(duty, None, actor, reason))

    def _request(self, duty: str, duration: timedelta | None, actor: str | None, reason: str | None) -> PauseRequest:
        name = duty_named(duty).name
        return PauseRequest(id=self._ids(), what=DUTY, name=name, duration=duration, actor=actor, reason=reason)

    def run(self, duty: str, *, actor: str | None = None, reason: str | None = None) -> DutyRun:
        """Do it once in this process, paused or not; the round is recorded with who and why."""
        name = duty_named(duty).name
        began = self._clock().monotonic()
        did = self._plans()[name].run(actor)
        done = DutyRun(
            duty=name,
            worker="by hand",
            seconds=self._clock().monotonic() - began,
            did=did,
            request=self._ids(),
            actor=actor,
            reason=reason,
        )
        self._store().note([done])
        return done


def _status(
    duty: KnownDuty,
    plan: DutyPlan,
    rounds: Sequence[DutyRun],
    pauses: Sequence[Pause],
    alive: set[str],
    now: datetime,
) -> DutyStatus:
    own = [done for done in rounds if done.duty == duty.name]
    doing = [done for done in own if done.worker in alive]
    pause = next((pause for pause in pauses if (pause.what, pause.name) == (DUTY, duty.name)), None)
    # As its workers have it; what is set here counts where nobody works.
    interval = (doing[0].interval if doing else None) or plan.interval
    limit = (doing[0].limit if doing else None) or plan.limit
    # Not every round is recorded: one that should have come by now may have.
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
