"""Hooks: context managers of the user's, `lifespan` around a worker and `around` around each attempt."""

import inspect
from collections.abc import Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

from mulligan.errors import BadHook
from mulligan.task.task import Task
from mulligan.worker.drivers import Driver
from mulligan.worker.forks import guarded, guarded_async
from mulligan.worker.running import Running

Manager = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
Function = Callable[..., Any]


class Hook:
    """A function that gives a context manager, plain or async; a generator function will do.

    It is called with what it is about, the app or the attempt, unless it takes no argument.
    """

    def __init__(self, what: str, function: Function) -> None:
        if not callable(function) or inspect.iscoroutinefunction(function):
            raise BadHook(what, function)
        self.what = what
        self.function = function
        self._makes = _manager_function(function)
        self._takes_subject = _takes(function, "subject")
        if not self._takes_subject and not _takes(function):
            raise BadHook(what, function)

    def __call__(self, subject: Any) -> Manager:
        made = self._makes(subject) if self._takes_subject else self._makes()
        if isinstance(made, AbstractContextManager | AbstractAsyncContextManager):
            return made
        raise BadHook(self.what, self.function)


def _manager_function(function: Function) -> Function:
    if inspect.isasyncgenfunction(function):
        return asynccontextmanager(function)
    return contextmanager(function) if inspect.isgeneratorfunction(function) else function


def _takes(function: Function, *subject: object) -> bool:
    try:
        inspect.signature(function).bind(*subject)
    except TypeError:
        return False
    except ValueError:
        # Written in C, it may have no signature to be read.
        return True
    return True


async def entered(stack: AsyncExitStack, manager: Manager) -> Any:
    """What it yields; it is left with the stack."""
    if isinstance(manager, AbstractAsyncContextManager):
        return await stack.enter_async_context(manager)
    return stack.enter_context(manager)


class Hooks:
    def __init__(self, lifespan: Function | None = None) -> None:
        self.lifespan = None if lifespan is None else Hook("lifespan", lifespan)
        self.around: list[Hook] = []

    @property
    def functions(self) -> list[Function]:
        return [hook.function for hook in (self.lifespan, *self.around) if hook is not None]


async def call_within(
    around: Sequence[Hook],
    running: Running,
    task: Task[..., Any, Any],
    driver: Driver,
    function: Callable[[], Any],
) -> Any:
    """Call the task's function inside of all hooks, the first the outermost.

    Those that can be entered there share the thread of a plain function: all after the last async one. A hook sees a
    failure and may raise another in its place; it cannot make it a success.
    """
    failure: BaseException | None = None
    value: Any = None
    stop = running.stop
    async with AsyncExitStack() as stack:
        try:
            managers = [hook(running.attempt) for hook in around]
            outside = len(managers) if task.is_async else _last_async(managers)
            for manager in managers[:outside]:
                await entered(stack, manager)
            if task.is_async:
                value = await guarded_async(function)()
            else:
                value = await driver.call(_wrapped(guarded(function), managers[outside:]), running.interruptible_by)
        except BaseException as error:
            failure = error
            raise
        finally:
            # The thread is done: what may still be interrupted are the hooks.
            running.stop = stop
    if failure is not None:
        raise failure
    return value


def _last_async(managers: Sequence[Manager]) -> int:
    places = [n for n, manager in enumerate(managers, 1) if isinstance(manager, AbstractAsyncContextManager)]
    return max(places, default=0)


def _wrapped(function: Callable[[], Any], managers: Sequence[Manager]) -> Callable[[], Any]:
    def call_inside() -> Any:
        failure: BaseException | None = None
        value: Any = None
        with ExitStack() as stack:
            try:
                for manager in managers:
                    assert isinstance(manager, AbstractContextManager)
                    stack.enter_context(manager)
                value = function()
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            raise failure
        return value

    return call_inside if managers else function
