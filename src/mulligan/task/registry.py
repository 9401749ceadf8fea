"""The tasks of an app, by name."""

from collections.abc import Callable, Iterator, Mapping
from inspect import isawaitable
from typing import Any

from mulligan.errors import BadTask, MulliganError, NotAllowed, UnknownKind
from mulligan.failure.redact import bounded
from mulligan.failure.verdict import Failure
from mulligan.records.job import Job
from mulligan.store.messages import Permission
from mulligan.task.task import Task


class Registry(Mapping[str, Task[..., Any, Any]]):
    """The tasks of an app by name. A job names its task: no code is imported from data."""

    def __init__(self) -> None:
        self._tasks: dict[str, Task[..., Any, Any]] = {}
        self._aliases: dict[str, str] = {}
        self._built_in: dict[str, Task[..., Any, Any]] = {}
        self.concurrency: dict[str, int] = {}
        """The concurrency limits, by kind. A new dict for each change, so that a comparison shows it."""

    def add(self, task: Task[..., Any, Any]) -> None:
        for name in (task.name, *task.aliases):
            if name in self:
                raise BadTask(f"two tasks are named {name!r}; give one of them another name=")
        self._tasks[task.name] = task
        self._aliases |= dict.fromkeys(task.aliases, task.name)
        if task.concurrency is not None:
            self.limit(task.name, task.concurrency)

    def add_built_in(self, task: Task[..., Any, Any]) -> None:
        """Add a task of the engine. It is found by its name, and not listed among the tasks of the app."""
        self._built_in[task.name] = task

    def limit(self, kind: str, most: int | None) -> None:
        """Let at most so many jobs of this kind run at once, or any number."""
        if self.concurrency.get(kind) != most:
            others = {name: number for name, number in self.concurrency.items() if name != kind}
            self.concurrency = others if most is None else {**others, kind: most}

    def __getitem__(self, kind: str) -> Task[..., Any, Any]:
        try:
            return self._built_in.get(kind) or self._tasks[self._aliases.get(kind, kind)]
        except KeyError:
            raise UnknownKind(kind, self._tasks) from None

    def __contains__(self, kind: object) -> bool:
        return kind in self._tasks or kind in self._aliases or kind in self._built_in

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def kinds(self) -> list[str]:
        """Every name that a job may carry, including former ones and those of the engine's own tasks."""
        return [*self.own_kinds, *self._built_in]

    @property
    def own_kinds(self) -> list[str]:
        """The names of the app's tasks, including former ones."""
        return [*self._tasks, *self._aliases]

    def permission(self) -> Permission:
        """What a manual retry needs: complete arguments, and the consent of `can_retry`.

        It raises NotAllowed, or the error with which `can_retry` refuses.
        """
        asked = {kind: can_retry for kind in self.kinds if (can_retry := self[kind].can_retry) is not None}

        def ask(job: Job[Any], connection: Any) -> None:
            if job.was_rejected and job.kind in self:
                _refuse_incomplete(job, self[job.kind])
            if job.kind in asked:
                _ask(lambda: asked[job.kind](job, connection), job)

        return Permission(frozenset(asked), ask)


def _refuse_incomplete(job: Job[Any], task: Task[..., Any, Any]) -> None:
    """The arguments of a rejected call were not checked. No worker could ever run it."""
    problem = task.payload.find_problem(job.arguments)
    if problem is not None:
        raise NotAllowed(
            f"job {job.id!r} was rejected with arguments that do not fit task {job.kind!r}: {problem}; "
            "enqueue the corrected call as a new job",
            code="INVALID_INPUT",
        )


def _ask(can_retry: Callable[[], object], job: Job[Any]) -> None:
    try:
        answer = can_retry()
    except MulliganError:
        raise
    except Exception as error:
        # An error in the user's code is a refusal, with a message for the person who asked.
        raise NotAllowed(f"can_retry of task {job.kind!r} failed: {bounded(Failure.of(error).message)}") from error
    if isawaitable(answer):
        raise NotAllowed(
            f"can_retry of task {job.kind!r} returned {answer!r:.100}, which is not an answer: it cannot be async"
        )
    if answer is False:
        raise NotAllowed(f"can_retry of task {job.kind!r} does not allow it now")
