"""Hooks: the user's context managers, `lifespan` around a worker and `around` around each attempt."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
)
from typing import Any

from mulligan.errors import BadHook, LifespanFailed
from mulligan.failure import evidence
from mulligan.task.task import Task
from mulligan.worker.drivers import Driver
from mulligan.worker.forks import guard, guard_async
from mulligan.worker.running import Running

Manager = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
Function = Callable[..., Any]


class Hook:
    """A function that returns a context manager, plain or async, or a generator function.

    It is called with its subject, the app or the attempt, unless it takes no argument.
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
        # A function written in C may have no signature.
        return True
    return True


class Hooks:
    def __init__(self, lifespan: Function | None = None) -> None:
        self.lifespan = None if lifespan is None else Hook("lifespan", lifespan)
        self.around: list[Hook] = []

    @property
    def functions(self) -> list[Function]:
        return [hook.function for hook in (self.lifespan, *self.around) if hook is not None]


async def enter(stack: AsyncExitStack, manager: Manager) -> Any:
    """Enter the context manager. The stack leaves it."""
    if isinstance(manager, AbstractAsyncContextManager):
        return await stack.enter_async_context(manager)
    return stack.enter_context(manager)


# Around a worker


@asynccontextmanager
async def enter_lifespan(lifespan: Hook | None, app: Any) -> AsyncIterator[Any]:
    """Enter the lifespan before the first claim and leave it after the last settle. Yields its resources.

    Raises LifespanFailed. However the worker ends, the lifespan is left without an exception.
    """
    if lifespan is None:
        yield None
        return
    stack = AsyncExitStack()
    try:
        resources = await enter(stack, lifespan(app))
    except Exception as error:
        raise LifespanFailed("before the first claim", _describe(error)) from error
    try:
        yield resources
    finally:
        try:
            await stack.aclose()
        except Exception as error:
            raise LifespanFailed("at the end, after all was settled", _describe(error)) from error


@contextmanager
def enter_lifespan_on(runner: asyncio.Runner, lifespan: Hook | None, app: Any) -> Iterator[Any]:
    """As `enter_lifespan`, on a loop that runs only at times. One task enters and leaves it: task groups need that."""
    if lifespan is None:
        yield None
        return
    loop = runner.get_loop()
    resources: asyncio.Future[Any] = loop.create_future()
    leave = asyncio.Event()

    async def live() -> None:
        async with enter_lifespan(lifespan, app) as found:
            resources.set_result(found)
            await leave.wait()

    async def begin() -> Any:
        await asyncio.wait({life, resources}, return_when=asyncio.FIRST_COMPLETED)
        return resources.result() if resources.done() else life.result()

    async def end() -> None:
        leave.set()
        await life

    life = loop.create_task(live())
    found = runner.run(begin())
    try:
        yield found
    finally:
        runner.run(end())


def _describe(error: Exception) -> str:
    return f"{evidence.type_name(type(error))}: {evidence.message_of(error)}"


# Around each attempt


async def call_within(
    around: Sequence[Hook],
    running: Running,
    task: Task[..., Any, Any],
    driver: Driver,
    function: Callable[[], Any],
) -> Any:
    """Call the task's function inside all hooks; the first hook is the outermost.

    Hooks after the last async one are entered in the thread of a plain function. A hook sees a failure and may raise
    another error instead; it cannot turn the failure into a success.
    """
    failure: BaseException | None = None
    value: Any = None
    stop = running.stop
    async with AsyncExitStack() as stack:
        try:
            managers = [hook(running.attempt) for hook in around]
            outside = len(managers) if task.is_async else _last_async(managers)
            for manager in managers[:outside]:
                await enter(stack, manager)
            if task.is_async:
                value = await guard_async(function)()
            else:
                value = await driver.call(_enter_and_call(guard(function), managers[outside:]), running.set_interrupt)
        except BaseException as error:
            failure = error
            raise
        finally:
            # The thread is done: from here on an interrupt is for the hooks.
            running.stop = stop
    if failure is not None:
        raise failure
    return value


def _last_async(managers: Sequence[Manager]) -> int:
    positions = [n for n, manager in enumerate(managers, 1) if isinstance(manager, AbstractAsyncContextManager)]
    return max(positions, default=0)


def _enter_and_call(function: Callable[[], Any], managers: Sequence[Manager]) -> Callable[[], Any]:
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
