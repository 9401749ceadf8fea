"""Pauses: hold back a queue, a kind, a service, a duty or a schedule in all workers, or the intake of new jobs, and
resume it.

A pause is a row in the store. Claims skip the paused lanes, workers skip paused duties and schedules, and an enqueue
refuses jobs whose intake is paused.
"""

from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from mulligan.console.arguments import NAME, PAUSE_LENGTH, REQUEST_ID, STRING, check
from mulligan.console.schedules import Schedules
from mulligan.console.services import Services
from mulligan.errors import BadArgument, UnknownIntake, UnknownKind, UnknownQueue
from mulligan.failure.redact import bounded
from mulligan.records.duty import duty_named
from mulligan.records.job import JobFilter
from mulligan.records.pause import EVERYTHING, Pause, PauseRequest
from mulligan.store.requests import ENDED_PAUSE, PAUSE, to_once
from mulligan.store.store import Store
from mulligan.task.registry import Registry
from mulligan.values.duration import Duration, parse


@dataclass(frozen=True, slots=True)
class Pauses:
    """`queues` returns the queues that the app or its policies file configures."""

    store: Callable[[], Store]
    ids: Callable[[], str]
    tasks: Registry
    _: KW_ONLY
    services: Services
    schedules: Schedules
    queues: Callable[[], Iterable[str]]

    def list_pauses(self) -> list[Pause]:
        return self.store().pauses()

    @check(
        duration=PAUSE_LENGTH,
        queue=NAME,
        kind=NAME,
        service=NAME,
        duty=NAME,
        schedule=NAME,
        intake=NAME,
        actor=STRING,
        reason=STRING,
        request_id=REQUEST_ID,
    )
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
        what, name = _the_one_given(
            queue=queue, kind=kind, service=service, duty=duty, schedule=schedule, intake=intake
        )
        length = None if duration is None else parse(duration)
        once = to_once(request_id, "pause", PAUSE, on=(what, name), length=length, actor=actor, reason=reason)
        return self.store().pause(*self._requests(what, name, length, actor, reason), once=once)

    @check(
        queue=NAME,
        kind=NAME,
        service=NAME,
        duty=NAME,
        schedule=NAME,
        intake=NAME,
        actor=STRING,
        reason=STRING,
        request_id=REQUEST_ID,
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
        what, name = _the_one_given(
            queue=queue, kind=kind, service=service, duty=duty, schedule=schedule, intake=intake
        )
        once = to_once(request_id, "resume", ENDED_PAUSE, on=(what, name), actor=actor, reason=reason)
        return self.store().resume(*self._requests(what, name, None, actor, reason), once=once)

    def _requests(
        self, what: str, name: str, duration: timedelta | None, actor: str | None, reason: str | None
    ) -> list[PauseRequest]:
        return [
            PauseRequest(
                id=self.ids(),
                what=what,
                name=each,
                duration=duration,
                actor=bounded(actor),
                reason=bounded(reason),
            )
            for each in self._names(what, name)
        ]

    def _names(self, what: str, name: str) -> list[str]:
        """The stored names. An unknown name is an error: a mistyped one would look paused."""
        if what == "duty":
            return [duty_named(name).name]
        if not any((pause.what, pause.name) == (what, name) for pause in self.list_pauses()):
            self._require(what, name)
        # Jobs of a task may be stored under its former names.
        task = self.tasks[name] if what in ("kind", "intake") and name in self.tasks else None
        return [name] if task is None else [task.name, *task.aliases]

    def _require(self, what: str, name: str) -> None:
        match what:
            case "service":
                self.services.require(name)
            case "schedule":
                self.schedules.require(name)
            case "intake":
                self._require_intake(name)
            case "queue":
                known = self.known_queues()
                if name not in known and not self._has_jobs(JobFilter(queue=name)):
                    raise UnknownQueue(name, known)
            case _:
                kinds = self._known_kinds()
                if name not in kinds and not self._has_jobs(JobFilter(kind=name)):
                    raise UnknownKind(name, kinds)

    def _require_intake(self, name: str) -> None:
        known = {EVERYTHING, *self._known_kinds(), *self.known_queues()}
        if name not in known and not self._has_jobs(JobFilter(queue=name)) and not self._has_jobs(JobFilter(kind=name)):
            raise UnknownIntake(name, known)

    def known_queues(self) -> set[str]:
        """The queues of tasks, settings and workers."""
        of_workers = (queue for worker in self.store().workers() for queue in worker.queues or ())
        return {*(task.queue for task in self.tasks.values()), *self.queues(), *of_workers}

    def _known_kinds(self) -> set[str]:
        of_workers = (kind for worker in self.store().workers() for kind in worker.kinds)
        return {*self.tasks.kinds, *of_workers}

    def _has_jobs(self, wanted: JobFilter) -> bool:
        return bool(self.store().jobs(wanted, limit=1).jobs)


def _the_one_given(**targets: str | None) -> tuple[str, str]:
    """Which target was given, and its name."""
    given = [(what, name) for what, name in targets.items() if name is not None]
    if len(given) != 1:
        possible = f"one of {', '.join(f'{what}=' for what in targets)}"
        raise BadArgument("the target of the pause", [what for what, _ in given], possible)
    return given[0]
