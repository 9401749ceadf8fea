"""The brakes: pauses of queues, kinds and services. The claim passes their lanes by; here they begin and end."""

from collections.abc import Callable, Iterable
from datetime import timedelta

from mulligan.console.services import Switchboard
from mulligan.errors import UnknownKind, UnknownQueue
from mulligan.records.job import JobFilter
from mulligan.records.pause import Pause, PauseRequest
from mulligan.store.store import Store
from mulligan.task.registry import Registry

KIND = "kind"


class Brakes:
    """`described` are the queues that the app or its policies file says something about."""

    def __init__(
        self,
        store: Callable[[], Store],
        ids: Callable[[], str],
        tasks: Registry,
        switchboard: Switchboard,
        described: Callable[[], Iterable[str]],
    ) -> None:
        self._store = store
        self._ids = ids
        self._tasks = tasks
        self._switchboard = switchboard
        self._described = described

    def pauses(self) -> list[Pause]:
        """All in force, also of duties and schedules."""
        return self._store().pauses()

    def pause(
        self, duration: timedelta | None, *, what: str, name: str, actor: str | None, reason: str | None
    ) -> Pause:
        begun = [self._store().pause(request) for request in self._requests(what, name, duration, actor, reason)]
        return next(iter(begun))

    def resume(self, *, what: str, name: str, actor: str | None, reason: str | None) -> Pause | None:
        requests = self._requests(what, name, None, actor, reason)
        return next((ended for ended in [self._store().resume(request) for request in requests] if ended), None)

    def _requests(
        self, what: str, name: str, duration: timedelta | None, actor: str | None, reason: str | None
    ) -> list[PauseRequest]:
        return [
            PauseRequest(id=self._ids(), what=what, name=each, duration=duration, actor=actor, reason=reason)
            for each in self._names(what, name)
        ]

    def _names(self, what: str, name: str) -> list[str]:
        """What is meant by it. A name of nothing is refused: whoever mistypes it would believe that it is paused."""
        if not self._is_paused(what, name):
            self._check(what, name)
        # Jobs of a task may have been stored under its former names.
        task = self._tasks[name] if what == KIND and name in self._tasks else None
        return [name] if task is None else [task.name, *task.aliases]

    def _is_paused(self, what: str, name: str) -> bool:
        return any((pause.what, pause.name) == (what, name) for pause in self.pauses())

    def _check(self, what: str, name: str) -> None:
        match what:
            case "service":
                self._switchboard.require(name)
            case "queue":
                known = self._queues()
                if name not in known and not self._has_jobs(JobFilter(queue=name)):
                    raise UnknownQueue(name, known)
            case _:
                kinds = self._kinds()
                if name not in kinds and not self._has_jobs(JobFilter(kind=name)):
                    raise UnknownKind(name, kinds)

    def _queues(self) -> set[str]:
        of_workers = (queue for worker in self._store().workers() for queue in worker.queues or ())
        return {*(task.queue for task in self._tasks.values()), *self._described(), *of_workers}

    def _kinds(self) -> set[str]:
        of_workers = (kind for worker in self._store().workers() for kind in worker.kinds)
        return {*self._tasks.kinds, *of_workers}

    def _has_jobs(self, wanted: JobFilter) -> bool:
        return bool(self._store().jobs(wanted, limit=1).jobs)
