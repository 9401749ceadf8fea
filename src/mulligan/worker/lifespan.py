"""The lifespan of a worker: entered before the first claim, left when all is settled."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

from mulligan.errors import LifespanFailed
from mulligan.failure import evidence
from mulligan.worker.hooks import Hook, entered


@asynccontextmanager
async def living(lifespan: Hook | None, app: Any) -> AsyncIterator[Any]:
    """What the lifespan yields. How the worker ends is not its business: it is left in the same way always."""
    if lifespan is None:
        yield None
        return
    stack = AsyncExitStack()
    try:
        resources = await entered(stack, lifespan(app))
    except Exception as error:
        raise LifespanFailed("before the first claim", _told(error)) from error
    try:
        yield resources
    finally:
        try:
            await stack.aclose()
        except Exception as error:
            raise LifespanFailed("at the end, after all was settled", _told(error)) from error


@contextmanager
def living_on(runner: asyncio.Runner, lifespan: Hook | None, app: Any) -> Iterator[Any]:
    """As `living`, on a loop that runs now and then. One task enters and leaves it: a task group wants that."""
    if lifespan is None:
        yield None
        return
    loop = runner.get_loop()
    resources: asyncio.Future[Any] = loop.create_future()
    leave = asyncio.Event()

    async def live() -> None:
        async with living(lifespan, app) as found:
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


def _told(error: Exception) -> str:
    return f"{evidence.type_name(type(error))}: {evidence.message_of(error)}"
