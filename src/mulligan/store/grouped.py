"""Calls on an event loop, grouped: those that come while others are under way are made together by the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")
Loop = asyncio.AbstractEventLoop


@dataclass(slots=True)
class Calls:
    """Of one loop: how many groups are under way, and the calls that wait."""

    running: int = 0
    waiting: "list[tuple[Any, asyncio.Future[Any]]]" = field(default_factory=list)
    tasks: "set[asyncio.Task[None]]" = field(default_factory=set)


class Grouped(Generic[T, R]):
    """`run` makes calls together and returns the answer of each. At most `at_once` groups, of at most `most` calls, are
    under way on a loop. A call that finds a free place is made alone, at once."""

    def __init__(self, run: Callable[[list[T]], Awaitable[Sequence[R]]], *, at_once: int, most: int) -> None:
        self._make, self._at_once, self._most = run, at_once, most
        self._calls: dict[Loop, Calls] = {}

    async def call(self, item: T) -> R:
        """Raises what `run` raises for the group."""
        loop = asyncio.get_running_loop()
        calls = self._calls.get(loop) or self._begin(loop)
        if calls.running < self._at_once:
            (answer,) = await self._run(calls, [item])
            return answer
        waiting: asyncio.Future[R] = loop.create_future()
        calls.waiting.append((item, waiting))
        return await waiting

    def _begin(self, loop: Loop) -> Calls:
        # Several threads may have a loop: the dictionary is replaced, not changed.
        going_on = {each: calls for each, calls in self._calls.items() if not each.is_closed()}
        self._calls = {**going_on, loop: (calls := Calls())}
        return calls

    async def _run(self, calls: Calls, items: list[T]) -> Sequence[R]:
        calls.running += 1
        try:
            return await self._make(items)
        finally:
            calls.running -= 1
            self._start_next(calls)

    def _start_next(self, calls: Calls) -> None:
        # One that was cancelled waits no longer.
        waiting = [each for each in calls.waiting if not each[1].done()]
        taken, calls.waiting = waiting[: self._most], waiting[self._most :]
        if taken:
            task = asyncio.create_task(self._answer(calls, taken))
            calls.tasks.add(task)
            task.add_done_callback(calls.tasks.discard)

    async def _answer(self, calls: Calls, taken: "list[tuple[T, asyncio.Future[R]]]") -> None:
        try:
            answers = await self._run(calls, [item for item, _ in taken])
        except Exception as error:
            for _, waiting in taken:
                if not waiting.done():
                    waiting.set_exception(error)
        except BaseException:
            for _, waiting in taken:
                waiting.cancel()
            raise
        else:
            for (_, waiting), answer in zip(taken, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)
